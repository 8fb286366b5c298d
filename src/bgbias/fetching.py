"""From a source to a verified local archive: a URL (resumed where it broke off), a local file, or a folder."""

from __future__ import annotations

import errno
import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath

from pydantic import Field

from bgbias import paths, progress
from bgbias.atomic import replacing
from bgbias.errors import UserError
from bgbias.store import writing
from bgbias.strict import Strict

CHUNK = 2**20
TIMEOUT_SECONDS = 60
DOWNLOADS = Path("data/downloads")  # what somebody put here under its official name is taken first
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


def is_picture(name: str) -> bool:
    """Whether a file of this name (a path with ``/``) is a picture, and not one of the hidden files that systems add."""
    path = PurePosixPath(name)
    return path.suffix.lower() in PICTURES and not any(p.startswith((".", "__MACOSX")) for p in path.parts)


class Source(Strict):
    """One place an archive can come from, with the checksum it must have."""

    place: str = Field(description="a URL, a file, a folder, or shared:<file>")
    sha256: str | None = Field(None, description="all of it, or its beginning")
    md5: str | None = None


def fetch(sources: tuple[Source, ...], target: Path, name: str, cure: str | None = None) -> Source:
    """Put the first source that can be had at ``target``; the one that was used comes back.

    A checksum that does not match is an error, never a fallback to an unverified file. If no source works, the error lists what
    was tried and how to put the file there by hand (``cure``, where it is no dataset's archive).
    """
    tried = []
    for source in sources:
        try:
            _take(source, target)
            return source
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise
            tried.append(f"  {source.place}: {error}")
    sums = next(
        (f" (md5 {s.md5})" if s.md5 else f" (sha256 {s.sha256})" for s in sources if s.md5 or s.sha256), ""
    )
    cure = cure or (
        f"Get the file{sums} by other means and name it in params.yaml: datasets.{name}.options.source: /path/to/file;"
        f" then run: python -m bgbias fetch {name}"
    )
    raise UserError(f"{name} could not be fetched.\n" + "\n".join(tried) + f"\n{cure}")


def _take(source: Source, target: Path) -> None:
    if "://" in source.place:
        _download(source, target)
        return
    origin = paths.source(source.place)
    if not origin.exists():
        raise FileNotFoundError("no such file or folder")
    if origin.is_dir():
        _pack(origin, target)
        return
    _verify(origin, source)
    with replacing(target) as temporary:
        shutil.copyfile(origin, temporary)


def _pack(folder: Path, target: Path) -> None:
    """A folder's pictures as one archive, in sorted order."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    names = [name for name in names if is_picture(name)]
    if not names:
        raise UserError(
            f"The folder {folder} holds no pictures ({', '.join(PICTURES)}), not even in folders below it."
        )
    with writing(target) as store:
        for name in names:
            store.add(name, (folder / name).read_bytes())


def _download(source: Source, target: Path) -> None:
    # Named after the place, so that another one's beginning is never continued.
    place = hashlib.sha256(source.place.encode()).hexdigest()[:8]
    partial = target.with_name(f"{target.name}.{place}.download")
    partial.parent.mkdir(parents=True, exist_ok=True)
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(source.place, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # "range not satisfiable": everything is here already
            raise
    else:
        with response:
            resumed = have > 0 and response.status == 206
            total = int(response.headers.get("Content-Length") or 0)
            expected = (have if resumed else 0) + total
            blocks = iter(lambda: response.read(CHUNK), b"")
            with partial.open("ab" if resumed else "wb") as file:
                for block in progress.track(
                    blocks, max(1, total // CHUNK), f"fetch {target.parent.name} (MB)"
                ):
                    file.write(block)
        found = partial.stat().st_size
        if total and found < expected:
            # http.client ends quietly when the connection does.
            raise ConnectionError(
                f"the connection ended after {found} of {expected} bytes; the same command goes on there"
            )
    try:
        _verify(partial, source)
    except UserError:
        partial.unlink()
        raise
    partial.replace(target)


def _verify(path: Path, source: Source) -> None:
    for algorithm, wanted in (("sha256", source.sha256), ("md5", source.md5)):
        if wanted is None:
            continue
        with path.open("rb") as file:
            found = hashlib.file_digest(file, algorithm).hexdigest()
        # Published file names hold the beginning of their sha256.
        if not (found.startswith(wanted) if algorithm == "sha256" else found == wanted):
            raise UserError(
                f"{source.place}: wrong checksum ({algorithm} {found}, expected {wanted}). The file is damaged or another one;"
                " get it again, or correct the checksum in params.yaml if you trust the file."
            )
