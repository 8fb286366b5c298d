"""Results of the project's own grids that its pages show: what a finished run gave, and what it was made by.

``docs/results/<grid>/`` holds the report's tables in full precision, ``seeds.csv`` (``rows.of_each_seed``), the figures that
pages show, and ``made.yaml``: how, where and when all this was made, from which settings, and by which code. As long as both
are those of now, a run of now gives these numbers; ``differing_settings`` and ``edited`` say when they are not. Code that was
edited and computes the same is taken for what made them once somebody has made numbers again by it (``vouch``), or gives her
word for it where that takes too long (``accept``), which tables then say; captions are told again (``report.retold``). Where it
computes others, results may stay until they are made again (``keep``), and tables say how they differ.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from bgbias.engine import availability, digests, freshness, given_weights, graph, records
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.files import atomic, code
from bgbias.files.checksums import sha256
from bgbias.files.places import RESULTS
from bgbias.results import rows
from bgbias.results.excluded import excluded
from bgbias.settings import Strict, read_yaml
from bgbias.study import plan
from bgbias.study.params import SECTIONS, Study, loss_options

MADE, SEEDS = "made.yaml", "seeds"
TRAINED = ("pretrain", "train")  # whose minutes are those of training
# Nodes that bring bytes which checksums verify, or draw what tables say.
WITHOUT_NUMBERS = ("fetch", "weights", "figure")
# How paragraphs of a caption on edited code begin.
SINCE, BEFORE = "Edited since", "Made before an edit that computes otherwise"
NOT_HERE = ("by hand", "missing file")  # states of a dataset's parts that no command can bring


@dataclass(frozen=True)
class Publication:
    """The published results of a grid: their folder, and what ``made.yaml`` says of them."""

    folder: Path
    made: dict[str, Any]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, ``table1``, ``table2``, ..., as the report has them."""
        return tuple(self.made["captions"])

    def table(self, name: str) -> pd.DataFrame:
        """A table, or ``seeds``. Raises UserError if there is none of that name."""
        known = (*self.tables, SEEDS)
        if name not in known:
            raise UserError(f"{self.folder} has no {name}.csv; it has: {', '.join(known)}.")
        return as_written(self.folder / f"{name}.csv")

    def caption(self, name: str) -> str:
        """That of a table, which code was accepted since it was made, and how results that were kept differ from those of now."""
        edited = {file for a in self.made.get("accepted", []) for file in a["edited"]}
        files = f"{len(edited)} file{'s' * (len(edited) > 1)} of its code"
        word = f"\n\n{SINCE}, and taken for computing the same: {files} ({MADE} says which, and why)."
        others = [f"\n\n{BEFORE}: {kept['because'].rstrip('.')}." for kept in self.made.get("kept", [])]
        return "".join([str(self.made["captions"][name]), word if edited else "", *others])

    def damaged(self) -> list[str]:
        """The files that are not those that were published."""
        return [
            name
            for name, checksum in self.made["files"].items()
            if not (self.folder / name).exists() or sha256(self.folder / name) != checksum
        ]


def as_written(path: Path) -> pd.DataFrame:
    """A table in full precision, a word ``none`` in it being a word."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def lines(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows, each a mapping of columns."""
    return [{str(column): value for column, value in row.items()} for row in table.to_dict("records")]


def grids() -> list[str]:
    """The grids that have published results."""
    return sorted(path.parent.name for path in RESULTS.glob(f"*/{MADE}"))


