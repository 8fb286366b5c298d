"""Which files of a folder are pictures, and why the others are not taken: nothing that lies there is passed over in silence.

Names are compared as people read them: ``ü`` is one character or two (``u`` and its dots), as a system or a program stores it.
What comes from folders, archives and tables has its composed form (NFC); the disk is asked in the form that lies there.
"""

import os
import unicodedata
from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath

from bgbias.errors import UserError

PICTURES = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"),
    *(".gif", ".avif", ".jpe", ".jfif", ".jp2"),
)
# What cameras and programs write, and Pillow does not read.
UNREAD = (
    *(".heic", ".heif", ".hif", ".jxl", ".psd", ".svg"),
    *(".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"),
)
# As telephones write it: Pillow reads it where the library pillow-heif is installed.
HEIF = (".heic", ".heif", ".hif")
HEIF_STEP = "or pip install pillow-heif, by which an audit reads it"
BY_SYSTEMS = ("thumbs.db", "desktop.ini", "__macosx")
NO_TEXT = "its name is no text (UTF-8): rename it"


def compose(name: str) -> str:
    """The name in the form in which names are compared."""
    return unicodedata.normalize("NFC", name)


def locator() -> Callable[[Path], Path]:
    """Gives the file or folder that a path means in whatever form its names lie on the disk, else the path as it is."""

    @cache
    def entries(folder: Path) -> dict[str, Path]:
        return {compose(p.name): p for p in folder.iterdir()} if folder.is_dir() else {}

    def locate(path: Path) -> Path:
        if path.exists() or path == path.parent:
            return path
        return entries(locate(path.parent)).get(compose(path.name), path)

    return locate


def is_text(name: str) -> bool:
    """Whether the name's bytes are text; others stand in it as surrogates."""
    return not "\udc7f" < max(name, default="") < "\ue000"


def is_picture(name: str) -> bool:
    """Whether a file of this name (a path with ``/``) is a picture, and not one of the hidden files that systems add."""
    return has_suffix(name, PICTURES)


def has_suffix(name: str, endings: Collection[str]) -> bool:
    """Whether a name ends so, in capitals or small letters, and is not hidden."""
    return PurePosixPath(name).suffix.lower() in endings and not is_hidden(name)


def is_photo(name: str) -> bool:
    """Whether a person would call a file of this name a photo, whether it can be read here or not."""
    return has_suffix(name, PICTURES + UNREAD)


def is_hidden(name: str) -> bool:
    """Whether a file of this name (a path with ``/``), or a folder above it, is one of those that systems add or hide."""
    parts = (part for part in name.split("/") if part != ".")
    return any(part.startswith(".") or part.lower() in BY_SYSTEMS for part in parts)


def why_not(name: str) -> str:
    """Why a file of this name is not taken as a picture, and what to do."""
    suffix = PurePosixPath(name).suffix
    if is_hidden(name):
        return "hidden, as systems add them: nothing to do"
    if suffix.lower() in UNREAD:
        return f"a photo in a format that is not read here ({suffix}): convert it to JPEG or PNG"
    return f"no picture by its name ({suffix or 'no ending'}): if it is one, give it its ending, e.g. .jpg"


@cache
def can_read_heif() -> bool:
    """Whether HEIF can be read from now on: the library has to tell Pillow once in each process."""
    try:
        # By its name, since nothing of ours asks for it to be installed.
        import_module("pillow_heif").register_heif_opener()
    except ImportError:
        return False
    return True


def is_readable(name: str) -> bool:
    """Whether a file of this name is a photo that can be read here."""
    return has_suffix(name, PICTURES) or (has_suffix(name, HEIF) and can_read_heif())


def why_left(name: str) -> str:
    """Why a file of this name is not taken, and what to do."""
    return f"{why_not(name)}, {HEIF_STEP}" if has_suffix(name, HEIF) else why_not(name)


def walk(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The files below a folder by name (paths with ``/``), in sorted order, and what could not be entered, with the reason.

    Linked folders are entered, unless they lead back to where they lie; hidden ones are not, and are among the latter.
    """
    files: dict[str, Path] = {}
    left_out: dict[str, str] = {}

    def enter(folder: str, name: str, above: frozenset[str]) -> None:
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            left_out[name or "."] = (
                f"a folder that cannot be opened ({error.strerror}): give yourself the right to"
            )
            return
        for entry in entries:
            full_name = f"{name}/{entry.name}" if name else entry.name
            # A link to itself is an error to ask an entry for.
            target = Path(entry.path) if entry.is_symlink() else entry
            if not is_text(entry.name):
                left_out[ascii(full_name)] = NO_TEXT
            elif target.is_dir():
                real = os.path.realpath(entry.path)
                if is_hidden(entry.name):
                    left_out[full_name] = why_not(full_name)
                elif any(f"{folder}/".startswith(f"{real}/") for folder in above):
                    left_out[full_name] = "a link back to a folder that it lies in: nothing to do"
                else:
                    enter(entry.path, full_name, above | {real})
            elif target.is_file():
                files[full_name] = Path(entry.path)
            else:
                left_out[full_name] = "a link that leads nowhere, or no file: put the file there"

    enter(str(folder), "", frozenset([os.path.realpath(folder)]))
    names = unique(sorted(files), compose, f"{folder}: the files")
    composed = {compose(name): reason for name, reason in left_out.items()}
    return {name: files[names[name]] for name in sorted(names)}, composed


def list_left_out(folder: Path, keep: Collection[str] = ()) -> dict[str, str]:
    """What lies below a folder and is neither a picture nor ends as one of ``keep``, each with the reason."""
    files, reasons = walk(folder)
    others = {name: why_not(name) for name in files if not has_suffix(name, (*PICTURES, *keep))}
    return dict(sorted((reasons | others).items()))


def read_list_file(path: Path) -> dict[str, Path]:
    """What the lines of a list name, without empty ones, relative to its folder; a list that is no text is an error."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(
            f"The list {path} is not UTF-8 ({error.reason}); save it as UTF-8, one path a line."
        ) from error
    locate = locator()
    return {line.strip(): locate(path.parent / line.strip()) for line in lines if line.strip()}


def stem(name: str) -> str:
    """The path without its last suffix, which a photo and its mask have in common."""
    return PurePosixPath(name).with_suffix("").as_posix()


def unique(names: Iterable[str], key: Callable[[str], str], what: str) -> dict[str, str]:
    """The names by their key; two of one key are an error that names both and says ``what`` they are."""
    by_key: dict[str, str] = {}
    for name in names:
        if (other := by_key.setdefault(key(name), name)) != name:
            alike = compose(other) == compose(name)
            both = f"{other!a} and {name!a}" if alike else f"'{other}' and '{name}'"
            raise UserError(f"{what} {both} have one name; rename or remove one of them.")
    return by_key
