"""S2SD: wider embeddings are trained beside the embedding, which learns their similarities (Roth et al., ICML 2021;
docs/methods.md, section 8). It combines with plain and adversarial training; at test time there is the embedding alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pydantic import Field, ValidationError, model_validator

from bgbias import plugins, seeds
from bgbias.compute.lazy import F, Tensor, nn, torch
from bgbias.training.methods import BaseMethod, Batch, Task, _adversarial, plain

TITLE = "S2SD"
PLACE = 16
ENTRIES = {
    "s2sd_light": "S2SD, weight 1",
    "s2sd_advprop_d": "AdvProp-D, S2SD",
    "s2sd_mdprop": "MDProp, S2SD",
    "s2sd_mdprop_2": "MDProp, 2 attacks, S2SD",
    "s2sd_at": "AT, S2SD",
}
NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Params(plain.Params):
    """As published, with plain training."""

    method: str = Field(
        "plain", description="whose losses are distilled: plain, at, advprop_d, mdprop or a control of these"
    )
    options: dict[str, Any] = Field({}, description="of that method")
    kappa: float = Field(1.0, ge=0, description="share of what S2SD adds; 0: the method alone")
    widths: tuple[int, ...] = Field(
        (512, 1024, 1536, 2048), min_length=1, description="of the wider embeddings"
    )
    weight: float = Field(50.0, ge=0, description="of the divergence of similarities")
    temperature: float = Field(1.0, gt=0, description="of similarities")
    features_after: int | None = Field(
        1000,
        ge=0,
        description="steps, after which similarities of pooled features are learned, too; never if null",
    )

    @model_validator(mode="after")
    def _method_can_be_distilled(self) -> Params:
        if min(self.widths) < 1:
            raise ValueError("widths are 1 or more")
        if "images_per_class" in self.options:
            raise ValueError("images_per_class stands beside method, not in its options")
        if not issubclass(getattr(_find(self.method), "Method", BaseMethod), _adversarial.Standard):
            raise ValueError(f"'{self.method}' cannot be distilled; plain, at, advprop_d and mdprop can")
        self.inner()
        return self

    def inner(self) -> Any:
        try:
            return _find(self.method).Params.model_validate(self.options)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, ("options", *first["loc"])))
            raise ValueError(f"{key}: {first['msg']}") from error


def _find(method: str) -> Any:
    """The file of a method; of plain training one that judges maps and says what its batch norms learn."""
    if method == "plain":
        return SimpleNamespace(Method=_adversarial.Standard, Params=_adversarial.NormParams)
    return plugins.load("methods", method)


def uses(params: Params) -> list[tuple[str, str]]:
    return [("methods", params.method), *_adversarial.uses(params.inner())]


def classes(params: Params) -> int:
    return _adversarial.classes(params.inner())


def needs_batch_norm(params: Params) -> bool:
    return _adversarial.needs_batch_norm(params.inner())


class Method(BaseMethod):
    """The method's own step, in which every loss is that of an embedding and of its wider ones."""

    params: Params

    def prepare(self) -> None:
        """The method, whose judge is this one, and the heads of the wider embeddings."""
        from bgbias.models.model import linear

        params, model, task = self.params, self.model, self.task
        self.inner: _adversarial.Standard = _find(params.method).Method(
            model, self.base_loss, params.inner(), task
        )
        self.batches_a_step = self.inner.batches_a_step
        self.heads: nn.ModuleList | None = None
        self.losses = nn.ModuleList()
        if params.kappa:
            generator = seeds.torch_generator("s2sd", *(task.key if task else ()))
            channels = model.embedder.in_features
            self.heads = nn.ModuleList(
                nn.Sequential(linear(channels, width, generator), nn.ReLU(), linear(width, width, generator))
                for width in params.widths
            )
            # Those of the training, so that a resumed one goes on.
            self.heads.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.losses = nn.ModuleList(_build_loss(self.base_loss, width, task) for width in params.widths)
            self.inner.judge = self.judge_maps

    @classmethod
    def photos_a_step(cls, params: Params, batch_size: int) -> tuple[int, int]:
        return _find(params.method).Method.photos_a_step(params.inner(), batch_size)  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        self.inner.replaces_backgrounds = self.replaces_backgrounds
        losses = self.inner.loss(batch)
        if self.heads is not None:
            self.heads.get_buffer("steps").add_(1)
        return losses

    def judge_maps(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of feature maps [B, channels, h, w] with labels [B]."""
        assert self.heads is not None
        params = self.params
        # Widths of thousands and divergences of small differences: only the trunk gains by mixed precision.
        with torch.autocast(features.device.type, enabled=False):
            embeddings = self.model.embed_features(features)
            features = features.to(embeddings.dtype)
            pooled = features.mean((2, 3)) + features.amax((2, 3))
            wider = [F.normalize(head(pooled), dim=1) for head in self.heads]
            similarities = cosines(embeddings)
            apart = [divergence(similarities, cosines(z), params.temperature) for z in wider]
            losses = [loss(z, labels) for loss, z in zip(self.losses, wider, strict=True)]
            source = self.base_loss(embeddings, labels)
            total = distilled(source, losses, apart, params.weight, params.kappa)
            # The step's number stays on the device: to ask for it would make a GPU wait.
            if params.features_after is not None:
                teacher = cosines(F.normalize(pooled, dim=1))
                late = (self.heads.get_buffer("steps") >= params.features_after).to(total.dtype)
                apart_from_features = divergence(similarities, teacher, params.temperature)
                total = total + late * params.kappa * params.weight * apart_from_features
        return total

    def modules(self) -> dict[str, nn.Module]:
        """Those of the method, the heads, and the class weights of their losses."""
        modules = self.inner.modules()
        if self.heads is not None:
            modules["s2sd"] = self.heads
        if list(self.losses.parameters()):
            modules["s2sd_losses"] = self.losses
        return modules

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        """Those of the method and the heads; class weights learn at their loss's rate."""
        groups = self.inner.own_parameters(lr)
        if self.heads is not None:
            groups.append({"params": list(self.heads.parameters())})
        if weights := list(self.losses.parameters()):
            rate = self.task.loss_lr if self.task else None
            groups.append({"params": weights, "lr": rate or lr})
        return groups


def _build_loss(base_loss: nn.Module, width: int, task: Task | None) -> nn.Module:
    """The base loss for embeddings of another width: itself, if it has no class weights."""
    if not list(base_loss.parameters()):
        return base_loss
    if task is None or task.loss_of is None:
        raise ValueError("a loss with class weights needs a task that builds it for other widths")
    return task.loss_of(width)


def cosines(vectors: Tensor) -> Tensor:
    """Of all pairs of unit vectors [B, d], each with itself too: [B, B]."""
    return vectors @ vectors.T


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """From the teacher's similarities [B, B], which stand still, to the student's: a scalar.

    ``T^2 / B * sum p log(p / q)`` with p and q the softmax over each row of similarities / T.
    """
    p = (teacher.detach() / temperature).log_softmax(1)
    q = (student / temperature).log_softmax(1)
    return temperature**2 / len(student) * (p.exp() * (p - q)).sum()


def distilled(
    source: Tensor, targets: Sequence[Tensor], divergences: Sequence[Tensor], weight: float, kappa: float
) -> Tensor:
    """The loss of scalars: those of the embedding and of each target, and the divergence from each target.

    ``kappa`` 1 is ``(source + mean of targets) / 2 + weight * mean of divergences``, 0 the source alone.
    """
    extra = (torch.stack(list(targets)).mean() - source) / 2
    return source + kappa * (extra + weight * torch.stack(list(divergences)).mean())
