"""BN-Inception (Ioffe & Szegedy, ICML 2015), the network of the metric-learning literature, in Caffe's arithmetic.

The names are those of the published ``bn_inception-52deb4733.pth`` (Cadene's pretrained-models.pytorch, converted from Caffe):
BGR in 0..255 without division. Pools round their output's size up, as Caffe does: 224 and 227 pixels both give 7 x 7 places.
"""

from __future__ import annotations

from bgbias.compute.lazy import nn
from bgbias.files.fetch import Source
from bgbias.models.backbones import Facts, Pretrained
from bgbias.models.preprocess import Preprocess

Params = Pretrained
FACTS = Facts(227, 256, Preprocess(1.0, (104.0, 117.0, 128.0), (1.0, 1.0, 1.0), "bgr"), channels=1024)
PLACE = "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
PUBLISHED = (Source(place=PLACE, sha256="52deb4733"),)
HEAD = "last_linear."


def build(params: Params) -> nn.Module:
    """The trunk, random, 10.3 million parameters: float [B, 3, H, W], BGR, to [B, 1024, ~H/32, ~W/32]."""
    from bgbias.models.backbones._inception import BNInception

    return BNInception()
