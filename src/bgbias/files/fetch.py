"""From a source to a verified local file: a file the user got, a URL, another local file, or a folder that is packed."""

import csv
import errno
import hashlib
import shutil
from dataclasses import dataclass
from io import StringIO
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pydantic import Field

from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.atomic import link_or_copy, replacing, write_text
from bgbias.files.checksums import checksum, sha256
from bgbias.files.locks import hold_lock
from bgbias.files.store import pack
from bgbias.progress import say
from bgbias.settings import Strict

WHOLE_SHA256 = 64
COLUMNS = ("dataset", "part", "file", "bytes", "sha256")  # of data/checksums.csv


class WrongFileError(UserError):
    """A place has another file than the one that is meant."""


class Source(Strict):
    """One place a file can come from, and what is known of the file."""

    place: str | None = Field(
        None, description="a URL, a file, a folder, or shared:<file>; null where no host serves it any more"
    )
    file: str | None = Field(
        None, description="official name; a copy under this name among the downloads is used before any place"
    )
    size: int | None = Field(None, description="bytes")
    sha256: str | None = Field(None, description="all of it, or its beginning")
    md5: str | None = None
    keep: tuple[str, ...] = Field(
        (), description="endings of the files that are packed beside pictures, if the place is a folder"
    )
    names: frozenset[str] | None = Field(
        None,
        exclude=True,
        description="the only files that are packed, if the place is a folder; all pictures if null",
    )
    hint: str = Field("", description="what else a person can do who cannot get the file")

    @property
    def remote(self) -> bool:
        """Whether the place is a URL."""
        return "://" in (self.place or "")

    @property
    def called(self) -> str:
        """The file's official name, or the last piece of its place."""
        place = self.place or ""
        return self.file or PurePosixPath(unquote(urlsplit(place).path if self.remote else place)).name

    @property
    def checks(self) -> tuple[object, ...]:
        """What tells the file from any other: equal for all places of one file."""
        return self.file, self.size, self.sha256, self.md5

    @property
    def facts(self) -> str:
        """Size and checksum, as people are told them; empty if nothing is known."""
        parts = [f"{self.size:,} bytes"] if self.size else []
        if self.md5:
            parts.append(f"md5 {self.md5}")
        elif self.sha256:
            is_whole = len(self.sha256) == WHOLE_SHA256
            parts.append(f"sha256 {'' if is_whole else 'begins with '}{self.sha256}")
        return f" ({', '.join(parts)})" if parts else ""


