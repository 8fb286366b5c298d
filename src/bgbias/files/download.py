"""A file from a web server: resumed where it broke off, tried again while the failure may pass, never taken unfinished."""

import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bgbias import progress

CHUNK = 2**20
TIMEOUT_SECONDS = 60.0  # without a single byte
PAUSES = (1.0, 4.0, 16.0)  # seconds before each further try that follows one without any progress
PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that may be others a moment later


class NotHad(OSError):
    """Why a file cannot be had from a place, in words."""


def download(url: str, partial: Path, label: str, size: int | None = None) -> None:
    """Bring what ``url`` serves to ``partial``, whose bytes are kept and continued; it is complete when this returns.

    ``size`` in bytes, where known, tells a wrong file before it is fetched. Redirects are followed. Broken and stalled
    connections and servers in trouble are tried again after ``PAUSES``; a connection that brought something starts counting
    anew. A missing file (404), a web page in place of a file, and failures that stay are ``NotHad``.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    pauses = iter(PAUSES)
    while True:
        before = _count_bytes(partial)
        try:
            _go_on(url, partial, label, size)
            return
        except (OSError, http.client.HTTPException) as error:
            may_pass = _may_pass(error)
            have = _count_bytes(partial)
            if have > before:
                pauses = iter(PAUSES)
            pause = next(pauses, None) if may_pass else None
            if pause is None:
                note = f"; {progress.size(have)} are kept, the same command goes on there" if have else ""
                raise NotHad(f"{_format_error(error)}{note}") from error
            progress.say(f"{label}: {_format_error(error)}; trying again in {pause:g} s")
            time.sleep(pause)


def _go_on(url: str, partial: Path, label: str, size: int | None) -> None:
    have, version = _count_bytes(partial), _version_path(partial)
    etag = version.read_text(encoding="utf-8") if have and version.exists() else ""
    # A file that was replaced meanwhile comes whole, not as an end that does not fit.
    headers = ({"Range": f"bytes={have}-"} | ({"If-Range": etag} if etag else {})) if have else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        # "Range not satisfiable": all of it is here, or what is here belongs to another file.
        if error.code != 416:
            raise
        if _parse_length(error.headers.get("Content-Range")) != have:
            partial.unlink()
            raise ConnectionError("what was downloaded before is longer than the file") from error
        version.unlink(missing_ok=True)
        return
    with response:
        is_rest = have > 0 and response.status == 206
        if is_rest and not str(response.headers.get("Content-Range")).startswith(f"bytes {have}-"):
            partial.unlink()
            raise ConnectionError("the server went on at another place than was asked for")
        length = response.headers.get("Content-Length")
        stated = response.headers.get("Content-Range")
        total = _parse_length(stated) if is_rest else int(length) if length else None
        if not is_rest and response.headers.get_content_type() == "text/html":
            raise NotHad("a web page came, not the file")
        if size is not None and total is not None and total != size:
            raise NotHad(f"a file of {total} bytes is there, not one of {size}")
        if is_rest:
            progress.say(f"{label}: going on after {progress.size(have)}")
        # Only a strong ETag, or a date, says that two answers are of one file.
        tag = str(response.headers.get("ETag") or "")
        strong = tag.startswith('"')
        version.write_text(tag if strong else str(response.headers.get("Last-Modified") or ""), "utf-8")
        steps = max(1, (total - (have if is_rest else 0)) // CHUNK) if total else None
        with partial.open("ab" if is_rest else "wb") as file:
            for _ in progress.track(_write_megabytes(response, file), steps, f"{label} (MB)"):
                pass
    # http.client ends quietly when the connection does.
    received = _count_bytes(partial)
    if total is not None and received < total:
        raise ConnectionError(f"the connection ended after {received} of {total} bytes")
    version.unlink(missing_ok=True)


def _write_megabytes(response: http.client.HTTPResponse, file: BinaryIO) -> Iterator[int]:
    """Write what comes at once, so that a stalled connection loses nothing; one step for each full megabyte."""
    pending = 0
    while piece := response.read1(CHUNK):
        file.write(piece)
        pending += len(piece)
        while pending >= CHUNK:
            pending -= CHUNK
            yield CHUNK


def _may_pass(error: Exception) -> bool:
    """Whether another try might succeed; what is the disk's fault, not the network's, is raised again."""
    if isinstance(error, NotHad):
        return False
    if isinstance(error, urllib.error.HTTPError):
        return error.code in PASSING
    if isinstance(error, urllib.error.URLError):
        # Nor an unknown host, a refused connection, a wrong certificate: the machine is offline, or the host is gone.
        return isinstance(error.reason, TimeoutError | ConnectionResetError)
    if isinstance(error, TimeoutError | ConnectionError | http.client.HTTPException | ssl.SSLError):
        return True
    raise error


def _format_error(error: Exception) -> str:
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return f"nothing came for {TIMEOUT_SECONDS:g} s"
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return str(error.reason)
    return str(error) or type(error).__name__


def forget(partial: Path) -> None:
    """Clear away what a download has begun, if anything."""
    partial.unlink(missing_ok=True)
    _version_path(partial).unlink(missing_ok=True)


def _version_path(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.version")


def _parse_length(content_range: str | None) -> int | None:
    """The file's length by a ``Content-Range`` header, where it says so."""
    length = re.search(r"/(\d+)$", content_range or "")
    return int(length[1]) if length else None


def _count_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
