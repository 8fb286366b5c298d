"""The command on a person's folder: a verdict, files that say the same, a CI's exit status, pictures for models elsewhere."""

from __future__ import annotations

import doctest
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from saliency_graphs import graph

import bgbias
from bgbias.auditing import attribution_scores, backgrounds, workdir
from bgbias.errors import UserError
from bgbias.models.adapters import Options, load
from tests.auditing.conftest import HOW, Audited
from tests.support import commands, toy_folder

MINE = ["--model", "my_model.py:build"]


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.bgbias(place, "audit", *arguments)


def test_the_terminal_the_json_and_the_tables_say_the_same(audited: Audited) -> None:
    out, text = audited
    told = json.loads((out / "audit.json").read_text())
    assert text.splitlines()[0] == told["verdict"]
    assert text == (out / "verdict.txt").read_text()
    drop = {(row["setting"], row["unit"]): row for row in told["drop"]}
    assert f"MAP@R falls by {100 * drop['query', 'relative']['value']:.0f} %" in told["verdict"]
    classes, photos = pd.read_csv(out / "classes.csv"), pd.read_parquet(out / "photos.parquet")
    assert len(classes) == toy_folder.CLASSES
    assert f"{told['classes_losing_half']} of {len(classes)} classes" in told["verdict"]
    assert len(photos) == toy_folder.CLASSES * toy_folder.PER_CLASS == told["photos"]["photos"]
    assert photos["lost"].mean() == pytest.approx(drop["query", "points"]["value"], abs=1e-12)
    *steps, together = (row["value"] for row in told["steps"] if row["setting"] == "query")
    assert sum(steps) == pytest.approx(together, abs=1e-12)
    assert together == pytest.approx(drop["query", "points"]["value"], abs=0.1)
    assert told["schema"] == 1


def test_a_guessed_preparation_stands_beside_the_verdict(audited: Audited) -> None:
    """And first in what to do, and in the JSON; the model in the file says nothing of mean and deviation."""
    out, text = audited
    (guess,) = json.loads((out / "audit.json").read_text())["model"]["guesses"]
    assert "assumed: ImageNet's mean, ImageNet's std" in guess
    assert text.splitlines()[1] == guess
    page = html.unescape(re.sub('<span class="nowrap">|</span>', "", (out / "audit.html").read_text()))
    assert f"<strong>Check first:</strong> {guess}" in page.partition("<main>")[0]
    assert f'What to do</h2>\n<ul class="plain"><li>{guess}' in page


def test_a_biased_model_is_found_out(audited: Audited) -> None:
    """Photos stand in front of their class's scene nine times in ten, and the model sees colours alone."""
    told = json.loads((audited.out / "audit.json").read_text())
    relative = next(r for r in told["drop"] if (r["setting"], r["unit"]) == ("query", "relative"))
    assert relative["low"] > 0.1
    pasting = next(r for r in told["steps"] if (r["setting"], r["step"]) == ("query", "pasting"))
    assert abs(pasting["value"]) < 0.1
    assert told["shares_of_variance"]["background"] > 0.3


def test_photos_are_not_written_to_and_nothing_unfinished_is_left(toys: Path, audited: Audited) -> None:
    assert {p.suffix for p in (toys / "photos").rglob("*") if p.is_file()} == {".png"}
    names = set(workdir.WRITTEN) - {"doubtful.jpg"}
    assert {p.name for p in audited.out.iterdir()} == names | {"audit.json", ".finished.npz", ".lock"}
    with Image.open(audited.out / "worst.jpg") as sheet:
        assert min(sheet.size) > 4 * 150


def test_embeddings_that_were_made_elsewhere_give_the_same_numbers(place: Path, audited: Audited) -> None:
    how = [*HOW, "--draws", "2"]
    done = run(place, "photos", "--export", "views", *how)
    assert done.returncode == 0, done.stderr
    foretold = re.search(r"([\d,.]+) MB of disk", done.stderr)
    pictures = sum(file.stat().st_size for file in (place / "views").glob("*-*/*.png"))
    assert foretold
    assert float(foretold[1].replace(",", "")) > 0.9 * pictures / 1e6
    rows = pd.read_csv(place / "views/photos.csv")
    arrays = {}
    for folder in (place / "views").glob("*-*"):
        files = sorted(folder.iterdir())
        assert len(files) == len(rows)
        pictures = np.stack([np.asarray(Image.open(file), np.float64) for file in files])
        # What the model in the file does, by itself: sixteen mean colours, after ImageNet's normalisation.
        seen = (pictures / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        cells = seen.reshape(len(rows), 4, 16, 4, 16, 3).mean((2, 4))
        arrays[folder.name] = cells.transpose(0, 3, 1, 2).reshape(len(rows), -1)
    np.save(place / "clean.npy", arrays.pop("clean-0"))
    of_nobody = {"names": np.array(["a", "b"]), "only_fg-9": np.full(3, np.nan)}
    np.savez(place / "others.npz", **arrays, **of_nobody)
    done = run(place, "photos", "--embeddings", "clean.npy", "others.npz", *how, "--out", "elsewhere")
    assert done.returncode == 0, done.stderr
    here, there = (json.loads((f / "audit.json").read_text()) for f in (audited.out, place / "elsewhere"))
    for part in ("drop", "steps", "levels"):
        for ours, theirs in zip(here[part], there[part], strict=True):
            assert theirs["value"] == pytest.approx(ours["value"], abs=1e-9), (ours, theirs)


def test_the_example_in_python_is_true(toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path))
    monkeypatch.setattr(backgrounds, "DRAWN", {"gradients": 6})
    monkeypatch.chdir(toys)
    example = doctest.DocTestParser().get_doctest(
        bgbias.audit.__doc__ or "", {"bgbias": bgbias}, "audit", None, 0
    )
    said: list[str] = []
    assert doctest.DocTestRunner().run(example, out=said.append).attempted == 4
    assert not said, "".join(said)


