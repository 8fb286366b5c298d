"""The command on a person's folder: a verdict, files that say the same, a CI's exit status, pictures for models elsewhere."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from saliency_graphs import graph

from bgbias.auditing import workdir
from bgbias.errors import UserError
from tests.support import commands, toy_folder

# Photos of 64 pixels as they are, gradients as walls.
HOW = ["--masks", "masks", "--size", "64", "--resize", "64", "--backgrounds", "walls", "--attribution", "4"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("her_photos")
    toy_folder.made(folder)
    return folder


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.bgbias(place, "audit", *arguments)


@pytest.fixture(scope="module")
def audited(place: Path) -> tuple[Path, str]:
    """An audit as from a terminal."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bgbias",
            "audit",
            "photos",
            "--model",
            "my_model.py:build",
            *HOW,
            "--out",
            "first",
        ],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return place / "first", done.stdout


def test_the_terminal_the_json_and_the_tables_say_the_same(audited: tuple[Path, str]) -> None:
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


def test_a_guessed_preparation_stands_beside_the_verdict(audited: tuple[Path, str]) -> None:
    """And first in what to do, and in the JSON; the model in the file says nothing of mean and deviation."""
    out, text = audited
    (guess,) = json.loads((out / "audit.json").read_text())["model"]["guesses"]
    assert "assumed: ImageNet's mean, ImageNet's std" in guess
    assert text.splitlines()[1] == guess
    page = html.unescape(re.sub('<span class="nowrap">|</span>', "", (out / "audit.html").read_text()))
    assert f"<strong>Check first:</strong> {guess}" in page.partition("<main>")[0]
    assert f'What to do</h2>\n<ul class="plain"><li>{guess}' in page


def test_numbers_with_commas_are_read_like_those_with_spaces(place: Path) -> None:
    done = run(place, "photos", "--model", "my_model.py:build", "--mean", "0.5,0.5,.5", "--std=0.5,0.5,0")
    assert "--std takes numbers above 0" in done.stderr


def test_a_biased_model_is_found_out(audited: tuple[Path, str]) -> None:
    """Photos stand in front of their class's scene nine times in ten, and the model sees colours alone."""
    told = json.loads((audited[0] / "audit.json").read_text())
    relative = next(r for r in told["drop"] if (r["setting"], r["unit"]) == ("query", "relative"))
    assert relative["low"] > 0.1
    pasting = next(r for r in told["steps"] if (r["setting"], r["step"]) == ("query", "pasting"))
    assert abs(pasting["value"]) < 0.1
    assert told["shares_of_variance"]["background"] > 0.3


def test_contact_sheets_hold_four_pictures_a_query(audited: tuple[Path, str]) -> None:
    for title in ("worst", "random"):
        with Image.open(audited[0] / f"{title}.jpg") as sheet:
            assert sheet.width > 4 * 150
            assert sheet.height > 12 * 150


def test_photos_are_not_written_to_and_nothing_unfinished_is_left(audited: tuple[Path, str]) -> None:
    out, _ = audited
    assert {p.suffix for p in (out.parent / "photos").rglob("*") if p.is_file()} == {".png"}
    names = set(workdir.WRITTEN) - {"doubtful.jpg"}
    assert {p.name for p in out.iterdir()} == names | {"audit.json", ".finished.npz", ".lock"}


@pytest.mark.parametrize(("limit", "status"), [("0", 1), ("99", 0)])
def test_a_ci_fails_where_the_intervals_lower_end_is_above_the_limit(
    place: Path, limit: str, status: int
) -> None:
    done = run(place, "photos", "--model", "my_model.py:build", *HOW, "--fail-above", limit, "--out", "ci")
    assert done.returncode == status, done.stderr


