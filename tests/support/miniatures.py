"""Replicas of datasets in their official formats: every list, annotation and folder, with few tiny pictures.

``COUNTS`` are the counts of the replicas, which a dataset's file is to have in place of the official ones.
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.io import savemat

from bgbias import plugins
from bgbias.datasets import _imagenet
from bgbias.datasets.cars196 import NAMES
from bgbias.images import pixels
from bgbias.photos.table import Item

Files = dict[str, bytes]

STL10_COUNTS = {"train": 30, "test": 20, "unlabeled": 40}
# By module of bgbias.datasets.
COUNTS: dict[str, dict[str, Any]] = {
    "cars196": {"PHOTOS": 588, "TEST_PHOTOS": 294},
    "sop": {"COUNTS": {"Ebay_train.txt": (5, 3), "Ebay_test.txt": (4, 2)}, "FIRST_VAL_CLASS": 2},
    "stl10": {"COUNTS": STL10_COUNTS},
    "_imagenet": {"TRAIN": 300, "VALIDATION": 2},
    "market1501": {"TRAIN": 8, "QUERIES": 2, "GALLERY": 5},
    "cuhk03": {"NEW": {"detected": (6, 2, 3), "labeled": (6, 2, 3)}, "TESTED": 2},
}


@cache
def _dot(kind: str, mode: str, *levels: int) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (2, 2), levels).save(stream, kind)
    return stream.getvalue()


def jpeg(number: int) -> bytes:
    """A picture whose bytes are its own; every tenth is grey, as some of the official ones are."""
    dot = _dot("JPEG", "RGB", 128, 128, 128) if number % 10 else _dot("JPEG", "L", 128)
    return dot + number.to_bytes(4, "big")


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


def deliver(kind: str, parts: Path | dict[str, Path], **options: Any) -> dict[str, Item]:
    """What a dataset makes of its fetched parts, or of its photos alone, by id."""
    module = plugins.load("datasets", kind)
    parts = parts if isinstance(parts, dict) else {"photos": parts}
    found = list(module.items(module.Params.model_validate(options), parts, "mine"))
    assert len({i.image_id for i in found}) == len(found)
    return {i.image_id: i for i in found}


# Photos a class: five classes in the official layout, listed by class as the original is.
BIRDS = {"001.Black_footed_Albatross": 4, "002.Laysan": 3, "003.Sooty": 2, "004.Ani": 1, "005.Auklet": 3}
LISTED_BIRDS = [f"{name}/{name[4:]}_{n:04d}.jpg" for name, count in BIRDS.items() for n in range(count)]
BIRDS_SPLIT = {"classes": 5, "split": {"train": (0, 2), "val": (2, 3), "test": (3, 5)}}


def cub_files() -> Files:
    """``CUB_200_2011.tgz`` of five classes, in an order that is not that of images.txt, with a photo that it does not list."""
    numbers = list(enumerate(LISTED_BIRDS, 1))
    files = {f"CUB_200_2011/images/{path}": jpeg(n) for n, path in reversed(numbers)}
    files["CUB_200_2011/images/001.Black_footed_Albatross/unlisted.jpg"] = b"not in images.txt"
    files["CUB_200_2011/images.txt"] = "".join(f"{n} {path}\n" for n, path in numbers).encode()
    files["CUB_200_2011/image_class_labels.txt"] = "".join(f"{n} {int(p[:3])}\n" for n, p in numbers).encode()
    return files | {"CUB_200_2011/attributes/images.txt": files["CUB_200_2011/images.txt"]}


def cub_masks() -> Files:
    """A mask of its own for each photo; one is grey with transparency, as some official ones are."""
    dots = [_dot("PNG", "L", 255)] * len(LISTED_BIRDS)
    dots[7] = _dot("PNG", "LA", 255, 255)
    masks = {path: dot + path.encode() for path, dot in zip(LISTED_BIRDS, dots, strict=True)}
    return {f"segmentations/{path.replace('.jpg', '.png')}": data for path, data in masks.items()}


# Class from 0, whether an official test photo, picture: three photos of each class.
CARS = tuple((n // 3, n % 2 == 1, n) for n in range(588))
BOX = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"]


def _matlab(values: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    savemat(stream, values)
    return stream.getvalue()


def _annotations(fields: list[str], rows: Iterable[tuple[object, ...]]) -> np.ndarray:
    """A MATLAB struct array, 1 x n."""
    return np.array([list(rows)], dtype=[(f, object) for f in fields])


@cache
def cars_annos() -> bytes:
    """``cars_annos.mat``."""
    rows = [(f"car_ims/{i:06d}.jpg", 0, 0, 1, 1, c + 1, int(test)) for i, (c, test, _) in enumerate(CARS, 1)]
    names = np.array(NAMES, dtype=object).reshape(1, -1)
    annotations = _annotations(["relative_im_path", *BOX, "class", "test"], rows)
    return _matlab({"annotations": annotations, "class_names": names})


def cars_joint() -> Files:
    """``car_ims.tgz`` and ``cars_annos.mat``."""
    photos = {f"car_ims/{i:06d}.jpg": jpeg(n) for i, (_, _, n) in enumerate(CARS, 1)}
    return photos | {"cars_annos.mat": cars_annos()}


@cache
def cars_split() -> dict[str, Files]:
    """``cars_train.tgz``, ``cars_test.tgz``, ``car_devkit.tgz`` and the test photos' labels: shuffled, numbered anew."""
    made: dict[str, Files] = {}
    mats = []
    for folder, tested in (("cars_train", False), ("cars_test", True)):
        shuffled = [CARS[i] for i in np.random.default_rng(0).permutation(len(CARS)) if CARS[i][1] == tested]
        made[folder] = {f"{folder}/{i:05d}.jpg": jpeg(n) for i, (_, _, n) in enumerate(shuffled, 1)}
        rows = [(0, 0, 1, 1, f"{i:05d}.jpg", c + 1) for i, (c, _, _) in enumerate(shuffled, 1)]
        mats.append(_matlab({"annotations": _annotations([*BOX, "fname", "class"], rows)}))
    unlabelled = _matlab({"annotations": _annotations([*BOX, "fname"], [row[:-1] for row in rows])})
    made["devkit"] = {"devkit/cars_train_annos.mat": mats[0], "devkit/cars_test_annos.mat": unlabelled}
    return made | {"labels": {"cars_test_annos_withlabels.mat": mats[1]}}


