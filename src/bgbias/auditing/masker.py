"""The masks of an audit's photos: drawn by somebody, kept from before, or made by a masker that is found by its name."""

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from bgbias import plugins
from bgbias.auditing.photos import PhotoCollection
from bgbias.auditing.prepared_photos import PreparedPhotos
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.images import drawn_masks
from bgbias.masks import quality
from bgbias.masks.mask_cache import KeptMasks
from bgbias.masks.policy import Mask
from bgbias.masks.predictor import MaskPredictor, find_weights
from bgbias.report import prose
from bgbias.settings import Strict, validate

SENTENCES = "text.j2"
FOLDER = "masks"
OF_SECOND = "--second-mask-weights"
NO_NETWORK = "; or do without a network: --masker grabcut"


def open_cache(masker: MaskPredictor, upright: bool) -> KeptMasks:
    """The masks that it has made, whatever for, of photos that were turned as their EXIF says or not."""
    stored = "" if upright else "-as-stored"
    return KeptMasks(places.cache() / FOLDER / f"{masker.kind}-{masker.key}{stored}")


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """``mean=0.5,0.5,0.5`` and the like as options of a masker; one without a value is a UserError."""
    options = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not value:
            raise UserError(f"--mask-option {text} has no value; write e.g. --mask-option mean=0.5,0.5,0.5")
        options[name] = yaml.safe_load(f"[{value}]" if "," in value else value)
    return options


def check(
    name: str,
    weights: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    by: str = "--mask-weights",
) -> None:
    """Refuse a masker that does not exist or does not predict, and weights (of the option ``by``) or options that do not fit."""
    module = plugins.load("maskers", name)
    if not module.PREDICTS:
        able = [n for n in plugins.names("maskers") if plugins.load("maskers", n).PREDICTS]
        raise UserError(
            f"Masker '{name}' does not look at photos. Drawn masks come by --masks FOLDER; maskers are {', '.join(able)}."
        )
    if weights and "weights" not in module.Params.model_fields:
        raise UserError(f"Masker '{name}' has no weights; leave out {by}.")
    if weights and not Path(weights).is_file():
        raise UserError(f"{by} {weights}: there is no such file.")
    validate(module.Params, options or {}, Path("--mask-option"), f"maskers.{name}")


def find(
    name: str,
    weights: str | Path | None,
    device: str,
    options: Mapping[str, Any] | None = None,
    by: str = "--mask-weights",
) -> MaskPredictor:
    """The masker of this name, with ``weights`` or published ones (``find_weights``); ``check`` refuses what does not fit."""
    check(name, weights, options, by)
    params: type[Strict] = plugins.load("maskers", name).Params
    chosen = dict(options or {})
    if "weights" in params.model_fields:
        chosen["weights"] = str(weights or find_weights(name, by, NO_NETWORK))
    return MaskPredictor(name, params.model_validate(chosen), device)


def find_second(
    name: str, weights: str | Path | None, device: str, first: MaskPredictor | None
) -> MaskPredictor:
    """The same of ``--second-masker``; what makes the masks of the ``first`` again, or of drawn ones, tells nothing."""
    if first is None:
        raise UserError("All photos have drawn masks, which are taken as right: leave out --second-masker.")
    second = find(name, weights, device, by=OF_SECOND)
    if second.key == first.key:
        raise UserError(
            f"{name} masks these photos already; name another one by --second-masker, e.g. isnet."
        )
    return second


def load(masker: MaskPredictor) -> Any:
    """``MaskPredictor.build``, whose errors name the command's option: maskers are a study's as well, and name its file."""
    try:
        return masker.build()
    except UserError as error:
        text = re.sub(r"['`]weights['`]( in params\.yaml)?", "--mask-weights", str(error))
        raise UserError(text) from error


BY_HAND = "drawn by hand"
FIRST = 8  # photos to warm up by: as many as the networks take at once
TRIED = 8  # photos by whose time that of all is told


