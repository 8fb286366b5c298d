"""An audit that is interrupted goes on; one that is finished is shown, and whatever is not quite the same is computed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from project import hear_interrupts

import bgbias
from bgbias.auditing import attribution_scores, audit, embedding, masker, request, workdir
from bgbias.auditing.config import AuditConfig, Question
from bgbias.auditing.photos import choose, look_at
from bgbias.errors import UserError
from bgbias.files.locks import hold_lock
from bgbias.models.adapters import Adapted, Options, load
from bgbias.report import html
from tests.auditing.conftest import HOW, Audited
from tests.support import commands, toy_folder

MINE = ["photos", "--model", "my_model.py:build"]
AGAIN = [*MINE, *HOW, "--attribution", "12", "--draws", "2", "--out", "out"]
# Batches of which several make up a step, and masks that are made.
RESUMED = [*MINE, *HOW[2:], "--masker", "grabcut", "--batch-size", "16", "--draws", "1", "--attribution", "4"]


def stop_in(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits presses Ctrl-C when the first pieces of a step are there."""

    @contextmanager
    def showing(count: int, label: str) -> Iterator[Callable[[int], None]]:
        def done(pieces: int) -> None:
            if label == step:
                assert pieces < count, "in the middle of it"
                raise KeyboardInterrupt

        yield done

    def track(pieces: Iterator[str], count: int, label: str) -> Iterator[str]:
        for number, piece in enumerate(pieces, 1):
            yield piece
            if label == step and number == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(embedding, "showing", showing)
    monkeypatch.setattr(attribution_scores, "showing", showing)
    monkeypatch.setattr(audit, "track", track)
    monkeypatch.setattr(masker, "FIRST", 2)  # of few photos all masks would be there from timing some
    monkeypatch.setattr(masker, "TRIED", 2)


def files(folder: Path) -> dict[str, bytes]:
    """What an audit says; the lock and times aside."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name not in (".lock", "timing.json")}


def test_stopped_in_each_of_its_steps_it_ends_with_the_same_bytes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in sorted((place / "photos").iterdir())[3:]:
        shutil.rmtree(folder)
    whole = commands.bgbias(place, "audit", *RESUMED, "--out", "whole", BGBIAS_CACHE=str(place / "of_whole"))
    assert whole.returncode == 0, whole.stderr
    cache = str(place / "cache")
    left: dict[str, int] = {}
    for step in ("masks", "embeddings", "crossing", "attribution"):
        with monkeypatch.context() as patched:
            stop_in(step, patched)
            done = commands.bgbias(place, "audit", *RESUMED, "--out", "stopped", BGBIAS_CACHE=cache)
        assert done.returncode == 128 + signal.SIGINT, (step, done.stderr)
        assert (
            "interrupted. What is finished is kept: the same command again goes on in stopped." in done.stderr
        )
        for file in (place / "stopped").rglob("*.npy"):
            if file.name.endswith("-there.npy"):
                left[file.name] = int((np.load(file) == 0).sum())
    assert (left["views-there.npy"], left["crossing-there.npy"]) == (0, 0)
    assert left["gradients-there.npy"] == 3, "one of four maps is there"
    done = commands.bgbias(place, "audit", *RESUMED, "--out", "stopped", BGBIAS_CACHE=cache)
    assert done.returncode == 0, done.stderr
    assert "what is left takes" in done.stderr
    assert files(place / "stopped") == files(place / "whole")


def test_a_second_one_in_the_same_folder_is_told_who_is_at_it(tmp_path: Path) -> None:
    with (
        hold_lock(tmp_path / ".lock", seconds=0),
        pytest.raises(
            UserError, match=rf"Process {os.getpid()} is writing an audit to {tmp_path}; wait for it"
        ),
        workdir.claim(tmp_path, None, None),  # type: ignore[arg-type]
    ):
        pass


def test_models_of_one_name_go_on_each_with_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "hash_views", lambda *_: "views")
    look = Options(size=16, resize=16)
    mean, last = (
        load(lambda b: [p.mean((0, 1)) for p in b], look),
        load(lambda b: [p[-1, -1] for p in b], look),
    )
    begun = []
    for model in (mean, last, mean):
        with (
            suppress(KeyboardInterrupt),
            workdir.claim(tmp_path, None, model) as work,  # type: ignore[arg-type]
        ):
            begun.append(work)
            raise KeyboardInterrupt
    assert begun[0] == begun[2] != begun[1]


@pytest.mark.slow
def test_killed_processes_leave_what_the_next_one_goes_on_with(tmp_path: Path) -> None:
    toy_folder.made(tmp_path)
    slow = (
        "def embed(batch):\n    time.sleep(0.01 * len(batch))\n    return [p.mean((0, 1)) for p in batch]\n"
    )
    (tmp_path / "slow.py").write_text(f"import time\n\n\n{slow}")
    how = ["photos", "--model", "slow.py:embed", *HOW, "--attribution", "0"]

    def begin(out: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bgbias", "audit", *how, "--out", out],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )

    whole = begin("whole")
    assert whole.wait() == 0, whole.communicate()[1]
    for number, seen in ((signal.SIGKILL, 1), (signal.SIGTERM, 8), (signal.SIGINT, 16)):
        process = begin("killed")
        while sum(np.load(f).sum() for f in (tmp_path / "killed").rglob("views-there.npy")) < seen:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        process.send_signal(number)
        assert "Traceback" not in process.communicate()[1]
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    last = begin("killed")
    assert last.wait() == 0, last.communicate()[1]
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.fixture
def finished(place: Path, audited: Audited, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The finished audit lies in ``out``; where one is computed anew is noted, and nothing computed."""
    shutil.copytree(audited.out, place / "out")
    computed: list[Path] = []

    def run(question: object, model: object, folder: Path, *_: object) -> bgbias.Audit:
        computed.append(folder)
        return bgbias.Audit.load(audited.out)

    monkeypatch.setattr(request, "run", run)
    return computed


