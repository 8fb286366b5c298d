"""Adversarial training and its controls: attacked photos beside those of a batch, and which batch
norms they pass ("Advancing deep metric learning through multiple batch norms and multi-targeted
adversarial examples"; docs/methods.md, section 8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from bgbias import attacks, seeds
from bgbias.attacks import Strength
from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.settings import Names
from bgbias.training.methods import BaseMethod, Batch, plain

NEEDS: frozenset[str] = frozenset()
TRAINS = True
BatchNorm = Literal["trained", "frozen", "as_train"]
BATCH_NORM = "whether statistics are learned; as_train: as train.freeze_batch_norm says"

Judge = Callable[[Tensor, Tensor], Tensor]
"""Feature maps [B, channels, h, w], as the model pools them, and labels [B] to a scalar loss."""


class NormParams(plain.Params):
    """Batches, and what batch norms learn."""

    batch_norm: BatchNorm = Field("as_train", description=BATCH_NORM)

    @property
    def used(self) -> tuple[str, ...]:
        """The attacks that are made, by name: none."""
        return ()


class TrainedNormParams(NormParams):
    """How batches are drawn."""

    batch_norm: Literal["trained"] = Field("trained", description="what the method is for")


class AttackParams(NormParams, Strength):
    """Attacks of one step on every photo of a batch, as published."""

    SEPARATE_NORMS: ClassVar[bool] = True
    """Whether each attack's photos pass batch norms of their own, instead of those of the clean photos, together with these."""

    kappa: float = Field(1.0, ge=0, description="weight of the losses of attacked photos; 0: there are none")
    losses: Literal["separate", "joint_half"] = Field(
        "separate",
        description="one for each distribution (paper), or one of all photos, each attack with its share of a batch (released)",
    )

    @model_validator(mode="after")
    def _one_loss_has_no_weights(self) -> AttackParams:
        if self.losses == "joint_half" and self.kappa not in (0, 1):
            raise ValueError(
                "joint_half is one loss of all photos, so that kappa weighs nothing: leave it at 1"
            )
        return self

    @property
    def used(self) -> tuple[str, ...]:
        """The attacks that are made: STAX, or those of the options; none that change or count for nothing."""
        names: tuple[str, ...] = getattr(self, "attacks", ("stax",))
        return names if self.epsilon and self.kappa else ()


class StaxParams(AttackParams):
    """As published: batch norms learn their statistics."""

    batch_norm: BatchNorm = Field("trained", description=BATCH_NORM)


