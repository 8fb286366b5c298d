"""Node: one of a dataset's files, brought to data/raw and verified."""

from pathlib import Path

from bgbias.engine import records
from bgbias.engine.forecast import Cost, size_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.files import fetch as fetching
from bgbias.files import pictures, places, store
from bgbias.files.checksums import elsewhere
from bgbias.progress import say
from bgbias.study.params import Study
from bgbias.study.sources import identity, parts_of, sources_of

SUBJECT = ("dataset", "part")
OUTPUTS = {"part": "RAW/{dataset}/{part}", "fetch_record": "RAW/{dataset}/{part}.json"}
LIMITS = Limits(memory_mb=2000, minutes=720)


def subjects(study: Study, dataset: str, part: str | None = None) -> list[dict[str, str]]:
    """All of the dataset's files, if none is named."""
    parts = [part] if part else [*parts_of(study, dataset)] or ["photos"]
    return [{"dataset": dataset, "part": p} for p in parts]


def depends(study: Study, dataset: str, part: str) -> Dependencies:
    """Where the file may come from, and, for files of the user's, what lies there; of code how a folder is packed. What is
    fetched is verified, whatever code brings it.
    """
    return Dependencies(settings={"sources": identity(sources_of(study, dataset, part))}, code=[store])


def sources_are_elsewhere(study: Study, dataset: str, part: str) -> bool:
    """Whether neither the file's places nor what was fetched of them is here."""
    record = study.files.at("fetch_record", dataset=dataset, part=part)
    return not record.exists() and all(elsewhere(s.place) for s in sources_of(study, dataset, part))


def cost(study: Study, dataset: str, part: str) -> Cost:
    return Cost(disk=size_of(study, dataset, sources_of(study, dataset, part)))


def fetch(study: Study, dataset: str, part: str) -> None:
    """Download and verify a dataset file. It goes to data/raw."""
    sources = sources_of(study, dataset, part)
    with records.node(study, step("fetch", dataset=dataset, part=part)) as record:
        target = record.outputs["part"]
        lock = study.files.at("locks", name="checksums")
        desk = fetching.Desk(Path(study.paths.downloads), Path(study.paths.checksums), lock)
        used = fetching.fetch(sources, target, dataset, part=part, desk=desk)
        record.notes["source"] = used.model_dump()
        origin = places.source(used.place or "")
        if not used.remote and origin.is_dir() and used.names is not None:
            others = [n for n in pictures.walk(origin)[0] if pictures.is_photo(n) and n not in used.names]
            if others:
                record.metrics["photos_not_named"] = len(others)
                say(
                    f"{dataset}: {len(others)} photos in {origin} are none of its own, e.g. {others[0]}, and are not taken"
                )
        elif not used.remote and origin.is_dir() and (left_out := pictures.list_left_out(origin, used.keep)):
            record.notes["left_out"] = left_out
        record.metrics["megabytes"] = target.stat().st_size / 1e6