def test_embeddings_that_were_made_elsewhere_give_the_same_numbers(
    place: Path, audited: tuple[Path, str]
) -> None:
    how = [part for part in HOW if part not in ("--attribution", "4")]
    done = run(place, "photos", "--export", "views", *how)
    assert done.returncode == 0, done.stderr
    foretold = re.search(r"([\d,.]+) MB of disk", done.stderr)
    pictures = sum(file.stat().st_size for file in (place / "views").glob("*-*/*.png"))
    assert foretold
    assert float(foretold[1].replace(",", "")) > 0.9 * pictures / 1e6
    rows = pd.read_csv(place / "views/photos.csv")
    arrays = {}
    for folder in (place / "views").iterdir():
        if folder.is_dir() and not folder.name.startswith("."):
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
    here, there = (
        json.loads((folder / "audit.json").read_text()) for folder in (audited[0], place / "elsewhere")
    )
    for part in ("drop", "steps", "levels"):
        for ours, theirs in zip(here[part], there[part], strict=True):
            assert theirs["value"] == pytest.approx(ours["value"], abs=1e-9), (ours, theirs)
    del arrays["random_background-2"]
    np.savez(place / "others.npz", **arrays)
    done = run(place, "photos", "--embeddings", "clean.npy", "others.npz", *how, "--out", "elsewhere")
    assert done.returncode == 2
    assert "lacks random_background-2" in done.stderr
    done = run(place, "photos", "--embeddings", "others.npz", "clean.npy", *how, "--out", "elsewhere")
    assert done.returncode == 2
    assert "others.npz cannot be read as embeddings (it holds several arrays)" in done.stderr


def test_a_function_without_gradients_is_looked_into_by_occlusion(place: Path) -> None:
    done = run(place, "photos", "--model", "my_model.py:pictures", *HOW, "--out", "function")
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "function/audit.json").read_text())["attribution"]["how"] == "occlusion"
    page = (place / "function/audit.html").read_text(encoding="utf-8")
    assert "Attribution is by occlusion" in page
    assert "bgbias audit photos --model my_model.py:pictures" in page


def test_a_masker_that_is_a_graph_masks_the_photos(place: Path) -> None:
    weights = ["--masker", "isnet", "--mask-weights", str(graph(place / "net.onnx"))]
    how = [*weights, "--size", "64", "--resize", "64", "--attribution", "0", "--draws", "1"]
    done = run(place, "photos", "--model", "my_model.py:build", *how, "--out", "graph")
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "graph/audit.json").read_text())["drop"] is not None


def test_without_classes_there_is_what_needs_none(place: Path) -> None:
    loose = place / "loose"
    loose.mkdir()
    for number, photo in enumerate(sorted((place / "photos").rglob("*.png"))[::3]):
        (loose / f"{number}.png").write_bytes(photo.read_bytes())
    how = ["--masker", "grabcut", "--size", "64", "--resize", "64", "--attribution", "0", "--draws", "1"]
    done = run(place, "loose", "--model", "my_model.py:build", *how, "--out", "unlabelled")
    assert done.returncode == 0, done.stderr
    told = json.loads((place / "unlabelled/audit.json").read_text())
    assert told["drop"] is None
    assert 0 < told["embedding_shift"]["random_background"] < 1
    assert sum(told["shares_of_variance"].values()) == pytest.approx(1)
    assert "Without classes" in told["verdict"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["photos"], "takes one of --model SPEC"),
        (["photos", "--model", "my_model.py:build", "--export", "x"], "--model and --export"),
        (["nowhere", "--model", "my_model.py:build"], "nowhere"),
        (["photos", "--model", "my_model.py:missing"], "missing"),
        # The photos are looked for before the model is.
        (["nowhere", "--model", "my_model.py:missing"], "called nowhere"),
        (["photos", "--embeddings", "no.npy", "no.npz"], "There is no file no.npy"),
        (["photos", "--model", "my_model.py:build", "--class-level", "0"], "--class-level"),
        (["photos", "--export", "x", "--fail-above", "3"], "--out means nothing to --export"),
        (["photos", "--model", "my_model.py:build", "--fail-above", "nan"], "--fail-above is nan"),
        (
            ["photos", "--model", "my_model.py:build", "--mask-weights", "no.onnx"],
            "no.onnx: there is no such",
        ),
        (["photos", "--model", "my_model.py:build", "--masker", "nobody"], "There is no 'nobody' in maskers"),
        (
            ["photos", "--model", "my_model.py:build", *HOW[:2], "--backgrounds", "nowhere"],
            "no backgrounds at nowhere",
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_made(
    place: Path, arguments: list[str], words: str
) -> None:
    done = run(place, *arguments, "--out", "refused")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert not (place / "refused").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"out cannot be made \(Not a directory\); name another folder"),
        workdir.working(tmp_path / "file" / "out", "0", np.zeros((2, 3))),
    ):
        pass


@pytest.mark.parametrize("option", ["--fail-above", "--attribution", "--pooling", "--weights"])
def test_what_means_nothing_to_an_export_is_refused(place: Path, option: str) -> None:
    done = run(place, "photos", "--export", "x", option, "3")
    assert done.returncode == 2
    assert f"{option} means nothing to --export" in done.stderr
    assert not (place / "x").exists()


