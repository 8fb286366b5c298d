"""Stanford Online Products: splits, classes and keys are those of its two lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from miniatures import as_zip, jpeg, sop_lists

from bgbias.datasets import sop
from bgbias.datasets.sop import ListedPhoto
from bgbias.errors import UserError
from bgbias.images import pixels


def test_complete_lists_have_the_official_counts() -> None:
    found = sop.read_lists(sop_lists(), "archive")
    assert (len(found), len({p.label for p in found.values()})) == (120_053, 22_634)
    classes = {s: {p.label for p in found.values() if p.split == s} for s in ("train", "val", "test")}
    assert classes == {
        "train": set(range(8_489)),
        "val": set(range(8_489, 11_318)),
        "test": set(range(11_318, 22_634)),
    }
    counts = Counter(p.split for p in found.values())
    assert (counts["test"], counts["train"] + counts["val"]) == (60_502, 59_551)


def test_place_is_that_in_the_list_of_the_split() -> None:
    found = sop.read_lists(sop_lists(), "archive")
    paths = [line.split()[3] for line in sop_lists()["Ebay_test.txt"].splitlines()[1:]]
    assert found[paths[0]] == ListedPhoto(11_318, "test", 0)
    assert found[paths[-1]] == ListedPhoto(22_633, "test", 60_501)  # golden G2c: sop|test|bg|2|60501
    for split in ("train", "val"):
        assert [p.place for p in found.values() if p.split == split] == list(
            range(sum(p.split == split for p in found.values()))
        )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An archive of nine photos in the official layout; the counts that are asserted are its own."""
    monkeypatch.setattr(sop, "COUNTS", {"Ebay_train.txt": (5, 3), "Ebay_test.txt": (4, 2)})
    monkeypatch.setattr(sop, "FIRST_VAL_CLASS", 2)
    listed = {"Ebay_train.txt": (1, 1, 2, 3, 3), "Ebay_test.txt": (4, 4, 5, 5)}
    files, number = {}, 0
    for file, classes in listed.items():
        lines = ["image_id class_id super_class_id path"]
        for c in classes:
            number += 1
            lines.append(f"{number} {c} 1 chair_final/{c}_{number}.JPG")
            files[f"Stanford_Online_Products/chair_final/{c}_{number}.JPG"] = jpeg(number * 5)
        files[f"Stanford_Online_Products/{file}"] = "\n".join(lines).encode()
        files[f"__MACOSX/{file}"] = b"junk"
    return dict(reversed(files.items()))


def test_photos_are_as_listed(small: dict[str, bytes], tmp_path: Path) -> None:
    archive = as_zip(tmp_path / "sop.zip", small)
    found = {i.image_id: i for i in sop.items(sop.Params(), {"photos": archive}, "sop")}
    assert len(found) == 9
    one = found["chair_final/3_5.JPG"]
    assert (one.label, one.class_name, one.split, one.key_set, one.key_item) == (
        2,
        "chair 3",
        "val",
        "sop|val",
        "1",
    )
    assert found["chair_final/4_6.JPG"].key_item == "0"
    assert Counter(i.split for i in found.values()) == {"train": 3, "val": 2, "test": 4}
    assert {pixels.decode(i.data, i.image_id).shape for i in found.values()} == {(2, 2, 3)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.pop("Stanford_Online_Products/Ebay_test.txt"), r"has no Ebay_test\.txt: it is not in the official"),
        (lambda f: f.pop("Stanford_Online_Products/chair_final/2_3.JPG"), "lacks 1 of the photos it lists, e.g. 'chair_f"),
        (lambda f: f.update({"Stanford_Online_Products/Ebay_train.txt": b"1 1 1 a.JPG\n"}), "must begin with the line 'image_id"),
    ],
)  # fmt: skip
def test_archive_that_is_not_complete_is_refused(
    small: dict[str, bytes], tmp_path: Path, change: Callable[[dict[str, bytes]], object], words: str
) -> None:
    change(small)
    with pytest.raises(UserError, match=words):
        list(sop.items(sop.Params(), {"photos": as_zip(tmp_path / "sop.zip", small)}, "sop"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 1 1", r"line 59553 of Ebay_train\.txt cannot be read: '1 1 1'"),
        ("1 one 1 a/b.JPG", "cannot be read"),
        ("1 1 1 bicycle_final/000000000000_0.JPG", "lists 'bicycle_final/000000000000_0.JPG' again"),
        ("1 1 1 a/b.JPG", "lists 59552 photos of 11318 classes, not 59551 of 11318"),
    ],
)
def test_lists_with_a_strange_line_are_refused(line: str, words: str) -> None:
    texts = sop_lists() | {"Ebay_train.txt": sop_lists()["Ebay_train.txt"] + line + "\n"}
    with pytest.raises(UserError, match=words):
        sop.read_lists(texts, "archive")
