"""A copy of the project in a folder of its own, in which tests run Snakemake and DVC for real."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm_python

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    *("Snakefile", "workflow", "config", ".test/config", "profiles", "params.yaml", "grids", "dvc.yaml"),
    *("requirements.lock", ".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"),
    *("data/backgrounds", "data/published", "data/weights"),
)
# Seconds, after which whatever is waited for will not come: also on a machine that others keep busy.
PATIENCE = 1800.0
JOB = re.compile(r"^(?:local)?rule (\w+):\n(.*?)(?=^\[|^\S|\Z)", re.MULTILINE | re.DOTALL)
SMOKE = "toy_smoke/tiny/contrastive"


@dataclass
class Project:
    """One project folder; commands run in it as from a terminal in which no environment is activated."""

    folder: Path

    def run(
        self, *words: str, check: bool = True, seconds: float = PATIENCE, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A finished Python module's run, with stdout and stderr together; a failure shows them."""
        command, around = [sys.executable, "-m", *words], self.environment(**environment)
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            if environment.keys() <= warm_python.FREE:
                name = f"/proc/{os.getpid()}/fd/{said.fileno()}"
                code = warm_python.run(words, self.folder, around, name, seconds)
            else:
                to: dict[str, Any] = {"stdout": said, "stderr": said, "timeout": seconds}
                code = subprocess.run(command, cwd=self.folder, env=around, check=False, **to).returncode
            said.seek(0)
            done = subprocess.CompletedProcess(command, code, said.read())
        assert not check or code == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}"
        return done

    def snakemake(self, *words: str, check: bool = True, **environment: str) -> str:
        """What Snakemake says on a run with two cores."""
        return self.run("snakemake", "--cores", "2", *words, check=check, **environment).stdout

    def bgbias(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of bgbias."""
        return self.run("bgbias", *words, check=check, PYTHONPATH=str(self.folder / "src"))

    def start(
        self,
        *words: str,
        program: Sequence[str] = ("snakemake",),
        said: Path = Path(os.devnull),
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Snakemake or another program, left running in a process group of its own, as a terminal has it."""
        searched = {"PYTHONPATH": str(self.folder / "src")}
        with said.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *program, *words],
                cwd=self.folder,
                env=self.environment(**(searched | environment)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # Whoever runs the tests in the background ignores Ctrl-C, and so would all that they start.
                preexec_fn=hear_interrupts,
            )

    def planned(self, *words: str) -> list[str]:
        """The jobs of a dry run, sorted, each as ``rule`` or ``rule subject``."""
        planned = []
        for rule, body in JOB.findall(self.snakemake("--dry-run", *words)):
            found = re.search(r"wildcards: (.*)", body)
            values = [pair.split("=", 1)[1] for pair in found[1].split(", ")] if found else []
            planned.append(f"{rule} {'/'.join(values)}".strip())
        return sorted(planned)

    def own_source(self) -> None:
        """A copy of the package, to be edited or committed, in place of the link to it."""
        link = self.folder / "src"
        if link.is_symlink():
            link.unlink()
            # Other test processes compile modules meanwhile: each file has another name first.
            shutil.copytree(ROOT / "src", link, ignore=shutil.ignore_patterns("*.pyc.*", "*.partial"))

    def edit(self, before: str, after: str, name: str = "") -> None:
        """Replace a passage that stands once in a file; by default in params.yaml or a file of grids/."""
        if name.startswith("src/"):
            self.own_source()
        study = [self.folder / "params.yaml", *self.folder.glob("grids/*.yaml")]
        files = [self.folder / name] if name else study
        found = [path for path in files for _ in range(path.read_text(encoding="utf-8").count(before))]
        assert len(found) == 1, f"{before!r} stands {len(found)} times in {name or 'the settings'}"
        found[0].write_text(found[0].read_text(encoding="utf-8").replace(before, after), encoding="utf-8")

    def copy(self, folder: Path) -> "Project":
        """The same project with all that was made in it, in another folder."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Project(folder)

    def environment(self, **changed: str) -> dict[str, str]:
        """The surroundings of a command: no activated environment, no MLflow unless asked for."""
        tools = str(Path(sys.executable).parent)
        kept = [p for p in os.environ.get("PATH", os.defpath).split(os.pathsep) if p != tools]
        ours = ("BGBIAS_", "PYTHONPATH", "MLFLOW_")
        plain = {k: v for k, v in os.environ.items() if k == "BGBIAS_CACHE" or not k.startswith(ours)}
        return plain | {"PATH": os.pathsep.join(kept), "BGBIAS_TRACK": "0", "OMP_NUM_THREADS": "1"} | changed


def copy_settings(folder: Path) -> None:
    """The project's params.yaml and grids/ in another folder."""
    shutil.copy(ROOT / "params.yaml", folder)
    shutil.copytree(ROOT / "grids", folder / "grids")


def hear_interrupts() -> None:
    """Before a command starts: Ctrl-C ends it, which a shell withholds from what it runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def fresh(folder: Path) -> Project:
    """The project as after a clone: nothing has been made in it. Its package is ours, until it is edited: read and compiled."""
    for part in PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    (folder / "src").symlink_to(ROOT / "src")
    return Project(folder)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s in vain for {what}"
        time.sleep(0.02)
