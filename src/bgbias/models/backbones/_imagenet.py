"""How torchvision's ImageNet networks want their photos."""

from __future__ import annotations

from bgbias.models.preprocess import Preprocess

INPUT_SIZE = 224
RESIZE = 256
PREPROCESS = Preprocess(1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "rgb")