class AtParams(AttackParams):
    """Towards one photo of another class, as published; batch norms as in plain training."""

    SEPARATE_NORMS = False

    attacks: Names = Field(("stax",), min_length=1, description="names of files in attacks/: stax, mtax:3")

    @field_validator("attacks")
    @classmethod
    def _are_attacks(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        for attack in chosen:
            attacks.targets(attack)
        return chosen


class MdpropParams(AtParams):
    """The paper's MP' with three targets; MP'' is [stax, mtax:5], MP''' [stax, mtax:3, mtax:5]."""

    SEPARATE_NORMS = True

    attacks: Names = Field(
        ("mtax:3",), min_length=1, description="names of files in attacks/: [stax, mtax:5]"
    )
    batch_norm: BatchNorm = Field("trained", description=BATCH_NORM)


def uses(params: NormParams) -> list[tuple[str, str]]:
    return [("attacks", name) for name in params.used]


def classes(params: NormParams) -> int:
    """That a batch must have: a photo's own, and those of its targets."""
    return 1 + max((attacks.targets(name) for name in params.used), default=0)


def needs_batch_norm(params: NormParams) -> bool:
    """For the attacked photos, or because the method is about nothing else."""
    if isinstance(params, AttackParams):
        return params.SEPARATE_NORMS and bool(params.used)
    return isinstance(params, TrainedNormParams)


class Standard(BaseMethod):
    """The base loss, judged by the maps that the model pools, with batch norms as the method's options say."""

    params: NormParams

    def prepare(self) -> None:
        """A model without the batch norm that the method needs is an error."""
        from bgbias.models.norms import batch_norms

        if needs_batch_norm(self.params):
            batch_norms(self.model)
        if self.params.batch_norm != "as_train":
            self.model.freeze_batch_norm = self.params.batch_norm == "frozen"
        self.judge: Judge = self.judge_maps

    def judge_maps(self, features: Tensor, labels: Tensor) -> Tensor:
        """The base loss of the maps' embeddings."""
        return self.base_loss(self.model.embed_features(features), labels)  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": self.judge(self.model.pooled_map(self.photos(batch)), batch.labels)}


class TwiceTheBatch(Standard):
    """The base loss of twice as many photos, of twice as many classes."""

    batches_a_step = 2


class Adversarial(Standard):
    """The base loss of a batch and of the same photos attacked; every attack is made afresh, on the network as it is.

    Its targets are photos of the batch, drawn by the batch's rows, which are the same for every method with the same seed.
    """

    params: AttackParams

    def prepare(self) -> None:
        """Batch norms of the attacked photos' own, where they have such."""
        from bgbias.models.norms import AuxiliaryNorms

        super().prepare()
        self.attacks = self.params.used
        self.norms = AuxiliaryNorms(self.model, self.attacks) if needs_batch_norm(self.params) else None

    @classmethod
    def photos_a_step(cls, params: AttackParams, batch_size: int) -> tuple[int, int]:
        """The batch, the targets, the attacks' steps and the attacked photos."""
        count = len(params.used)
        if not count:
            return batch_size, batch_size
        attacked = batch_size if params.losses == "joint_half" else count * batch_size
        towards = (count if params.SEPARATE_NORMS else 1) * batch_size
        steps = params.steps * attacked
        # Attacks go back to the photos alone: .64 to .66 of the time that gradients of weights take, too (ResNet-18, and
        # MobileNetV2 with trained batch norms; .77 where these are frozen; one core).
        return batch_size + towards + steps + attacked, batch_size + -(-2 * steps // 3) + attacked

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``; of separate losses also ``base_loss``, that of the clean photos, and each attack's by its name."""
        if not self.attacks:
            return super().loss(batch)
        photos = self.grey_levels(batch)
        attacked_photos, rows = self.attack_batch(photos.float(), batch)
        views = [self.model.preprocess(p) for p in (photos, *attacked_photos)]
        labels = [batch.labels, *(batch.labels[chosen] for chosen in rows)]
        if self.norms is None:
            maps = self.model.pooled_map(torch.cat(views)).split([len(x) for x in views])
        else:
            maps = [self.model.pooled_map(views[0])]
            for name, photos in zip(self.attacks, views[1:], strict=True):
                with self.norms.using(name):
                    maps.append(self.model.pooled_map(photos))
        if self.params.losses == "joint_half":
            return {"loss": self.judge(torch.cat(list(maps)), torch.cat(labels))}
        clean, *others = (self.judge(*pair) for pair in zip(maps, labels, strict=True))
        parts = {name.replace(":", "_"): loss for name, loss in zip(self.attacks, others, strict=True)}
        return {"loss": clean + self.params.kappa * torch.stack(others).sum(), "base_loss": clean, **parts}

    def attack_batch(self, photos: Tensor, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
        """Each attack's photos, grey levels [b, 3, S, S] in 0..255, and their rows in the batch, int64 [b].

        ``photos``: the batch's, float in 0..255. The network stands still meanwhile, in evaluation mode.
        """
        all_rows = torch.arange(len(photos), device=photos.device)
        whole = self.params.losses == "separate"
        rows = [all_rows] * len(self.attacks) if whole else list(all_rows.tensor_split(len(self.attacks)))
        examples, embeddings = [], None
        for name, chosen in zip(self.attacks, rows, strict=True):
            with self.norms.using(name) if self.norms else nullcontext(), attacks.evaluating(self.model):
                # Of one set of norms, targets are embedded once.
                if embeddings is None or self.norms:
                    with torch.no_grad():
                        embeddings = self._embed(photos)
                examples.append(self._attack(name, photos, chosen, embeddings, batch))
        return examples, rows

    def modules(self) -> dict[str, nn.Module]:
        return {**super().modules(), **({"norms": self.norms} if self.norms else {})}

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        parameters = self.norms.list_trained() if self.norms else []
        return [{"params": parameters}] if parameters else []

    def _attack(self, name: str, photos: Tensor, chosen: Tensor, embeddings: Tensor, batch: Batch) -> Tensor:
        # The photos of a batch are drawn by seed, epoch and step; they in turn say what is drawn for them.
        key = (name, *batch.index.tolist())
        generator = seeds.torch_generator("attack targets", *key)
        aims = embeddings[attacks.targets_of_batch(batch.labels, attacks.targets(name), generator)[chosen]]
        noise = seeds.torch_generator("attack noise", *key, device=str(photos.device))
        originals = photos[chosen]
        begin = attacks.start(originals, self.params.noise, attacks.uniform(originals, noise))
        return attacks.attack(self._embed, originals, aims, name, self.params, begin)

    def _embed(self, photos: Tensor) -> Tensor:
        return self.model(self.model.preprocess(photos))  # type: ignore[no-any-return]


MEMBERS: dict[str, dict[str, Any]] = {
    "st_unfrozen": {
        "__doc__": "Plain training whose batch norms learn their statistics, as those of MDProp do: a control.",
        "TITLE": "Plain, batch norm trained",
        "PLACE": 11,
        "Params": TrainedNormParams,
        "Method": Standard,
    },
    "st_2xbatch": {
        "__doc__": "Plain training on batches of twice the size, as many photos a step as MDProp with one"
        " attack has: a control.",
        "TITLE": "Plain, twice the batch",
        "PLACE": 12,
        "Params": NormParams,
        "Method": TwiceTheBatch,
    },
    "at": {
        "__doc__": "Adversarial training as usual, the baseline AT of MDProp: attacked photos beside the"
        " clean ones, in one pass through the same batch norms.",
        "TITLE": "AT",
        "PLACE": 13,
        "ENTRIES": {"at_strong": "AT at 0.1"},
        "Params": AtParams,
        "Method": Adversarial,
    },
    "advprop_d": {
        "__doc__": "AdvProp-D: photos attacked towards one of another class, through batch norms of"
        " their own (AP' in MDProp's paper, after Xie et al., CVPR 2020).",
        "TITLE": "AdvProp-D",
        "PLACE": 14,
        "Params": StaxParams,
        "Method": Adversarial,
    },
    "mdprop": {
        "__doc__": "MDProp: photos of several attacks, each through batch norms of its own.",
        "TITLE": "MDProp",
        "PLACE": 15,
        "ENTRIES": {
            "mdprop_2": "MDProp, 2 attacks",
            "mdprop_2_strong": "MDProp, 2 attacks at 0.1",
            "mdprop_3": "MDProp, 3 attacks",
        },
        "Params": MdpropParams,
        "Method": Adversarial,
    },
}
