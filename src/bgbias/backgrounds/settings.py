"""Settings of background pools in params.yaml: where the photos of each come from, or how they are drawn or proposed."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from bgbias.files.pictures import compose
from bgbias.settings import Strict

Photos = tuple[Annotated[str, AfterValidator(compose)], ...]
PROCEDURAL = ("colours", "gradients", "textures", "toy_scenes")


class PoolSource(Strict):
    """Where one pool of backgrounds comes from: a zip, a folder or a list of files; or pictures that are drawn.

    A list is a text file with one path a line, or a CSV with the columns name, url, licence and sha256 (and others), whose photos
    are taken from ``copies`` or fetched.
    """

    source: str | None = Field(None, description="a zip, a folder, or a list of photos")
    copies: tuple[str, ...] = Field((), description="zips or folders that may hold the photos a CSV lists")
    group: str | None = Field(None, description="only the rows of a CSV with this value in its column `pool`")
    colours: int | None = Field(None, ge=1, description="draw so many plain colours")
    gradients: int | None = Field(None, ge=1, description="draw so many gradients of two or three colours")
    textures: int | None = Field(None, ge=1, description="draw so many textured walls")
    toy_scenes: int | None = Field(None, ge=1, description="draw so many scenes as the toys stand before")
    part: tuple[int, int] | None = Field(None, description="only these of the sorted names: [from, to)")
    size: int = Field(64, ge=8, description="side of a drawn picture in pixels")
    licence: str = Field("unknown", description="of the photos; written into the table of backgrounds")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = [k for k in ("source", *PROCEDURAL) if getattr(self, k) is not None]
        if len(sources) != 1:
            raise ValueError(f"a pool needs exactly one of source, {', '.join(PROCEDURAL)}")
        if self.part is not None and not 0 <= self.part[0] < self.part[1]:
            raise ValueError("part is [from, to) with 0 <= from < to")
        if not self.listed and (self.copies or self.group is not None):
            raise ValueError("`copies` and `group` go with a `source` that is a CSV")
        if self.source is not None and "size" in self.model_fields_set:
            raise ValueError("`size` is that of drawn pictures; photos keep their own")
        return self

    @property
    def listed(self) -> bool:
        """Whether the photos are those that a CSV lists."""
        return self.source is not None and self.source.endswith(".csv")

    @property
    def drawn(self) -> tuple[str, int] | None:
        """What to draw and how many, if the pool is drawn."""
        return next(((k, n) for k in PROCEDURAL if (n := getattr(self, k)) is not None), None)


class Proposal(Strict):
    """Pools from any folder of photos: those without an obvious foreground, shared out at random."""

    source: str = Field(description="folder, zip or list of photos")
    masker: str = Field(description="whose saliency tells a foreground")
    shares: tuple[float, float, float] = Field((0.4, 0.1, 0.5), description="of train, val and test")
    seed: int = Field(0, ge=0, description="of the random shares")
    keep: Photos = Field((), description="names to take whatever the masker sees")
    drop: Photos = Field((), description="names to leave out whatever the masker sees")
    licence: str = Field("unknown", description="of the photos; written into the table of backgrounds")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if any(s <= 0 for s in self.shares) or abs(sum(self.shares) - 1) > 1e-6:
            raise ValueError("shares must be positive and add up to 1")
        if both := sorted(set(self.keep) & set(self.drop)):
            raise ValueError(f"'{both[0]}' is both kept and dropped")
        return self


class Backgrounds(Strict):
    """Three disjoint pools, named one by one or proposed from one folder; `test` is never seen in training or selection."""

    train: PoolSource | None = Field(None, description="pool that training pastes objects onto")
    val: PoolSource | None = Field(None, description="pool of the corrupted validation photos")
    test: PoolSource | None = Field(None, description="pool of the corrupted test photos")
    propose: Proposal | None = Field(None, description="make all three from one folder instead")

    @model_validator(mode="after")
    def _three(self) -> Self:
        if self.propose and self.pools:
            raise ValueError(f"`propose` makes all three pools; remove {', '.join(self.pools)}")
        if not self.propose and len(self.pools) < 3:
            raise ValueError("train, val and test are all needed, or `propose`")
        return self

    @property
    def pools(self) -> dict[str, PoolSource]:
        """The pools that are named, by role."""
        pools = {"train": self.train, "val": self.val, "test": self.test}
        return {role: pool for role, pool in pools.items() if pool is not None}
