"""What is done to the test photos before a model embeds them: one condition, one file.

A file has ``TITLE``, its name for people; ``NEEDS``, what it reads beside photos, of ``masks``, ``backgrounds``, ``inpainted``
and, in audits, ``second_masks`` (where it needs masks, a photo without a trusted one stays as it is); ``DRAWS``, whether there is
chance in it, so that every draw is another picture; ``SETTINGS``, how its views are ranked (``symmetric``: among each other;
``query``: as queries to the clean gallery; empty: within places and across them alone, ``evaluation/across_places.py``); and
``view(photo, draw)``, the picture that the model sees, uint8 [S, S, 3], of a ``bgbias.evaluation.photos.Photo``.
One that takes backgrounds from other photos says which in ``donor(photo, draw)``. ``BATCHED``, which may be left out, is true
where ``view`` asks a photo for nothing but pictures and mixes them by ``bgbias.images.composite`` alone: a GPU gives it a
whole ``PhotoBatch`` (``evaluation/device_views.py``), and gets uint8 [B, S, S, 3].
"""

from collections.abc import Iterable

from bgbias import plugins

SHARED = {
    "_controls": (
        *("only_fg", "no_fg", "only_bg", "own_inpainted", "mixed_same", "mixed_rand", "mixed_next"),
        *("class_here", "class_there", "others_here", "others_there"),
    ),
    "_placed": ("moved", "scaled"),
    "random_background": ("either_mask", "both_masks"),
}
CLEAN, RANDOM_BACKGROUND = "clean", "random_background"
SYMMETRIC, QUERY_ONLY = "symmetric", "query"

View = tuple[str, int]
"""A condition and the number of a draw."""


def views(conditions: Iterable[str], draws: int) -> tuple[View, ...]:
    """The views of each photo under these conditions: ``draws`` of one with chance in it, else one."""
    repeats = {name: draws if plugins.load("conditions", name).DRAWS else 1 for name in conditions}
    return tuple((name, draw) for name, count in repeats.items() for draw in range(count))


def needs(conditions: Iterable[str]) -> frozenset[str]:
    """What these conditions read beside photos: the ``NEEDS`` of all of them."""
    return frozenset().union(*(plugins.load("conditions", name).NEEDS for name in conditions))
