"""The door: one thin command per verb. Everything heavy is imported inside the command that needs it.

Exit codes, everywhere, the first that applies in the order 3 > 2 > 1 > 4 > 0: 0 fine, 1 findings at or above the
threshold, 2 usage, input or configuration error, 3 internal error, 4 unknown verdicts under --strict-unknown.
"""

import importlib
import os
import signal
import sys
from typing import Any, NamedTuple

import click

from triplane import __version__


class Verb(NamedTuple):
    """Where a command is, and its line in --help: known here, so that help imports no command."""

    module: str
    line: str


VERBS = {
    "preview": Verb("preview", "Show what a stack would deploy, with findings and cost; offline."),
    "check": Verb("check", "Judge manifests: files, folders, or - for standard input."),
    "explain": Verb("explain", "Explain one rule: what it demands, why, the fix, examples."),
    "rules": Verb("explain", "List all rules."),
    "simulate": Verb("simulate", "Run a stack in time under a load: late requests, idle GPUs, cost; side by side."),
    "init": Verb("init", "Write a stack file from objects that exist."),
    "pack": Verb("pack", "Print the folder of the policy pack."),
}

# What stands for a mistake of the input, by the module that defines it: one that is not loaded cannot have raised it.
INPUT_ERRORS = {
    "triplane.catalog.data": "UnknownName",
    "triplane.documents.folders": "FolderError",
    "triplane.documents.reading": "DocumentError",
    "triplane.inventory.live": "LiveError",
    "triplane.manifests.identity": "ManifestError",
    "triplane.program.recorded": "ProgramError",
    "triplane.rules.config_file": "ConfigError",
    "triplane.settings.problems": "SettingsError",
    "triplane.simulation.errors": "SimulationError",
    "triplane.simulation.workload.traces": "TraceError",
}
TRACEBACK = "TRIPLANE_TRACEBACK"


class Door(click.Group):
    """Imports a command when its verb is used, and turns every error into a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"triplane.commands.{VERBS[cmd_name].module}"), cmd_name
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.line) for name, verb in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            ctx.fail(f"there is no command {args[0]}" + (f": did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            ctx.exit(128 + signal.SIGINT)
        except BrokenPipeError:
            # The reader (head, less) has what it wanted. What is still buffered must not raise again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(128 + signal.SIGPIPE)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            click.echo(_told(error), err=True)
            ctx.exit(2 if _is_of_the_input(error) else 3)


def _is_of_the_input(error: Exception) -> bool:
    known = tuple(getattr(sys.modules[module], name) for module, name in INPUT_ERRORS.items() if module in sys.modules)
    return isinstance(error, (*known, OSError))


def _told(error: Exception) -> str:
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
    if _is_of_the_input(error):
        return str(error)
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    return f"internal error: {summary} (run with {TRACEBACK}=1 for the traceback)"


@click.command(cls=Door, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="triplane")
def main() -> None:
    """GPU inference on Kubernetes as code: nodes, gangs and queues, and replicas, as one machine."""
