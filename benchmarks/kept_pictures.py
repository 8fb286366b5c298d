"""How decoded pictures are kept: raw pixels in a mapped file, small JPEGs, or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from benchmarks import Contender, Figure, Measured

TITLE = "a photo at short side 256, from where it is kept; one thread"
DEVICES = ("cpu",)
THREADS = 1
RAW, SMALL, DECODED = "raw pixels, mapped", "JPEG of 256 pixels, quality 95", "decoded and resized each time"
SOP_PHOTOS = 120_053


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from PIL import Image

    from benchmarks import _album
    from bgbias.images import pixels
    from bgbias.photos import picture_cache

    made = _album.album(2 if tiny else 64, 1)
    kept = picture_cache.pictures(made.folder / "photos.zip", _album.SIDE, made.folder)
    encoded = [(p.read_bytes(), p.name) for p in made.photos]
    small = []
    for picture in kept:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=95)
        small.append(buffer.getvalue())
    shown = [pixels.decode(data, "small").astype(int) for data in small]
    apart = float(np.mean([np.abs(a - b).mean() for a, b in zip(shown, kept, strict=True)]))

    def raw() -> tuple[float, float]:
        # Every pixel is read once: a mapped file is not read before.
        for row in range(len(kept)):
            kept[row].sum(dtype=np.uint32)
        return float(np.mean([p.nbytes for p in kept])), 0.0

    def jpeg() -> tuple[float, float]:
        for data in small:
            pixels.decode(data, "small")
        return float(np.mean([len(data) for data in small])), apart

    def decoded() -> tuple[float, float]:
        for data, name in encoded:
            pixels.resize_short(pixels.decode(data, name), _album.SIDE)
        return float(np.mean([len(data) for data, _ in encoded])), 0.0

    yield Contender(RAW, "ours", raw)
    yield Contender(SMALL, "peer", jpeg)
    yield Contender(DECODED, "peer", decoded)


def judge(measured: Measured) -> list[Figure]:
    photos = 2 if measured.tiny else 64
    figures = []
    for name in (RAW, SMALL, DECODED):
        size, apart = measured.results[name]
        figures += [
            measured.rate(f"photos/s, {name}", name, photos, "/s"),
            Figure(f"disk for SOP's {SOP_PHOTOS:,} photos, {name}", [size * SOP_PHOTOS / 1e9], unit="GB"),
            Figure(f"grey levels away, {name}", [apart]),
        ]
    return figures
