"""Background nodes: photos of a list, a proposal from any folder, and the three disjoint pools."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pandas as pd

from bgbias.backgrounds import pools
from bgbias.engine import records
from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.study import plan
from bgbias.study.params import Study

COLUMNS = ("pool", "name", "width", "height", "licence", "sha256")


def backgrounds(study: Study, pool: str) -> None:
    """Make the three pools of a background set, and refuse photos that stand in two of them."""
    plan.pools(study, pool)
    outputs = {role: study.files.at("pool", pool=pool, role=role) for role in pools.ROLES}
    outputs["table"] = study.files.at("pool_table", pool=pool)
    record = study.files.at("backgrounds_record", pool=pool)
    with records.node(study, "backgrounds", outputs, record, pool=pool) as made:
        rows = []
        role_of: dict[str, str] = {}
        for role, licence, photos in _pools(study, pool):
            with writing(outputs[role]) as store:
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
        with replacing(outputs["table"]) as temporary:
            pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(temporary, index=False)
        made.metrics |= {f"photos_{role}": sum(r[0] == role for r in rows) for role in pools.ROLES}


def _pools(study: Study, pool: str) -> Iterator[tuple[str, str, Iterator[tuple[str, bytes]]]]:
    """Role, licence and photos of each pool."""
    described = study.backgrounds[pool]
    if described.propose:
        table = pd.read_csv(study.files.at("proposal", pool=pool), dtype={"name": str})
        found = pools.unique(described.propose.source)
        kept = [name for name in table.loc[table["kept"], "name"] if name in found]
        for role, names in pools.shared_out(kept, described.propose).items():
            yield role, described.propose.licence, ((name, found[name]) for name in names)
        return
    gathered = study.files.at("gathered", pool=pool)
    for role, source in described.pools.items():
        assert source is not None  # Backgrounds has either all three or a proposal
        yield role, source.licence, pools.photos(source, role, gathered)
