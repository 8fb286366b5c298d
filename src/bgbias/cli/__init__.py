"""The command line: turns typed functions of ``nodes`` and a few tools into subcommands; nothing is computed here.

Heavy imports stay inside the commands, so that ``--help`` and the light nodes start at once.
"""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path

import typer

from bgbias.cli import nodes, tools
from bgbias.engine import records
from bgbias.errors import UserError
from bgbias.progress import say

app = typer.Typer(
    help="Does a retrieval model look at the object, or at what stands behind it?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(nodes.app)
app.add_typer(tools.app)


def main() -> None:
    """Run a command of bgbias; what the user can put right is told in plain words, without a traceback."""
    # A terminated node must release its lock and mark its record, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not sys.stderr.isatty():
        say(f"$ {records.command()}")
    told(app)


def told(command: typer.Typer) -> None:
    """Run a command line; a UserError and a full disk end it with their words and exit status 2."""
    try:
        command(standalone_mode=True)
    except UserError as error:
        say(f"\nbgbias: {error}")
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = error.filename or Path.cwd()
        say(f"\nbgbias: the disk is full ({place}). Free some space and run the same command again;")
        say("nothing that was finished is lost.")
        sys.exit(2)