@dataclass(frozen=True)
class Desk:
    """Where a project keeps files that people fetched by hand, and checksums that nobody publishes: the
    sha256 of the first copy seen, which every later copy must have.

    ``checksums`` (data/checksums.csv) is small and meant to be committed, so that all who work on a study
    have the same files; ``lock`` keeps two fetches from writing at once.
    """

    downloads: Path
    checksums: Path
    lock: Path

    def pin(self, dataset: str, part: str, file: str, size: int, sha256: str) -> None:
        """Write a file's checksum down, or compare it with the one written down; another one is an error with both."""
        key, facts = (dataset, part, file), (str(size), sha256)
        with hold_lock(self.lock):
            pins = self._read()
            if key not in pins:
                text = StringIO()
                rows = sorted((pins | {key: facts}).items())
                csv.writer(text, lineterminator="\n").writerows([COLUMNS, *(k + v for k, v in rows)])
                write_text(self.checksums, text.getvalue())
            elif pins[key] != facts:
                old_size, old_sum = pins[key]
                raise UserError(
                    f"{file} ({dataset}/{part}) is not the file that was used before: its sha256 is {sha256} ({size} bytes),"
                    f" and {self.checksums} has {old_sum} ({old_size} bytes). Get the same file again; or, if the new one is"
                    f" right, delete its line from {self.checksums} and run: python -m bgbias fetch {dataset} {part}"
                )

    def _read(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        if not self.checksums.exists():
            return {}
        with self.checksums.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise UserError(
                    f"{self.checksums} must have the columns {', '.join(COLUMNS)}; restore it or delete it."
                )
            lines = [tuple(row[column] for column in COLUMNS) for row in rows]
        return {row[:3]: row[3:] for row in lines}


def fetch(
    sources: tuple[Source, ...],
    target: Path,
    name: str,
    cure: str | None = None,
    *,
    part: str = "",
    desk: Desk | None = None,
) -> Source:
    """Put the first source that can be had at ``target``; the one that was used comes back.

    A file that lies among the desk's downloads under a source's official name comes before all places. A checksum that does not
    match is an error, never a fallback to an unverified file: only a mirror that is held to the same checks is tried after a URL
    that serves another file, and both are told. Where no sha256 is known, that of the first copy is pinned. If no source works,
    the error lists what was tried, which file to get by hand, where to put it, and the next command (``cure``, where it is no
    dataset's file).
    """
    from bgbias.files import download  # every node knows sources, few speak HTTP

    failures: list[str] = []
    wrong: list[Source] = []
    at_desk = [(s, desk.downloads / s.file) for s in sources if s.file] if desk else []
    at_hand = [s.model_copy(update={"place": str(file)}) for s, file in at_desk if file.exists()]
    for source in (*at_hand, *sources):
        are_mirrors = all(s.remote and source.remote and s.checks == source.checks for s in wrong)
        if source.place is None or not are_mirrors:
            continue
        try:
            _take(source, target, name, part, desk)
        except WrongFileError as error:
            wrong.append(source)
            failures.append(f"  {error}")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            failures.append(f"  {source.place}: {error}")
        else:
            for other in sources:  # gigabytes that nobody will ask for again
                download.forget(partial_download(target, other))
            if wrong:
                say("\n".join([f"{name}: taken from {source.place}, after others:", *failures]))
            return source
    subject = f"{name}/{part}" if part else name
    called = "" if cure else f": {_find_source(sources).called}"
    cure = cure or _explain_cure(sources, name, part, desk)
    raise UserError("\n".join([f"{subject}{called} could not be fetched.", *failures, cure]))


def partial_download(target: Path, source: Source) -> Path:
    """Where a URL's bytes gather until verified, named after it: no other's is continued."""
    digest = hashlib.sha256(str(source.place).encode()).hexdigest()[:8]
    return target.with_name(f"{target.name}.{digest}.download")


def _find_source(sources: tuple[Source, ...]) -> Source:
    return next((s for s in sources if s.file), sources[0])


def _explain_cure(sources: tuple[Source, ...], name: str, part: str, desk: Desk | None) -> str:
    source = _find_source(sources)
    again = f"then run: python -m bgbias fetch {name} {part}".rstrip()
    if not (desk and source.file):
        where = f"write where it is into params.yaml, under datasets.{name}.options"
        return f"Get it{source.facts} by other means and {where}; {again}"
    others = {s.file: s for s in sources if s.file and s.file != source.file}
    either = "".join(f", or {s.file}{s.facts}" for s in others.values())
    put = f"Get {source.file}{source.facts}{either} by other means, put it into {desk.downloads}/ and {again}"
    return "\n".join([put, *dict.fromkeys(s.hint for s in sources if s.hint)])


def _take(source: Source, target: Path, name: str, part: str, desk: Desk | None) -> None:
    from bgbias.files import download

    if source.remote:
        if urlsplit(str(source.place)).scheme not in ("http", "https"):
            raise OSError("only http and https are spoken here")
        partial = partial_download(target, source)
        download.download(str(source.place), partial, f"fetch {name} {part}".strip(), source.size)
        try:
            _check(partial, source, name, part, desk)
        except UserError:
            partial.unlink()
            raise
        partial.replace(target)
        return
    origin = places.source(str(source.place))
    if not origin.exists():
        raise FileNotFoundError("no such file or folder")
    if origin.is_dir():
        pack(origin, target, source.names, source.keep)
        return
    _check(origin, source, name, part, desk if source.file else None)
    with replacing(target) as temporary:
        # Archives are large: a downloaded one gets a second name. A user's own file may be edited in place, and is copied.
        if source.file is not None:
            link_or_copy(origin, temporary)
        else:
            shutil.copyfile(origin, temporary)


def _check(path: Path, source: Source, name: str, part: str, desk: Desk | None) -> None:
    """Refuse another file than the one that is meant: by what is known of it, else by what is pinned."""
    size = path.stat().st_size
    if source.size is not None and size != source.size:
        raise WrongFileError(
            f"{source.place}: {size} bytes, expected {source.size}. The file is damaged or another one; delete it"
            " or get it again."
        )
    # Published file names hold the beginning of their sha256.
    for algorithm, expected in (("sha256", source.sha256), ("md5", source.md5)):
        if expected and not (digest := checksum(path, algorithm)).startswith(expected):
            raise WrongFileError(
                f"{source.place}: wrong checksum ({algorithm} {digest}, expected {expected}). The file is damaged or another one;"
                " get it again, or correct the checksum in params.yaml if you trust the file."
            )
    if desk is not None and len(source.sha256 or "") != WHOLE_SHA256:
        try:
            desk.pin(name, part, source.called, size, sha256(path))
        except UserError as error:
            raise WrongFileError(f"{source.place}: {error}") from error
