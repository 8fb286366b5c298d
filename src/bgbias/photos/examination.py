"""What stands out among a dataset's photos while they are read: who cannot be taken, and what to know of the others."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from PIL import ImageOps

from bgbias.errors import UserError
from bgbias.files.pictures import is_photo
from bgbias.images import drawn_masks, pixels
from bgbias.photos.table import Item

LISTED = 100  # examples that a record names
SHOWN = 3  # examples in a line of the log
TINY = 32  # pixels of the short side
HUGE = 100_000_000  # pixels

# Why photos are left out, each for a reason of its own.
LEFT_OUT = {
    "unreadable": "photos that cannot be read, or whose mask cannot",
    "levels_of_few_bits": f"photos of 16 bits whose levels are all below {pixels.FULL_SCALE}",
    "levels_of_floats": "photos whose levels are floating point numbers",
    "levels_of_32_bits": "photos whose levels are whole numbers of 32 bits",
    "masks_of_another_size": "photos whose true mask has another size",
}

TURN_PHOTO = " The photo carries a rotation (EXIF or XMP): `upright: true` turns it."
TURN_MASK = " The photo is turned as its EXIF says: turn the mask too."

# What is counted among photos that are taken: its name in records, what it is, and what follows.
FINDINGS = {
    "rotated_by_exif": (
        "photos with a rotation in their EXIF",
        "it is not applied; `upright: true` in the dataset's options turns them",
    ),
    "turned_by_exif": (
        "photos with a rotation in their EXIF",
        "they are turned, as a person sees them; see that your model's loader turns them too",
    ),
    "transparent": (
        "photos that are transparent in part",
        "what shows there is white; the pixels that are hidden there are not used",
    ),
    "animated": ("animated pictures", "their first frame is taken"),
    "rotation_in_xmp": (
        "photos with a rotation in their XMP, and none in their EXIF",
        "it is treated as one in the EXIF would be; most other programs and loaders do not look at XMP",
    ),
    "sixteen_bits": (
        "photos of 16 bits",
        "their levels 0 to 65,535 become 0 to 255; see that your model's loader does the same",
    ),
    "warned_of": (
        "photos that Pillow warns of",
        "they are taken; look at them, and save them anew where they are not what they should be",
    ),
    "tiny": (
        f"pictures with a side below {TINY} pixels",
        "they are enlarged to what a model sees; name the originals if these are previews",
    ),
    "huge": (
        f"pictures of more than {HUGE // 1_000_000} million pixels",
        "each takes seconds and hundreds of MB to decode; save them smaller",
    ),
    "identical_under_two_labels": (
        "copies, byte for byte, of a photo with another label",
        "correct the labels, or remove the copies",
    ),
    "identical_within_a_class": (
        "copies, byte for byte, of a photo of the same class",
        "the one always finds the other; remove the copies",
    ),
    "identical": (
        "copies, byte for byte, of another photo",
        "the one always finds the other; remove the copies",
    ),
    "classes_of_one_photo": ("classes of one photo", "nobody can find it, and it is no query; add photos"),
    "photos_without_a_true_mask": (
        "photos without a true mask",
        "by `ground_truth` they have none, and are no query; draw theirs, or name another masker",
    ),
    "folders_without_a_photo": ("folders whose photos were all left out", "see above why"),
    "linked_folders": (
        "linked folders",
        "they are entered; remove the links if their photos do not belong here",
    ),
}


@dataclass(frozen=True)
class Oddity:
    """What stood out: its name in records, what it is, what to do or what follows, and the photos, classes or folders."""

    name: str
    what: str
    remedy: str
    found: tuple[str, ...]

    def as_json(self, shown: int = SHOWN) -> dict[str, Any]:
        """With the number of all and so many examples."""
        return {
            "name": self.name,
            "what": self.what,
            "count": len(self.found),
            "examples": list(self.found[:shown]),
            "remedy": self.remedy,
        }

    def told(self, shown: int = SHOWN) -> str:
        """A line for a person."""
        more = f" and {len(self.found) - shown} more" if len(self.found) > shown else ""
        return f"{self.what}: {len(self.found)} ({', '.join(self.found[:shown])}{more}): {self.remedy}"


class Examination:
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
        self._left_out_as: dict[str, list[str]] = {kind: [] for kind in LEFT_OUT}
        self._read: dict[str, list[str]] = {name: [] for name in FINDINGS} | {"linked_folders": [*linked]}
        self._first: dict[str, tuple[str, int]] = {}  # image id and label by the sum of the bytes
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
        try:
            with pixels.opened(item.data, item.image_id) as image:
                sixteen_bits = pixels.has_sixteen_bits(image)
                pixels.from_pillow(image)  # a file may break off anywhere
                turned, transparent = pixels.turned(image), pixels.transparent(image)
                seen = ImageOps.exif_transpose(image) if turned and self._upright else image
                by_xmp = pixels.is_turned_by_xmp(image)
                width, height = seen.size
                # MPO: the photo and its previews, as phones write it.
                animated = image.format != "MPO" and getattr(image, "n_frames", 1) > 1
            mask = item.truth
            truth = None if mask is None else drawn_masks.decode_mask(mask, f"mask of {item.image_id}")
        except drawn_masks.NoMaskError:
            raise
        except UserError as error:
            return self.leaves_out(item.image_id, getattr(error.__cause__, "kind", "unreadable"), str(error))
        if truth is not None and truth.shape != (height, width):
            across = turned and truth.shape == (width, height)
            hint = "" if not across else TURN_MASK if self._upright else TURN_PHOTO
            reason = (
                f"'{item.image_id}': photo and true mask differ in size: the photo is {width}x{height} pixels, the mask"
                f" {truth.shape[1]}x{truth.shape[0]}; save the mask at the photo's size.{hint}"
            )
            return self.leaves_out(item.image_id, "masks_of_another_size", reason)
        self._class_of[item.image_id] = item.class_name
        self.sums[item.image_id] = digest = hashlib.sha256(item.data).hexdigest()
        first, label = self._first.setdefault(digest, (item.image_id, item.label))
        copy, same = first != item.image_id, label == item.label
        for name, found in {
            "turned_by_exif" if self._upright else "rotated_by_exif": turned and not by_xmp,
            "transparent": transparent,
            "animated": animated,
            "rotation_in_xmp": by_xmp,
            "sixteen_bits": sixteen_bits,
            "tiny": min(height, width) < TINY,
            "huge": height * width > HUGE,
            "identical_under_two_labels": copy and self._labelled and not same,
            "identical_within_a_class": copy and self._labelled and same,
            "identical": copy and not self._labelled,
            "photos_without_a_true_mask": truth is None,
        }.items():
            if found:
                of = f" (as {first})" if name.startswith("identical") else ""
                self._read[name].append(item.image_id + of)
        return True

    def leaves_out(self, image_id: str, kind: str, reason: str) -> bool:
        """Note why a photo cannot be used, by a kind of ``LEFT_OUT``; False, as it is not taken."""
        self.left_out[image_id] = reason
        self._left_out_as[kind].append(image_id)
        return False

    @property
    def findings(self) -> dict[str, list[str]]:
        """What was found, by its name in ``FINDINGS``: photos, classes or folders, sorted; nothing of what was not found."""
        sizes = Counter(self._class_of.values()) if self._labelled else {}
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

    def noticed(self) -> Iterator[Oddity]:
        """What was left out, by reason, and what was found among the rest."""
        own = {image_id for ids in self._left_out_as.values() for image_id in ids}
        by_reason = defaultdict(list)
        for image_id, reason in sorted(self.left_out.items()):
            if image_id not in own:
                by_reason[reason].append(image_id)
        for reason, ids in by_reason.items():
            yield Oddity("left_out", "left out", reason, tuple(ids))
        for kind, ids in self._left_out_as.items():
            if ids:
                ids = sorted(ids)
                yield Oddity(kind, f"left out: {LEFT_OUT[kind]}", self.left_out[ids[0]], tuple(ids))
        for name, values in self.findings.items():
            yield Oddity(name, *FINDINGS[name], tuple(values))

    def told(self, name: str, shown: int = SHOWN) -> Iterator[str]:
        """The same as lines for a person, each with so many examples."""
        for oddity in self.noticed():
            yield f"{name}: {oddity.told(shown)}"


def of_parts(left_out: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What was left out of each part of a dataset, in one: names of other parts than the photos say so, and are no photo's."""
    return {
        name if part == "photos" else f"{name} ({part})": reason
        for part, found in left_out.items()
        for name, reason in found.items()
    }
