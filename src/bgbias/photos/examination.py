"""What stands out among a dataset's photos while they are read: who cannot be taken, and what to know of the others.

Near-duplicates show one view twice: the same file, a re-saved or slightly cropped one, shots of a burst, frames of a video. Each
photo becomes a grey picture of 32 x 32 pixels without its rim (frames are alike) and without what is smooth in it (so are skies
and walls); two whose detail correlates by more than ``ALIKE`` are near-duplicates. docs/data.md has how often that is right.
Mirrored or turned copies, and crops of more than a few percent, are not noticed.
"""

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import ImageOps

from bgbias.errors import UserError
from bgbias.files.pictures import is_photo
from bgbias.images import drawn_masks, pixels
from bgbias.photos.table import Item
from bgbias.settings import read_yaml

LISTED = 100  # examples that a record names
SHOWN = 3  # examples in a line of the log
TINY = 32  # pixels of the short side
HUGE = 100_000_000  # pixels
ALIKE = 0.7  # correlation: independent photos of birds and groceries stay below .62, saved again at quality 20 above .99
SIDE, RIM = 32, 2
SMOOTH = 2.0  # standard deviation of what counts as smooth, pixels
FAINT = 1.0  # grey levels: detail that is weaker is noise
ALL_PAIRS = 20_000  # photos: of more, only those of one class are compared
BLOCK = 256

