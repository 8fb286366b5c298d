"""Reading zip and tar archives member by member, without unpacking them to the disk."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from bgbias.errors import UserError
from bgbias.files.pictures import walk

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
LINK = "a link, which is not followed in an archive: pack the file itself (tar --dereference)"


def members(
    path: Path, wanted: Callable[[str], bool], passed_over: dict[str, str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the files whose name is ``wanted``, in the archive's order; a folder is read as an archive of it.

    ``passed_over`` takes what is no file, and no folder that was entered, by name, with the reason and what to do.

    A name that leads out of the archive (``../``, absolute) is an error that shows it, whether wanted or not: such an archive
    was not made by an honest tool. A file that is neither zip nor tar is an error too.
    """
    with _readable(path):
        if path.is_dir():
            files, others = walk(path)
            if passed_over is not None:
                passed_over.update(others)
            for name, file in files.items():
                if wanted(name):
                    yield name, file.read_bytes()
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    _check(info.filename, path)
                    if not info.is_dir() and wanted(info.filename):
                        yield info.filename, archive.read(info)
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                for member in archive:
                    _check(member.name, path)
                    if not (member.isfile() or member.islnk()):
                        if passed_over is not None and not member.isdir():
                            passed_over[member.name] = LINK
                    elif wanted(member.name):
                        opened = archive.extractfile(member)
                        if opened is None:
                            raise tarfile.TarError(f"'{member.name}' is a link to no file")
                        yield member.name, opened.read()
        else:
            raise UserError(f"{path} is neither a zip nor a tar archive; delete it and fetch it again.")


class Lookup:
    """The wanted files of an archive by name, for those that are not needed in the archive's order.

    A zip is read where a file is asked for; of a tar, which has no table of contents, all wanted files are held in memory.
    """

    def __init__(self, path: Path, wanted: Callable[[str], bool]) -> None:
        self.path = path
        self._held: dict[str, bytes] | None = None
        self._files: dict[str, Path] = {}
        if path.is_dir():
            self._files = {name: file for name, file in walk(path)[0].items() if wanted(name)}
            self.names = list(self._files)
        elif zipfile.is_zipfile(path):
            # Names are checked as they are when all is read.
            self._zip = zipfile.ZipFile(path)
            for info in self._zip.infolist():
                _check(info.filename, path)
            self.names = [i.filename for i in self._zip.infolist() if not i.is_dir() and wanted(i.filename)]
        else:
            self._held = dict(members(path, wanted))
            self.names = list(self._held)

    def read(self, name: str) -> bytes:
        """A file's bytes; a damaged one is an error that names the archive."""
        if self._held is not None:
            return self._held[name]
        if self._files:
            return self._files[name].read_bytes()
        with _readable(self.path):
            return self._zip.read(name)


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
