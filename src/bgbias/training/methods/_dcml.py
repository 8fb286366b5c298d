"""Deep causal metric learning: one attention net an environment, kept alike (Deng & Zhang, ICML 2022;
docs/methods.md, section 5).

The environments re-weight the training photos such that the present model suits each of them badly; training then asks for class
weights, attention and embeddings that suit all of them. At test time one net attends, with the mean of the nets' weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from bgbias import progress, seeds
from bgbias.compute.lazy import F, Tensor, nn, torch
from bgbias.models.necks import attention
from bgbias.settings import Strict
from bgbias.training.losses._terms import class_logits
from bgbias.training.methods import BaseMethod, Batch, Passes, Task

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel
    from bgbias.models.necks._attention_net import AttentionNet
    from bgbias.training.methods._invariance import Gradients

NEEDS: frozenset[str] = frozenset()
TRAINS = True
CLASS_WEIGHTS = True


def _measure_map(model: EmbeddingModel) -> attention.Params:
    """The feature map's channels and positions, by an empty photo."""
    mode, size = model.training, model.input_size
    with torch.no_grad():
        features = model.eval().features(torch.zeros(1, 3, size, size))
    model.train(mode)
    return attention.Params(channels=features.shape[1], positions=features.shape[2] * features.shape[3])


class Params(Strict):
    """Weights of the penalties, as released for CUB-200-2011 (cars: alpha 1e-5, gamma 1e-4; SOP: gamma
    1e-6); what stands in quotes is the paper's name of an ablation (Tables 4-7).
    """

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
    passes: int = Field(5, ge=1, description="over the training photos per update; 1 as released")
    environment_lr: float = Field(0.5, gt=0, description="of the environments' logits")
    environment_batch: int = Field(64, ge=2)
    images_per_class: int | None = Field(4, ge=1, description="per batch; the loss's own if null")

    head_bn: bool = Field(False, description="batch norm before the embedding layer, as released")

    @model_validator(mode="after")
    def _attended_somewhere(self) -> Params:
        if self.attention and not self.environments:
            raise ValueError("0 environments have no attention net: set attention to false, too")
        return self


class PaperParams(Params):
    """As released, but for ``gamma``: the paper gives no weights, and the code's belong to other terms.

    The distances of whole maps are summed over pairs and environments, B (n - 1) / 2 pairs in a batch
    of B photos with n of each class: 4e4 at the first step on toys (``tiny``, B = 32, n = 4), where
    the released code's mean is 0.007; 6e5 with MobileNetV2 on groceries. At the released gamma of 0.1
    the gradient of this term by the trunk was 1,900 times as large as that of all cross-entropies
    together on toys, and training wiped out what tells classes apart: within 80 steps the term fell to
    0.4, and the cross-entropy stayed that of a guess. At 1e-5 the gradient was a fifth as large as
    that of the cross-entropies on toys, a ninth with MobileNetV2, and toys were learned (cross-entropy
    11.1 to 0.6 in 200 steps).
    """

    gamma: float = Field(
        1e-5, ge=0, description="of attended maps that differ within a class; 0: 'w/o inv task'"
    )


