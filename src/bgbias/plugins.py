"""From an option's name in params.yaml to the file that implements it: ``losses: triplet`` is ``training/losses/triplet.py``.

There is no registry to edit. A new loss, method, backbone, metric, masker or dataset is one new file in its family's folder.
Options of ours that differ in little share one: a family's package names them (``SHARED = {"_sam": ("sam_quad", ...)}``), and the
file has ``MEMBERS``, option to what is its own there (``{"TITLE": ..., "Method": ...}``); all else is the same for all of them.
A file that stands for many (``backbones/timm.py``) is told by what goes on behind a colon, its variant: ``timm:convnext_tiny``.
What goes on behind a + is none of the file's name, but how it is used: ``contrastive+neg_margin=0.3`` (``study/variants.py``).

Somebody else's file may lie outside of the package, and is found by its name as well:

* in a folder that params.yaml names (``plugins: [my_plugins]``) or ``use`` is given: ``my_plugins/losses/my_loss.py``. What such
  files share is imported relatively (``from ._margins import margin``); a name with a leading underscore is no option;
* in an installed package, by an entry point of the group ``bgbias.<family>``: ``my_loss = "my_package.my_loss"``.
"""

import difflib
import hashlib
import importlib
import pkgutil
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import yaml

from bgbias.errors import UserError


class Required(NamedTuple):
    """What every file of a family offers: ``always``; ``if_so`` or ``if_not`` by whether its ``fact`` says something. ``needs``:
    what its ``NEEDS`` may hold, beside photos.
    """

    package: str = ""
    always: tuple[str, ...] = ()
    fact: str = ""
    if_so: tuple[str, ...] = ()
    if_not: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


# The parser in C, where the wheel has it, is ten times as fast; every command reads this.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TABLE = yaml.load(Path(__file__).with_name("plugins.yaml").read_text(encoding="utf-8"), _Loader)
REQUIRED = {family: Required(**entry) for family, entry in _TABLE.items()}
FAMILIES = {family: required.package for family, required in REQUIRED.items()}
NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # it becomes part of a path
OF_A_FOLDER = "bgbias_plugins_"  # how the modules of files in folders are called
_folders: tuple[Path, ...] = ()


def use(*folders: Path | str) -> None:
    """Find files in these folders too, each with a subfolder for a family or more; folders that were named before are dropped.

    A folder that is missing or has no family's subfolder, and a file with the name of one of ours, are errors.
    """
    global _folders
    resolved = tuple(Path(folder).resolve() for folder in folders)
    importlib.invalidate_caches()
    _entry_points.cache_clear()
    _places.cache_clear()
    for folder in resolved:
        for family in _families(folder):
            _places(family, resolved)
    _folders = resolved


def names(family: str) -> tuple[str, ...]:
    """The options of a family, sorted: the files in its folder, and other people's."""
    return tuple(sorted(_places(family, _folders)))


def known(family: str, name: str) -> bool:
    """Whether a file of the family stands behind an option."""
    return name.partition("+")[0].partition(":")[0] in _places(family, _folders)


def variant(name: str) -> str:
    """What goes on behind an option's colon; empty without one."""
    return name.partition(":")[2]


