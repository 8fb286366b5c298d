"""Commands that are forked from a warm process: what is made is the same, and nobody is in anybody's way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import warm_python
from project import PATIENCE

from benchmarks import _study
from bgbias.engine import warm
from bgbias.files.checksums import sha256

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
ROOT = Path(__file__).resolve().parents[2]
CELL = _study.CELL
BACKGROUNDS = _study.BEFORE[-1]  # the cheapest node


class Run:
    """A folder with a small study, and a process that stands for the Snakemake whose jobs commands are."""

    def __init__(self, folder: Path, source: Path = ROOT / "src") -> None:
        self.folder, self.source = folder, source
        self.snakemake = subprocess.Popen(["sleep", "86400"])
        _study.write(folder)

    def start(self, *words: str, mark: str = "", **environment: str) -> subprocess.Popen[str]:
        """A job, in a process group of its own."""
        # pytest's own variable is another one at each moment.
        known = {"PYTHONPATH": str(self.source), "OMP_NUM_THREADS": "1", "PYTEST_CURRENT_TEST": ""}
        return subprocess.Popen(
            [sys.executable, "-m", "bgbias", *words],
            cwd=self.folder,
            env={**os.environ, **known, "BGBIAS_WARM": mark or str(self.snakemake.pid), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def job(self, *words: str, mark: str = "", **environment: str) -> tuple[int, int, str]:
        """The process number of a job's command, its exit status, and what it said."""
        started = self.start(*words, mark=mark, **environment)
        said, _ = started.communicate()
        return started.pid, started.returncode, said

    def worker(self, record: str) -> int:
        """The process that wrote a node's record."""
        return int(json.loads(self.record(record).read_text())["pid"])

    def record(self, name: str) -> Path:
        return self.one(f"data/**/{name}.json")

    def one(self, pattern: str) -> Path:
        found = list(self.folder.glob(pattern))
        assert len(found) == 1, (pattern, found)
        return found[0]

    def end(self) -> None:
        for process in processes(self.folder):
            process.kill()
        self.snakemake.kill()
        self.snakemake.wait()

    def warm(self) -> list[psutil.Process]:
        """The warm processes of this folder."""
        return [p for p in processes(self.folder) if p.cmdline()[3:4] == [warm.SERVE]]


def processes(folder: Path) -> Iterator[psutil.Process]:
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError, psutil.Error):
            if cwd.readlink() == folder:
                yield psutil.Process(int(cwd.parent.name))


def until(ready: Callable[[], object]) -> None:
    while not ready():
        time.sleep(0.1)


