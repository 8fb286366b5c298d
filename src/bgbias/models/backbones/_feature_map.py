"""The last features of a network of timm as a map, whatever form they come in."""

import math
from typing import Any

from torch import Tensor, nn

from bgbias.errors import UserError


class FeatureMap(nn.Module):
    """Photos [B, 3, H, W] to a map [B, C, h, w]: channels go first, tokens go back to their places."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """The map before pooling."""
        features = self.net.forward_features(x)
        dims = features.ndim if isinstance(features, Tensor) else 0
        if dims == 4:
            declared = getattr(self.net, "output_fmt", "NCHW")
            last = declared == "NHWC" or features.shape[1] != self.net.num_features
            return features.permute(0, 3, 1, 2) if last else features
        if dims != 3:
            raise UserError(
                f"The network {type(self.net).__name__} of timm gives no feature map; choose another one."
            )
        if hasattr(self.net, "fc_norm"):
            features = self.net.fc_norm(features)
        tokens = features[:, getattr(self.net, "num_prefix_tokens", 0) :]
        count = tokens.shape[1]
        height = round(math.sqrt(count * (x.shape[-2] / x.shape[-1])))
        if height * (count // height) != count:
            raise UserError(
                f"{count} tokens of {type(self.net).__name__} are no map of the photo's shape; choose another one."
            )
        return tokens.transpose(1, 2).unflatten(2, (height, count // height))
