"""ResNet-152 (He et al., CVPR 2016) as torchvision builds, trains and normalises it."""

from bgbias.models.backbones._params import Pretrained as Params
from bgbias.models.backbones._torchvision import facts, published, resnet

__all__ = ["FACTS", "HEAD", "PUBLISHED", "Params", "build"]

FACTS = facts(channels=2048)
PUBLISHED = published("resnet152-394f9c45.pth")  # the original recipe, as in the literature
HEAD = "fc."
build = resnet("resnet152")