def test_a_finished_audit_is_shown_and_not_computed_again(
    place: Path, audited: Audited, finished: list[Path]
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (place / "out").iterdir()}
    done = commands.bgbias(place, "audit", *AGAIN, "--fail-above", "0")
    assert done.returncode == 1, done.stderr
    assert commands.bgbias(place, "audit", *AGAIN, "--fail-above", "99").returncode == 0
    assert "out has this audit already" in done.stderr
    assert (done.stdout, finished) == (audited.text, [])
    assert {path.name: path.stat().st_mtime_ns for path in (place / "out").iterdir()} == before


def lose_a_photo(place: Path) -> None:
    one, other = sorted((place / "photos").rglob("*.png"))[:2]
    one.write_bytes(other.read_bytes())


def edit_the_model(place: Path) -> None:
    # Of another length: Python takes a file of the same second and length for the one that it compiled.
    model = (place / "my_model.py").read_text()
    (place / "my_model.py").write_text(model.replace("avg_pool2d", "max_pool2d") + "# now\n")


def edit_a_template(place: Path) -> None:
    shutil.copytree(html.TEMPLATES, place / "templates")
    (place / "templates/style.css").write_text("p { margin: 0 }")


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lose_a_photo, [], ""),
        (edit_the_model, [], ""),
        (edit_a_template, [], ""),
        (lambda place: (place / "out/worst.jpg").unlink(), [], ""),
        (lambda place: (place / "out/.finished.npz").write_bytes(b""), [], ""),
        (lambda place: None, ["--draws", "1"], ""),
        (
            lambda place: shutil.copy(place / "my_model.py", place / "other.py"),
            ["--model", "other.py:build"],
            r"out holds an audit of \S*my_model.py:build on photos, which this one replaces",
        ),
    ],
)
def test_what_is_not_the_finished_audit_is_computed(
    place: Path,
    finished: list[Path],
    change: Callable[[Path], object],
    options: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(place)
    if (place / "templates").exists():
        monkeypatch.setattr(html, "TEMPLATES", place / "templates")
    how = [word for word in AGAIN if options[:1] != ["--model"] or word not in MINE[1:]]
    done = commands.bgbias(place, "audit", *how, *options)
    assert done.returncode == 0, done.stderr
    assert "already" not in done.stderr
    assert re.search(said, done.stderr)
    assert finished == [Path("out")]


def test_models_that_answer_photos_otherwise_are_two(toys: Path) -> None:
    """Of noise both see nothing, as a detector would."""

    def model(exponent: float) -> Adapted:
        def embed(batch: list[np.ndarray]) -> list[np.ndarray]:
            is_noise = [np.abs(np.diff(photo.astype(float), axis=0)).mean() > 50 for photo in batch]
            means = [(photo.mean((0, 1)) / 255) ** exponent for photo in batch]
            blind = [np.array([1, photo.mean() / 255, 0]) for photo in batch]
            return [of if noise else mean for noise, mean, of in zip(is_noise, means, blind, strict=True)]

        return load(embed, Options(size=64, resize=64))

    question = Question(look_at(choose(toys / "photos")), None, None, AuditConfig())  # type: ignore[arg-type]
    assert np.array_equal(workdir.embed_noise(model(1)), workdir.embed_noise(model(6)))
    one, other = (workdir.fingerprint_model(question, model(exponent)) for exponent in (1, 6))
    assert not workdir._are_alike(one, other)
    assert workdir._are_alike(one, workdir.fingerprint_model(question, model(1)))
