"""From views to embeddings, by a frozen copy of a model that is faster."""

import copy
import itertools
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from bgbias import seeds
from bgbias.compute.device import autocast
from bgbias.compute.transfer import prefetch, to_host
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import USUAL, How


def for_inference(model: EmbeddingModel) -> EmbeddingModel:
    """A frozen copy that embeds faster: batch norms folded into convolutions, channels last.

    A batch norm is folded into the convolution that stands before it among its siblings. Whether that is also
    the order of computation is checked on a random picture: where the embedding moves by more than 1e-4 the
    copy keeps its batch norms.
    """
    plain = copy.deepcopy(model).eval().requires_grad_(False)
    plain.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    folded = copy.deepcopy(plain)
    _fold_batch_norms(folded.trunk)
    weight, size = model.embedder.weight, model.input_size
    picture = torch.rand(1, 3, size, size, generator=seeds.torch_generator("fold check"))
    x = model.preprocess(255 * picture.to(weight.device, weight.dtype))
    with torch.no_grad():
        pairs = ((plain(x), folded(x)), (plain.pooled(x), folded.pooled(x)))
    same = all(torch.allclose(a, b, rtol=0, atol=1e-4) for a, b in pairs)
    return folded if same else plain


def embed_views(model: EmbeddingModel, views: Iterator[np.ndarray], how: How = USUAL) -> np.ndarray:
    """Embeddings float32 [N, D] of N views uint8 [S, S, 3]; no views at all are an error."""

    def batches() -> Iterator[torch.Tensor]:
        while gathered := list(itertools.islice(views, how.batch_size)):
            yield torch.from_numpy(np.stack(gathered))

    return embed_batches(model, batches(), how)


def embed_batches(model: EmbeddingModel, batches: Iterator[torch.Tensor], how: How = USUAL) -> np.ndarray:
    """The same of batches uint8 [n, S, S, 3], each of which is made and sent while the last one goes through the network."""

    def embedded() -> Iterator[torch.Tensor]:
        embed = model.pooled if how.pooled else model
        for x in sent:
            inputs = model.preprocess(x.permute(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
            yield embed(inputs).float()

    # In one piece: a small array of each batch, kept among large ones that come and go, would leave holes in the memory that
    # nothing fills, 28 kB a view of a small network.
    vectors, dimension = bytearray(), 0
    # Whoever closes the batches after an interrupt must not meet the thread that makes them.
    with (
        closing(prefetch(batches, how.device)) as sent,
        torch.inference_mode(),
        autocast(how.device, how.precision),
    ):
        for batch in to_host(embedded()):
            dimension = batch.shape[1]
            vectors += batch.numpy().tobytes()
    if not vectors:
        raise UserError("There are no photos to embed.")
    return np.frombuffer(vectors, np.float32).reshape(-1, dimension)


def _fold_batch_norms(module: nn.Module) -> None:
    previous: tuple[str, nn.Module] | None = None
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d) and previous is not None and isinstance(previous[1], nn.Conv2d):
            setattr(module, previous[0], fuse_conv_bn_eval(previous[1], child))
            # Some batch norms hold an activation, which stays.
            setattr(module, name, nn.Sequential(*child.children()))
        else:
            _fold_batch_norms(child)
        previous = (name, child)
