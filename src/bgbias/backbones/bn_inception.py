"""BN-Inception (Ioffe & Szegedy, ICML 2015), the network of the metric-learning literature, in Caffe's arithmetic.

The names are those of the published ``bn_inception-52deb4733.pth`` (Cadene's pretrained-models.pytorch, converted from Caffe):
BGR in 0..255 without division. Pools round their output's size up, as Caffe does: 224 and 227 pixels both give 7 x 7 places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bgbias.backbones import Facts
from bgbias.backbones._params import Pretrained as Params
from bgbias.fetching import Source
from bgbias.images import Preprocess

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FACTS", "HEAD", "PUBLISHED", "Params", "build"]

FACTS = Facts(227, 256, Preprocess(1.0, (104.0, 117.0, 128.0), (1.0, 1.0, 1.0), "bgr"), channels=1024)
PUBLISHED = (
    Source(
        place="http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth", sha256="52deb4733"
    ),
)
HEAD = "last_linear."


class Module(NamedTuple):
    """Channels of an inception module's paths, each narrowed before it is convolved.

    ``single``: 1x1; ``triple``: 1x1, 3x3; ``double``: 1x1, 3x3, 3x3 of the same width; ``pooled``: 3x3 pool, 1x1. Without
    ``single`` and ``pooled`` the module halves the map, and its pool passes all channels on.
    """

    single: int
    triple: tuple[int, int]
    double: tuple[int, int]
    pooled: int


MODULES = {
    "3a": Module(64, (64, 64), (64, 96), 32),
    "3b": Module(64, (64, 96), (64, 96), 64),
    "3c": Module(0, (128, 160), (64, 96), 0),
    "4a": Module(224, (64, 96), (96, 128), 128),
    "4b": Module(192, (96, 128), (96, 128), 128),
    "4c": Module(160, (128, 160), (128, 160), 128),
    "4d": Module(96, (128, 192), (160, 192), 128),
    "4e": Module(0, (128, 192), (192, 256), 0),
    "5a": Module(352, (192, 320), (160, 224), 128),
    "5b": Module(352, (192, 320), (192, 224), 128),
}
MAX_POOLED = ("3c", "4e", "5b")  # all others average, zeros beyond the border counted


def build(params: Params) -> nn.Module:
    """The trunk, random, 10.3 million parameters: float [B, 3, H, W], BGR, to [B, 1024, ~H/32, ~W/32]."""
    from bgbias.backbones._inception import Inception

    return Inception(MODULES, MAX_POOLED)
