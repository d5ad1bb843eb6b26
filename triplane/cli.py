"""The door: one thin command per verb. Everything heavy is imported inside the command that needs it.

Exit codes, everywhere, the first that applies in the order 3 > 2 > 1 > 4 > 0: 0 fine, 1 findings at or above the
threshold, 2 usage, input or configuration error, 3 internal error, 4 unknown verdicts under --strict-unknown.
"""

import click

from triplane import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="triplane")
def main() -> None:
    """GPU inference on Kubernetes as code: nodes, gangs and queues, and replicas, as one machine."""
