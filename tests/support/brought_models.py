"""Photos and checkpoints, small and random, for the tests of models that somebody brings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from bgbias import seeds
from bgbias.models.adapters import Adapted

# (height, width): margins around the middle are odd and even, up and down, and one photo is smaller than what is seen of it.
SHAPES = ((97, 131), (140, 90), (64, 64), (40, 55))


def photos() -> list[np.ndarray]:
    """Smooth enough that resizing matters and rough enough that its kind does, uint8 [H, W, 3] each."""
    made = []
    for number, (height, width) in enumerate(SHAPES):
        rough = seeds.generator("brought", number).integers(0, 256, (height // 3, width // 3, 3), np.uint8)
        made.append(np.asarray(Image.fromarray(rough).resize((width, height), Image.Resampling.BILINEAR)))
    return made


def ours(model: Adapted) -> np.ndarray:
    """The photos' vectors, through ``look`` and ``embed``."""
    return model.embed(np.stack([model.look(photo) for photo in photos()]))


def theirs(prepare: Callable[[Image.Image], Tensor], network: Callable[[Tensor], Tensor]) -> np.ndarray:
    """The photos' vectors, through a library's own preparation of Pillow's pictures and its own network."""
    with torch.no_grad():
        x = torch.stack([prepare(Image.fromarray(photo)) for photo in photos()])
        return network(x).float().numpy()


def assert_equal(found: np.ndarray, expected: np.ndarray, share: float = 1e-3) -> None:
    """To rounding, as a share of what sets the photos apart."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < share * np.abs(expected - expected.mean(axis=0)).max()


def assert_gradients_reach_the_picture(model: Adapted) -> None:
    """And ``network`` gives what ``embed`` gives."""
    assert model.network is not None
    views = np.stack([model.look(photo) for photo in photos()[:2]])
    x = torch.from_numpy(views).permute(0, 3, 1, 2).float().requires_grad_()
    vectors = model.network(x)
    assert_equal(vectors.detach().numpy(), model.embed(views))
    (gradient,) = torch.autograd.grad(vectors.square().sum(), x)
    assert gradient.shape == x.shape
    assert gradient.abs().amax((1, 2, 3)).min() > 0


def randomised(network: nn.Module, which: int = 0) -> Any:
    """The network in evaluation mode, with weights and statistics as if it had been trained; ``which``: one of many."""
    generator = seeds.torch_generator("brought", which)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if not tensor.is_floating_point() or not tensor.numel():
                continue
            if name.endswith("running_var") or (name.endswith("weight") and tensor.ndim == 1):
                tensor.uniform_(0.5, 1.5, generator=generator)
            else:
                fan = max(1, tensor[0].numel()) if tensor.ndim > 1 else 100
                tensor.normal_(0, (1.5 / fan) ** 0.5, generator=generator)
    return network.eval()


def saved(network: nn.Module, path: Path, prefix: str = "", nested: tuple[str, ...] = ()) -> Path:
    """Its state dict in a file, as trainings wrap it."""
    held: Any = {prefix + name: tensor for name, tensor in network.state_dict().items()}
    for name in reversed(nested):
        held = {name: held, "epoch": 3}
    torch.save(held, path)
    return path
