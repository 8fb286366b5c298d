"""Replicas of datasets in their official formats: every list, annotation and folder, with a tiny picture for each photo.

Counts by class add up to the official ones; how many photos a single class has is made up.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from bgbias.datasets.cars196 import NAMES

Files = dict[str, bytes]


@cache
def _dot(mode: str) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (2, 2), 128).save(stream, "JPEG")
    return stream.getvalue()


def jpeg(number: int) -> bytes:
    """A picture whose bytes are its own; every tenth is grey, as some of the official ones are."""
    return _dot("L" if number % 10 == 0 else "RGB") + number.to_bytes(4, "big")


def spread(photos: int, classes: int) -> list[int]:
    """Photos a class, as even as can be."""
    return [photos // classes + (c < photos % classes) for c in range(classes)]


def as_tar(path: Path, files: Files) -> Path:
    """A compressed tar, as most official archives are."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def as_zip(path: Path, files: Files) -> Path:
    """A zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


class _MacInfo(zipfile.ZipInfo):
    """A member whose name is UTF-8 without the flag that says so, as the Finder writes it."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode(), self.flag_bits


def as_mac_zip(path: Path, files: Files) -> Path:
    """A zip as the Finder writes it, with its own file beside each."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(_MacInfo(name), data)
            archive.writestr(_MacInfo(f"__MACOSX/{name}"), b"")
    return path


def as_folder(path: Path, files: Files) -> Path:
    """Unpacked."""
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


@cache
def cub_files() -> Files:
    """``CUB_200_2011.tgz``: 200 classes, 5,864 photos in the first hundred and 5,924 in the other."""
    counts = spread(5_864, 100) + spread(5_924, 100)
    listed = [
        f"{c + 1:03d}.Bird_{c}/Bird_{c}_{n:04d}.jpg" for c, count in enumerate(counts) for n in range(count)
    ]
    files = {f"CUB_200_2011/images/{p}": jpeg(n) for n, p in enumerate(listed)}
    files["CUB_200_2011/images.txt"] = "".join(f"{n} {p}\n" for n, p in enumerate(listed, 1)).encode()
    labels = "".join(f"{n} {int(p[:3])}\n" for n, p in enumerate(listed, 1))
    return files | {"CUB_200_2011/image_class_labels.txt": labels.encode()}


@cache
def cub_segmentations() -> Files:
    """``segmentations.tgz``, a mask for each photo; some are grey with transparency, as in the official one."""
    masks = {}
    for mode in ("L", "LA"):
        stream = io.BytesIO()
        Image.new(mode, (2, 2), 255 if mode == "L" else (255, 255)).save(stream, "PNG")
        masks[mode] = stream.getvalue()
    photos = [n for n in cub_files() if n.endswith(".jpg")]
    return {
        n.replace("CUB_200_2011/images", "segmentations").replace(".jpg", ".png"): masks[
            "LA" if i == 7 else "L"
        ]
        for i, n in enumerate(photos)
    }


@cache
def cars() -> tuple[tuple[int, bool, int], ...]:
    """(class from 0, whether official test photo, picture) of all 16,185 photos: 8,054 in 98 classes and 8,131 in the others,
    8,041 test photos.
    """
    counts = spread(8_054, 98) + spread(8_131, 98)
    labels = [c for c, count in enumerate(counts) for _ in range(count)]
    return tuple((c, (n + 1) * 8_041 // 16_185 > n * 8_041 // 16_185, n) for n, c in enumerate(labels))


def _matlab(values: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    savemat(stream, values)
    return stream.getvalue()


def _annotations(fields: list[str], rows: Iterable[tuple[object, ...]]) -> np.ndarray:
    """A MATLAB struct array, 1 x n."""
    rows = list(rows)
    made = np.zeros((1, len(rows)), dtype=[(f, object) for f in fields])
    for n, row in enumerate(rows):
        made[0, n] = row
    return made


BOX = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"]


@cache
def cars_annos() -> bytes:
    """``cars_annos.mat``."""
    rows = [
        (f"car_ims/{i:06d}.jpg", 0, 0, 1, 1, c + 1, int(test)) for i, (c, test, _) in enumerate(cars(), 1)
    ]
    names = np.array(NAMES, dtype=object).reshape(1, -1)
    annotations = _annotations(["relative_im_path", *BOX, "class", "test"], rows)
    return _matlab({"annotations": annotations, "class_names": names})


@cache
def car_ims() -> Files:
    """``car_ims.tgz``."""
    return {f"car_ims/{i:06d}.jpg": jpeg(n) for i, (_, _, n) in enumerate(cars(), 1)}


@cache
def cars_split() -> dict[str, Files]:
    """``cars_train.tgz``, ``cars_test.tgz``, ``car_devkit.tgz`` and the test photos' labels: shuffled, numbered anew."""
    made: dict[str, Files] = {}
    mats = {}
    for folder, tested in (("cars_train", False), ("cars_test", True)):
        chosen = [car for car in cars() if car[1] == tested]
        order = np.random.default_rng(int(tested)).permutation(len(chosen))
        shuffled = [chosen[i] for i in order]
        made[folder] = {f"{folder}/{i:05d}.jpg": jpeg(n) for i, (_, _, n) in enumerate(shuffled, 1)}
        rows = [(0, 0, 1, 1, c + 1, f"{i:05d}.jpg") for i, (c, _, _) in enumerate(shuffled, 1)]
        mats[folder] = _matlab({"annotations": _annotations([*BOX, "class", "fname"], rows)})
    unlabelled = [(0, 0, 1, 1, n.split("/")[1]) for n in made["cars_test"]]
    made["devkit"] = {
        "devkit/cars_train_annos.mat": mats["cars_train"],
        "devkit/cars_test_annos.mat": _matlab({"annotations": _annotations([*BOX, "fname"], unlabelled)}),
        "devkit/cars_meta.mat": _matlab({"class_names": np.array(NAMES, dtype=object).reshape(1, -1)}),
    }
    made["labels"] = {"cars_test_annos_withlabels.mat": mats["cars_test"]}
    return made


