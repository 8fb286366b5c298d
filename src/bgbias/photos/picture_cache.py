"""Pictures decoded and resized once, for every process, epoch, draw, condition and model that wants them at this size.

Who first needs a collection writes its pixels into one file (npy) and an index beside it (npz of ``ids``, ``offsets``,
``shapes`` and ``checks``). Everybody maps the pixels into memory, so that processes share the pages. It is a cache: its name has
a fingerprint of the collection, and it may be deleted. A picture's checksum is compared when a process first reads it.
docs/speed.md has what that buys.
"""

import hashlib
import itertools
import math
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import PIL

from bgbias import progress
from bgbias.compute.device import threads
from bgbias.errors import UserError
from bgbias.files import code
from bgbias.files.atomic import replacing
from bgbias.files.locks import hold_lock
from bgbias.files.store import ImageStore
from bgbias.images import pixels

PER_CHUNK = 64  # pictures that are made ahead of being written
ROOM_TO_LEAVE = 2**28  # bytes of the disk

Change = Callable[[np.ndarray], np.ndarray]
_UNREADABLE = (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError)


class Pictures:
    """Read access to prepared pictures by image id, or by their place; the arrays are read-only views of the mapped file."""

    def __init__(self, path: Path) -> None:
        with np.load(path.with_suffix(".npz")) as index:
            self.ids: list[str] = index["ids"].tolist()
            self.shapes: list[tuple[int, ...]] = list(map(tuple, index["shapes"].tolist()))
            self._offsets, self._checks = index["offsets"].tolist(), index["checks"].tolist()
        self._pixels = np.asarray(np.load(path, mmap_mode="r"))
        self._rows = {image_id: row for row, image_id in enumerate(self.ids)}
        self.name = path.name  # which no other pictures have
        self._path, self._intact = path, bytearray(len(self.ids))

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._rows

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.__getitem__, range(len(self)))

    def row(self, image_id: str) -> int:
        """The picture's place in the collection's order; an unknown id is a KeyError."""
        return self._rows[image_id]

    def get(self, image_id: str) -> np.ndarray:
        """The picture, uint8 [H, W, 3] or [H, W]; an unknown id is a KeyError."""
        return self[self._rows[image_id]]

    def __getitem__(self, row: int) -> np.ndarray:
        """The picture at a place in the collection's order; an error if it is not what was written."""
        shape = self.shapes[row]
        start = self._offsets[row]
        levels = self._pixels[start : start + math.prod(shape)]
        if not self._intact[row]:
            if zlib.crc32(levels.data) != self._checks[row]:
                raise UserError(
                    f"'{self.ids[row]}' is damaged in {self._path}, which is a cache: delete it and run the same command again."
                )
            self._intact[row] = True
        return levels.reshape(shape)


def pictures(
    store: Path, side: int, folder: Path, mode: str = "RGB", change: Change | None = None, tag: str = ""
) -> Pictures:
    """The pictures of a store at short side ``side``, prepared in ``folder`` unless they are there already.

    ``mode``: RGB or L. ``change``, which ``tag`` names, is applied to the decoded picture before it is resized. A second process
    waits for the first. A picture that cannot be decoded and a disk without the room are errors.
    """
    source = ImageStore(store)
    family = f"{store.stem}{tag}-{side}"
    identity = f"{_fingerprint(change)}|{PIL.__version__}|{mode}|{tag}|{side}|{source.fingerprint}"

    def sizes() -> list[tuple[int, ...]]:
        channels = (3,) if mode == "RGB" else ()
        of_files = (pixels.size(source.read(i), i) for i in source.ids)
        return [(*pixels.resized_shape(h, w, side), *channels) for h, w in of_files]

    def decoded(image_id: str) -> np.ndarray:
        picture = source.array(image_id, mode)
        return pixels.resize_short(change(picture) if change else picture, side)

    label = f"{store} at short side {side}"
    return prepare(folder, family, identity, label, source.ids, sizes, decoded)


