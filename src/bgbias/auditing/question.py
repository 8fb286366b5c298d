"""What an audit is asked, before any model looks."""

from __future__ import annotations

from dataclasses import dataclass

from bgbias.auditing.asked import Asked
from bgbias.auditing.backgrounds import BackgroundPhotos
from bgbias.auditing.masker import NamedMasker
from bgbias.auditing.photos import PhotoCollection


@dataclass(frozen=True)
class Question:
    """What is looked at, in front of what, and what is asked; ``masker`` None: every photo came with its mask. ``command``: what
    a person typed to ask, if she did.
    """

    collection: PhotoCollection
    masker: NamedMasker | None
    backgrounds: BackgroundPhotos
    asked: Asked
    command: str = ""