def cars_by_class() -> Files:
    """A re-upload with a folder for each class below ``train`` and ``test``; a folder's name can hold no slash."""
    return {
        f"car_data/{'test' if test else 'train'}/{NAMES[c].replace('/', '-')}/{n:05d}.jpg": jpeg(n)
        for c, test, n in CARS
    }


def sop_files() -> Files:
    """Nine photos in the official layout, the lists last."""
    photos = [(n, c, f"chair_final/{c}_{n}.JPG") for n, c in enumerate((1, 1, 2, 3, 3, 4, 4, 5, 5), 1)]
    files = {f"Stanford_Online_Products/{path}": jpeg(5 * n) for n, _, path in photos}
    for file, listed in (("Ebay_train.txt", photos[:5]), ("Ebay_test.txt", photos[5:])):
        lines = ["image_id class_id super_class_id path", *(f"{n} {c} 1 {path}" for n, c, path in listed)]
        files[f"Stanford_Online_Products/{file}"] = "\n".join(lines).encode()
        files[f"__MACOSX/{file}"] = b"junk"
    return files


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


TENCH = "n01440764"  # of ImageNet and not of ImageNet-100
OF_IMAGENET = (*_imagenet.CLASSES, TENCH)


def class_folders(
    prefix: str, each: int, classes: tuple[str, ...] = OF_IMAGENET, ending: str = "JPEG"
) -> Files:
    photos = product(enumerate(classes), range(each))
    return {f"{prefix}{wnid}/{wnid}_{n}.{ending}": jpeg(100 * c + n) for (c, wnid), n in photos}


# What each set's folder or archive holds, with other photos of ImageNet beside those that are meant.
IMAGENET: dict[str, Files] = {
    "imagenet100": class_folders("imagenet/train/", 3)
    | class_folders("imagenet/val/", 2)
    | class_folders("imagenet/test/", 1),
    "imagenet_sketch": class_folders("sketch/", 2),
    "imagenet_r": class_folders("imagenet-r/", 2, (*_imagenet.CLASSES[:7], TENCH), "jpg"),
    "imagenet_stylized": class_folders("stylized/train/", 1)
    | class_folders("stylized/val/", 2, ending="png"),
    "imagenet_c": class_folders("c/snow/5/", 2)
    | class_folders("c/snow/4/", 1)
    | class_folders("c/frost/5/", 1),
}


def box(number: int) -> bytes:
    """An upright box around a person, eight pixels high and four wide."""
    return pixels.encode_png(np.full((8, 4, 3), number % 256, np.uint8))


