"""Node: the photos that a background set's lists name."""

import shutil

from bgbias import progress
from bgbias.backgrounds import pools
from bgbias.engine import records
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.errors import UserError
from bgbias.files.checksums import Content
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.study import Study, plan

SUBJECT = ("pool",)
OUTPUTS = {
    "gathered": "WORK/backgrounds/{pool}/gathered.zip",
    "gather_record": "WORK/backgrounds/{pool}/gathered.json",
}
LIMITS = Limits(memory_mb=2000, minutes=720)


def depends(study: Study, pool: str) -> Dependencies:
    """The lists, by content, and which of their groups each pool takes."""
    lists = {
        role: {"group": source.group, "sha256": Content(str(source.source), is_file=True)}
        for role, source in plan.listed_pools(study, pool).items()
    }
    return Dependencies(settings={"lists": lists})


def gather(study: Study, pool: str) -> None:
    """Bring the photos that a background set's lists name. From copies at hand, or from where they are published."""
    lists = plan.listed_pools(study, pool).values()
    if not lists:
        raise UserError(
            f"The backgrounds '{pool}' name no list (.csv) in params.yaml; there is nothing to gather."
        )
    with records.node(study, step("gather", pool=pool)) as record:
        output = record.outputs["gathered"]
        work = output.parent / ".unfinished"
        # Two pools may be parts of one list.
        listed = {row.name: row for p in lists for row in pools.read_list(p)}
        copies = dict.fromkeys(place for p in lists for place in p.copies)
        work.mkdir(parents=True, exist_ok=True)
        others = []
        with writing(output) as store:
            for row, data, same in pools.gather(listed.values(), copies, work):
                pixels.decode(data, row.name)
                store.add(row.name, data)
                others += [] if same else [row.name]
        if others:
            progress.say(
                f"{len(others)} photos are other copies than the list's, e.g. '{others[0]}'; pools tell them by sha256"
            )
        record.metrics |= {"photos": len(listed), "other_copies": len(others)}
    shutil.rmtree(work, ignore_errors=True)