def ended(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Makes such folders, and ends what runs in them."""
    runs: list[Run] = []

    def start(name: str, source: Path = ROOT / "src") -> Run:
        (tmp_path / name).mkdir()
        runs.append(Run(tmp_path / name, source))
        return runs[-1]

    yield start
    for run in runs:
        run.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One whose data is made, each by a process that worked by itself."""
    run = Run(tmp_path_factory.mktemp("shared"))
    for words in _study.BEFORE:
        assert run.job(*words, BGBIAS_WARM="0")[1] == 0
    yield run
    run.end()


@pytest.fixture
def run(shared: Run) -> Run:
    """The shared one without models, with a warm process that has learned what trainings import."""
    _study.write(shared.folder)
    partial_ones = shared.folder / "data/work/partial"
    for left in (*shared.folder.glob("data/work/running/*"), shared.folder / "data/runs", partial_ones):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    if not any(map(learned, shared.warm())):
        _, status, said = shared.job("train", *CELL)
        assert status == 0, said
        until(lambda: any(map(learned, shared.warm())))
        shared.record("run").unlink()
    return shared


def learned(process: psutil.Process) -> bool:
    with suppress(OSError):
        return listens(process) and "libtorch_cpu" in Path(f"/proc/{process.pid}/maps").read_text()
    return False


def listens(process: psutil.Process) -> bool:
    listening = {
        f"socket:[{w[6]}]"
        for line in Path("/proc/net/unix").read_text().splitlines()
        if (w := line.split())[3] == "00010000"
    }
    with suppress(OSError):
        return any(str(fd.readlink()) in listening for fd in Path(f"/proc/{process.pid}/fd").iterdir())
    return False


def long_training(run: Run) -> None:
    path = run.folder / "params.yaml"
    path.write_text(path.read_text().replace("max_epochs: 1,", "max_epochs: 100000, patience: 100000,"))


def at_work(run: Run) -> psutil.Process:
    """The process of the training, when its first epoch is done: before that, interrupted imports end in errors of their own."""
    running = "data/work/**/train__*.json"
    until(lambda: any("running" in p.read_text() for p in run.folder.glob(running)))
    until(lambda: list(run.folder.glob("data/work/partial/**/history.csv")))
    return psutil.Process(json.loads(run.one(running).read_text())["pid"])


def test_what_a_forked_job_makes_is_what_one_makes_that_works_by_itself(run: Run) -> None:
    def made() -> dict[str, str]:
        return {
            p.name: sha256(p)
            for p in run.folder.glob("data/runs/**/*")
            if p.suffix in (".npz", ".parquet", ".csv")
        }

    models, jobs = [], []
    for environment in ({"BGBIAS_WARM": "0"}, {}):
        shutil.rmtree(run.folder / "data/runs", ignore_errors=True)
        said = []
        for node, record in (
            ("train", "run"),
            ("embed", "embed"),
            ("score", "score"),
            ("attribute", "attribute"),
        ):
            job, status, words = run.job(node, *CELL, **environment)
            assert status == 0, words
            jobs.append(job == run.worker(record))
            said.append(words)
        models.append((made(), sha256(run.one("data/runs/**/model.safetensors"))))
    assert jobs == 4 * [True] + 4 * [False]
    assert models[0] == models[1]
    assert models[0][0]
    assert said[0].startswith("$ python -m bgbias train toys")
    assert json.loads(run.record("run").read_text())["command"] == f"python -m bgbias train {' '.join(CELL)}"


def test_mistakes_of_a_forked_job_are_told_as_ever(run: Run) -> None:
    for words in (("train", "toyz", *CELL[1:]), ("train", *CELL, "--gird", "x"), ("nonsense",)):
        itself, forked = run.job(*words, BGBIAS_WARM="0")[1:], run.job(*words)[1:]
        assert forked == itself
        assert forked[0] == 2
    assert run.warm()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [False, True], ids=["command", "group"])
def test_a_signal_to_the_command_reaches_the_node_once(run: Run, number: int, group: bool) -> None:
    long_training(run)
    job = run.start("train", *CELL)
    node = at_work(run)
    assert node.pid != job.pid
    assert node.cmdline()[1:7] == ["-m", "bgbias", "train", *CELL[:3]]
    if (
        group
    ):  # as Ctrl-C does; the warm process and its nodes are in the group of the job that left it behind
        for process in processes(run.folder):
            process.send_signal(number)
    else:
        job.send_signal(number)
    job.communicate()
    assert job.returncode == 128 + number
    assert ended(node)
    left = json.loads(run.one("data/work/running/train__*.json").read_text())
    assert left["status"] == "failed"


def test_a_node_whose_command_is_killed_is_killed(run: Run) -> None:
    long_training(run)
    job = run.start("train", *CELL)
    node = at_work(run)
    job.kill()
    job.wait()
    until(lambda: ended(node))
    left = json.loads(run.one("data/work/running/train__*.json").read_text())
    assert left["status"] == "running"  # as after any kill -9
    assert run.warm()


def test_a_command_whose_node_is_killed_says_so(run: Run) -> None:
    long_training(run)
    job = run.start("train", *CELL)
    node = at_work(run)
    node.kill()
    said, _ = job.communicate()
    assert job.returncode == 137
    assert f"process {node.pid}, which worked for this command, was killed" in said


def test_nothing_is_lost_with_a_warm_process_that_is_killed(run: Run) -> None:
    long_training(run)
    job = run.start("train", *CELL)
    node = at_work(run)
    (killed,) = run.warm()
    killed.kill()
    killed.wait()
    command, status, _ = run.job(*BACKGROUNDS)  # which starts a new one
    assert status == 0
    assert run.worker("backgrounds") != command
    assert node.is_running()
    assert job.poll() is None
    assert any(map(listens, run.warm()))
    job.terminate()
    job.communicate()