def market_files() -> Files:
    """Four persons to train by two cameras, two to test, a distractor and a junk box, and what lies beside them."""
    names = [f"bounding_box_train/{p:04d}_c{c}s1_{p}{c}_00.jpg" for p in (2, 7, 10, 11) for c in (1, 2)]
    names += [f"query/{p:04d}_c1s1_{p}_00.jpg" for p in (1, 3)]
    names += [f"bounding_box_test/{p:04d}_c{c}s1_{p}{c}_01.jpg" for p in (1, 3) for c in (1, 4)]
    names += ["bounding_box_test/0000_c3s1_5_01.jpg", "bounding_box_test/-1_c3s1_6_01.jpg"]
    names += ["gt_bbox/0001_c1s1_1_00.jpg"]
    files = {f"Market-1501-v15.09.15/{name}": box(n) for n, name in enumerate(names)}
    return files | {"Market-1501-v15.09.15/bounding_box_train/Thumbs.db": b"junk"}


# Pair, person in it, view, number; the first four persons train by the new protocol.
CUHK = [
    *((1, 1, 1, 1), (1, 1, 2, 6), (1, 2, 1, 1), (1, 3, 2, 6), (2, 1, 1, 1), (2, 1, 2, 6)),
    *((1, 4, 1, 1), (1, 4, 2, 6), (2, 2, 1, 1), (2, 2, 2, 6), (2, 2, 2, 7)),
]
CUHK_PERSONS = [1, 1, 2, 3, 844, 844, 4, 4, 845, 845, 845]
CUHK_SPLITS = [[(1, 1), (1, 4)], [(1, 2), (2, 2)]]  # persons to test


def cuhk_name(photo: tuple[int, int, int, int]) -> str:
    """As toolboxes write it."""
    pair, person, view, number = photo
    return f"{pair}_{person:03d}_{view}_{number:02d}.png"


def cuhk_list() -> bytes:
    """The new protocol's configuration."""
    return _matlab(
        {
            "filelist": np.array([[cuhk_name(p)] for p in CUHK], object),
            "labels": np.array(CUHK_PERSONS, float)[:, None],
            "train_idx": np.arange(1, 7)[:, None],
            "query_idx": np.array([[7], [9]]),
            "gallery_idx": np.array([[8], [10], [11]]),
        }
    )


def cuhk_files() -> Files:
    """Pictures of both kinds of boxes as toolboxes write them, the new protocol's configuration, and two classic splits."""
    names = {cuhk_name(p): box(n) for n, p in enumerate(CUHK)}
    files = {
        f"cuhk03/images_{b}/{name}": data for b in ("detected", "labeled") for name, data in names.items()
    }
    queries = [[[f"C:\\data\\{cuhk_name(p)}", 0, p[2] - 1] for p in CUHK if p[:2] in s] for s in CUHK_SPLITS]
    splits = [{"query": of_split} for of_split in queries]
    return files | {
        "cuhk03/cuhk03_new_protocol_config_detected.mat": cuhk_list(),
        "cuhk03/splits_classic_detected.json": json.dumps(splits).encode(),
    }


def cuhk_release(path: Path) -> Path:
    """cuhk-03.mat as MATLAB writes it: 512 bytes of its own, axes reversed, cells as references, no photo as a list of sizes.

    Two pairs of cameras; a person's ten places hold photos 1 to 5 of the first camera and 6 to 10 of the second.
    """
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        kept = file.create_group("#refs#")

        def cell(content: Any) -> Any:
            return kept.create_dataset(str(len(kept)), data=content).ref

        for boxes in ("detected", "labeled"):
            pairs = []
            for pair in (1, 2):
                persons = max(p[1] for p in CUHK if p[0] == pair)
                places = np.empty((10, persons), h5py.ref_dtype)
                for person, number in np.ndindex(persons, 10):
                    photo = (pair, person + 1, 1 if number < 5 else 2, number + 1)
                    content = np.zeros(2, np.uint64)
                    if photo in CUHK:
                        content = pixels.decode(box(CUHK.index(photo)), "box").transpose(2, 1, 0)
                    places[number, person] = cell(content)
                pairs.append(cell(places))
            file[boxes] = np.array([pairs], h5py.ref_dtype)
        file["testsets"] = np.array([[cell(np.array(s, float).T) for s in CUHK_SPLITS]], h5py.ref_dtype)
    data = path.read_bytes()
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + data[512:])
    return path
