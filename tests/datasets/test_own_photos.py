"""Photos of one's own, by a table or a folder: classes, splits and masks; mistakes are told with row, column or file."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from miniatures import as_folder, as_zip

from bgbias.datasets import folder, table
from bgbias.datasets.folder import ClassSplit, assign
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import fetch
from bgbias.images import pixels
from bgbias.photos.table import Item

LABELS = [f"shoe {c:02d}" for c in range(10)]
SPLITS = ["train"] * 5 + ["val"] * 2 + ["test"] * 3


@pytest.fixture
def rows(tmp_path: Path) -> pd.DataFrame:
    """Ten labels of three pictures each, which lie below ``tmp_path``; the first picture of a label has a mask."""
    made = []
    for c, label in enumerate(LABELS):
        for n in range(3):
            image, mask = f"photos/{c}_{n}.jpg", f"masks/{c}.png" if n == 0 else ""
            for file in filter(None, (image, mask)):
                (tmp_path / file).parent.mkdir(exist_ok=True)
                (tmp_path / file).write_bytes(pixels.encode_png(np.full((4, 4), 10 * c + n, np.uint8)))
            made.append({"image": image, "label": label, "split": SPLITS[c], "mask": mask, "group": f"{c}"})
    return pd.DataFrame(made)


def deliver(kind: ModuleType, source: Path, name: str, **options: Any) -> list[Item]:
    """What a dataset has of a source, once its parts were fetched."""
    params, parts = kind.Params.model_validate({"source": str(source), **options}), {}
    for part, sources in kind.parts(params).items():
        parts[part] = source.parent / f"fetched {part}"
        fetch(sources, parts[part], name, part=part)
    return list(kind.items(params, parts, name))


def items(folder: Path, frame: pd.DataFrame, parquet: bool = False, **options: Any) -> list[Item]:
    path = folder / ("table.parquet" if parquet else "table.csv")
    frame.to_parquet(path) if parquet else frame.to_csv(path, index=False)
    return deliver(table, path, "shop", **options)


@pytest.mark.parametrize("parquet", [False, True])
def test_a_table_says_labels_masks_and_queries(tmp_path: Path, rows: pd.DataFrame, parquet: bool) -> None:
    # Cells of Parquet need be no text, and are told by rows that count from one.
    rows["label"] = rows["label"].str[-2:].astype(int)
    rows["query"] = ["true", "False", "1"] * 10
    rows["gallery"] = ["no", "yes", "0"] * 10
    rows["camera"] = ["a", "b", ""] * 10
    found = {i.image_id: i for i in items(tmp_path, rows, parquet, given=True)}
    assert len(found) == 30
    for row in rows.itertuples():
        item = found[row.image]
        assert (item.class_name, item.label, item.split) == (str(row.label), row.label, row.split)
        assert (item.key_set, item.key_item) == (f"shop|{row.split}", row.image)
        assert item.data == (tmp_path / row.image).read_bytes()
        assert item.truth == ((tmp_path / row.mask).read_bytes() if row.mask else None)
    said = [(found[f"photos/0_{n}.jpg"].query, found[f"photos/0_{n}.jpg"].gallery) for n in range(3)]
    assert said == [(True, False), (False, True), (True, False)]
    assert [found[f"photos/0_{n}.jpg"].camera for n in range(3)] == ["a", "b", ""]
    everybody = items(tmp_path, rows.drop(columns=["query", "gallery"]), given=True)
    assert all(i.query and i.gallery for i in everybody)
    rows["label"] = rows["label"].where(rows.index != 2)
    with pytest.raises(UserError, match=f"row {3 if parquet else 4}, label: empty"):
        items(tmp_path, rows, parquet)


def test_pictures_lie_beside_the_table_unless_their_root_is_named(tmp_path: Path, rows: pd.DataFrame) -> None:
    for source, root, place in (
        ("/photos/shop/list.csv", None, "/photos/shop"),
        ("shared:shop/list.csv", None, "shared:shop"),
        ("https://example.org/list.csv", "/photos", "/photos"),
    ):
        assert table.parts(table.Params(source=source, root=root))["photos"][0].place == place
    with pytest.raises(ValueError, match="needs `root`"):
        table.Params(source="https://example.org/list.csv")
    assert [table.truth(table.Params(source="a", root="b", masks=m)) for m in (0, 1)] == [None, "masks"]
    pictures = {f.relative_to(tmp_path).as_posix(): f.read_bytes() for f in tmp_path.rglob("*.*g")}
    (tmp_path / "tables").mkdir()
    packed = as_zip(tmp_path / "pictures.zip", pictures)
    assert len(items(tmp_path / "tables", rows, root=str(packed))) == 30


def test_splits_are_by_label_and_those_that_share_a_group_get_one(tmp_path: Path, rows: pd.DataFrame) -> None:
    # shoe 00 - 03 - 06 - 09 hang together by a chain of shoots, 01 - 04 by one.
    group = rows["group"].replace({"3": "chain", "4": "pair", "1": "pair"})
    for name, pair in (("a", "0_1 3_1"), ("b", "3_2 6_1"), ("c", "6_2 9_1")):
        group[rows["image"].isin([f"photos/{n}.jpg" for n in pair.split()])] = name
    frame = rows.drop(columns="split").assign(group=group)
    for seed in range(3):
        some = items(tmp_path, frame, shuffle=seed, train_classes=3, val_classes=2)
        split_of = {i.class_name: i.split for i in some}
        assert all(split_of[i.class_name] == i.split for i in some)
        for joined in (("shoe 00", "shoe 03", "shoe 06", "shoe 09"), ("shoe 01", "shoe 04")):
            assert len({split_of[label] for label in joined}) == 1
        assert set(split_of.values()) == {"train", "val", "test"}


OF_TEST = pd.Series(SPLITS).repeat(3).eq("test").to_numpy()
Change = Callable[[pd.DataFrame], pd.DataFrame] | tuple[int, str, str]  # a row's cell


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ((2, "image", "photos/gone.jpg"), {}, "row 4, image: there is no file 'photos/gone.jpg'"),
        ((2, "image", ""), {}, "row 4, image: empty"),
        ((2, "image", "../secret.jpg"), {}, "row 4, image: '../secret.jpg' leads out of the pictures' folder"),
        ((2, "image", "photos/0_2.txt"), {}, "row 4, image: 'photos/0_2.txt' is no picture"),
        ((2, "image", "./photos/0_0.jpg"), {}, "row 4, image: 'photos/0_0.jpg' stands in row 2 already"),
        ((2, "split", "dev"), {}, "row 4, split: 'dev' is none of train, val, test, unused"),
        ((2, "split", "test"), {}, "row 4, label: 'shoe 00' is test here and train in row 2; `closed_set: true` allows"),
        ((2, "mask", "masks/gone.png"), {}, "row 4, mask: there is no file 'masks/gone.png'"),
        ((29, "group", "0"), {}, "row 31, group: '0' is test here and train in row 2"),
        (lambda f: f.drop(columns="label"), {}, "has no column 'label'; it needs image and label"),
        (lambda f: f.assign(Split="train"), {}, "has a column 'Split', which says nothing here"),
        (lambda f: f[:0], {}, "it has no rows"),
        (lambda f: f[f["split"] != "val"], {}, "no row has the split 'val'"),
        (lambda f: f.drop(columns="split"), {"closed_set": True}, "closed_set is asked for, but there is no column 'split'"),
        (lambda f: f.drop(columns="mask"), {"masks": True}, "masks are asked for, but there is no column 'mask'"),
        (lambda f: f, {"given": True}, "there is no column 'query' or 'camera'"),
        (lambda f: f.assign(query="maybe"), {"given": True}, "row 2, query: 'maybe' is none of true"),
        (lambda f: f.assign(query=np.where(OF_TEST, "no", "1")), {"given": True}, "no row of the split 'test' has query true"),
        (lambda f: f.assign(image=b"picture"), {"parquet": True}, "holds pictures in its column 'image'; a study needs their"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_row_and_column(
    tmp_path: Path, rows: pd.DataFrame, change: Change, options: dict[str, Any], words: str
) -> None:
    if isinstance(change, tuple):
        row, column, cell = change
        rows.loc[row, column] = cell
    else:
        rows = change(rows)
    with pytest.raises(UserError) as told:
        items(tmp_path, rows, **options)
    assert words in str(told.value)


def test_all_mistakes_are_told_at_once_but_not_thousands(tmp_path: Path, rows: pd.DataFrame) -> None:
    rows["label"] = ""
    rows.loc[0, "image"] = "gone.jpg"
    words = (
        rf"(?s)^shop: {tmp_path}/table\.csv cannot be used:\n  row 2, image: there is no file"
        r" 'gone\.jpg'\n  row 2, label: empty(\n  row [^\n]*){8}\n[^\n]*and 21 more$"
    )
    with pytest.raises(UserError, match=words):
        items(tmp_path, rows)


def test_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    words = r"shop\.csv (cannot be read as CSV or Parquet \(.+\)\. Save it anew|has no column)"
    for content in (b"", b"PAR1 but no more", b'image,label\n"a.jpg', b"image\nK\xe4se.jpg\n"):
        (tmp_path / "table").write_bytes(content)
        with pytest.raises(UserError, match=words):
            table.read_rows(tmp_path / "table", "shop.csv")
    (tmp_path / "shop.pq").write_bytes(b"image,label\na.jpg,0\n")
    with pytest.raises(UserError, match=r"shop\.pq is called Parquet and is none"):
        table.read_rows(tmp_path / "shop.pq", "shop.pq")


def test_shared_labels_unused_photos_and_test_photos_alone_are_taken(
    tmp_path: Path, rows: pd.DataFrame
) -> None:
    alone = items(tmp_path, rows[OF_TEST])
    assert (len(alone), {i.split for i in alone}) == (9, {"test"})
    rows.loc[2, "split"] = "unused"
    assert {i.image_id for i in items(tmp_path, rows) if i.split == "unused"} == {"photos/0_2.jpg"}
    rows = rows.drop(columns="group")
    rows.loc[2, "split"] = "test"
    found = {i.image_id: i.split for i in items(tmp_path, rows, closed_set=True)}
    assert (found["photos/0_1.jpg"], found["photos/0_2.jpg"]) == ("train", "test")


def test_only_what_rows_name_is_packed_whatever_their_labels(tmp_path: Path, rows: pd.DataFrame) -> None:
    (tmp_path / "photos" / "other.jpg").write_bytes(b"not named")
    params, wanted = table.Params(source=str(tmp_path / "table.csv")), {*rows["image"], *rows["mask"]} - {""}
    for frame, names in (
        (rows[:-1], wanted - {rows["image"].iloc[-1]}),
        (rows, wanted),
        (rows.assign(label=rows["label"] + "x"), wanted),
    ):
        frame.to_csv(tmp_path / "table.csv", index=False)
        assert table.parts(params)["photos"][0].names == names
    items(tmp_path, rows)
    assert {name for name, _ in members(tmp_path / "fetched photos", lambda name: True)} == wanted


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A user's folder: twelve classes, one of them with a single photo."""
    photos = {
        f"class {c:02d}/{n}.jpg": b"%d %d" % (c, n) for c in range(12) for n in range(1 if c == 4 else 3)
    }
    return as_folder(tmp_path / "photos", photos | {"read me.txt": b""})


