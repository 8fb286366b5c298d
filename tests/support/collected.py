"""Photos as an audit collects them: chosen by name, then looked at."""

from typing import Any

from bgbias.auditing.photos import PhotoCollection, choose, look_at
from bgbias.photos.sources import Source


def collect(source: Source, **how: Any) -> PhotoCollection:
    """The photos of a source, chosen as ``how`` says."""
    return look_at(choose(source, **how))