def read(grid: str) -> Publication:
    """The published results of a grid. Raises UserError if there are none."""
    if grid not in grids():
        near = difflib.get_close_matches(grid, grids(), 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise UserError(
            f"There are no published results of a grid '{grid}' in {RESULTS}; there are: {', '.join(grids()) or 'none'}.{hint}"
            " All of them: bgbias reproduce"
        )
    folder = RESULTS / grid
    return Publication(folder, read_yaml(folder / MADE))


def take(study: Study, figures: Collection[str]) -> Publication:
    """Put the finished report of a grid there, with ``figures`` of it. Raises UserError if not all of it is made and current."""
    again = f"make run GRID={study.grid}"
    if not freshness.complete(study):
        raise UserError(
            f"The report of grid '{study.grid}' is not what this code and these settings give: {again}"
        )
    drawn = {name: study.files.at("figure_png", figure=name) for name in figures}
    if absent := [str(path) for path in drawn.values() if not path.exists()]:
        raise UserError(
            f"A page shows {absent[0]}, which the grid '{study.grid}' does not have; edit the page."
        )
    tables = [n.keywords["table"] for n in graph.goals(study) if n.name == "table"]
    contents = {f"{name}.csv": study.files.at("table_csv", table=name).read_bytes() for name in tables}
    contents[f"{SEEDS}.csv"] = seeds(study).to_csv(index=False).encode()
    contents |= {f"{name}.png": path.read_bytes() for name, path in sorted(drawn.items())}
    folder = RESULTS / study.grid
    for old in [*folder.glob("*.csv"), *folder.glob("*.png")]:
        old.unlink()
    for name, content in contents.items():
        with atomic.replacing(folder / name) as temporary:
            temporary.write_bytes(content)
    captions = {
        t: study.files.at("table_md", table=t).read_text("utf-8").split("\n\n### ")[0] for t in tables
    }
    made = {"command": again, **birth(study), "settings": settings_of(study)}
    made |= {"excluded": excluded(study.files.at("mask_report")), "captions": captions}
    made |= {"files": {name: sha256(folder / name) for name in contents}, "code": code_of(study)}
    return write(Publication(folder, made))


def seeds(study: Study) -> pd.DataFrame:
    """Each training of a finished grid (``rows.of_each_seed``)."""
    return rows.of_each_seed(as_written(study.files.at("results")))


def birth(study: Study) -> dict[str, Any]:
    """Of a finished grid: commit, date and machine, and the minutes of its steps, each counted by itself; from their records."""
    every = [(node.name, records.of_any_time(node.record(study))) for node in graph.in_order(study)]
    known = [(name, record) for name, record in every if record]
    last = max((record for _, record in known), key=lambda record: record["finished"])
    minutes = pd.Series([record["seconds"] / 60 for _, record in known], [name for name, _ in known])
    devices = [record["device"] for _, record in known if not record["device"].startswith("cpu")]
    return {
        "commit": (last["git_commit"] or "unknown") + " with edits" * bool(last["git_dirty"]),
        "date": last["finished"].partition("T")[0],
        "machine": "; ".join(dict.fromkeys([*(record["machine"] for _, record in known), *devices])),
        "cores": os.cpu_count(),
        "minutes": round(float(minutes.sum()), 1),
        "minutes_of_training": round(float(minutes[minutes.index.isin(TRAINED)].sum()), 1),
    }


def settings_of(study: Study) -> dict[str, Any]:
    """What params.yaml says of a grid: its models, the protocol, and all that they name, without what is left at its default."""
    cells = plan.cells(study)
    said = study.model_dump(mode="json", exclude_defaults=True, include={"cells", *SECTIONS})
    before = {
        named.name: named for named in filter(None, (plan.pretraining(study, c.backbone) for c in cells))
    }
    learned_from = [named.params().dataset for named in before.values()]
    names = dict.fromkeys([*plan.datasets(study), *filter(None, learned_from)])
    datasets = {name: study.datasets[name] for name in names}
    entries = dict.fromkeys(plan.method(study, cell).entry for cell in plan.trained(study))
    used: dict[str, dict[str, Strict]] = {
        "datasets": dict(datasets),
        "maskers": {d.masker: study.maskers[d.masker] for d in datasets.values()},
        "backgrounds": {d.backgrounds: study.backgrounds[d.backgrounds] for d in datasets.values()},
    }
    said |= {
        section: {name: entry.model_dump(mode="json", exclude_defaults=True) for name, entry in named.items()}
        for section, named in used.items()
    }
    losses = dict.fromkeys((cell.loss, cell.dataset) for cell in plan.trained(study))
    said |= {"pretrainings": {name: study.pretrainings[name] for name in before}} if before else {}
    return said | {
        "backbones": {cell.backbone: study.backbones[cell.backbone] for cell in cells},
        "losses": {
            f"{loss}, {dataset}": dict(loss_options(study, dataset, loss)) for loss, dataset in losses
        },
        "methods": {name: study.methods[name] for name in entries if name in study.methods},
    }


def differing_settings(publication: Publication, study: Study) -> list[str]:
    """The settings that are others now than those of published results: ``train.max_epochs``."""
    return list(freshness.differences(publication.made["settings"], settings_of(study)))


def code_of(study: Study, nodes: Iterable[Node] | None = None) -> dict[str, Any]:
    """The code of a grid's numbers, or of those that some nodes make: ``steps``, each kind of node to the fingerprint of its
    whole code (only of a whole grid); ``files`` to what stands in each; ``libraries`` to their versions.
    """
    making = [n for n in (graph.in_order(study) if nodes is None else nodes) if n.name not in WITHOUT_NUMBERS]
    by = dict.fromkeys(node.code(study) for node in making)
    kinds = {node.name for node in making}
    whole = (
        {"steps": {k: v for k, v in digests.code_of(study).items() if k in kinds}} if nodes is None else {}
    )
    return whole | {
        "files": dict(sorted(item for m in by for item in code.modules(*m).items())),
        "libraries": dict(sorted(item for m in by for item in code.libraries(*m).items())),
    }


def edited(publication: Publication, study: Study) -> list[str]:
    """The files and libraries of a grid's numbers that are others now than those which made the published ones."""
    before, now = publication.made["code"], code_of(study)
    if before["steps"] == now["steps"]:
        return []
    moved = set(before["files"].values())
    files = [f for f, mark in now["files"].items() if before["files"].get(f) != mark and mark not in moved]
    libraries = [n for n, version in now["libraries"].items() if before["libraries"].get(n) != version]
    return files + libraries or ["imports"]


def accept(publication: Publication, study: Study, because: str) -> Publication:
    """Take the code of now for the one that made the published numbers, on somebody's word; ``because`` is kept, and whole
    tables say so until all numbers are made again. Raises UserError if no code was edited, if settings were, or without a reason.
    """
    return _leave(publication, study, because, "accepted")


def keep(publication: Publication, study: Study, because: str) -> Publication:
    """Let published numbers stay though the code of now makes others: ``because`` is how they differ, and tables say it until all
    are made again. Raises UserError as ``accept``.
    """
    return _leave(publication, study, because, "kept")


def _leave(publication: Publication, study: Study, because: str, kind: str) -> Publication:
    """What ``accept`` and ``keep`` share: ``made.yaml`` says of which ``kind`` the edit is, and has the code of now."""
    if other := differing_settings(publication, study):
        moved = f"{publication.folder} was made by other settings ({other[0]}), which move numbers"
        raise UserError(f"{moved}: make run GRID={study.grid}")
    if not because.strip() or "\n" in because or "<!--" in because:
        raise UserError(
            'Say in one line why the edit computes the same, --accept "a variable was renamed", or how what it computes differs,'
            ' --keep "medians where now are means"'
        )
    names = edited(publication, study)
    if not names:
        raise UserError(
            f"The code of now is the one that made {publication.folder}; there is nothing to accept or to keep."
        )
    told = [dict(entry) for entry in publication.made.get(kind, [])]
    if told and told[-1]["because"] == because:
        told[-1]["edited"] = sorted({*told[-1]["edited"], *names})
    else:
        told.append({"edited": names, "because": because})
    made = publication.made | {kind: told, "code": code_of(study)}
    return write(Publication(publication.folder, made))


def vouch(
    publication: Publication, study: Study, made_by: Iterable[str], commit: str, whole: bool = False
) -> Publication:
    """Say that code of now gave the published numbers: ``made_by``, files and libraries as in ``edited``, at ``commit``; if the
    ``whole`` grid was made again, nobody's word is needed any more.
    """
    now, known = code_of(study), {key: dict(value) for key, value in publication.made["code"].items()}
    for name in made_by:
        for kind in ("files", "libraries"):
            known[kind] |= {name: now[kind][name]} if name in now[kind] else {}
    made = {
        key: value for key, value in publication.made.items() if not (whole and key in ("accepted", "kept"))
    }
    proved = Publication(publication.folder, made | {"code": known, "commit": commit})
    if all(known[kind].get(n) == mark for kind in ("files", "libraries") for n, mark in now[kind].items()):
        proved.made["code"] = now
    return write(proved)


def cannot_be_made_here(study: Study) -> str:
    """Why the grid cannot be run on this machine: photos or weights that no command brings; empty if it can."""
    missing = [a for a in availability.arrivals(study, only_grid=True) if a.state in NOT_HERE]
    if missing:
        return f"the {missing[0].part} of {missing[0].dataset} are not here"
    try:
        given_weights.check(study)
    except UserError:
        return "its weights are not here"
    return ""


def write(publication: Publication) -> Publication:
    """Write its ``made.yaml``."""
    text = yaml.safe_dump(publication.made, sort_keys=False, allow_unicode=True, width=130)
    atomic.write_text(publication.folder / MADE, text)
    return publication
