"""A command of bgbias in this very process, which has imported what the command needs."""

import contextlib
import io
import os
import subprocess
from pathlib import Path
from unittest import mock

from bgbias import cli


def bgbias(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``bgbias WORDS`` in a folder: what it says, and its exit status."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environment),
        mock.patch("sys.argv", ["bgbias", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.run_reporting_errors(cli.app)
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
