"""Node: three disjoint pools of background photos."""

import hashlib
from collections.abc import Iterator

from bgbias.backgrounds import pools
from bgbias.engine import records
from bgbias.engine.node import Dependencies, files_of, step
from bgbias.errors import UserError
from bgbias.files.checksums import Content
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.study import Study, plan

COLUMNS = ("pool", "name", "width", "height", "licence", "sha256")

SUBJECT = ("pool",)
OUTPUTS = {
    "train_pool": "WORK/backgrounds/{pool}/train.zip",
    "val_pool": "WORK/backgrounds/{pool}/val.zip",
    "test_pool": "WORK/backgrounds/{pool}/test.zip",
    "pool_table": "WORK/backgrounds/{pool}/backgrounds.csv",
    "backgrounds_record": "WORK/backgrounds/{pool}/backgrounds.json",
}
COLLECTION = ("backgrounds", "pool_table")


def depends(study: Study, pool: str) -> Dependencies:
    """A proposal, or photos that lists name; folders by what lies there.

    Only what is set of the sources: a new kind of source leaves others as they are.
    """
    described = plan.pools(study, pool)
    if described.propose:
        proposal = files_of(step("propose", pool=pool), "proposal")
        return Dependencies(proposal, {"proposal": described.propose.model_dump()})
    sources = described.pools.items()
    folders = {role: source.source for role, source in sources if source.source and not source.listed}
    is_listed = bool(plan.listed_pools(study, pool))
    return Dependencies(
        files=files_of(step("gather", pool=pool), "gathered") if is_listed else {},
        settings={
            "pools": {
                role: source.model_dump(exclude_defaults=True, exclude={"copies"}) for role, source in sources
            },
            "listing": {role: Content(folder) for role, folder in folders.items()},
        },
    )


def backgrounds(study: Study, pool: str) -> None:
    """Make the three pools of a background set. Photos that stand in two of them are refused."""
    import pandas as pd

    with records.node(study, step("backgrounds", pool=pool)) as record:
        rows = []
        role_of: dict[str, str] = {}
        for role, licence, photos in _pools(study, pool):
            with writing(record.outputs[f"{role}_pool"]) as store:
                for name, data in photos:
                    height, width = pixels.decode(data, name).shape[:2]
                    sha256 = hashlib.sha256(data).hexdigest()
                    for identity in (name, sha256):
                        if role_of.setdefault(identity, role) != role:
                            raise UserError(
                                f"The background '{name}' stands in the pools {role_of[identity]} and {role} of {pool}; they must"
                                " be disjoint. Change `source` or `part` under `backgrounds` in params.yaml."
                            )
                    store.add(name, data)
                    rows.append([role, name, width, height, licence, sha256])
        record.write("pool_table", pd.DataFrame(rows, columns=list(COLUMNS)))
        record.metrics |= {f"photos_{role}": sum(r[0] == role for r in rows) for role in pools.ROLES}


def _pools(study: Study, pool: str) -> Iterator[tuple[str, str, Iterator[tuple[str, bytes]]]]:
    import pandas as pd

    described = study.backgrounds[pool]
    if described.propose:
        table = pd.read_csv(study.files.at("proposal", pool=pool), dtype={"name": str}, keep_default_na=False)
        pictures = pools.unique(described.propose.source)
        selected = [name for name in table.loc[table["kept"], "name"] if name in pictures]
        for role, names in pools.share_out(selected, described.propose).items():
            yield role, described.propose.licence, ((name, pictures[name]) for name in names)
        return
    gathered = study.files.at("gathered", pool=pool)
    for role, source in described.pools.items():
        yield role, source.licence, pools.photos(source, role, gathered)
