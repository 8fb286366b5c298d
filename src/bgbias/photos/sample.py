"""A sample of a labelled collection in which retrieval means what it means in all of it.

MAP@R asks for all of a query's class, so a few photos of every class would make it another question, and a few whole classes
leave too little to be confused with, and too little chance to speak of: intervals are over classes. So whole classes are taken
where a hundred of them fit into the sample, and where they do not, equally many photos of each of a hundred, or of fewer where
that would leave less than four: a photo that lends its background to a query is no longer found, and one other is too few.
Classes and their photos come in an order that follows from their names alone: the same on every machine, whatever lies beside
them.
"""

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.photos.table import ImageTable

CLASSES = 100
PER_CLASS = 2  # photos without which nobody is found
LEAST = 2 * PER_CLASS  # so that there is somebody to be mistaken for
KEPT = 4  # photos of a class, if it has so many, in any larger sample


def sample_classes(table: ImageTable, purpose: str, count: int) -> tuple[ImageTable, int | None]:
    """At most ``count`` photos (``LEAST`` or more, but not all), in the table's order, and the most of one class; None if whole.

    Only classes of two photos or more are drawn, and each keeps at least four of them, if so many fit twice. ``purpose``
    and the photos' keys decide which.
    """
    parts = {name: part for name, part in table.frame.groupby("class_name") if len(part) >= PER_CLASS}
    order = sorted(
        parts, key=lambda name: seeds.number(seeds.key(purpose, parts[name]["key_set"].iloc[0], name))
    )
    sizes = np.array([len(parts[name]) for name in order])
    least = min(KEPT, count // 2, int(sizes.max()))
    first = sizes[: min(CLASSES, count // least)]
    fitting = [m for m in range(int(first.max()), least - 1, -1) if np.minimum(first, m).sum() <= count]
    most = None if fitting[0] == first.max() else fitting[0]
    taken = sizes if most is None else np.minimum(sizes, most)
    chosen = order[: int((taken.cumsum() <= count).sum())]
    drawn = [_draw_photos(parts[name], purpose, most) for name in chosen]
    ids = set(pd.concat(drawn)["image_id"])
    return table.rows(table.frame["image_id"].isin(ids)), most


def _draw_photos(photos: pd.DataFrame, purpose: str, most: int | None) -> pd.DataFrame:
    """At most so many photos of a class, equally many of each place as far as they go; those whose place is unknown last."""
    ordered = ImageTable(photos.reset_index(drop=True)).keyed(purpose, None).frame
    if "place" in ordered:
        turn = ordered.groupby("place").cumcount().where(ordered["place"] != "", len(ordered))
        ordered = ordered.iloc[np.argsort(turn.to_numpy(), kind="stable")]
    return ordered.head(len(ordered) if most is None else most)