def combined(
    name: str,
    folder: Path,
    photos: Pictures,
    masks: Pictures,
    make: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Pictures:
    """``make(photo, mask)`` of every photo that has a mask, as large as the photo, prepared under ``name`` in ``folder``."""
    ids = [image_id for image_id in photos.ids if image_id in masks]

    def combine(image_id: str) -> np.ndarray:
        photo, mask = photos.get(image_id), masks.get(image_id)
        check_mask(image_id, mask.shape, photo.shape)
        return make(photo, mask)

    shapes = [photos.shapes[photos.row(image_id)] for image_id in ids]
    identity = f"{_fingerprint(make)}|{photos.name}|{masks.name}"
    return prepare(folder, name, identity, f"{folder.name}/{name}", ids, lambda: shapes, combine)


def check_mask(image_id: str, mask: tuple[int, ...], photo: tuple[int, ...]) -> None:
    """Refuse a mask of another shape than its photo's."""
    if mask != photo[:2]:
        raise UserError(f"The mask of '{image_id}' is {mask}, its photo {photo[:2]}; remake the masks.")


def _fingerprint(change: Callable[..., np.ndarray] | None) -> str:
    changed_by = getattr(change, "func", change).__module__ if change else __name__
    return code.fingerprint(__name__, changed_by if changed_by.startswith("bgbias.") else __name__)


def prepare(
    folder: Path,
    family: str,
    identity: str,
    label: str,
    ids: Sequence[str],
    shapes: Callable[[], Sequence[tuple[int, ...]]],
    picture: Callable[[str], np.ndarray],
) -> Pictures:
    """The pictures of a family that ``identity`` names, made unless they are there; those of another identity are deleted.

    ``picture`` makes one, uint8, from its id, in threads; ``shapes`` says how large each is. What a killed process wrote stays.
    """
    path = folder / f"{family}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.npy"
    try:
        return Pictures(path)
    except _UNREADABLE:  # absent, or damaged as by a power cut
        folder.mkdir(parents=True, exist_ok=True)
    waiting = f"waits for another process, which prepares {label}"
    with hold_lock(folder / f".{family}.lock", waiting=waiting):
        try:
            return Pictures(path)  # another process has prepared it meanwhile
        except _UNREADABLE:
            partial = path.with_name(f".{path.name}.partial")
            for other in (*folder.glob(f"{family}-*.np[yz]"), *folder.glob(f".{family}-*.partial")):
                if other != partial:
                    other.unlink()
            try:
                _write(path, partial, label, ids, np.array(shapes(), np.int64), picture)
            except Exception:  # what a signal interrupts is gone on with, and what fails is not
                partial.unlink(missing_ok=True)
                raise
            return Pictures(path)


def _write(
    path: Path,
    partial: Path,
    label: str,
    ids: Sequence[str],
    shapes: np.ndarray,
    picture: Callable[[str], np.ndarray],
) -> None:
    lengths = shapes.prod(axis=1) if len(shapes) else np.zeros(0, np.int64)
    total = int(lengths.sum())
    checks = _resume(partial, lengths)
    free = shutil.disk_usage(path.parent).free + partial.stat().st_size
    if (missing := total + ROOM_TO_LEAVE - free) > 0:
        size = progress.size
        raise UserError(
            f"{len(ids)} pictures of {label} take {size(total)}, and {size(ROOM_TO_LEAVE)} are kept free; {path.parent} has"
            f" {size(free)}: {size(missing)} are missing. Free them, or name a larger disk: as paths.work in params.yaml,"
            " or by an audit's --out."
        )

    def encoded(image_id: str) -> bytes:
        return picture(image_id).tobytes()

    missing_ids = ids[len(checks) :]
    chunks = [missing_ids[i : i + PER_CHUNK] for i in range(0, len(missing_ids), PER_CHUNK)]
    with partial.open("ab") as file, ThreadPoolExecutor(threads()) as workers:
        results = itertools.chain.from_iterable(zip(c, workers.map(encoded, c), strict=True) for c in chunks)
        for image_id, data in progress.track(results, len(missing_ids), label):
            if len(data) != lengths[len(checks)]:
                raise UserError(f"'{image_id}' is not as large as its header says; replace this picture.")
            file.write(data)
            checks.append(zlib.crc32(data))
        file.flush()
        # Before the name appears: after a power cut it would stand for pictures that are black.
        os.fsync(file.fileno())
    partial.replace(path)
    # Last, as nothing is read without it.
    with replacing(path.with_suffix(".npz")) as temporary, temporary.open("wb") as file:
        index = {"ids": np.array(ids, str), "offsets": np.cumsum(lengths) - lengths, "shapes": shapes}
        np.savez(file, **index, checks=np.array(checks, np.uint32))  # type: ignore[arg-type]


def _resume(partial: Path, lengths: np.ndarray) -> list[int]:
    """The checksums of the whole pictures in an unfinished file, which ends behind them then; begins one that is not there."""
    checks: list[int] = []
    with partial.open("r+b" if partial.exists() else "w+b") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (int(lengths.sum()),)}
        np.lib.format.write_array_header_1_0(file, header)
        end = file.tell()
        for length in lengths.tolist():
            data = file.read(length)
            if len(data) < length:
                break
            checks.append(zlib.crc32(data))
            end += length
        file.truncate(end)
    return checks
