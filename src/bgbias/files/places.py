"""Where a source lies that params.yaml or a command names."""

import os
from pathlib import Path

import platformdirs

from bgbias.files.pictures import locator

SHARED_PREFIX = "shared:"
PUBLISHED = Path("data/published")
RESULTS = Path("docs/results")  # of a project's own grids, as its pages show them


def project_root() -> Path:
    """The folder that holds params.yaml, looked for from here upwards; the current folder if there is none."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "params.yaml").exists():
            return folder
    return Path.cwd()


def cache() -> Path:
    """The folder for what takes long to make and may be deleted: $BGBIAS_CACHE, else the platform's user cache."""
    return Path(os.environ.get("BGBIAS_CACHE") or platformdirs.user_cache_dir("bgbias", appauthor=False))


def source(text: str) -> Path:
    """A source as params.yaml spells it: ``shared:x`` lies in $BGBIAS_SHARED_DATA (default ../shared/data), else as written,
    in whatever form its name lies on the disk.
    """
    if text.startswith(SHARED_PREFIX):
        shared = Path(os.environ.get("BGBIAS_SHARED_DATA", project_root().parent / "shared" / "data"))
        return shared / text.removeprefix(SHARED_PREFIX)
    return locator()(Path(text).expanduser())