def test_without_classes_there_is_what_needs_none_in_the_place_of_another_audit(
    place: Path, audited: Audited
) -> None:
    """With masks of a graph, and of a function, which has no gradients."""
    shutil.copytree(audited.out, place / "before")
    (place / "loose").mkdir()
    for number, photo in enumerate(sorted((place / "photos").rglob("*.png"))[::5]):
        shutil.copy(photo, place / "loose" / f"{number}.png")
    how = ["--masker", "isnet", "--mask-weights", str(graph(place / "net.onnx")), *HOW[2:]]
    again = ["loose", "--model", "my_model.py:pictures", *how, "--attribution", "1", "--draws", "1"]
    done = run(place, *again, "--out", "before")
    assert done.returncode == 0, done.stderr
    told = json.loads((place / "before/audit.json").read_text())
    assert told["drop"] is None
    assert 0 < told["embedding_shift"]["random_background"] < 1
    assert sum(told["shares_of_variance"].values()) == pytest.approx(1)
    assert "Without classes" in told["verdict"]
    assert told["attribution"]["how"] == "occlusion"
    page = (place / "before/audit.html").read_text(encoding="utf-8")
    assert "Attribution is by occlusion" in page
    assert "bgbias audit loose --model my_model.py:pictures" in page
    left = {"audit.json", *told["files"], ".finished.npz", ".lock"}
    assert {p.name for p in (place / "before").iterdir()} == left
    assert "classes.csv" not in told["files"]
    (place / "before/classes.csv").write_text("hers")
    with pytest.raises(UserError, match=r"classes\.csv is of no audit"):
        workdir.check(place / "before", None)


def test_a_network_whose_gradients_are_off_is_looked_into_by_occlusion(tmp_path: Path) -> None:
    (tmp_path / "blind.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Blind(nn.Module):\n    @torch.no_grad()\n"
        "    def forward(self, x):\n        return nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)\n\n\n"
        "def build():\n    return Blind()\n"
    )
    model = load(f"{tmp_path / 'blind.py'}:build", Options(size=64))
    assert attribution_scores.choose_map_maker(model)[0] == "occlusion"
    assert any("gradients: none" in line for line in model.notes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["photos"], "takes one of --model SPEC"),
        (["photos", *MINE, "--export", "x"], "--model and --export"),
        (["nowhere", *MINE], "nowhere"),
        (["photos", "--model", "my_model.py:missing"], "missing"),
        # The photos are looked for before the model is.
        (["nowhere", "--model", "my_model.py:missing"], "called nowhere"),
        (["photos", "--embeddings", "no.npy", "no.npz"], "There is no file no.npy"),
        (["photos", *MINE, "--class-level", "0"], "--class-level"),
        (["photos", "--export", "x", "--fail-above", "3"], "--out means nothing to --export"),
        (["photos", *MINE, "--fail-above", "nan"], "--fail-above is nan"),
        (["photos", *MINE, "--mean", "0.5,0.5,.5", "--std=0.5,0.5,0"], "--std takes numbers above 0"),
        (["photos", *MINE, "--mask-weights", "no.onnx"], "no.onnx: there is no such"),
        (["photos", *MINE, "--masker", "nobody"], "There is no 'nobody' in maskers"),
        (["photos", *MINE, "--backgrounds", "nowhere"], "no backgrounds at nowhere"),
        (
            ["photos", *MINE, *MINE, "--model", "my_model.py:pictures", "--weights", "a"],
            "--weights is of one model",
        ),
        (["few", *MINE, "--fail-above", "50"], "--fail-above cannot tell"),
        (["photos", *MINE, "--out", "photos/audit"], "lies inside the photos"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_made(
    toys: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    if "few" in arguments:
        for folder in sorted((toys / "photos").iterdir())[:3]:
            shutil.copytree(folder, tmp_path / folder.name)
    arguments = [str(tmp_path) if word == "few" else word for word in arguments]
    arguments += [] if "--out" in arguments else ["--out", "refused"]
    arguments += [] if "--backgrounds" in arguments else ["--backgrounds", "walls"]
    done = run(toys, *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert not (toys / "refused").exists()


@pytest.mark.parametrize(
    ("check", "name", "words"),
    [
        (workdir.check, "photos.parquet", "photos.parquet is of no audit and would be replaced"),
        (workdir.check, "audit.json", "audit.json is of no audit and would be replaced"),
        (workdir.check_export, "photos.csv", "photos.csv is of no export.*--export"),
        (workdir.check_export, "question.json", "question.json is of no export"),
        (workdir.check_export, "a-b/c.png", "a-b is of no export"),
    ],
)
def test_files_of_somebody_else_are_not_replaced(tmp_path: Path, check: Any, name: str, words: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"schema": "hers"}')
    with pytest.raises(UserError, match=words):
        check(tmp_path, None)