def test_one_that_does_not_answer_is_not_waited_for_forever(run: Run) -> None:
    """Stopped, as after Ctrl-Z; whoever asks works by himself after a while."""
    (stopped,) = run.warm()
    stopped.suspend()
    code = (
        "import sys; sys.orig_argv[1:3] = ['-m', 'bgbias']; from bgbias.engine import warm; warm.ANSWER_SECONDS = .2;"
        " from bgbias.__main__ import main; from bgbias.compute import cores; cores.share(); warm.run(main)"
    )
    environment = {
        "PYTEST_CURRENT_TEST": "",
        "PYTHONPATH": str(run.source),
        "OMP_NUM_THREADS": "1",
        "BGBIAS_WARM": str(run.snakemake.pid),
    }
    with (run.folder / "said").open("w") as said:  # as a job's log; the stopped process holds a pipe open
        done = subprocess.run(
            [sys.executable, "-c", code, *BACKGROUNDS],
            cwd=run.folder,
            env={**os.environ, **environment},
            stdout=said,
            stderr=said,
            check=False,
        )
    assert done.returncode == 0, (run.folder / "said").read_text()
    made = run.record("backgrounds").read_bytes()
    stopped.resume()
    # What it finds in its queue then is nobody's wish any more.
    assert run.job("train", *CELL)[1] == 0
    assert run.record("backgrounds").read_bytes() == made


def test_only_jobs_of_the_same_snakemake_and_surroundings_are_served(started: Callable[..., Run]) -> None:
    run, other = started("study"), subprocess.Popen(["sleep", "86400"])
    try:
        for number, given in enumerate(({}, {"OMP_NUM_THREADS": "2"}, {"mark": str(other.pid)}), 1):
            for _ in range(2):
                job, status, said = run.job(*BACKGROUNDS, **given)
                assert status == 0, said
                assert run.worker("backgrounds") != job
                until(partial(_are_listening, run, number))
    finally:
        other.kill()
        other.wait()
    until(lambda: len(run.warm()) == 2)
    run.snakemake.kill()
    run.snakemake.wait()
    until(lambda: not run.warm())
    job, status, _ = run.job(
        *BACKGROUNDS
    )  # of a Snakemake that was killed: it works on, and leaves nothing behind
    assert status == 0
    assert run.worker("backgrounds") == job
    until(lambda: not run.warm())


def _are_listening(run: Run, number: int) -> bool:
    return sum(map(listens, run.warm())) == number


def test_code_that_was_edited_is_not_served_from_before(started: Callable[..., Run], tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    run = started("study", source)
    digests = []
    for edit in ("", "SOMETHING = 1\n"):
        node = source / "bgbias/nodes/backgrounds.py"
        node.write_text(node.read_text() + edit)
        before = run.warm()
        for _ in range(2):
            job, status, said = run.job(*BACKGROUNDS)
            assert status == 0, said
            assert run.worker("backgrounds") != job
            until(lambda before=before: all(map(ended, before)))
            assert any(map(listens, run.warm()))
        digests.append(json.loads(run.record("backgrounds").read_text())["digest"])
    assert digests[0] != digests[1]


def test_the_tests_own_begin_with_imports_done_if_somebody_has_them(
    started: Callable[..., Run], tmp_path: Path
) -> None:
    """What support/warm_python.py is asked, and that a job goes on by itself where the one that was asked does nothing."""
    run = started("asks")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
        there.bind(name := str(tmp_path / "socket"))
        there.listen()
        there.settimeout(PATIENCE)
        searched = os.pathsep.join(map(str, (run.source, warm_python.WARM_START)))
        job = run.start(*BACKGROUNDS, PYTHONPATH=searched, **{warm_python.SOCKET: name})
        asks, _ = there.accept()
        with asks:
            asked, (pipe,), _, _ = socket.recv_fds(asks, 2**18, 1)
        os.close(pipe)
    words, folder, environment = json.loads(asked)
    assert (words[0], words[2:], folder) == (warm.SERVE, [warm.ROOM], str(run.folder))
    assert environment["BGBIAS_WARM"] == str(run.snakemake.pid)
    said, _ = job.communicate()
    assert job.returncode == 0, said
    assert run.worker("backgrounds") == job.pid
