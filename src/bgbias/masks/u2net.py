"""U²-Net, the saliency network that says which pixels are object (Qin et al., Pattern Recognition 2020).

A U whose every stage is itself a small U (an RSU). Module names are those of the official release, so that
``u2net.pth`` and ``u2netp.pth`` load strictly. The full net has 44,009,869 parameters, U²-Net-p 1,131,181.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

# Dilations of the encoder's convolutions, from the finest scale to the bottom. RSU-L halves the map between
# all but the last two; RSU-4F never does: where maps are already tiny, it widens its view by dilation alone.
RSU7 = (1, 1, 1, 1, 1, 1, 2)
RSU6 = RSU7[1:]
RSU5 = RSU7[2:]
RSU4 = RSU7[3:]
RSU4F = (1, 2, 4, 8)

# Stage by stage: block, middle channels, output channels. Stages 1-6 go down, 5d-1d come up again.
Stages = dict[str, tuple[Sequence[int], int, int]]
FULL: Stages = {
    "stage1": (RSU7, 32, 64),
    "stage2": (RSU6, 32, 128),
    "stage3": (RSU5, 64, 256),
    "stage4": (RSU4, 128, 512),
    "stage5": (RSU4F, 256, 512),
    "stage6": (RSU4F, 256, 512),
    "stage5d": (RSU4F, 256, 512),
    "stage4d": (RSU4, 128, 256),
    "stage3d": (RSU5, 64, 128),
    "stage2d": (RSU6, 32, 64),
    "stage1d": (RSU7, 16, 64),
}
SMALL: Stages = {name: (block, 16, 64) for name, (block, _, _) in FULL.items()}
# Where each side output is taken, side 1 to side 6.
SIDES = ("stage1d", "stage2d", "stage3d", "stage4d", "stage5d", "stage6")


def upsample(x: Tensor, like: Tensor) -> Tensor:
    """``x`` bilinearly resized to the height and width of ``like``."""
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)


def halve(x: Tensor) -> Tensor:
    """The map at half the size; an odd row or column is kept, not dropped."""
    return F.max_pool2d(x, 2, stride=2, ceil_mode=True)


class ConvNormRelu(nn.Module):
    """3x3 convolution (with bias), batch norm, ReLU: the official ``REBNCONV``."""

    def __init__(self, channels_in: int, channels_out: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv_s1 = nn.Conv2d(channels_in, channels_out, 3, padding=dilation, dilation=dilation)
        self.bn_s1: nn.Module = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn_s1(self.conv_s1(x)), inplace=True)

    def fold(self) -> None:
        """Move the batch norm's fixed affine map into the convolution; outputs in eval mode stay the same."""
        if isinstance(self.bn_s1, nn.BatchNorm2d):
            self.conv_s1 = fuse_conv_bn_eval(self.conv_s1, self.bn_s1)
            self.bn_s1 = nn.Identity()


class RSU(nn.Module):
    """Residual U-block: a little U-Net over its own input convolution, to which its result is added."""

    def __init__(
        self, dilations: Sequence[int], channels_in: int, channels_mid: int, channels_out: int
    ) -> None:
        super().__init__()
        self.depth = len(dilations)
        self.pools = tuple(dilations) != RSU4F
        self.rebnconvin = ConvNormRelu(channels_in, channels_out)
        for level, dilation in enumerate(dilations, 1):
            down = ConvNormRelu(channels_out if level == 1 else channels_mid, channels_mid, dilation)
            self.add_module(f"rebnconv{level}", down)
        for level, dilation in reversed(list(enumerate(dilations[:-1], 1))):
            up = ConvNormRelu(2 * channels_mid, channels_out if level == 1 else channels_mid, dilation)
            self.add_module(f"rebnconv{level}d", up)

    def forward(self, x: Tensor) -> Tensor:
        # Stages of one net may differ in precision (see ``U2Net.to_bfloat16``).
        entry = self.rebnconvin(x.to(self.rebnconvin.conv_s1.weight.dtype))
        levels: list[Tensor] = [self.get_submodule("rebnconv1")(entry)]
        for level in range(2, self.depth + 1):
            x = halve(levels[-1]) if self.pools and level < self.depth else levels[-1]
            levels.append(self.get_submodule(f"rebnconv{level}")(x))
        x = levels.pop()
        for level in range(self.depth - 1, 0, -1):
            skip = levels.pop()
            if self.pools:
                x = upsample(x, skip)
            x = self.get_submodule(f"rebnconv{level}d")(torch.cat((x, skip), 1))
        # A backward pass needs x as it was; without one nothing else reads it.
        return x + entry if torch.is_grad_enabled() else x.add_(entry)


class U2Net(nn.Module):
    """The network: float RGB [B,3,H,W] to seven logit maps [B,1,H,W], first the fused one, then sides 1 to 6.

    All seven are trained (deep supervision); a mask is the sigmoid of the first.
    """

    def __init__(self, stages: Stages = FULL) -> None:
        super().__init__()
        out = {name: channels for name, (_, _, channels) in stages.items()}
        channels_in = 3
        for name, (block, mid, channels_out) in stages.items():
            if name.endswith("d"):  # the way up also sees the stage of its own size on the way down
                channels_in += out[name.removesuffix("d")]
            self.add_module(name, RSU(block, channels_in, mid, channels_out))
            channels_in = channels_out
        for number, name in enumerate(SIDES, 1):
            self.add_module(f"side{number}", nn.Conv2d(out[name], 1, 3, padding=1))
        self.outconv = nn.Conv2d(len(SIDES), 1, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        down: list[Tensor] = [self.get_submodule("stage1")(x)]
        for number in range(2, 7):
            down.append(self.get_submodule(f"stage{number}")(halve(down[-1])))
        coarse_to_fine = [down.pop()]
        for number in range(5, 0, -1):
            skip = down.pop()
            joined = torch.cat((upsample(coarse_to_fine[-1], skip), skip), 1)
            coarse_to_fine.append(self.get_submodule(f"stage{number}d")(joined))
        sides = [
            upsample(self.get_submodule(f"side{number}")(features.float()), x)
            for number, features in enumerate(reversed(coarse_to_fine), 1)
        ]
        return [self.outconv(torch.cat(sides, 1)), *sides]

    def fold(self) -> U2Net:
        """This net in eval mode with every batch norm folded into its convolution; for inference only."""
        self.eval()
        for module in self.modules():
            if isinstance(module, ConvNormRelu):
                module.fold()
        return self

    def to_bfloat16(self) -> U2Net:
        """This net in bfloat16 wherever that leaves masks as they are, for inference; outputs stay float32.

        Rounding the weights of stage 2d moves masks of the published U²-Net-p visibly (mean IoU with float32 .975 instead of .996
        on 30 photos), that of all other stages together hardly. The outputs have one channel, so that float32 is free there.
        """
        for name, stage in self.named_children():
            if isinstance(stage, RSU) and name != "stage2d":
                stage.to(torch.bfloat16)
        return self


# The full net, 176 MB of weights, and the small one, 4.7 MB.
u2net, u2netp = U2Net, partial(U2Net, SMALL)
NETS: dict[str, Callable[[], U2Net]] = {"u2net": u2net, "u2netp": u2netp}
