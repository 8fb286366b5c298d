"""An audit that is interrupted or fails goes on; one that is finished is shown, and whatever is not quite the same is computed.
What is left is told first, and refused where the disk has no room for it.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from in_memory import table
from PIL import Image

import bgbias
from bgbias.auditing import attribution_scores, audit, embedding, forecast, masker, request, workdir
from bgbias.auditing.config import AuditConfig, Question
from bgbias.errors import UserError
from bgbias.evaluation import device_views
from bgbias.evaluation.conditions import View
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.locks import hold_lock
from bgbias.models.adapters import Adapted, Options, load
from bgbias.photos.crops import DeviceCrops
from bgbias.report import html
from tests.auditing.conftest import HOW, Audited
from tests.support import commands
from tests.support.collected import collect

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


def test_stopped_in_a_step_it_ends_with_the_same_bytes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in sorted((place / "photos").iterdir())[3:]:
        shutil.rmtree(folder)

    def run(out: str) -> subprocess.CompletedProcess[str]:
        return commands.bgbias(place, "audit", *RESUMED, "--out", out, BGBIAS_CACHE=str(place / f"of {out}"))

    def files(out: str) -> dict[str, bytes]:
        """What an audit says; the lock and times aside."""
        paths = set((place / out).iterdir()) - {place / out / ".lock", place / out / "timing.json"}
        return {path.name: path.read_bytes() for path in paths}

    assert run("whole").returncode == 0
    left: dict[str, int] = {}
    for step in ("masks", "embeddings", "crossing", "attribution"):
        with monkeypatch.context() as patched:
            stop_in(step, patched)
            done = run("stopped")
        assert done.returncode == 128 + signal.SIGINT, (step, done.stderr)
        assert "interrupted. What is finished is kept: the same command again goes on in st" in done.stderr
        there = (place / "stopped").rglob("*-there.npy")
        left |= {path.name.removesuffix("-there.npy"): int((np.load(path) == 0).sum()) for path in there}
    assert left == {"measures": 0, "views": 0, "crossing": 0, "gradients": 3}
    done = run("stopped")
    assert done.returncode == 0, done.stderr
    assert files("stopped") == files("whole")


def test_a_gpu_makes_the_same_views_of_what_is_left(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor stands in for it, with pictures in its memory."""
    monkeypatch.setattr(device_views, "cropper", lambda *of, **_: DeviceCrops(*of[:3], "cpu"))
    monkeypatch.setattr(device_views, "to_device", lambda tensor, _: tensor)

    def compare(model: Adapted, photos: EvaluationPhotos, views: list[View], work: Path) -> None:
        on = (replace(model, device=device) for device in ("cpu", "cuda"))
        ours, theirs = (np.stack([*embedding.make_views(m, photos, views, [3, 4, 9])]) for m in on)
        np.testing.assert_array_equal(ours, theirs)
        raise InterruptedError

    monkeypatch.setattr(embedding, "embed_views", compare)
    how = {"masks": place / "masks", "backgrounds": place / "walls", "out": place / "audit"}
    with pytest.raises(InterruptedError):
        bgbias.audit(place / "photos", lambda batch: [p.mean((0, 1)) for p in batch], size=64, **how)


def test_a_model_that_fails_later_is_named_with_the_photos_and_what_is_finished_stays(place: Path) -> None:
    last = max((place / "photos").rglob("*.png"))
    worse = [np.asarray(Image.open(last))]

    def fragile(batch: list[np.ndarray]) -> list[np.ndarray]:
        if worse and any(np.array_equal(photo, worse[0]) for photo in batch):
            raise RuntimeError("in the middle of it\nand why")
        return [photo.mean((0, 1)) for photo in batch]

    how = {"size": 64, "resize": 64, "draws": 1, "attribution": 0, "backgrounds": place / "walls"}
    how |= {"masks": place / "masks", "out": place / "audit"}
    with pytest.raises(UserError, match=r"fragile fails on .*: in the middle .* and why, at ") as error:
        bgbias.audit(place / "photos", fragile, **how)
    assert f"{last.parent.name}/{last.name}" in str(error.value)
    (done_file,) = (place / "audit").rglob("views-there.npy")
    assert np.load(done_file).tolist() == [1] * 24 + [0] * 6
    # It is not computed again: of one vector for most photos the audit complains.
    views = np.lib.format.open_memmap(done_file.with_name("views.npy"), mode="r+")
    views[:, :24] = views[:, :1]
    worse.clear()
    with pytest.raises(UserError, match="fragile gives 24 of 30 photos the same embedding"):
        bgbias.audit(place / "photos", fragile, **how)


def test_a_disk_without_the_room_is_refused_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    done = commands.bgbias(place, "audit", *MINE, "--masker", "grabcut")
    assert done.returncode == 2
    assert re.search(r"has room for .*, and the audit needs .* more\. Name another folder", done.stderr)
    assert not list((place / "audit").rglob("*-there.npy"))


