"""Node: one of a dataset's files, brought and verified."""

from __future__ import annotations

from pathlib import Path

from bgbias.engine import records
from bgbias.errors import UserError
from bgbias.files import fetch as fetching
from bgbias.files.checksums import Checksums
from bgbias.study.params import Study
from bgbias.study.sources import parts_of, sources_of


def fetch(study: Study, dataset: str, part: str) -> None:
    """Bring one of a dataset's files to data/raw and verify it."""
    sources = sources_of(study, dataset, part)
    subject = {"dataset": dataset, "part": part}
    target, record = study.files.at("part", **subject), study.files.at("fetch_record", **subject)
    with records.node(study, "fetch", {"file": target}, record, label=f"{dataset}/{part}", **subject) as made:
        desk = fetching.Desk(
            Path(study.paths.downloads),
            Checksums(Path(study.paths.checksums), study.files.at("locks", name="checksums")),
        )
        used = fetching.fetch(sources, target, dataset, part=part, desk=desk)
        made.notes["source"] = used.model_dump()
        made.metrics["megabytes"] = target.stat().st_size / 1e6


def fetch_all(study: Study, dataset: str) -> None:
    """Bring all of a dataset's files; what is wrong with any of them is told when all were tried."""
    parts = parts_of(study, dataset)
    wrong = []
    for part in parts or ("photos",):
        try:
            fetch(study, dataset, part)
        except UserError as error:
            wrong.append(str(error))
    if wrong:
        raise UserError("\n\n".join(wrong))
