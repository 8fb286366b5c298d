"""Random models, whose weights do not matter to speed, and the real loop of training around them."""

import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.compute.device import pick
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch
from bgbias.training.settings import Train

PER_CLASS = 4  # photos in a batch


def random_model(backbone: str, device: str = "cpu", dim: int = 128) -> EmbeddingModel:
    """A backbone under a random embedding layer."""
    params = plugins.load("backbones", backbone).Params.model_validate(
        {} if backbone == "tiny" else {"weights": None}
    )
    return build_model(backbone, params, dim, seeds.torch_generator("bench")).to(device)


def frozen_model(backbone: str, device: str, dim: int = 128) -> EmbeddingModel:
    """The same as it embeds photos."""
    return for_inference(random_model(backbone, device, dim))


def normalise(model: EmbeddingModel, pictures: np.ndarray, device: str) -> Tensor:
    """Pictures uint8 [N, H, W, 3] as the model's input."""
    return model.preprocess(torch.from_numpy(pictures).to(device).permute(0, 3, 1, 2).float())


def contrastive_method(name: str, backbone: str, device: str) -> BaseMethod:
    """A method with the contrastive loss around a random model, on its device."""
    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 0, 128, seeds.torch_generator("bench"))
    module = plugins.load("methods", name)
    params = (module.Params(),) if hasattr(module, "Params") else ()
    method: BaseMethod = module.Method(random_model(backbone), base, *params)
    loop.to_device(method, device)
    return method


def trainer(method: str, backbone: str, steps: int, device: str) -> Callable[[Iterator[Batch]], object]:
    """So many steps of the real loop over given batches."""
    settings = Train(iterations_per_epoch=steps)
    trained = contrastive_method(method, backbone, device)
    optimizer = loop.make_optimizer(trained, settings)
    return lambda batches: loop.train_epoch(trained, batches, optimizer, settings, device, 1)


def train_when_told(device: str, steps: int) -> None:
    """Steps on a batch of 32 photos of 64 pixels for each line of the input, which says by how many threads; a line when done."""
    photos, rows = torch.randint(0, 256, (32, 3, 64, 64), dtype=torch.uint8), torch.arange(32)
    batch = Batch(photos, rows // PER_CLASS, rows)
    train = trainer("plain", "mobilenet_v2", steps, pick(device))
    for line in sys.stdin:
        torch.set_num_threads(int(line))
        train(iter([batch] * steps))
        print("done", flush=True)