class Masks:
    """Of every photo of ``collection``; ``masker`` None: each came with its own."""

    def __init__(self, collection: PhotoCollection, masker: MaskPredictor | None) -> None:
        self._collection, self._masker = collection, masker
        self._cache = open_cache(masker, collection.upright) if masker else None

    @property
    def missing(self) -> list[str]:
        """Photos whose masks are to be made; nothing is decoded for it."""
        drawn = set(self.drawn_ids)
        return [i for i in self._collection.table.ids if i not in drawn and not self.is_cached(i)]

    @property
    def drawn_ids(self) -> list[str]:
        """Photos whose masks somebody drew."""
        return [i for i in self._collection.table.ids if self._collection.has_truth(i)]

    @property
    def makers(self) -> str:
        """Who made them."""
        ids, drawn = self._collection.table.ids, len(self.drawn_ids)
        if self._masker is None:
            return f"{drawn} {BY_HAND}"
        name = self._masker.kind
        return f"{drawn} {BY_HAND}, {len(ids) - drawn} by {name}" if drawn else name

    def seconds_each(self) -> float:
        """What a mask takes, of a few of those that are missing, which are there now; next to 0 if all are."""
        missing = self.missing[: FIRST + TRIED]
        list(self.make(missing[:FIRST]))
        began = time.perf_counter()
        list(self.make(missing[FIRST:]))
        return (time.perf_counter() - began) / max(1, len(missing) - FIRST)

    def make(self, ids: Sequence[str]) -> Iterator[str]:
        """Mask photos; yields the key of each when its mask is on the disk. Photos of the same bytes have one mask."""
        new = {self._sum(i): i for i in ids if not self.is_cached(i)}
        if new and self._cache is not None:
            yield from self._cache.make(self._network, new, self._collection.decode)

    def find(self, image_id: str) -> Mask | None:
        """A photo's own, else the masker's; None where there is neither."""
        drawn = self._collection.truth(image_id)
        if drawn is not None:
            return Mask(drawn_masks.decode_mask(drawn, f"mask of {image_id}"), math.nan)
        return self.find_predicted(image_id) if self._cache else None

    def find_predicted(self, image_id: str) -> Mask:
        """The masker's, which was made, whether somebody drew one or not."""
        assert self._cache is not None
        return self._cache.read(self._sum(image_id))

    @cached_property
    def _network(self) -> Any:
        assert self._masker is not None
        return load(self._masker)

    def is_cached(self, image_id: str) -> bool:
        """Whether the masker's mask of a photo is there."""
        # Without a masker there is nothing to wait for.
        return self._cache is None or self._sum(image_id) in self._cache

    def _sum(self, image_id: str) -> str:
        return self._collection.sums[image_id][0]


def describe_masks(
    prepared: PreparedPhotos, usable: frozenset[str], ids: Sequence[str], *maskers: MaskPredictor | None
) -> tuple[str, ...]:
    """What is to be said of masks, what was guessed of the ``maskers`` first; none that can be trusted is an error."""
    masks, count = prepared.qualities, len(ids)
    empty, full = int(masks["empty"].sum()), int(masks["full"].sum())
    of_lost = {"empty": empty, "full": full, "absent": count - len(masks)}
    if len(usable) < 2:
        lost = " ".join(prose.fill_macro(SENTENCES, "lost_masks", **of_lost))
        raise UserError(
            f"Of {count} photos {len(usable)} have a mask that can be trusted ({lost}). Name another masker by --masker, or draw"
            " masks and name their folder by --masks."
        )
    shown = prepared.masks
    unseen = sum(shown.get(i).mean() / 255 < quality.EMPTY_BELOW for i in usable)
    guesses = "; ".join(dict.fromkeys(masker.guesses for masker in maskers if masker and masker.guesses))
    remarks = {"guesses": guesses, "lost": count - len(usable), "photos": count, "unseen": unseen, **of_lost}
    return tuple(prose.fill_macro(SENTENCES, "mask_remarks", **remarks))
