"""Deep causal metric learning: one attention net an environment, kept alike (Deng & Zhang, ICML 2022;
docs/methods.md, section 5).

The environments re-weight the training photos such that the present model suits each of them badly; training then asks for class
weights, attention and embeddings that suit all of them. At test time one net attends, with the mean of the nets' weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from bgbias import progress, seeds
from bgbias.models.necks import attention
from bgbias.settings import Strict
from bgbias.training.methods import BaseMethod

if TYPE_CHECKING:
    from torch import Tensor, nn

    from bgbias.models.model import EmbeddingModel
    from bgbias.models.necks._attention_net import AttentionNet
    from bgbias.training.batches import Batch
    from bgbias.training.methods import Passes, Task
    from bgbias.training.methods._environments import Gradients


class Params(Strict):
    """Weights of the penalties, as released for birds; what stands in quotes is the paper's name of an ablation (Tables 4-7)."""

    alpha: float = Field(1e-4, ge=0, description="of class weights that do not suit; 0: 'w/o inv emb'")
    beta: float = Field(1e-2, ge=0, description="of attention nets that differ; 0: 'w/o inv at'")
    gamma: float = Field(
        1e-1, ge=0, description="of embeddings that differ within a class; 0: 'w/o inv task'"
    )
    environments: int = Field(
        2, ge=0, description="'k'; 1, with alpha 0: 'w/o envs'; 0, without attention: the base loss alone"
    )
    update_every: int = Field(5, ge=1, description="'e', epochs")
    weights: Literal["learned", "random"] = Field("learned", description="of photos; random: 'w random'")
    attention: bool = Field(True, description="false: 'w/o at'")
    attention_lr: float | None = Field(None, gt=0, description="twice train.lr if null")
    same_start: bool = Field(
        True, description="all nets start with the same weights, so that their mean is a net like them"
    )
    passes: int = Field(
        5, ge=1, description="over the training photos an update; the released code stops at 1"
    )
    environment_lr: float = Field(0.5, gt=0, description="of the environments' logits")
    environment_batch: int = Field(64, ge=2)
    images_per_class: int | None = Field(
        4,
        ge=1,
        description="in a batch, without which there is nothing to differ; the loss's own number if null",
    )

    head_bn: bool = Field(
        False,
        description="a batch norm before the embedding layer, as the released code has it and the paper does not",
    )

    @model_validator(mode="after")
    def _attended_somewhere(self) -> Params:
        if self.attention and not self.environments:
            raise ValueError("0 environments have no attention net: set attention to false, too")
        return self


