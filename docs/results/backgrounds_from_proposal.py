"""Put what `bgbias propose` rejects of the paper's backgrounds and of photos of things into documents: `make docs-backgrounds`.

``python docs/results/backgrounds_from_proposal.py SHARED`` lets the command look at the backgrounds of Kobs & Hotho (2022), at
the photos with hand-drawn masks and at some birds and groceries, all from the folder SHARED. It writes a row a photo into
``backgrounds.csv`` beside this file; the page's table is made of these rows.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from bgbias.backgrounds.settings import Backgrounds, Proposal
from bgbias.files.archives import members
from bgbias.files.pictures import is_picture
from bgbias.nodes.propose import propose
from bgbias.report.pages import markdown
from bgbias.results.publication import note_tables
from bgbias.study import params

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("docs/results")
ROWS = HERE / "backgrounds.csv"
POOLS = ("val", "test")
ARCHIVES = {"birds": "cub200_first50.tgz", "groceries": "grocery_store.zip"}
HAND_MASKED = {"cars": "cars196", "birds": "cub200", "online": "sop"}
EVERY = 100  # of an archive's photos by name: some of each kind, in minutes
MASKER = "u2netp"


def photos(shared: Path) -> Iterator[tuple[str, str, bytes]]:
    """What a photo shows (a pool, or a kind of thing), its name, and the photo as it is stored."""
    for pool in POOLS:
        found = members(shared / f"backgrounds_{pool}.zip", is_picture)
        yield from ((pool, Path(name).name, data) for name, data in found)
    for kind, folder in HAND_MASKED.items():
        for photo in sorted((shared / "hand_masks" / folder).glob("*_image.jpeg")):
            yield kind, f"{folder}_{photo.name}", photo.read_bytes()
    for kind, archive in ARCHIVES.items():
        in_order = sorted(members(shared / archive, is_picture), key=lambda photo: photo[0])
        yield from ((kind, Path(name).name, data) for name, data in in_order[::EVERY])


def looked_at(shared: Path, work: Path) -> pd.DataFrame:
    """A row a photo: what it shows, its name, whether it is kept as a background, and why; made in the folder ``work``."""
    kinds = {}
    (work / "photos").mkdir()
    for kind, name, data in photos(shared):
        if name in kinds:
            raise ValueError(f"two photos are called {name}")
        kinds[name] = kind
        (work / "photos" / name).write_bytes(data)
    study = params.load(ROOT / "params.yaml")
    asked = Backgrounds(propose=Proposal(source=str(work / "photos"), masker=MASKER))
    # What is made on the way is nobody's pool: it stays out of the project's folders.
    apart = study.paths.model_copy(update={"work": str(work)})
    study = study.model_copy(update={"backgrounds": {"looked_at": asked}, "paths": apart})
    propose(study, "looked_at", "cpu")
    found = pd.read_csv(study.files.at("proposal", pool="looked_at"))
    found.insert(0, "shows", found["name"].map(kinds))
    return found.sort_values(["shows", "name"], ignore_index=True)


def rejected(rows: pd.DataFrame) -> str:
    """The backgrounds that are rejected, those that show an object most sharply first."""
    backgrounds = rows[rows["shows"].isin(POOLS)]
    rejected = backgrounds[~backgrounds["kept"]].sort_values("sharpness", ascending=False, kind="stable")
    numbers = {"salient area": "area", "sharpness": "sharpness", "salient border": "border"}
    table = pd.DataFrame(
        {
            "photo": "`" + rejected["name"] + "`",
            "pool": rejected["shows"],
            **{title: rejected[column].map("{:.2f}".format) for title, column in numbers.items()},
        }
    )
    return markdown(table, labels=2)


def tables() -> dict[str, str]:
    """Each table as its page shows it."""
    return {"table": rejected(pd.read_csv(ROOT / ROWS))}


def proposed(arguments: list[str]) -> tuple[Path, ...]:
    """Let the command look at the photos of a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        looked = looked_at(Path(arguments[0]), Path(scratch))
    looked.to_csv(ROOT / ROWS, index=False, float_format="%.4f")
    return (ROWS,)


if __name__ == "__main__":
    note_tables("backgrounds", "make docs-backgrounds", proposed(sys.argv[1:]))
