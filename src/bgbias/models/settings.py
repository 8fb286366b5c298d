"""How photos go through a model, for who plans it as for who does it."""

from typing import NamedTuple


class How(NamedTuple):
    """How a model embeds photos. ``precision``: fp32 or bf16; ``batch_size``: photos at once; ``pooled``: by the backbone's mean
    features at unit length, instead of its embedding.
    """

    device: str = "cpu"
    precision: str = "fp32"
    batch_size: int = 64
    pooled: bool = False


USUAL = How()
