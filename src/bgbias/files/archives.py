"""Reading zip and tar archives member by member, without unpacking them to the disk."""

import io
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from bgbias.errors import UserError
from bgbias.files.pictures import NO_TEXT, compose, is_text, unique, walk

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
    UnicodeDecodeError,
)
BLOCK = 1 << 20  # bytes
LINK = "a link, which is not followed in an archive: pack the file itself (tar --dereference)"


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar."""
    return zipfile.is_zipfile(path) or (path.is_file() and tarfile.is_tarfile(path))


def members(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the files that ``is_wanted`` takes by name, in the archive's order; a folder is read as an archive of it.
    Names have their composed form (``pictures``).

    A name that leads out of the archive (``../``, absolute) is an error that shows it, whether wanted or not: such an archive
    was not made by an honest tool. A file that is neither zip nor tar is an error too.
    """
    with readable(path):
        if path.is_dir() or zipfile.is_zipfile(path) or not tarfile.is_tarfile(path):
            files = Lookup(path, is_wanted)
            yield from ((name, files.read(name)) for name in files.names)
            return
        with tarfile.open(path) as archive:
            for name, member in _list_files(archive, path, is_wanted, {}):
                file = archive.extractfile(member)
                if file is None:
                    raise tarfile.TarError(f"'{name}' is a link to no file")
                yield name, file.read()


class Lookup:
    """The wanted files of an archive by name, for those that are not needed in the archive's order. ``passed_over``: what is no
    file, and no folder that was entered, by name, with the reason and what to do.

    A file is read where it is asked for, by any number of threads, and none is held in memory. A compressed tar, which can only
    be read from its beginning, is unpacked once into a temporary file, which goes with this object.
    """

    def __init__(self, path: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> None:
        self.path = path
        self.passed_over: dict[str, str] = {}
        with readable(path):
            if path.is_dir():
                files, self.passed_over = walk(path)
                self._readers = {name: file.read_bytes for name, file in files.items() if is_wanted(name)}
            elif zipfile.is_zipfile(path):
                self._readers = _read_zip(path, is_wanted)
            else:
                self._readers = _read_tar(path, is_wanted, self.passed_over)
        self.names = list(self._readers)

    def read(self, name: str) -> bytes:
        """A file's bytes; a damaged one is an error that names the archive."""
        reader = self._readers[name]
        with readable(self.path):
            return reader()


def _read_zip(path: Path, is_wanted: Callable[[str], bool]) -> dict[str, Callable[[], bytes]]:
    try:  # macOS writes UTF-8 without saying so
        archive = zipfile.ZipFile(path, metadata_encoding="utf-8")
    except UnicodeDecodeError:
        archive = zipfile.ZipFile(path)
    member_of = {member.filename: member for member in archive.infolist()}
    for name in member_of:
        _check(name, path)
    files = unique((n for n, m in member_of.items() if not m.is_dir()), compose, f"{path}: the files")
    return {name: partial(archive.read, member_of[raw]) for name, raw in files.items() if is_wanted(name)}


def _read_tar(
    path: Path, is_wanted: Callable[[str], bool], passed_over: dict[str, str]
) -> dict[str, Callable[[], bytes]]:
    plain = _uncompress(path)
    readers: dict[str, Callable[[], bytes]] = {}
    with tarfile.open(fileobj=plain, mode="r:") as archive:
        for name, member in _list_files(archive, path, is_wanted, passed_over):
            target = archive.getmember(member.linkname) if member.islnk() else member
            readers[name] = partial(_cut_out, plain, name, target.offset_data, target.size)
    return readers


def _cut_out(plain: IO[bytes], name: str, first: int, length: int) -> bytes:
    data = os.pread(plain.fileno(), length, first)
    if len(data) < length:
        raise EOFError(f"'{name}' is cut off")
    return data


def _uncompress(path: Path) -> IO[bytes]:
    """A tar as an open file in which every member has its place, which goes when nobody reads from it; else an error."""
    if not tarfile.is_tarfile(path):
        raise UserError(f"{path} is neither a zip nor a tar archive; delete it and fetch it again.")
    with tarfile.open(path) as archive:
        stream = archive.fileobj
        if stream is None or isinstance(stream, io.BufferedReader):
            return path.open("rb")
        plain = tempfile.TemporaryFile()  # noqa: SIM115
        stream.seek(0)
        while block := stream.read(BLOCK):
            plain.write(block)
        plain.seek(0)
        return plain


def _list_files(
    archive: tarfile.TarFile, path: Path, is_wanted: Callable[[str], bool], passed_over: dict[str, str]
) -> Iterator[tuple[str, tarfile.TarInfo]]:
    names: dict[str, str] = {}
    for member in archive:
        _check(member.name, path)
        if member.isdir():
            continue
        if not is_text(member.name):
            passed_over[ascii(member.name)] = NO_TEXT
            continue
        name = compose(member.name.removeprefix("./"))
        unique({names.setdefault(name, member.name), member.name}, compose, f"{path}: the files")
        if not (member.isfile() or member.islnk()):
            passed_over[name] = LINK
        elif is_wanted(name):
            yield name, member


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What reads a damaged archive inside is an error that names it."""
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
