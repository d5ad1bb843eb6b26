"""The stack file as frozen models: what one environment declares."""

from triplane.settings.stack import StackSettings

__all__ = ["StackSettings"]
