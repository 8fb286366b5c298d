"""The command once more: an audit that is finished is shown, and whatever is not quite the same is computed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bgbias
from bgbias.report import html
from tests.support import commands, toy_folder

SMALL: dict[str, Any] = {"size": 64, "resize": 64, "attribution": 0, "draws": 1, "masker": "grabcut"}
DETECTING = """
def embed(batch):
    smooth = [abs(photo[1:].astype(float) - photo[:-1]).mean() < 50 for photo in batch]
    return [
        (photo.reshape(-1, 3).mean(0) / 255) ** 1 if seen else [1.0, photo.mean() / 255, 0.0]
        for photo, seen in zip(batch, smooth)
    ]
"""
HOW = [
    "--masks",
    "masks",
    "--size",
    "64",
    "--resize",
    "64",
    "--backgrounds",
    "walls",
    "--attribution",
    "0",
    "--draws",
    "1",
]
HOW += ["--out", "out"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("her_photos")
    toy_folder.made(folder)
    return folder


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.bgbias(place, "audit", *arguments)


def test_a_finished_audit_is_shown_and_not_computed_again(place: Path) -> None:
    again = ["photos", "--model", "my_model.py:build", *HOW]
    made = run(place, *again)
    assert made.returncode == 0, made.stderr

    def modified() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (place / "out").iterdir()}

    before = modified()
    done = run(place, *again, "--fail-above", "0")
    assert done.returncode == 1, done.stderr
    assert "out has this audit already" in done.stderr
    assert done.stdout == made.stdout
    assert modified() == before


@pytest.mark.parametrize(
    "change",
    [
        "a photo",
        "the model",
        "an option",
        "a file of it is gone",
        "another's verdict",
        "a template",
        "damage",
    ],
)
def test_what_is_not_the_finished_audit_is_computed(
    place: Path, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("photos", "masks", "walls"):
        shutil.copytree(place / name, tmp_path / name)
    model = (place / "my_model.py").read_text()
    (tmp_path / "my_model.py").write_text(model)
    how = ["photos", "--model", "my_model.py:build", *HOW]
    assert run(tmp_path, *how).returncode == 0
    if change == "a photo":
        one, other = sorted((tmp_path / "photos").rglob("*.png"))[:2]
        one.write_bytes(other.read_bytes())
    if change == "the model":
        # Of another length: Python takes a file of the same second and length for the one that it compiled.
        (tmp_path / "my_model.py").write_text(
            model.replace("adaptive_avg_pool2d", "adaptive_max_pool2d") + "# now\n"
        )
    if change == "an option":
        how[how.index("--draws") + 1] = "2"
    if change == "a file of it is gone":
        (tmp_path / "out/worst.jpg").unlink()
    if change == "another's verdict":
        bgbias.audit(tmp_path / "photos", lambda batch: [p[0, 0] for p in batch], **SMALL).save(
            tmp_path / "out"
        )
    if change == "a template":
        shutil.copytree(html.TEMPLATES, tmp_path / "templates")
        (tmp_path / "templates/style.css").write_text("p { margin: 0 }")
        monkeypatch.setattr(html, "TEMPLATES", tmp_path / "templates")
    if change == "damage":
        (tmp_path / "out/.finished.npz").write_bytes(b"")
    done = run(tmp_path, *how)
    assert done.returncode == 0, done.stderr
    assert "already" not in done.stderr
    assert (tmp_path / "out/worst.jpg").exists()


def test_a_model_that_answers_photos_otherwise_is_another_one(tmp_path: Path) -> None:
    """Of noise both see nothing, as a detector would."""
    toy_folder.made(tmp_path)
    (tmp_path / "detecting.py").write_text(DETECTING)
    how = ["photos", "--model", "detecting.py:embed", *HOW]
    first = run(tmp_path, *how)
    assert first.returncode == 0, first.stderr
    (tmp_path / "detecting.py").write_text(DETECTING.replace("** 1", "** 6.0"))
    done = run(tmp_path, *how)
    assert done.returncode == 0, done.stderr
    assert "already" not in done.stderr
    assert done.stdout != first.stdout
