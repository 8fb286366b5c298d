"""What an audit is asked: which photos, on which backgrounds, and what is measured of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from bgbias.auditing import mask_range
from bgbias.auditing.backgrounds import BackgroundPhotos
from bgbias.auditing.masker import Masks
from bgbias.auditing.photos import PhotoCollection
from bgbias.errors import UserError
from bgbias.evaluation import conditions
from bgbias.evaluation.across_places import LENT
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, View
from bgbias.masks.predictor import MaskPredictor
from bgbias.masks.settings import MaskPolicy

CONDITIONS = (
    CLEAN,
    RANDOM_BACKGROUND,
    "own_inpainted",
    "mixed_same",
    "mixed_rand",
    "only_fg",
    "no_fg",
    "only_bg",
)
# Those that take backgrounds from other photos need to know the photos' classes.
OF_CLASSES = frozenset({"mixed_same", "mixed_rand"})


@dataclass(frozen=True)
class AuditConfig:
    """``draws``: backgrounds per photo. ``attribution``: photos whose maps are made; 0: none. The same for everybody are
    ``objects`` x ``backgrounds``, what is crossed for shares of variance, and the ``policy`` by which masks are trusted.
    """

    draws: int = 5
    attribution: int = 64
    objects: ClassVar[int] = 100
    backgrounds: ClassVar[int] = 10
    policy: ClassVar[MaskPolicy] = MaskPolicy()

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("attribution", 0)):
            if getattr(self, name) < least:
                raise UserError(f"--{name} is {getattr(self, name)}; it is at least {least}.")

    def as_json(self) -> dict[str, Any]:
        """For a program, and for telling whether something was asked before."""
        return {
            "draws": self.draws,
            "conditions": list(CONDITIONS),
            "attribution": self.attribution,
            "objects": self.objects,
            "backgrounds": self.backgrounds,
            "policy": self.policy.model_dump(),
        }


@dataclass(frozen=True)
class Question:
    """What is looked at, on which backgrounds, and what is asked; ``masker`` None: every photo came with its mask. ``command``:
    what a person typed to ask, if she did. ``second``: another segmentation model, whose masks are compared with the first's.
    """

    collection: PhotoCollection
    masker: MaskPredictor | None
    backgrounds: BackgroundPhotos
    asked: AuditConfig
    command: str = ""
    second: MaskPredictor | None = None

    @property
    def views(self) -> tuple[View, ...]:
        """What each photo is seen in: on backgrounds of places, too, where some class was seen in two."""
        labelled = self.collection.labelled
        names = [name for name in CONDITIONS if labelled or name not in OF_CLASSES]
        names += LENT if self.collection.is_across_places else ()
        names += mask_range.CONDITIONS if self.second else ()
        return conditions.views(names, self.asked.draws)

    @cached_property
    def masks(self) -> tuple[Masks, ...]:
        """Those of the masker, or drawn by hand without one; and those of the second one, if there is any."""
        maskers = (self.masker, self.second) if self.second else (self.masker,)
        return tuple(Masks(self.collection, masker) for masker in maskers)

    @property
    def maskers(self) -> list[tuple[str, str]]:
        """The segmentation models' names and keys."""
        return [(masker.kind, masker.key) for masker in (self.masker, self.second) if masker]
