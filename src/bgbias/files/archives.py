"""Reading zip and tar archives member by member, without unpacking them to the disk."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from bgbias.errors import UserError
from bgbias.files.pictures import NO_TEXT, compose_once, is_text, walk

# What the standard library raises for broken, encrypted or strangely packed members.
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    KeyError,  # a hard link to no member
)
BLOCK = 1 << 20  # bytes
NO_ARCHIVE = "{path} is neither a zip nor a tar archive; delete it and fetch it again."
UTF_8 = 0x800  # a flag of a zip's member: its name is
LINK = "a link, which is not followed in an archive: pack the file itself (tar --dereference)"


def members(
    path: Path, wanted: Callable[[str], bool], passed_over: dict[str, str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the files whose name is ``wanted``, in the archive's order; a folder is read as an archive of it. Names
    have their composed form (``pictures``).

    ``passed_over`` takes what is no file, and no folder that was entered, by name, with the reason and what to do.

    A name that leads out of the archive (``../``, absolute) is an error that shows it, whether wanted or not: such an archive
    was not made by an honest tool. A file that is neither zip nor tar is an error too.
    """
    with _readable(path):
        if path.is_dir() or zipfile.is_zipfile(path) or not tarfile.is_tarfile(path):
            files = Lookup(path, wanted, passed_over)
            yield from ((name, files.read(name)) for name in files.names)
            return
        with tarfile.open(path) as archive:
            others = {} if passed_over is None else passed_over
            for name, member in _files(archive, path, wanted, others):
                opened = archive.extractfile(member)
                if opened is None:
                    raise tarfile.TarError(f"'{name}' is a link to no file")
                yield name, opened.read()


class Lookup:
    """The wanted files of an archive by name, for those that are not needed in the archive's order.

    A file is read where it is asked for, by any number of threads, and none is held in memory. A compressed tar, which can only
    be read from its beginning, is unpacked once into a temporary file, which goes with this object.
    """

    def __init__(
        self, path: Path, wanted: Callable[[str], bool], passed_over: dict[str, str] | None = None
    ) -> None:
        """``passed_over`` takes what ``members`` puts there."""
        self.path = path
        others = {} if passed_over is None else passed_over
        self._files: dict[str, Path] = {}
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        if path.is_dir():
            found, left_out = walk(path)
            self._files = {name: file for name, file in found.items() if wanted(name)}
            others.update(left_out)
            self.names = list(self._files)
        elif zipfile.is_zipfile(path):
            with _readable(path):
                self._zip = zipfile.ZipFile(path)
            stored: dict[str, str] = {}
            self.names = []
            for member in self._zip.infolist():
                raw = _name_of(member)
                _check(raw, path)
                if not member.is_dir() and wanted(name := compose_once(raw, stored, path)):
                    self.names.append(name)
                    self._members[name] = member
        else:
            with _readable(path):
                self._tar = _uncompressed(path)
                self._spans = _spans(self._tar, path, wanted, others)
            self.names = list(self._spans)

    def read(self, name: str) -> bytes:
        """A file's bytes; a damaged one is an error that names the archive."""
        if self._files:
            return self._files[name].read_bytes()
        with _readable(self.path):
            if not self._spans:
                return self._zip.read(self._members[name])
            first, length = self._spans[name]
            data = os.pread(self._tar.fileno(), length, first)
            if len(data) < length:
                raise EOFError(f"'{name}' is cut off")
            return data


def _uncompressed(path: Path) -> IO[bytes]:
    """A tar as an open file in which every member has its place, which goes when nobody reads from it; else an error."""
    if not tarfile.is_tarfile(path):
        raise UserError(NO_ARCHIVE.format(path=path))
    with tarfile.open(path) as archive:
        packed = archive.fileobj
        if packed is None or isinstance(packed, io.BufferedReader):
            return path.open("rb")
        plain = tempfile.TemporaryFile()  # noqa: SIM115
        packed.seek(0)
        while block := packed.read(BLOCK):
            plain.write(block)
        plain.seek(0)
        return plain


def _spans(
    tar: IO[bytes], path: Path, wanted: Callable[[str], bool], passed_over: dict[str, str]
) -> dict[str, tuple[int, int]]:
    """The wanted members of a tar that is not compressed, and where the bytes of each begin and how many they are."""
    spans = {}
    with tarfile.open(fileobj=tar, mode="r:") as archive:
        for name, member in _files(archive, path, wanted, passed_over):
            held = archive.getmember(member.linkname) if member.islnk() else member
            spans[name] = held.offset_data, held.size
    return spans


def _files(
    archive: tarfile.TarFile, path: Path, wanted: Callable[[str], bool], passed_over: dict[str, str]
) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """The wanted files of a tar by name, in its order."""
    stored: dict[str, str] = {}
    for member in archive:
        _check(member.name, path)
        if member.isdir():
            continue
        if not is_text(member.name):
            passed_over[ascii(member.name)] = NO_TEXT
            continue
        name = compose_once(member.name, stored, path)
        if not (member.isfile() or member.islnk()):
            passed_over[name] = LINK
        elif wanted(name):
            yield name, member


def _name_of(member: zipfile.ZipInfo) -> str:
    """The name of a zip's member, which is UTF-8 wherever it can be: macOS writes that without saying so."""
    if member.flag_bits & UTF_8:
        return member.filename
    try:
        return member.filename.encode("cp437").decode()
    except UnicodeError:
        return member.filename


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the archive's
        raise UserError(
            f"The archive {path} cannot be read ({error}); delete it and fetch it again."
        ) from error


def _check(name: str, path: Path) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts:
        raise UserError(f"The archive {path} has a member '{name}' that leads out of it; it is not used.")
