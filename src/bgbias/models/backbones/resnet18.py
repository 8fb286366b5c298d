"""ResNet-18 (He et al., CVPR 2016) as torchvision builds, trains and normalises it."""

from bgbias.models.backbones._params import Pretrained as Params
from bgbias.models.backbones._torchvision import facts, published, resnet

__all__ = ["FACTS", "HEAD", "PUBLISHED", "Params", "build"]

FACTS = facts(channels=512)
PUBLISHED = published("resnet18-f37072fd.pth")
HEAD = "fc."
build = resnet("resnet18")
