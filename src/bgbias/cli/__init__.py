"""The command line: turns typed functions of ``nodes`` and a few tools into subcommands; nothing is computed here.

Heavy imports stay inside the commands, so that ``--help`` and the light nodes start at once.
"""

import os
import shlex
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from bgbias import __version__
from bgbias.cli import audit, maskers, nodes, reproduce, tools
from bgbias.cli.arguments import WORDS
from bgbias.engine import records
from bgbias.errors import UserError, explain_os_error
from bgbias.progress import say

app = typer.Typer(
    help="Does a retrieval model look at the object, or at what stands behind it?",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
PANELS: dict[str, dict[str, str]] = WORDS["panels"]
STEPS = "Steps that Snakemake runs"
for _commands in (audit, tools, reproduce, maskers, nodes):
    app.add_typer(_commands.app)
    for _command in _commands.app.registered_commands:
        _name = _command.name or _command.callback.__name__.replace("_", "-")  # type: ignore[union-attr]
        _panel = next((title for title, names in PANELS.items() if _name in names), STEPS)
        _command.rich_help_panel, _command.short_help = _panel, PANELS.get(_panel, {}).get(_name)

CRASHED = os.EX_SOFTWARE  # 1 is what an audit says of a drop (--fail-above)
GRACE_SECONDS = 10  # in which a command that is told to end may do so by itself


def _say_version(value: bool) -> None:
    if value:
        print(f"bgbias {__version__}")
        raise typer.Exit


@app.callback()
def _of_all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run a command of bgbias; what the user can put right is told in plain words, without a traceback."""
    signal.signal(signal.SIGTERM, _end)
    # A shell's script ignores it in the background.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    if not sys.stderr.isatty():
        # ``python -m bgbias`` runs a file of the package.
        by_module = Path(sys.argv[0]).name == "__main__.py"
        say(f"$ {records.command() if by_module else shlex.join(['bgbias', *sys.argv[1:]])}")
    try:
        run_reporting_errors(app)
    except Exception:
        traceback.print_exc()
        sys.exit(CRASHED)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """A terminated step must mark its record, as an interrupted one does, whoever else tells it to end. This process ends in a
    while, come what may: the signal may have left a lock taken for which its own end waits.
    """
    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
    signal.alarm(GRACE_SECONDS)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def run_reporting_errors(command: typer.Typer) -> None:
    """Run a command line; what a person can put right ends it with words and exit status 2."""
    try:
        command(standalone_mode=True)
        return
    except KeyboardInterrupt:  # before the command has begun
        sys.exit(128 + signal.SIGINT)
    except UserError as error:
        text = str(error)
    except ModuleNotFoundError as error:
        extra = WORDS["extras"].get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        text = f"this needs {error.name}, which is not installed: pip install 'bgbias[{extra}]'"
    except OSError as error:
        text = explain_os_error(error)
        if not text:
            raise
    say(f"\nbgbias: {text}")
    sys.exit(2)
