"""Pools of background photos: three disjoint ones, for training, for validation and for the test alone."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from bgbias import seeds
from bgbias.backgrounds import lists
from bgbias.backgrounds.settings import PoolSource, Proposal
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.archives import members
from bgbias.files.pictures import compose, is_picture, listed
from bgbias.files.store import ImageStore
from bgbias.images import pixels

ROLES = ("train", "val", "test")


def photos(source: PoolSource, role: str, gathered: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """(name, encoded picture) of a pool in pool order: sorted names, cut to ``part`` where it is given.

    A source is a zip or tar, a folder, a text file with one path a line, a CSV whose photos lie in the store ``gathered``, or
    pictures that are drawn. A source that is missing or empty is an error.
    """
    if source.drawn is not None:
        from bgbias.backgrounds import drawn

        for name, picture in drawn.pictures(*source.drawn, role, source.size):
            yield f"{name}.png", pixels.encode_png(picture)
        return
    assert source.source is not None  # PoolSource is either drawn or has a source
    if source.listed:
        assert gathered is not None  # made by the node `gather`
        store = ImageStore(gathered)
        found = [
            (row.name, store.read(row.name)) for row in lists.read_list(Path(source.source), source.group)
        ]
    else:
        found = list(files(source.source))
    found = sorted(found, key=lambda pair: pair[0])
    if source.part is not None:
        found = found[source.part[0] : source.part[1]]
    if not found:
        raise UserError(
            f"The background source {source.source} gives no pictures for the {role} pool; see `backgrounds` in params.yaml."
        )
    yield from found


def expected(source: PoolSource) -> int | None:
    """How many photos a pool will have, as far as params.yaml and its lists tell; None if only the source itself knows."""
    if source.drawn is not None:
        return source.drawn[1]
    assert source.source is not None  # PoolSource is either drawn or has a source
    if not source.listed or not Path(source.source).exists():
        return None
    return len(lists.read_list(Path(source.source), source.group)[slice(*(source.part or (None,)))])


def shared_out(names: list[str], proposal: Proposal) -> dict[str, list[str]]:
    """Proposed photos by pool, in sorted order, shuffled by the proposal's seed; too few for three pools are an error."""
    order = sorted(names)
    seeds.generator("background pools", proposal.seed).shuffle(order)
    train, val, _ = proposal.shares
    # At least one photo each, as long as there are three.
    first = max(1, round(len(order) * train))
    cuts = [first, max(first + 1, min(round(len(order) * (train + val)), len(order) - 1))]
    pools = dict(zip(ROLES, (order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :]), strict=True))
    empty = [role for role, pool in pools.items() if not pool]
    if empty:
        raise UserError(
            f"{proposal.source} has {len(order)} photos without an obvious foreground, too few for three pools ({empty[0]} stays"
            " empty). Add photos, or name some under `keep` of the proposal in params.yaml."
        )
    return {role: sorted(pool) for role, pool in pools.items()}


def files(place: str) -> Iterator[tuple[str, bytes]]:
    """(name, encoded picture) of a folder, of a zip or tar, or of a text file that lists one path a line."""
    origin = places.source(place)
    if not origin.exists():
        raise UserError(
            f"The background source {origin} is missing. Put it there, set BGBIAS_SHARED_DATA to the folder that has it, or name"
            " another zip, folder or list under `backgrounds` in params.yaml."
        )
    if origin.suffix in (".txt", ".lst") and origin.is_file():
        written = listed(origin).values()
        absent = [p for p in written if not p.exists()]
        if absent:
            raise UserError(f"{origin} lists {absent[0]}, which is missing.")
        yield from ((compose(p.name), p.read_bytes()) for p in written)
    else:
        yield from ((PurePosixPath(name).name, data) for name, data in members(origin, is_picture))


def unique(source: str) -> dict[str, bytes]:
    """The photos of a source by name; two of one name are an error, for one of them would never be looked at."""
    found: dict[str, bytes] = {}
    for name, data in files(source):
        if name in found:
            raise UserError(f"{source} holds two photos called '{name}'; rename one of them.")
        found[name] = data
    return found