def test_a_folder_gives_a_class_for_each_folder(classes: Path, tmp_path: Path) -> None:
    masks = as_zip(tmp_path / "masks", {"class 00/0.png": b"first", "class 07/2.png": b"second"})
    found = deliver(folder, classes, "mine", masks=str(masks))
    assert len(found) == 11 * 3 + 1
    names = sorted({i.class_name for i in found})
    assert names == [f"class {c:02d}" for c in range(12)]
    for item in found:
        assert item.label == names.index(item.class_name)
        assert item.image_id.startswith(f"{item.class_name}/")
        assert (item.key_set, item.key_item) == (f"mine|{item.split}", item.image_id)
    truth = {i.image_id: i.truth for i in found if i.truth}
    assert truth == {"class 00/0.jpg": b"first", "class 07/2.jpg": b"second"}
    around = tmp_path / "around"
    around.mkdir()
    moved = classes.rename(around / "shop")
    assert sorted({i.class_name for i in deliver(folder, around, "mine")}) == names
    (moved / "loose.jpg").touch()
    with pytest.raises(UserError, match=r"mine: 'loose\.jpg' lies in no folder"):
        deliver(folder, moved, "mine")


def test_classes_are_split_by_a_seed_or_in_their_order() -> None:
    names = [f"{c:02d}" for c in range(12)]

    def split(**options: Any) -> dict[str, str]:
        return assign(names, ClassSplit(**options), "mine")

    assert Counter(split().values()) == {"train": 6, "val": 1, "test": 5}
    assert split() != split(shuffle=1)
    fixed = split(shuffle=None, train_classes=3, val_classes=2)
    assert [fixed[c] for c in names] == ["train"] * 3 + ["val"] * 2 + ["test"] * 7
    for train, together in ((3, []), (2, ["ab", "bc", "cd"])):  # too few classes, or bundles of them
        words = rf"mine has 4 classes, too few for {train} (.|\n)*datasets\.mine\.options\.train_classes"
        with pytest.raises(UserError, match=words):
            assign("abcd", ClassSplit(train_classes=train), "mine", together)


def test_folders_in_folders_are_refused_until_somebody_says_which_are_the_classes(tmp_path: Path) -> None:
    names = [f"kind{k}/product{p}/{n}.jpg" for k in range(6) for p in range(2) for n in range(2)]
    nested = as_folder(tmp_path / "nested", {name: name.encode() for name in names})
    words = (
        r"datasets\.mine\.options\.class_level in params\.yaml: (.|\n)*"
        r"1 \(6 classes, e\.g\. 'kind0'\), or 2 \(12 classes, e\.g\. 'kind0/product0'\)"
    )
    with pytest.raises(UserError, match=words):
        deliver(folder, nested, "mine")
    for level, some in ((1, {"kind0", "kind5"}), (2, {"kind0/product0", "kind5/product1"})):
        split_of = {(i.class_name, i.split) for i in deliver(folder, nested, "mine", class_level=level)}
        assert some < dict(split_of).keys()
        assert len(split_of) == len(dict(split_of)) == 6 * level  # nobody lies in two splits