def test_pictures_of_another_question_are_not_mixed_with_these(place: Path) -> None:
    how = [part for part in HOW if part not in ("--attribution", "4")]
    assert run(place, "photos", "--export", "once", *how).returncode == 0
    other = [part if part != "64" else "48" for part in how]
    done = run(place, "photos", "--export", "once", *other)
    assert done.returncode == 2
    assert "holds the pictures of another question" in done.stderr
    np.save(place / "of_other.npy", np.eye(30, 5))
    np.savez(place / "of_others.npz", **{"random_background-0": np.eye(30, 5)})
    done = run(place, "photos", "--embeddings", "of_other.npy", "of_others.npz", *how[:-2], "--draws", "1")
    assert done.returncode == 2
    assert "of_others.npz lacks" in done.stderr or "No pictures were exported" in done.stderr


@pytest.mark.parametrize("name", ["photos.parquet", "classes.csv", "audit.json"])
def test_files_of_somebody_else_are_not_replaced(place: Path, name: str) -> None:
    folder = place / f"with_{name}"
    folder.mkdir()
    (folder / name).write_text('{"schema": "hers"}')
    done = run(place, "photos", "--model", "my_model.py:build", *HOW, "--out", folder.name)
    assert done.returncode == 2
    assert f"{name} is of no audit and would be replaced" in done.stderr
    assert [path.read_text() for path in folder.iterdir()] == ['{"schema": "hers"}']
    done = run(place, "photos", "--model", "my_model.py:build", *HOW, "--out", "photos/audit")
    assert done.returncode == 2
    assert "lies inside the photos" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"), [("photos.csv", "hers"), ("question.json", "hers"), ("a-b/c.png", "")]
)
def test_nor_are_they_by_an_export(place: Path, name: str, text: str) -> None:
    folder = place / f"pictures_with_{name.partition('/')[0]}"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(text)
    done = run(place, "photos", "--export", folder.name)
    assert done.returncode == 2
    assert f"{name.partition('/')[0]} is of no export" in done.stderr
    assert "--export" in done.stderr
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / name]


def test_an_audit_takes_the_place_of_another_one_and_leaves_what_is_not_an_audits(
    place: Path, audited: tuple[Path, str]
) -> None:
    before = place / "before"
    shutil.copytree(audited[0], before)
    loose = place / "few_loose"
    loose.mkdir()
    for number, photo in enumerate(sorted((place / "photos").rglob("*.png"))[::5]):
        (loose / f"{number}.png").write_bytes(photo.read_bytes())
    how = ["--masker", "grabcut", "--size", "64", "--resize", "64", "--attribution", "0", "--draws", "1"]
    again = ["few_loose", "--model", "my_model.py:build", *how, "--out", "before"]
    done = run(place, *again)
    assert done.returncode == 0, done.stderr
    told = json.loads((before / "audit.json").read_text())
    assert {p.name for p in before.iterdir()} == {"audit.json", *told["files"], ".finished.npz", ".lock"}
    assert "classes.csv" not in told["files"]
    (before / "classes.csv").write_text("hers")
    done = run(place, *again)
    assert done.returncode == 2
    assert "classes.csv is of no audit" in done.stderr
    assert (before / "classes.csv").read_text() == "hers"


def test_a_network_whose_gradients_are_off_is_looked_into_by_occlusion(place: Path) -> None:
    (place / "blind.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Blind(nn.Module):\n    @torch.no_grad()\n"
        "    def forward(self, x):\n        return nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)\n\n\n"
        "def build():\n    return Blind()\n"
    )
    done = run(place, "photos", "--model", "blind.py:build", *HOW, "--out", "blind")
    assert done.returncode == 0, done.stderr
    told = json.loads((place / "blind/audit.json").read_text())
    assert told["attribution"]["how"] == "occlusion"
    assert any("gradients: none" in line for line in told["model"]["told"])


def test_a_limit_without_an_interval_is_an_error(place: Path) -> None:
    few = place / "few"
    for folder in sorted((place / "photos").iterdir())[:3]:
        (few / folder.name).mkdir(parents=True)
        for photo in folder.iterdir():
            (few / folder.name / photo.name).write_bytes(photo.read_bytes())
    how = ["--masker", "grabcut", "--size", "64", "--resize", "64", "--attribution", "0", "--draws", "1"]
    done = run(place, "few", "--model", "my_model.py:build", *how, "--fail-above", "50", "--out", "few_audit")
    assert done.returncode == 2
    assert "--fail-above cannot tell" in done.stderr
    assert not (place / "few_audit").exists()