def test_what_is_finished_takes_nothing_and_the_model_is_not_asked() -> None:
    photos, calls = [np.full((20, 24, 3), 9, np.uint8)] * 2, list[int]()

    def embed(batch: list[np.ndarray]) -> np.ndarray:
        calls.append(len(batch))
        return np.stack([photo.mean((0, 1)) for photo in batch])

    def measure(**left: int) -> forecast.Forecast:
        """Of 130 photos of 13 classes."""
        chosen = table({str(number): number % 13 for number in range(130)})
        collection: Any = SimpleNamespace(table=chosen, labelled=True, is_across_places=False)
        backgrounds: Any = SimpleNamespace(photos=["a"] * 10)
        question = Question(collection, None, backgrounds, AuditConfig())
        steps = ("masks", "photos", "pictures", "embeddings", "crossing", "attribution")
        return forecast.measure(question, model, "embed", photos, dict.fromkeys(steps, 0) | left, 0.1)

    model = load(embed, Options(size=16, resize=16))
    calls.clear()
    done = measure()
    assert (sum(done.seconds.values()), calls) == (0, [])
    assert {name for name, seconds in measure(attribution=3).seconds.items() if seconds} == {"attribution"}
    whole = measure(masks=130, photos=130, embeddings=130, crossing=100, attribution=64)
    assert whole.seconds["masks"] == pytest.approx(13)
    assert all(whole.seconds.values())
    assert (whole.disk, whole.mapped) == (done.disk, done.mapped)


def test_a_second_one_in_the_same_folder_is_told_who_is_at_it(tmp_path: Path) -> None:
    said = rf"Process {os.getpid()} is writing an audit to {tmp_path}; wait for it"
    with hold_lock(tmp_path / ".lock", seconds=0), pytest.raises(UserError, match=said):
        workdir.claim(tmp_path, None, None).__enter__()  # type: ignore[arg-type]


def test_models_of_one_name_go_on_each_with_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "hash_views", lambda *_: "views")
    mean = load(lambda batch: [photo.mean((0, 1)) for photo in batch], Options(size=16, resize=16))
    last = load(lambda batch: [photo[-1, -1] for photo in batch], Options(size=16, resize=16))
    begun = []
    for model in (mean, last, mean):
        with suppress(KeyboardInterrupt), workdir.claim(tmp_path, None, model) as work:  # type: ignore[arg-type]
            begun.append(work)
            raise KeyboardInterrupt
    assert begun[0] == begun[2] != begun[1]


@pytest.fixture
def finished(place: Path, audited: Audited, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The finished audit lies in ``out``; where one is computed anew is noted, and nothing computed."""
    shutil.copytree(audited.out, place / "out")
    monkeypatch.setattr(html, "TEMPLATES", Path(shutil.copytree(html.TEMPLATES, place / "templates")))
    computed: list[Path] = []

    def run(question: object, model: object, folder: Path, *_: object) -> bgbias.Audit:
        computed.append(folder)
        return bgbias.Audit.load(audited.out)

    monkeypatch.setattr(request, "run", run)
    return computed


def test_a_finished_audit_is_shown_not_computed(place: Path, audited: Audited, finished: list[Path]) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (place / "out").iterdir()}
    done = commands.bgbias(place, "audit", *AGAIN, "--fail-above", "0")
    assert done.returncode == 1, done.stderr
    assert commands.bgbias(place, "audit", *AGAIN, "--fail-above", "99").returncode == 0
    assert "out has this audit already" in done.stderr
    assert (done.stdout, finished) == (audited.text, [])
    assert {path.name: path.stat().st_mtime_ns for path in (place / "out").iterdir()} == before


def edit_a_photo(place: Path) -> None:
    first, *_, last = sorted((place / "photos").rglob("*.png"))
    first.write_bytes(last.read_bytes())


def edit_the_model(place: Path) -> None:
    # Of another length: Python takes a file of the same second and length for the one that it compiled.
    model = (place / "my_model.py").read_text()
    (place / "my_model.py").write_text(model.replace("avg_pool2d", "max_pool2d") + "# now\n")


@pytest.mark.parametrize(
    ("change", "how", "said"),
    [
        (edit_a_photo, AGAIN, ""),
        (edit_the_model, AGAIN, ""),
        (lambda place: (place / "templates/style.css").write_text("p { margin: 0 }"), AGAIN, ""),
        (lambda place: (place / "out/worst.jpg").unlink(), AGAIN, ""),
        (lambda place: (place / "out/.finished.npz").write_bytes(b""), AGAIN, ""),
        (lambda place: None, [*AGAIN, "--draws", "1"], ""),
        (
            lambda place: None,
            ["photos", "--model", "my_model.py:pictures", *AGAIN[3:]],
            r"out holds an audit of \S*my_model.py:build on photos, which this one replaces",
        ),
    ],
)
def test_what_is_not_the_finished_audit_is_computed(
    place: Path, finished: list[Path], change: Callable[[Path], object], how: list[str], said: str
) -> None:
    change(place)
    done = commands.bgbias(place, "audit", *how)
    assert done.returncode == 0, done.stderr
    assert "already" not in done.stderr
    assert re.search(said, done.stderr)
    assert finished == [Path("out")]


def test_models_that_answer_photos_otherwise_are_two(toys: Path) -> None:
    """Of noise both see nothing, as a detector would."""
    question = Question(collect(toys / "photos"), None, None, AuditConfig())  # type: ignore[arg-type]

    def fingerprint(exponent: float) -> np.ndarray:
        def embed(batch: list[np.ndarray]) -> np.ndarray:
            is_noise = [np.abs(np.diff(photo.astype(float), axis=0)).mean() > 50 for photo in batch]
            means = np.array([photo.mean((0, 1)) / 255 for photo in batch])
            return np.where(np.array(is_noise)[:, None], 1 - means, means**exponent)

        return workdir.fingerprint_model(question, load(embed, Options(size=64, resize=64)))

    one, other = fingerprint(1), fingerprint(6)
    np.testing.assert_array_equal(one[:2], other[:2])
    assert not workdir._are_alike(one, other)
    assert workdir._are_alike(one, fingerprint(1))