class Dcml(BaseMethod):
    """What both readings of DCML share; where paper and released code differ, a subclass says how."""

    SUMS = False
    """Whether an environment's terms are summed over environments, instead of averaged."""

    params: Params

    def __init__(
        self, model: EmbeddingModel, base_loss: nn.Module, params: Strict | None, task: Task | None
    ) -> None:
        from torch import nn

        from bgbias.training.methods._environments import Environments

        super().__init__(model, base_loss, params, task)
        assert isinstance(params, Params)
        assert task is not None
        self.params, self.task = params, task
        # Who judges all photos alike, and who judges an environment's.
        self.empirical_loss = self.environment_loss = base_loss
        self.head_norm = list(model.add_head_norm().parameters()) if params.head_bn else []
        self.environments = Environments(len(task.labels), params.environments)
        self.nets: list[AttentionNet] = []
        if params.attention:
            self.map_size = _map_size(model)
            model.add_neck("attention", self.map_size)
            self.nets = [self.fresh_net(number) for number in range(params.environments)]
            self.end_epoch()
        self._own = nn.ModuleDict({"environments": self.environments, "nets": nn.ModuleList(self.nets)})

    @classmethod
    def photos_between_epochs(cls, params: Strict, photos: int, epochs: int) -> int:
        """All photos, as often as an update of the environments passes over them."""
        assert isinstance(params, Params)
        if params.environments < 2 or params.weights == "random":
            return 0
        return -(-epochs // params.update_every) * params.passes * photos

    def fresh_net(self, number: int) -> AttentionNet:
        """An attention net with the weights that net ``number`` starts with."""
        from bgbias.models.necks._attention_net import AttentionNet

        drawn_for = 0 if self.params.same_start else number
        generator = seeds.torch_generator("attention net", *self.task.key, drawn_for)
        return AttentionNet(self.map_size.channels, self.map_size.positions, generator)

    def attended_alike(self, features: Tensor) -> Tensor:
        """Feature maps [B, channels, h, w] as they are attended where all photos are alike, if there are nets."""
        raise NotImplementedError(type(self))

    def distance_of_nets(self) -> Tensor:
        """How different the environments' attention nets are, a scalar."""
        raise NotImplementedError(type(self))

    def spread(self, attended: Tensor, projected: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """How different photos of a class are, a scalar, of attended maps [B, channels, h, w] and what they are projected to
        [B, d]; ``weights`` [B] are the environment's."""
        raise NotImplementedError(type(self))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, and beside it its terms without their coefficients: ``base_loss`` of all photos alike, ``environments``,
        ``irm``, ``task`` and ``attention``.
        """
        import torch

        features = self.model.features(self.photos(batch))
        # Only the trunk gains by mixed precision, and the terms are squares of small differences.
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.model.embedder.weight.dtype)
            attended = self.attended_alike(features) if self.nets else features
            empirical = self.empirical_loss(self.model.embed_features(attended), batch.labels)
            if not self.params.environments:
                return {"loss": empirical}
            terms = self._environment_terms(features, batch)
        chosen = self.params
        total = empirical + terms["environments"] + chosen.alpha * terms["irm"] + chosen.gamma * terms["task"]
        if self.nets:
            total = total + chosen.beta * terms["attention"]
        return {"loss": total, "base_loss": empirical, **terms}

    def modules(self) -> dict[str, nn.Module]:
        """Beside model and loss the nets and the environments."""
        return {**super().modules(), "dcml": self._own}

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        """The attention nets, which learn faster than the trunk, and the head's batch norm, which does not decay."""
        nets = {"params": list(self._own.parameters()), "lr": self.params.attention_lr or 2 * lr}
        norm = {"params": self.head_norm, "weight_decay": 0.0}
        return [group for group in (nets, norm) if group["params"]]

    def start_epoch(self, epoch: int, passes: Passes) -> None:
        """Before the first epoch and every ``update_every`` later: new environments."""
        chosen = self.params
        # One environment is all photos alike; there is nothing to learn.
        if (epoch - 1) % chosen.update_every or chosen.environments < 2:
            return
        self.environments.draw(seeds.torch_generator("environments", *self.task.key, epoch))
        if chosen.weights == "random":
            return
        for module in self.modules().values():
            module.eval()
        gradients = [partial(self._pass, passes, number) for number in range(chosen.passes)]
        reached = self.environments.learn(gradients, chosen.environment_lr)
        progress.say(f"environments for epoch {epoch}: {' '.join(f'{value:.4g}' for value in reached)}")

    def end_epoch(self) -> None:
        """The model attends with the mean of the nets' weights from now on."""
        from bgbias.models.necks._attention_net import mean_weights

        if self.model.neck is not None:
            self.model.neck.load_state_dict(mean_weights(self.nets))

    def _environment_terms(self, features: Tensor, batch: Batch) -> dict[str, Tensor]:
        import torch

        weights = self.environments.weights(batch.index)
        each = [
            self._in_environment(number, features, batch.labels, weights[:, number])
            for number in range(self.params.environments)
        ]
        stacked = {name: torch.stack([terms[name] for terms in each]) for name in each[0]}
        terms = {name: values.sum() if self.SUMS else values.mean() for name, values in stacked.items()}
        return terms | ({"attention": self.distance_of_nets()} if self.nets else {})

    def _in_environment(
        self, number: int, features: Tensor, labels: Tensor, weights: Tensor
    ) -> dict[str, Tensor]:
        import torch.nn.functional as F

        from bgbias.training.losses._parts import class_logits
        from bgbias.training.methods import _invariance as invariance

        attended = self._attended(number, features)
        projected = self.model.projected(attended)
        logits = class_logits(self.environment_loss, F.normalize(projected, dim=1), labels)
        return {
            "environments": invariance.cross_entropy(logits, labels, weights),
            "irm": invariance.irm_penalty(logits, labels, weights),
            "task": self.spread(attended, projected, labels, weights),
        }

    def _attended(self, number: int, features: Tensor) -> Tensor:
        return self.nets[number](features) if self.nets else features

    def _pass(self, passes: Passes, number: int) -> Iterator[Gradients]:
        size = self.params.environment_batch
        batches = passes(f"environments {number}", size)
        total = -(-len(self.task.labels) // size)
        for batch in progress.track(batches, total, f"environments, pass {number + 1}"):
            yield batch.index, self._gradients(batch)

    def _gradients(self, batch: Batch) -> list[list[Tensor]]:
        """Each environment's gradients by dummy class weights and dummy attention, photo by photo; the model stands still."""
        import torch
        import torch.nn.functional as F

        from bgbias.training.losses._parts import class_logits
        from bgbias.training.methods import _invariance as invariance

        with torch.no_grad():
            features = self.model.features(self.photos(batch))
        gradients = []
        for number in range(self.params.environments):
            attended = self._attended(number, features).detach().requires_grad_()
            logits = class_logits(self.environment_loss, self.model.embed_features(attended), batch.labels)
            rows = [invariance.proxy_gradients(logits, batch.labels).detach()]
            if self.nets:
                losses = F.cross_entropy(logits, batch.labels, reduction="none")
                rows += invariance.attention_gradients(attended, losses)
            gradients.append(rows)
        return gradients


def _map_size(model: EmbeddingModel) -> attention.Params:
    """The feature map's channels and positions, by an empty photo."""
    import torch

    mode, size = model.training, model.input_size
    with torch.no_grad():
        features = model.eval().features(torch.zeros(1, 3, size, size))
    model.train(mode)
    return attention.Params(channels=features.shape[1], positions=features.shape[2] * features.shape[3])