def load(family: str, name: str) -> ModuleType:
    """The module behind an option; an unknown name is refused with the list of what exists and the nearest match.

    A file that cannot be imported, or lacks what its family requires, is an error with file and line.
    """
    file, colon, rest = name.partition("+")[0].partition(":")
    if not known(family, name):
        there = names(family)
        near = difflib.get_close_matches(name, there, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        folder = f"{_folders[0]}/{family}" if _folders else f"my_plugins/{family}"
        advice = "" if _folders else ", with `plugins: [my_plugins]` in params.yaml or --plugins my_plugins"
        raise UserError(
            f"There is no '{name}' in {family}; there are: {', '.join(there)}.{hint}"
            f" A new one is a file {folder}/{file}.py{advice}."
        )
    module = member(family, file)
    variants = getattr(module, "VARIANTS", "")
    if variants and not NAME.fullmatch(rest):
        raise UserError(f"'{name}' in {family} needs {variants} behind a colon, of letters, digits and _ - .")
    if colon and not variants:
        raise UserError(f"'{name}' in {family}: '{file}' takes nothing behind a colon.")
    return module


def member(family: str, name: str) -> ModuleType:
    """The module behind the part of an option before its colon, which must exist."""
    return _checked(family, _places(family, _folders)[name])


class _Place(NamedTuple):
    """Where an option's file is: the module's name, what messages call it, and the option if it shares the file with others."""

    module: str
    label: str
    member: str = ""


@cache
def _places(family: str, folders: tuple[Path, ...]) -> dict[str, _Place]:
    """Option to place; a name that is given twice is an error."""
    package = importlib.import_module(FAMILIES[family])
    places = dict(_list_modules(FAMILIES[family], package.__path__))
    for file, members in getattr(package, "SHARED", {}).items():
        label = f"{package.__path__[0]}/{file}.py"
        places |= {name: _Place(f"{FAMILIES[family]}.{file}", label, name) for name in members}
    for name, place in (*_in_folders(family, folders), *_installed(family)):
        if not NAME.fullmatch(name):
            raise UserError(
                f"{place.label!a} cannot be a plugin's file: its name becomes part of paths and commands, so only"
                " unaccented letters, digits and _ - . can be in it. Give it another name."
            )
        if name in places:
            raise UserError(
                f"{place.label} hides {places[name].label}: two files of {family} are called '{name}'."
                " Give it another name."
            )
        places[name] = place
    return places


def _list_modules(package: str, folders: Iterable[str]) -> Iterator[tuple[str, _Place]]:
    for finder, name, _ in pkgutil.iter_modules(folders):
        if not name.startswith("_"):
            yield name, _Place(f"{package}.{name}", f"{getattr(finder, 'path', package)}/{name}.py")


def _in_folders(family: str, folders: tuple[Path, ...]) -> Iterator[tuple[str, _Place]]:
    for folder in folders:
        # A package of the folder's own, so that equal names in two folders are no mistake and relative imports work.
        package = f"{OF_A_FOLDER}{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        if package not in sys.modules:
            spec = ModuleSpec(package, None, is_package=True)
            spec.submodule_search_locations = [str(folder)]
            sys.modules[package] = module_from_spec(spec)
        yield from _list_modules(f"{package}.{family}", [str(folder / family)])


@cache
def _entry_points() -> Any:
    """Those of all that is installed: hundreds of packages are looked through once."""
    from importlib.metadata import entry_points

    return entry_points()


def _installed(family: str) -> Iterator[tuple[str, _Place]]:
    for point in _entry_points().select(group=f"bgbias.{family}"):
        yield point.name, _Place(point.module, f"{point.value} of {point.dist.name if point.dist else '?'}")


def _families(folder: Path) -> list[str]:
    """The families that a folder has files of; a name that is nearly one is a typing error."""
    if not folder.is_dir():
        raise UserError(
            f"The folder of plugins {folder} is missing; correct `plugins` in params.yaml, or --plugins."
        )
    below = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "_")))
    for name in below:
        near = difflib.get_close_matches(name, FAMILIES, 1, cutoff=0.8)
        if near and name not in FAMILIES:
            raise UserError(f"{folder / name} is no family of plugins. Did you mean '{near[0]}'?")
    if "nodes" in below:
        raise UserError(
            f"{folder}/nodes: a node needs a rule in workflow/rules beside its file; both belong into a checkout"
            " (src/bgbias/nodes)."
        )
    families = [name for name in below if name in FAMILIES]
    if not families:
        raise UserError(
            f"The folder of plugins {folder} has no subfolder of a family; there are: {', '.join(FAMILIES)}."
            f" A loss, for example, is {folder}/losses/my_loss.py."
        )
    return families


@cache
def _checked(family: str, place: _Place) -> ModuleType:
    try:
        module = importlib.import_module(place.module)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{_line(error, place)}: {type(error).__name__}: {getattr(error, 'msg', None) or error}."
            f" Correct it; until then no '{place.module.rpartition('.')[2]}' can be used in {family}."
        ) from error
    if place.member:
        # As if the shared file were this option's alone.
        shared, module = module, ModuleType(module.__name__)
        vars(module).update(vars(shared) | shared.MEMBERS[place.member])
    label = getattr(module, "__file__", None) or place.label
    required = REQUIRED.get(family, Required())
    further = required.if_so if getattr(module, required.fact, None) else required.if_not
    # A node's work is the function of its own name.
    own_step = (place.module.rpartition(".")[2],) if family == "nodes" else ()
    if lacks := [name for name in (*required.always, *further, *own_step) if not hasattr(module, name)]:
        raise UserError(
            f"{label} lacks {', '.join(lacks)}, which a file of {family} must have;"
            f" to read what that is: python -m pydoc {FAMILIES[family]}"
        )
    needs: Collection[str] = module.NEEDS if required.needs else ()
    if isinstance(needs, str) or not set(needs) <= set(required.needs):
        raise UserError(
            f"{label}: NEEDS is {needs!r}, but must be a set of {' and '.join(required.needs)}, or empty."
        )
    # Else a misspelt option would be dropped.
    options = getattr(module, "Params", None)
    if options is not None and getattr(options, "model_config", {}).get("extra") != "forbid":
        raise UserError(
            f"{label}: Params must be a class that derives from bgbias.settings.Strict, which refuses unknown options."
        )
    return module


def _line(error: Exception, place: _Place) -> str:
    """File and line of a mistake: of its syntax, or the last line of the file's own package that was at work."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    package = place.module.partition(".")[0]
    lines = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] == package
        and frame.f_globals is not globals()
    ]
    return lines[-1] if lines else place.label
