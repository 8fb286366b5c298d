"""Which files of a folder become a dataset's archive."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from bgbias.errors import UserError
from bgbias.files.pictures import PICTURES, has_suffix, is_picture, walk, why_not
from bgbias.files.store import writing


def pack(folder: Path, target: Path, names: Collection[str] | None, keep: tuple[str, ...]) -> None:
    """A folder's pictures, or those of these ``names``, and files with the endings ``keep``, as one archive in sorted order."""
    files, left_out = walk(folder)
    if names is not None and not files.keys() & set(names):
        raise UserError(
            f"The folder {folder} holds none of the {len(names)} files that the table names, e.g. '{min(names)}';"
            " they are named relative to the table's folder, or to the option `root`."
        )
    if not any(map(is_picture, files)):
        others = [why_not(name) for name in files] + list(left_out.values())
        there = (
            f" What is there: {Counter(others).most_common(1)[0][0]} ({len(others)} files in all)."
            if others
            else ""
        )
        raise UserError(
            f"The folder {folder} holds no pictures ({', '.join(PICTURES)}), not even in folders below it.{there}"
        )
    with writing(target) as store:
        for name, path in files.items():
            named = names is None or name in names
            if named and has_suffix(name, PICTURES + keep):
                store.add(name, path.read_bytes())
