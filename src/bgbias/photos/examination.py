"""What stands out among a dataset's photos while they are read: who cannot be taken, and what to know of the others."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from bgbias.errors import UserError
from bgbias.files.pictures import is_photo
from bgbias.images import drawn_masks, pixels
from bgbias.photos.table import Item

LISTED = 100  # examples that a record names
SHOWN = 3  # examples in a line of the log

# What is counted among photos that are taken: its name in records, what it is, and what follows.
FINDINGS = {
    "rotated_by_exif": (
        "photos with an EXIF rotation",
        "it is not applied; `upright: true` in the dataset's options turns them",
    ),
    "animated": ("animated pictures", "their first frame is taken"),
    "identical_under_two_labels": (
        "copies, byte for byte, of a photo with another label",
        "correct the labels, or remove the copies",
    ),
    "identical_within_a_class": (
        "copies, byte for byte, of a photo of the same class",
        "the one always finds the other; remove the copies",
    ),
    "classes_of_one_photo": ("classes of one photo", "nobody can find it, and it is no query; add photos"),
    "photos_without_a_true_mask": (
        "photos without a true mask",
        "by `ground_truth` they have none, and are no query; draw theirs, or name another masker",
    ),
    "folders_without_a_photo": ("folders whose photos were all left out", "see above why"),
}


class Examination:
    """Looks at every photo once, in any order; ``left_out``: image id to the reason and what to do."""

    def __init__(self, left_out: Mapping[str, str]) -> None:
        """``left_out``: files that were not even read, with the reason."""
        self.left_out = dict(left_out)
        self._read: dict[str, list[str]] = {name: [] for name in FINDINGS}
        self._first: dict[bytes, Item] = {}
        self._class_of: dict[str, str] = {}

    def takes(self, item: Item) -> bool:
        """Whether the photo can be used. A true mask that numbers regions is an error: all masks of its maker will."""
        try:
            with pixels.opened(item.data, item.image_id) as image:
                height, width = pixels.from_pillow(image).shape[:2]
                turned = pixels.turned(image)
                # MPO: the photo and its previews, as phones write it.
                animated = image.format != "MPO" and getattr(image, "n_frames", 1) > 1
            mask = item.truth
            truth = None if mask is None else drawn_masks.decode_mask(mask, f"mask of {item.image_id}")
        except drawn_masks.NoMaskError:
            raise
        except UserError as error:
            self.left_out[item.image_id] = str(error)
            return False
        if truth is not None and truth.shape != (height, width):
            self.left_out[item.image_id] = _sizes(item.image_id, (height, width), truth.shape, turned)
            return False
        self._class_of[item.image_id] = item.class_name
        first = self._first.setdefault(hashlib.sha256(item.data).digest(), _without_data(item))
        same = None if first.image_id == item.image_id else first.label == item.label
        for name, found in {
            "rotated_by_exif": turned,
            "animated": animated,
            "identical_under_two_labels": same is False,
            "identical_within_a_class": same is True,
            "photos_without_a_true_mask": truth is None,
        }.items():
            if found:
                of = f" (as {first.image_id})" if name.startswith("identical") else ""
                self._read[name].append(item.image_id + of)
        return True

    @property
    def findings(self) -> dict[str, list[str]]:
        """What was found, by its name in ``FINDINGS``: photos, classes or folders, sorted; nothing of what was not found."""
        sizes = Counter(self._class_of.values())
        given = {p for image_id in self._class_of for p in PurePosixPath(image_id).parents}
        wanted = {PurePosixPath(n).parent for n in self.left_out if is_photo(n)}
        bare = self._read["photos_without_a_true_mask"]
        found = self._read | {
            "classes_of_one_photo": [c for c, n in sizes.items() if n == 1],
            "folders_without_a_photo": [str(folder) for folder in wanted - given],
            # Where nobody drew any, none is missing.
            "photos_without_a_true_mask": bare if len(bare) < len(self._class_of) else [],
        }
        return {name: sorted(values) for name, values in found.items() if values}

    def told(self, name: str, shown: int = SHOWN) -> Iterator[str]:
        """Lines for a person: what was left out, by reason, and what was found, each with so many examples."""
        by_reason = defaultdict(list)
        for image_id, reason in sorted(self.left_out.items()):
            by_reason[reason].append(image_id)
        for reason, ids in by_reason.items():
            told = reason if f"'{ids[0]}'" in reason else f"{len(ids)} ({_some(ids, shown)}): {reason}"
            yield f"{name}: left out: {told}"
        for finding, values in self.findings.items():
            what, remedy = FINDINGS[finding]
            yield f"{name}: {what}: {len(values)} ({_some(values, shown)}): {remedy}"


def of_parts(left_out: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What was left out of each part of a dataset, in one: names of other parts than the photos say so, and are no photo's."""
    return {
        name if part == "photos" else f"{name} ({part})": reason
        for part, found in left_out.items()
        for name, reason in found.items()
    }


def _some(names: list[str], shown: int) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _without_data(item: Item) -> Item:
    return Item(item.image_id, item.class_name, item.label, item.split, item.key_set, item.key_item, b"")


def _sizes(image_id: str, photo: tuple[int, int], mask: tuple[int, ...], turned: bool) -> str:
    """Both sizes, in the order of people, and what to do."""
    swapped = (
        " The photo carries an EXIF rotation: `upright: true` turns it."
        if turned and mask == photo[::-1]
        else ""
    )
    return (
        f"'{image_id}': photo and true mask differ in size: the photo is {photo[1]}x{photo[0]} pixels, the mask"
        f" {mask[1]}x{mask[0]}; save the mask at the photo's size.{swapped}"
    )
