"""Networks that have forgotten what they learned, from the top down: what a map shows of them, it does not show of the training.

After the cascading randomisation of Adebayo et al. (Sanity Checks for Saliency Maps, NeurIPS 2018). Entries of each tensor are
permuted and not drawn anew, so that the network's magnitudes, and what its batch norms know of them, stay as they are.
"""

import copy

import torch

from bgbias import seeds
from bgbias.models.model import EmbeddingModel

# From the embedding layer alone to everything: the share of the trunk's tensors, from the top, that goes with it.
LEVELS = {"embedder": 0.0, "upper_half": 0.5, "all": 1.0}


def randomised(model: EmbeddingModel, level: str) -> EmbeddingModel:
    """A copy of which all above the trunk, and the level's share of the trunk's tensors from the top, are permuted."""
    forgotten = copy.deepcopy(model)
    trunk = [(name, tensor) for name, tensor in forgotten.named_parameters() if name.startswith("trunk.")]
    above = [(name, tensor) for name, tensor in forgotten.named_parameters() if not name.startswith("trunk.")]
    gone = trunk[len(trunk) - round(LEVELS[level] * len(trunk)) :]
    with torch.no_grad():
        for name, tensor in (*gone, *above):
            order = torch.randperm(tensor.numel(), generator=seeds.torch_generator("randomised", name))
            tensor.copy_(tensor.flatten()[order.to(tensor.device)].view_as(tensor))
    return forgotten
