"""HEIC, as telephones write it: Pillow reads it where the library pillow-heif is installed."""

from functools import cache
from importlib import import_module

ENDINGS = (".heic", ".heif", ".hif")
STEP = "or pip install pillow-heif, by which an audit reads it"


@cache
def readable() -> bool:
    """Whether such pictures can be read from now on: the library has to tell Pillow once in each process."""
    try:
        # By its name, since nothing of ours asks for it to be installed.
        import_module("pillow_heif").register_heif_opener()
    except ImportError:
        return False
    return True