class Dcml(BaseMethod):
    """The paper's reading: all photos alike are one more environment, and terms are summed over environments.

    Attention is held together by squared distances, attended maps by those of all pairs of a class, whatever their weights.
    """

    RELEASED = False
    """Whether terms are the released code's, and not the paper's."""

    params: Params
    task: Task

    def prepare(self) -> None:
        """The attention nets, which all stand at the model's neck, and the environments."""
        from bgbias.training.methods._invariance import Environments

        params, model = self.params, self.model
        # Who judges all photos alike, and who judges an environment's.
        self.empirical_loss = self.environment_loss = self.base_loss
        self.head_norm = list(model.add_head_norm().parameters()) if params.head_bn else []
        self.environments = Environments(len(self.task.labels), params.environments)
        self.nets: list[AttentionNet] = []
        self._empirical_net: AttentionNet | None = None  # of all photos alike, if not the nets' mean
        if params.attention:
            self.map_size = _measure_map(model)
            model.add_neck("attention", self.map_size)
            self.nets = [self.fresh_net(number) for number in range(params.environments)]
            self.end_epoch()
        self._parts = nn.ModuleDict({"environments": self.environments, "nets": nn.ModuleList(self.nets)})

    @classmethod
    def photos_between_epochs(cls, params: Params, photos: int, epochs: int) -> int:
        """All photos, as often as an update of the environments passes over them."""
        if params.environments < 2 or params.weights == "random":
            return 0
        return -(-epochs // params.update_every) * params.passes * photos

    def fresh_net(self, number: int) -> AttentionNet:
        """An attention net with the weights that net ``number`` starts with."""
        from bgbias.models.necks._attention_net import AttentionNet

        drawn_for = 0 if self.params.same_start else number
        generator = seeds.torch_generator("attention net", *self.task.key, drawn_for)
        return AttentionNet(self.map_size.channels, self.map_size.positions, generator)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, ``base_loss`` of all photos alike, and the terms without their coefficients."""
        from bgbias.models.necks._attention_net import mean_attention

        features = self.model.features(self.photos(batch))
        # Only the trunk gains by mixed precision, and the terms are squares of small differences.
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.model.embedder.weight.dtype)
            attended = features
            if self._empirical_net is not None:
                attended = self._empirical_net(features)
            elif self.nets:
                attended = mean_attention(self.nets, features)
            empirical = self.empirical_loss(self.model.embed_features(attended), batch.labels)
            if not self.params.environments:
                return {"loss": empirical}
            terms = self._environment_terms(features, batch)
        params = self.params
        total = empirical + terms["environments"] + params.alpha * terms["irm"] + params.gamma * terms["task"]
        if self.nets:
            total = total + params.beta * terms["attention"]
        return {"loss": total, "base_loss": empirical, **terms}

    def modules(self) -> dict[str, nn.Module]:
        return {**super().modules(), "dcml": self._parts}

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        """The attention nets, which learn faster than the trunk, and the head's batch norm, which does not decay."""
        nets = {"params": list(self._parts.parameters()), "lr": self.params.attention_lr or 2 * lr}
        norm = {"params": self.head_norm, "weight_decay": 0.0}
        return [group for group in (nets, norm) if group["params"]]

    def start_epoch(self, epoch: int, passes: Passes) -> None:
        """Before the first epoch and every ``update_every`` later: new environments."""
        params = self.params
        # One environment is all photos alike; there is nothing to learn.
        if (epoch - 1) % params.update_every or params.environments < 2:
            return
        self.environments.draw(seeds.torch_generator("environments", *self.task.key, epoch))
        if params.weights == "random":
            return
        for module in self.modules().values():
            module.eval()
        gradients = [partial(self._run_pass, passes, number) for number in range(params.passes)]
        means = self.environments.learn(gradients, params.environment_lr)
        progress.say(f"environments for epoch {epoch}: {' '.join(f'{value:.4g}' for value in means)}")

    def end_epoch(self) -> None:
        """The model attends with the mean of the nets' weights from now on."""
        from bgbias.models.necks._attention_net import mean_weights

        if self.model.neck is not None:
            self.model.neck.load_state_dict(mean_weights(self.nets))

    def _environment_terms(self, features: Tensor, batch: Batch) -> dict[str, Tensor]:
        from bgbias.training.methods import _invariance as invariance

        labels, each = batch.labels, []
        for number, weights in enumerate(self.environments.weights(batch.index).unbind(1)):
            attended = self._attend(number, features)
            projected = self.model.projected(attended)
            logits = class_logits(self.environment_loss, F.normalize(projected, dim=1), labels)
            if self.RELEASED:
                spread = invariance.spread_around_class_means(projected, labels, weights)
            else:
                spread = invariance.spread_between_pairs(attended, labels)
            each.append(
                {
                    "environments": invariance.cross_entropy(logits, labels, weights),
                    "irm": invariance.irm_penalty(logits, labels, weights),
                    "task": spread,
                }
            )
        stacked = {name: torch.stack([terms[name] for terms in each]) for name in each[0]}
        terms = {name: values.mean() if self.RELEASED else values.sum() for name, values in stacked.items()}
        if self.nets:
            distance = invariance.relative_distance if self.RELEASED else invariance.distance
            terms["attention"] = distance(self.nets)
        return terms

    def _attend(self, number: int, features: Tensor) -> Tensor:
        return self.nets[number](features) if self.nets else features

    def _run_pass(self, passes: Passes, number: int) -> Iterator[Gradients]:
        size = self.params.environment_batch
        batches = passes(f"environments {number}", size)
        total = -(-len(self.task.labels) // size)
        for batch in progress.track(batches, total, f"environments, pass {number + 1}"):
            yield batch.index, self._compute_gradients(batch)

    def _compute_gradients(self, batch: Batch) -> list[list[Tensor]]:
        """Each environment's gradients by dummy class weights and dummy attention, photo by photo; the model stands still."""
        from bgbias.training.methods import _invariance as invariance

        with torch.no_grad():
            features = self.model.features(self.photos(batch))
        gradients = []
        for number in range(self.params.environments):
            attended = self._attend(number, features).detach().requires_grad_()
            logits = class_logits(self.environment_loss, self.model.embed_features(attended), batch.labels)
            rows = [invariance.proxy_gradients(logits, batch.labels).detach()]
            if self.nets:
                losses = F.cross_entropy(logits, batch.labels, reduction="none")
                rows += invariance.attention_gradients(attended, losses)
            gradients.append(rows)
        return gradients


class DcmlCode(Dcml):
    """The released code's: terms averaged over environments, and an ERM branch beside them that shares
    the trunk and the embedding layer.

    Attention is held together by relative distances, embeddings (before they get unit length) by
    their distance to class means, which take no gradient.
    """

    RELEASED = True

    def prepare(self) -> None:
        """The base loss has class weights and an attention net of its own, which test time does not use."""
        super().prepare()
        if self.params.environments:
            self.environment_loss = deepcopy(self.base_loss)
            # As one loss, so that both start alike and have its learning rate and its place in a checkpoint.
            self.base_loss = nn.ModuleList([self.empirical_loss, self.environment_loss])
        if self.nets:
            self._empirical_net = self.fresh_net(len(self.nets))
            self._parts["empirical_net"] = self._empirical_net


MEMBERS = {
    "dcml_code": {
        "__doc__": "DCML as its released code has it, with three slips mended: an update of the"
        " environments takes five passes instead of the one after which the code returns; nets start"
        " alike; and the margin is what params.yaml says (for cars the code leaves it at .6182).",
        "TITLE": "DCML",
        "PLACE": 9,
        "ENTRIES": {
            "dcml_released": "DCML, as released",
            "dcml_no_inv_emb": "DCML w/o inv emb",
            "dcml_no_inv_at": "DCML w/o inv at",
            "dcml_no_inv_task": "DCML w/o inv task",
            "dcml_random": "DCML w random",
            "dcml_no_envs": "DCML w/o envs",
            "dcml_no_at": "DCML w/o at",
            "dcml_e1": "DCML, e = 1",
            "dcml_e3": "DCML, e = 3",
            "dcml_e10": "DCML, e = 10",
            "dcml_k5": "DCML, k = 5",
            "dcml_k10": "DCML, k = 10",
            "dcml_k15": "DCML, k = 15",
            "dcml_cars": "DCML, for cars",
            "dcml_sop": "DCML, for SOP",
        },
        "Params": Params,
        "Method": DcmlCode,
    },
    "dcml_paper": {
        "__doc__": "DCML as its paper writes it, equations 9 to 11 and algorithm 1.",
        "TITLE": "DCML (paper)",
        "PLACE": 10,
        "Params": PaperParams,
        "Method": Dcml,
    },
}
