"""What an audit is asked: which photos, in front of what, and what is measured of them."""

from dataclasses import asdict, dataclass, field
from typing import Any

from bgbias import plugins
from bgbias.auditing.backgrounds import BackgroundPhotos
from bgbias.auditing.photos import PhotoCollection
from bgbias.errors import UserError
from bgbias.evaluation import conditions
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
SAMPLE = 500  # photos, which two cores mask in minutes; intervals over classes hardly widen for it
# Those that take backgrounds or textures from other photos need to know the photos' classes.
OF_CLASSES = frozenset({"mixed_same", "mixed_rand", "mixed_next", "cue_conflict"})


@dataclass(frozen=True)
class Asked:
    """``draws``: backgrounds per photo. ``attribution``: photos whose maps are made. ``objects`` x ``backgrounds``: what is
    crossed for shares of variance. 0 leaves either out. A condition that there is not is refused.
    """

    draws: int = 5
    conditions: tuple[str, ...] = CONDITIONS
    attribution: int = 64
    objects: int = 100
    backgrounds: int = 10
    policy: MaskPolicy = field(default_factory=MaskPolicy)

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("attribution", 0), ("objects", 0), ("backgrounds", 2)):
            if getattr(self, name) < least:
                raise UserError(f"--{name} is {getattr(self, name)}; it is at least {least}.")
        for name in self.conditions:
            plugins.load("conditions", name)
        missing = [name for name in (CLEAN, RANDOM_BACKGROUND) if name not in self.conditions]
        if missing:
            raise UserError(f"A drop goes from {CLEAN} to {RANDOM_BACKGROUND}; add --condition {missing[0]}.")

    def views(self, labelled: bool) -> tuple[View, ...]:
        """What each photo is seen in."""
        shown = [name for name in self.conditions if labelled or name not in OF_CLASSES]
        return conditions.views(shown, self.draws)

    @property
    def told(self) -> dict[str, Any]:
        """For the JSON, and for telling whether something was asked before."""
        return asdict(self) | {"conditions": list(self.conditions), "policy": self.policy.model_dump()}


@dataclass(frozen=True)
class Question:
    """What is looked at, in front of what, and what is asked; ``masker`` None: every photo came with its mask. ``command``: what
    a person typed to ask, if she did.
    """

    collection: PhotoCollection
    masker: MaskPredictor | None
    backgrounds: BackgroundPhotos
    asked: Asked
    command: str = ""
