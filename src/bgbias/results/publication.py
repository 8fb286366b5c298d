"""Results of the project's own grids that its pages show: what a finished run gave, and how it was made.

``docs/results/<grid>/`` holds the report's tables in full precision, ``seeds.csv`` (``rows.tabulate_seeds``), the figures that
pages show, and ``made.json``: commit, date, machine, minutes, libraries, a digest of each section of the settings, and the
captions of the tables. Whether code has changed since is what git says.
"""

import difflib
import hashlib
import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.engine import availability, checks, freshness, graph, records
from bgbias.errors import UserError
from bgbias.files import atomic, json_checksum
from bgbias.files.places import RESULTS
from bgbias.results import rows
from bgbias.results.rows import MODEL, Model
from bgbias.settings import Strict
from bgbias.study import plan
from bgbias.study.params import SECTIONS, Study, loss_options

MADE, SEEDS = "made.json", "seeds"
TRAINED = ("pretrain", "train")  # whose minutes are those of training
NOT_HERE = ("by hand", "missing file")  # states of a dataset's parts that no command can bring


@dataclass(frozen=True)
class Publication:
    """The published results of a grid: their folder, and what ``made.json`` says of them."""

    folder: Path
    origin: dict[str, Any]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, ``table1``, ``table2``, ..., as the report has them."""
        return tuple(self.origin["captions"])

    def table(self, name: str) -> pd.DataFrame:
        """A table, or ``seeds``. Raises UserError if there is none of that name."""
        names = (*self.tables, SEEDS)
        if name not in names:
            raise UserError(f"{self.folder} has no {name}.csv; it has: {', '.join(names)}.")
        return rows.read_csv(self.folder / f"{name}.csv")

    def models(self) -> list[Model]:
        """The models that the first table has a row of."""
        return list(self.table(self.tables[0])[MODEL].itertuples(index=False, name=None))

    def caption(self, name: str) -> str:
        """The caption of a table, in Markdown."""
        return "\n\n".join(self.origin["captions"][name])


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
    return Publication(folder, json.loads((folder / MADE).read_text(encoding="utf-8")))


def publish(study: Study, figures: Collection[str]) -> Path:
    """Put the finished report of a grid into its folder, with ``figures`` of it; gives the folder.

    Raises UserError if not all of the report is made and current, by its content.
    """
    again = f"make run GRID={study.grid}"
    if lacking := freshness.lacking(freshness.examine(study, deep=True)):
        raise UserError(
            f"The report of grid '{study.grid}' is not what this code and these settings give: {lacking}. Make it by:"
            f" python -m bgbias restore --grid {study.grid} && {again}"
        )
    drawn = {name: study.files.at("figure_png", figure=name) for name in figures}
    if absent := [str(path) for path in drawn.values() if not path.exists()]:
        raise UserError(
            f"A page shows {absent[0]}, which the grid '{study.grid}' does not have; edit the page."
        )
    tables = table_names(study)
    contents = {f"{name}.csv": study.files.at("table_csv", table=name).read_bytes() for name in tables}
    contents[f"{SEEDS}.csv"] = rows.levels(study).to_csv(index=False).encode()
    contents |= {f"{name}.png": path.read_bytes() for name, path in sorted(drawn.items())}
    captions = {}
    for name in tables:
        text = study.files.at("table_md", table=name).read_text("utf-8")
        captions[name] = text.partition("\n\n### ")[0].split("\n\n")
    origin = {"command": again, **birth(study), "settings": settings_digests(study), "captions": captions}
    contents[MADE] = _json(origin).encode()
    folder = RESULTS / study.grid
    for name, content in contents.items():
        with atomic.replacing(folder / name) as temporary:
            temporary.write_bytes(content)
    for old in [*folder.glob("*.csv"), *folder.glob("*.png")]:
        if old.name not in contents:
            old.unlink()
    return folder


def table_names(study: Study) -> list[str]:
    """The tables of a grid's report."""
    return [node.keywords["table"] for node in graph.goals(study) if node.name == "table"]


