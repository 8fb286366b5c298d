"""Random numbers from names: what is drawn depends on what it is for, never on the order of calls.

A generator is keyed by the identity of the thing it draws for (a purpose and, say, a cell, an epoch, an image), so that batch
size, worker count and resumption cannot change a result, and two models see the same corrupted photo.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def number(text: str) -> int:
    """The first 8 bytes, big-endian, of the SHA-256 of ``text``: an unsigned 64-bit integer (docs/methods.md, section 2)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def key(purpose: str, *identity: object) -> str:
    """The one spelling of a key: parts joined by ``|``, as in ``cub200|test|bg|4|5923``."""
    return "|".join([purpose, *map(str, identity)])


def generator(purpose: str, *identity: object) -> np.random.Generator:
    """A NumPy generator that belongs to this purpose and identity alone."""
    return np.random.default_rng(number(key(purpose, *identity)))


def torch_generator(purpose: str, *identity: object, device: str = "cpu") -> torch.Generator:
    """A torch generator that belongs to this purpose and identity alone."""
    import torch

    generator = torch.Generator(device=device)
    # torch takes a signed 64-bit seed.
    generator.manual_seed(number(key(purpose, *identity)) >> 1)
    return generator