@cache
def cars_by_class() -> Files:
    """A re-upload with a folder for each class below ``train`` and ``test``; a folder's name can hold no slash."""
    return {
        f"car_data/{'test' if test else 'train'}/{NAMES[c].replace('/', '-')}/{n:05d}.jpg": jpeg(n)
        for c, test, n in cars()
    }


@cache
def sop_lists() -> dict[str, str]:
    """``Ebay_train.txt`` and ``Ebay_test.txt`` in full."""
    lists = {}
    first = 0
    for file, photos, classes in (("Ebay_train.txt", 59_551, 11_318), ("Ebay_test.txt", 60_502, 11_316)):
        lines = ["image_id class_id super_class_id path"]
        for c, count in enumerate(spread(photos, classes), first):
            for n in range(count):
                kind = ("bicycle", "cabinet", "chair")[c % 3]
                lines.append(f"{len(lines)} {c + 1} {c % 3 + 1} {kind}_final/{c:012d}_{n}.JPG")
        first += classes
        lists[file] = "\n".join(lines) + "\n"
    return lists


STL10_COUNTS = {"train": 30, "test": 20, "unlabeled": 40}


def stl10_files() -> Files:
    """``stl10_binary.tar.gz``, with fewer photos: of a class's number in turn, noise around its own grey."""
    random = np.random.default_rng(0)
    names = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
    files = {"stl10_binary/class_names.txt": "\n".join(names).encode() + b"\n"}
    for role, count in STL10_COUNTS.items():
        labels = np.arange(count) % len(names)
        photos = 25 * labels[:, None] + random.integers(0, 25, (count, 3 * 96 * 96))
        files[f"stl10_binary/{role}_X.bin"] = photos.astype(np.uint8).tobytes()
        if role != "unlabeled":
            files[f"stl10_binary/{role}_y.bin"] = (labels + 1).astype(np.uint8).tobytes()
    return files
