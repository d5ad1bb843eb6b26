"""The stack file as frozen models: what one environment declares.

`StackSettings.load("prod")` reads a stack file, `StackSettings.from_config(...)` takes what came through the engine;
both refuse with a SettingsError that names every mistake. `StackSettings.model_validate` checks single fields only.
"""

from triplane.settings.problems import Problem, SettingsError
from triplane.settings.source import stack_file, stack_names
from triplane.settings.stack import StackSettings

__all__ = ["Problem", "SettingsError", "StackSettings", "stack_file", "stack_names"]
