"""A dataset of params.yaml as an audit sees it: its test photos, with the keys by which the study draws their backgrounds."""

from __future__ import annotations

from pathlib import Path

from bgbias.auditing.listing import Listing, why_unlabelled
from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.photos.table import read_table
from bgbias.settings import read_yaml
from bgbias.study.params import load


def datasets(params: Path) -> tuple[str, ...]:
    """The names of the datasets that can be named; none where there is no params.yaml."""
    written = read_yaml(params).get("datasets") if params.is_file() else None
    return tuple(map(str, written)) if isinstance(written, dict) else ()


def listed(dataset: str, params: Path) -> Listing:
    """The test photos of a dataset whose photos are here, as the study sees them: turned where its options say so."""
    files = load(params).files
    places = {part: files.at(part, dataset=dataset) for part in ("table", "photos", "truth")}
    absent = next((place for place in places.values() if not place.exists()), None)
    if absent:
        raise UserError(
            f"The photos of {dataset} are not at hand ({absent} is missing); run: python -m bgbias fetch {dataset} and then:"
            f" python -m bgbias index {dataset}"
        )
    table = read_table(places["table"])
    test = table.split("test")
    if test.given is not None:
        raise UserError(
            f"{dataset} says which photos are queries and which the gallery; an audit asks every photo among all others. A grid"
            " of this dataset has its mAP: docs/data.md."
        )
    photos, masks = ImageStore(places["photos"]), ImageStore(places["truth"])
    why = why_unlabelled(dict(zip(test.ids, map(str, test.labels), strict=True)))
    beside = len(table) - len(test)
    of_others = f"{beside} photos of its other splits are not looked at"
    return Listing(
        name=dataset,
        table=test,
        labelled=not why,
        read=photos.read,
        truth=lambda image_id: masks.read(image_id) if image_id in masks else None,
        upright=False,
        others=tuple(set(table.ids) - set(test.ids)),
        remarks=tuple(filter(None, (why, of_others if beside else ""))),
    )