def birth(study: Study) -> dict[str, Any]:
    """Of a finished grid: commit, date, machine and libraries, and the minutes of its steps, each counted by itself."""
    every = [(node.name, json_checksum.read_any(node.record(study))) for node in graph.in_order(study)]
    steps = [(name, record) for name, record in every if record]
    last = max((record for _, record in steps), key=lambda record: record["finished"])
    minutes = pd.Series([record["seconds"] / 60 for _, record in steps], [name for name, _ in steps])
    devices = [record["device"] for _, record in steps if not record["device"].startswith("cpu")]
    return {
        "commit": _commit(last),
        "date": last["finished"].partition("T")[0],
        "machine": "; ".join(dict.fromkeys([*(record["machine"] for _, record in steps), *devices])),
        "cores": os.cpu_count(),
        "minutes": round(float(minutes.sum()), 1),
        "minutes_of_training": round(float(minutes[minutes.index.isin(TRAINED)].sum()), 1),
        "libraries": last.get("packages", {}),
    }


def settings_of(study: Study) -> dict[str, Any]:
    """What params.yaml says of a grid: its models, the protocol, and all that they name, without what is left at its default."""
    cells, trained = plan.cells(study), plan.trained_models(study)
    learned = filter(None, (plan.pretraining(study, cell.backbone) for cell in cells))
    pretrainings = {entry.name: entry for entry in learned}
    names = [*plan.datasets(study), *filter(None, (n.params().dataset for n in pretrainings.values()))]
    datasets = [study.datasets[name] for name in names]
    settings = study.model_dump(mode="json", exclude_defaults=True, include={"cells", *SECTIONS})
    settings |= {
        "datasets": _dump(study.datasets, names),
        "maskers": _dump(study.maskers, (dataset.masker for dataset in datasets)),
        "backgrounds": _dump(study.backgrounds, (dataset.backgrounds for dataset in datasets)),
    }
    if pretrainings:
        settings["pretrainings"] = {name: study.pretrainings[name] for name in pretrainings}
    losses = dict.fromkeys((cell.loss, cell.dataset) for cell in trained)
    methods = dict.fromkeys(plan.method(study, cell).name for cell in trained)
    return settings | {
        "backbones": {cell.backbone: study.backbones[cell.backbone] for cell in cells},
        "losses": {
            f"{loss}, {dataset}": dict(loss_options(study, dataset, loss)) for loss, dataset in losses
        },
        "methods": {name: study.methods[name] for name in methods if name in study.methods},
    }


def _dump(entries: Mapping[str, Strict], used: Iterable[str]) -> dict[str, Any]:
    return {n: entries[n].model_dump(mode="json", exclude_defaults=True) for n in dict.fromkeys(used)}


def settings_digests(study: Study) -> dict[str, str]:
    """Each section of a grid's settings to twelve hexadecimal digits of its SHA-256."""
    digests = {}
    for section, settings in settings_of(study).items():
        text = json.dumps(settings, sort_keys=True)
        digests[section] = hashlib.sha256(text.encode()).hexdigest()[:12]
    return digests


def changed_sections(publication: Publication, study: Study) -> list[str]:
    """The sections of the settings that differ from those of published results."""
    before, now = publication.origin["settings"], settings_digests(study)
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def reason_not_here(study: Study) -> str:
    """Why the grid cannot be run on this machine: photos or weights that no command brings; empty if it can."""
    missing = [a for a in availability.arrivals(study, only_grid=True) if a.state in NOT_HERE]
    if missing:
        return f"the {missing[0].part} of {missing[0].dataset} are not here"
    try:
        for node in freshness.to_run(study):
            checks.check_weights(study, node)
    except UserError:
        return "its weights are not here"
    return ""


def note_tables(kind: str, command: str, tables: Iterable[Path]) -> None:
    """Let a script of docs/ make its tables, and note in ``docs/results/<kind>.json`` how that was done."""
    begun = time.perf_counter()
    finished = list(tables)
    minutes = (time.perf_counter() - begun) / 60
    path = RESULTS / f"{kind}.json"
    noted = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else {}
    born = {
        "commit": _commit(records.checkout()),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": _machine(),
        "cores": os.cpu_count(),
        "minutes": round(minutes, 1),
    }
    noted |= {str(table): born for table in finished}
    atomic.write_text(path, _json({"command": command, "tables": noted}))


def noted_tables() -> dict[str, dict[str, Any]]:
    """What is noted of the tables that scripts of docs/ made, by their kind."""
    paths = sorted(RESULTS.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def _commit(state: dict[str, Any]) -> str:
    return (state["git_commit"] or "unknown") + " with edits" * bool(state["git_dirty"])


def _machine() -> str:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return records.machine()
    return f"{records.machine()}; {torch.cuda.get_device_name()}"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