# What stands out, in words: why photos are left out; what is counted among the others, and what follows.
_WORDS = read_yaml(Path(__file__).with_suffix(".yaml"))
_NUMBERS = {"full_scale": pixels.FULL_SCALE, "tiny": TINY, "million": HUGE // 1_000_000}
LEFT_OUT = {name: what.format(**_NUMBERS) for name, what in _WORDS["left_out"].items()}
FINDINGS = {
    name: (words["what"].format(**_NUMBERS), words["remedy"]) for name, words in _WORDS["findings"].items()
}
TURN_PHOTO = " The photo carries a rotation (EXIF or XMP): `upright: true` turns it."
TURN_MASK = " The photo is turned as its EXIF says: turn the mask too."
# Of what stands out: a mask that lies beside its object changes every number.
TURNED_MASKS = ("masks_turned_otherwise", "rotated_with_a_mask", "rotated_with_an_unclear_mask")


@dataclass(frozen=True)
class PhotoIssue:
    """What stood out: its name in records, what it is, what to do or what follows, and the photos, classes or folders."""

    name: str
    what: str
    remedy: str
    cases: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """With the number of all and a few examples."""
        return {
            "name": self.name,
            "what": self.what,
            "count": len(self.cases),
            "examples": list(self.cases[:SHOWN]),
            "remedy": self.remedy,
        }

    def describe(self, examples: int = SHOWN) -> str:
        """A line for a person."""
        more = f" and {len(self.cases) - examples} more" if len(self.cases) > examples else ""
        return f"{self.what}: {len(self.cases)} ({', '.join(self.cases[:examples])}{more}): {self.remedy}"


class PhotoValidator:
    """Looks at every photo once, in any order; ``left_out``: image id to the reason and what to do.

    ``sums``: SHA-256 of the bytes of every photo that was taken, in hex digits.
    """

    def __init__(
        self,
        left_out: Mapping[str, str],
        labelled: bool = True,
        upright: bool = False,
        linked: Iterable[str] = (),
    ) -> None:
        """``left_out``: files that were not even read, with the reason. ``labelled``: whether photos have classes. ``upright``:
        whether those who use the photos turn them as their EXIF says. ``linked``: folders that were entered through a link.
        """
        self.left_out = dict(left_out)
        self.sums: dict[str, str] = {}
        self._labelled, self._upright = labelled, upright
        self._kind: dict[str, str] = {}  # of LEFT_OUT
        self._read: dict[str, list[str]] = {name: [] for name in FINDINGS} | {"linked_folders": [*linked]}
        self._thumbnails: dict[str, np.ndarray] = {}
        self._class_of: dict[str, str] = {}

    def takes(self, item: Item) -> bool:
        """Whether the photo can be used; what Pillow warns of is noted."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            is_taken = self._can_be_used(item)
        if caught and is_taken:
            texts = sorted({" ".join(str(warning.message).split()) for warning in caught})
            self._read["warned_of"].append(f"{item.image_id} ({' '.join(texts)})")
        return is_taken

    def _can_be_used(self, item: Item) -> bool:
        """Whether the photo can be used. A true mask that numbers regions is an error: all masks of its maker will."""
        mask = item.truth
        try:
            truth = None if mask is None else drawn_masks.decode_mask(mask, f"mask of {item.image_id}")
            with pixels.open_picture(item.data, item.image_id) as image:
                sixteen_bits, by_xmp = pixels.has_sixteen_bits(image), pixels.is_turned_by_xmp(image)
                turned, transparent = pixels.is_turned(image), pixels.transparent(image)
                view = ImageOps.exif_transpose(image) if turned and self._upright else image
                grey = pixels.from_pillow(view, "L")  # all of it: a file may break off anywhere
                height, width = grey.shape
                drawn_upright = None
                if turned and truth is not None:
                    drawn_upright = drawn_masks.is_drawn_upright(image, truth)
                # MPO: the photo and its previews, as phones write it.
                animated = image.format != "MPO" and getattr(image, "n_frames", 1) > 1
        except drawn_masks.NoMaskError:
            raise
        except UserError as error:
            return self.leaves_out(item.image_id, getattr(error.__cause__, "kind", "unreadable"), str(error))
        remedy = TURN_MASK if self._upright else TURN_PHOTO
        if truth is not None and truth.shape != (height, width):
            hint = remedy if turned and truth.shape == (width, height) else ""
            reason = (
                f"'{item.image_id}': photo and true mask differ in size: the photo is {width}x{height} pixels, the mask"
                f" {truth.shape[1]}x{truth.shape[0]}; save the mask at the photo's size.{hint}"
            )
            return self.leaves_out(item.image_id, "masks_of_another_size", reason)
        if drawn_upright is not None and drawn_upright != self._upright:
            reason = f"'{item.image_id}': the border of its true mask follows the photo's edges only where one of them is turned."
            return self.leaves_out(item.image_id, "masks_turned_otherwise", reason + remedy)
        self._class_of[item.image_id] = item.class_name
        self.sums[item.image_id] = hashlib.sha256(item.data).hexdigest()
        self._thumbnails[item.image_id] = thumbnail(grey)
        for name, applies in {
            "turned_by_exif" if self._upright else "rotated_by_exif": turned and not by_xmp,
            "rotated_with_a_mask": drawn_upright is not None,
            "rotated_with_an_unclear_mask": turned and truth is not None and drawn_upright is None,
            "transparent": transparent,
            "animated": animated,
            "rotation_in_xmp": by_xmp,
            "sixteen_bits": sixteen_bits,
            "tiny": min(height, width) < TINY,
            "huge": height * width > HUGE,
            "photos_without_a_true_mask": truth is None,
        }.items():
            if applies:
                self._read[name].append(item.image_id)
        return True

    def leaves_out(self, image_id: str, kind: str, reason: str) -> bool:
        """Note why a photo cannot be used, by a kind of ``LEFT_OUT``; False, as it is not taken."""
        self.left_out[image_id] = reason
        self._kind[image_id] = kind
        return False

    def leave_out_unclear_masks(self) -> list[str]:
        """Once all photos were looked at: leave out those that carry a rotation and whose masks do not tell which way they were
        drawn, if those that tell were all drawn the other way. Gives their ids.
        """
        turned = sum(kind == "masks_turned_otherwise" for kind in self._kind.values())
        if not turned or self._read["rotated_with_a_mask"]:
            return []
        unclear, self._read["rotated_with_an_unclear_mask"] = self._read["rotated_with_an_unclear_mask"], []
        for image_id in unclear:
            reason = f"'{image_id}': its true mask fits either way; all {turned} that tell were drawn on photos turned otherwise."
            self.leaves_out(image_id, "masks_turned_otherwise", reason)
            for kept in (self.sums, self._thumbnails, self._class_of):
                del kept[image_id]  # type: ignore[attr-defined]
        return unclear

    @cached_property
    def near_duplicates(self) -> tuple[dict[str, str], dict[str, str]]:
        """Once all photos were looked at: those that show the view of an earlier one by name, with its name; first those of a
        photo of their own class, then those of another one alone.
        """
        ids = sorted(self.sums)
        labels = np.unique([self._class_of[i] for i in ids], return_inverse=True)[1]
        rows = find_near_duplicates(
            np.array([self._thumbnails[i] for i in ids]),
            labels if self._labelled else np.arange(len(ids)),
            [self.sums[i] for i in ids],
        )
        within, across = ({i: ids[row] for i, row in zip(ids, r, strict=True) if i != ids[row]} for r in rows)
        return within, {i: first for i, first in across.items() if i not in within}

    @property
    def findings(self) -> dict[str, list[str]]:
        """What was found, by its name in ``FINDINGS``: photos, classes or folders, sorted; nothing of what was not found."""
        sizes = Counter(self._class_of.values()) if self._labelled else {}
        used_folders = {p for image_id in self._class_of for p in PurePosixPath(image_id).parents}
        photo_folders = {PurePosixPath(n).parent for n in self.left_out if is_photo(n)}
        bare = self._read["photos_without_a_true_mask"]
        within, across = ([f"{i} (as {first})" for i, first in part.items()] for part in self.near_duplicates)
        apart = "near_duplicates_under_two_labels" if self._labelled else "near_duplicates"
        findings = self._read | {
            "near_duplicates_within_a_class": within,
            apart: across,
            "classes_of_one_photo": [c for c, n in sizes.items() if n == 1],
            "folders_without_a_photo": [str(folder) for folder in photo_folders - used_folders],
            # Where nobody drew any, none is missing.
            "photos_without_a_true_mask": bare if len(bare) < len(self._class_of) else [],
        }
        return {name: sorted(values) for name, values in findings.items() if values}

    def list_issues(self) -> Iterator[PhotoIssue]:
        """What was left out, by reason, and what was found among the rest."""
        ids_of: dict[str, list[str]] = {kind: [] for kind in LEFT_OUT}
        for image_id, reason in sorted(self.left_out.items()):
            ids_of.setdefault(self._kind.get(image_id, reason), []).append(image_id)
        for kind, ids in sorted(ids_of.items(), key=lambda item: item[0] in LEFT_OUT):
            name, why = (kind, f": {LEFT_OUT[kind]}") if kind in LEFT_OUT else ("left_out", "")
            if ids:
                yield PhotoIssue(name, f"left out{why}", self.left_out[ids[0]], tuple(ids))
        for name, values in self.findings.items():
            yield PhotoIssue(name, *FINDINGS[name], tuple(values))

    def describe(self, name: str) -> Iterator[str]:
        """The same as lines for a person."""
        return (f"{name}: {issue.describe()}" for issue in self.list_issues())


def thumbnail(grey: np.ndarray) -> np.ndarray:
    """What is kept of a photo, uint8 [32, 32], from its grey pixels uint8 [H, W]."""
    import cv2

    return np.asarray(cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA))


def find_near_duplicates(
    thumbnails: np.ndarray, labels: np.ndarray, sums: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """For each of N photos the first one of its class, and the first one of another class, of which it is a near-duplicate: rows
    int64 [N] each, its own where there is none. ``thumbnails`` uint8 [N, 32, 32]; ``sums`` [N]: equal where files are, however
    little they show.
    """
    rows = np.arange(len(labels))
    _, first, copy_of = np.unique(sums, return_index=True, return_inverse=True)
    within, across = rows.copy(), np.where(labels[first[copy_of]] == labels, rows, first[copy_of])
    compared = [rows]
    if len(rows) > ALL_PAIRS:
        compared = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for part in compared:
        detail = _extract_detail(thumbnails[part])
        for start in range(0, len(part), BLOCK):
            block = part[start : start + BLOCK]
            alike = detail[start : start + BLOCK] @ detail.T > ALIKE
            alike |= copy_of[block, None] == copy_of[part]
            for row, near in zip(block, alike, strict=True):
                earlier = part[near & (part < row)]
                earlier = earlier[within[earlier] == earlier]  # what stands for itself
                same = labels[earlier] == labels[row]
                within[row] = earlier[same].min(initial=row)
                across[row] = earlier[~same].min(initial=across[row])
    return within, across


def _extract_detail(thumbnails: np.ndarray) -> np.ndarray:
    """Float32 [N, D], of unit length where there is any."""
    import cv2

    grey = thumbnails.astype(np.float32).reshape(-1, SIDE, SIDE)
    fine = np.array([picture - cv2.GaussianBlur(picture, (0, 0), SMOOTH) for picture in grey])
    inside = fine.reshape(grey.shape)[:, RIM:-RIM, RIM:-RIM].reshape(len(grey), (SIDE - 2 * RIM) ** 2)
    inside = inside - inside.mean(axis=1, keepdims=True)
    faint = FAINT * (SIDE - 2 * RIM)  # the length of detail of so many levels
    return inside / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), faint)
