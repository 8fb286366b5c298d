"""Why a model finds photos alike or different: similarity attention over two, three or four of them.

``explain(load(path), [photo, photo])`` gives the maps, ``figure_explanation`` draws them, and ``bgbias explain`` does both.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bgbias.attribution import similarity as attention
from bgbias.attribution.settings import SimilarityScore
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted
from bgbias.models.look import Look
from bgbias.models.model import EmbeddingModel

Head = Callable[[Tensor], Tensor]
ROLES = {
    2: ("First", "Second"),
    3: ("Anchor", "Positive", "Negative"),
    4: ("Anchor", "Positive", *["Negative"] * 2),
}
# A model that is biased can have maps that lie on the object.
NOT_SHOWN = (
    "The maps show where these photos are compared, each up to its own most: not how much a place counts beside another photo's,"
    " not what counts against, and not what would be found on another background. A model that loses most of what it"
    " finds there can still have maps on the object."
)
# What can be had of a model instead.
NO_MAP = (
    "{0} has no feature map that its embedding is pooled from ({1}), and an explanation is drawn on one. What is possible:"
    " bgbias.attribute(model, photos, masks) scores where any model looks, and its audit shows the maps."
)


@dataclass(frozen=True)
class Explanation:
    """Photos uint8 [S, S, 3] as the model saw them; for each, where it looked, float32 [S, S]: 1 at the place that counts most,
    0 everywhere if none counts for these photos; and the Euclidean distance 0..2 of each but the first to the first.
    """

    photos: tuple[np.ndarray, ...]
    maps: tuple[np.ndarray, ...]
    distances: tuple[float, ...]
    same: bool = True

    @property
    def roles(self) -> tuple[str, ...]:
        """What each photo is, in words."""
        return ROLES[len(self.photos)]


def explain(
    model: EmbeddingModel | Adapted,
    photos: Sequence[np.ndarray],
    same: bool = True,
    score: SimilarityScore = "magnitude",
) -> Explanation:
    """By which places a model, in evaluation mode, compares decoded photos, each uint8 [H, W, 3] (RGB) of any size.

    Two photos: what they share, or what sets them apart if not ``same``. Three or four: anchor, positive and one or two
    negatives; what anchor and positive share and the negatives lack. Another number of photos is an error. ``score``: see
    ``attribution.similarity``; the published one shows little where embeddings have both signs.
    """
    if len(photos) not in ROLES:
        raise UserError(f"An explanation is of two, three or four photos, not {len(photos)}.")
    if len(photos) > 2 and not same:
        raise UserError(f"Only two photos can be compared as different; give two, not {len(photos)}.")
    if isinstance(model, Adapted) and isinstance(model.module, EmbeddingModel):
        model = model.module
    if isinstance(model, EmbeddingModel):
        look, device = Look(model.input_size, model.resize), str(model.embedder.weight.device)
    else:
        look, device = model.look, model.device
    views = [np.asarray(look(photo)) for photo in photos]
    x = torch.from_numpy(np.stack(views)).to(device).permute(0, 3, 1, 2).float()
    features, head = _split_network(model, x)
    with torch.no_grad():
        embeddings = F.normalize(head(features), dim=1)
    importances = attention.importances(head, features.split(1), same, score)
    maps = attention.stretch(attention.weighted_map(torch.cat(importances), features))
    return Explanation(
        tuple(views),
        tuple(attention.enlarge(maps, (look.size, look.size)).cpu().numpy()),
        tuple((embeddings[1:] - embeddings[0]).norm(dim=1).tolist()),
        same,
    )


def _split_network(model: EmbeddingModel | Adapted, x: Tensor) -> tuple[Tensor, Head]:
    """The last feature map [T, c, h, w] of pictures x [T, 3, S, S], and what makes vectors of it."""
    if isinstance(model, EmbeddingModel):
        with torch.no_grad():
            features = model.pooled_map(model.preprocess(x)).to(model.embedder.weight.dtype)
        return features, model.projected
    network, module = model.network, model.module
    # Modules of TorchScript take no hooks of Python's inside.
    if network is None or not isinstance(module, nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise UserError(NO_MAP.format(model.name, "it is no network of torch with gradients"))
    outputs: list[tuple[nn.Module, Tensor]] = []

    def note(part: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim > 2 and output[0, 0].numel() > 1:
            outputs.append((part, output))

    with ExitStack() as hooks, torch.no_grad():
        for part in module.modules():
            hooks.enter_context(part.register_forward_hook(note))
        network(x)
    last, features = outputs[-1] if outputs else (module, x.new_zeros(0))
    uses = sum(part is last for part, _ in outputs)
    if features.ndim != 4 or features.shape[2] != features.shape[3] or uses != 1:
        raise UserError(NO_MAP.format(model.name, "it pools tokens, or none of its modules gives a map"))

    def head(maps: Tensor) -> Tensor:
        with last.register_forward_hook(lambda *_: maps):
            return network(x[: len(maps)])

    return features, head
