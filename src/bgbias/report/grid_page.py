"""``report.html``: a finished grid as a page for people, which needs no other file. Its numbers are those of the tables."""

from __future__ import annotations

import base64
import dataclasses
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import yaml

from bgbias import plugins
from bgbias.engine import freshness
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.files import atomic
from bgbias.report import costs, curves, figures, formats, html, look, names, tables
from bgbias.report.tables import _captions as sentences
from bgbias.results import publication
from bgbias.results.rows import MAP_AT_R, MODEL
from bgbias.results.uncertainty import FEWEST_SEEDS, SIGNIFICANT, UNKNOWN, Estimate
from bgbias.study import plan
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study
from bgbias.version import VERSION

CLASSES = 500  # rows of the page's tables of classes
BLOCK = MODEL[:3]  # models that are compared with one another
# What stands where; whatever else a grid has comes with the comparison.
SECTIONS = {
    "parts": ("What the drop is made of", ("table5", "table6"), ("worst_of",)),
    "seen": ("What the models saw and found", (), ("photos", "retrieval")),
    "looks": ("Where they look", ("table2", "table8"), ("attribution",)),
    "segments": ("What they take for the object", ("table4",), ("segmentation",)),
    "masks": ("Can the masks be trusted?", (), ("masks",)),
    "cures": ("Cures without training", ("table7",), ()),
}
COMPARED = "compared"
MOST_LISTED = 4  # numbers in a sentence
DIFFERENCES = {
    "corrupted": "corrupted_difference",
    "clean": "clean_difference",
    "drop": "relative_drop_change",
}


@dataclass(frozen=True)
class Shift:
    """A difference in points with its interval, and whether it is more than chance."""

    found: Estimate
    sure: bool = False

    @property
    def more(self) -> bool:
        """Beyond chance above 0."""
        return self.sure and self.found.value > 0

    @property
    def less(self) -> bool:
        """Beyond chance below 0."""
        return self.sure and self.found.value < 0


@dataclass(frozen=True)
class Change:
    """Against plain training of the same loss: MAP@R in front of other backgrounds and on clean photos, and the relative drop."""

    corrupted: Shift
    clean: Shift
    drop: Shift


@dataclass(frozen=True)
class MethodRow:
    """A model's levels in percent, and its attribution score; what it changes, if it is compared with plain training."""

    method: str
    title: str
    seeds: int
    corrupted: Estimate
    clean: Estimate
    drop: Estimate
    score: Estimate = UNKNOWN
    change: Change | None = None


@dataclass(frozen=True)
class LossBlock:
    """What is compared with one another: the models of one dataset, backbone and loss, and what their classes lose."""

    title: str
    models: list[MethodRow]
    classes: list[dict[str, Any]]


def write(study: Study) -> Path:
    """The page of a grid beside its tables; gives its path. Raises UserError if tables or figures are missing or stale."""
    if not freshness.complete(study):
        again = f"snakemake --cores all --config grid={study.grid}"
        raise UserError(
            f"The tables and figures of grid '{study.grid}' are not all here and current (bgbias status --grid {study.grid}"
            f" says which); make them with: {again}"
        )
    path = study.files.at("table_csv", table="table1").parent / "report.html"
    atomic.write_text(path, made(study))
    return path


def made(study: Study) -> str:
    """The page."""
    read = {name: formats.read(study.files.at("table_csv", table=name)) for name in tables.wanted(study)}
    blocks = list(_blocks(study, read))
    values: dict[str, Any] = {
        "title": f"{study.grid}: do the models look at the object?",
        "grid": study.grid,
        "verdict": verdict(blocks),
        "caveats": list(_caveats(study, read["table1"])),
        "compared": [(name, about) for name, about in _compared(study, read["table1"]) if about],
        "blocks": blocks,
        "opened": max(blocks, key=lambda block: max(model.drop.value for model in block.models)),
        "sections": list(_sections(study, read)),
        "curves": _drawn(curves.drawn(study)),
        "masks_told": list(_of_masks(study)),
        "advice": list(_advice(blocks, read)),
        "methods": " ".join(_methods(study, read["table1"])),
        "facts": list(_facts(study)),
        "settings": yaml.safe_dump(publication.settings_of(study), sort_keys=False, allow_unicode=True),
        "costs": costs.told(study),
        "version": VERSION,
        "most": CLASSES,
    }
    return html.render("study.html", values)


def verdict(blocks: list[LossBlock]) -> str:
    """What was found, in a few sentences: what plain models lose, and which methods change that by more than chance."""
    said = []
    models = [model for block in blocks for model in block.models]
    seeds = [model.seeds for model in models if names.trained(pd.Series([model.method])).all()]
    if seeds and min(seeds) < FEWEST_SEEDS:
        said.append(f"Of {names.count(min(seeds), 'training seed')} each, which says little of methods:")
    losing, others = _losing(blocks)
    of_each = [f"{_percent(plain.drop)} % ({block.title})" for block, plain in losing]
    if losing:
        how_much = _listed(of_each) if len(losing) <= MOST_LISTED else f"{of_each[0]} to {of_each[-1]}"
        said.append(f"In front of other backgrounds plain models lose {how_much} of their MAP@R.")
    if others:
        where = (
            f" on {_listed([block.title for block in others])}"
            if losing
            else " in front of other backgrounds"
        )
        said.append(f"No loss beyond chance is shown{where}.")
    changes: dict[str, list[Change]] = {}
    for block, _ in losing:
        for model in block.models:
            if model.change:
                changes.setdefault(model.title, []).append(model.change)
    told = [sentence for title, of in changes.items() if (sentence := _helps(title, of))]
    said += told
    if changes and len(told) < len(changes):
        rest = "Of the other methods none" if told else "No method"
        said.append(f"{rest} lessens the drop or raises MAP@R there by more than chance.")
    return " ".join(said) or "Nothing was trained: these are networks as they came."


def _losing(blocks: list[LossBlock]) -> tuple[list[tuple[LossBlock, MethodRow]], list[LossBlock]]:
    """Where plain training loses more than chance, the largest loss first; and where that is not shown."""
    plain = [(block, model) for block in blocks for model in block.models if model.method == PLAIN]
    losing = sorted((pair for pair in plain if pair[1].drop.low > 0), key=lambda pair: -pair[1].drop.value)
    return losing, [block for block, model in plain if not model.drop.low > 0]


def _helps(title: str, changes: list[Change]) -> str:
    """What a method does beyond chance where plain training loses; nothing if it does nothing."""
    parts = {
        "lessens the drop": sum(change.drop.less for change in changes),
        "raises MAP@R there": sum(change.corrupted.more for change in changes),
    }
    many = len(changes) > 1
    said = [
        what + f" in {count} of {len(changes)} comparisons" * many for what, count in parts.items() if count
    ]
    return f"{title} {' and '.join(said)}, by more than chance." if said else ""


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _blocks(study: Study, read: dict[str, pd.DataFrame]) -> Iterator[LossBlock]:
    levels, changes = read["table1"], read.get("table3")
    lost = _lost(study)
    several = levels["backbone"].nunique() > 1
    for _, rows in levels.groupby(BLOCK, sort=False):
        models = [_model(row, changes) for row in rows.to_dict("records")]
        dataset, backbone, loss = rows[BLOCK].iloc[0]
        title = [names.dataset(dataset), *([backbone] * several), names.loss(loss)]
        own = lost[(lost[BLOCK] == [dataset, backbone, loss]).all(axis=1)]
        yield LossBlock(", ".join(title), models, list(_classes(own, [m.method for m in models])))


def _model(row: dict[Any, Any], changes: pd.DataFrame | None) -> MethodRow:
    model = MethodRow(
        method=row["method"],
        title=names.method(row["method"]),
        seeds=int(row["seeds"]),
        corrupted=_of(row, "corrupted"),
        clean=_of(row, "clean"),
        drop=_of(row, "relative_drop"),
    )
    own = (
        []
        if changes is None
        else changes[(changes[MODEL] == [row[p] for p in MODEL]).all(axis=1)].to_dict("records")
    )
    if not own:
        return model
    (change,) = own
    model = dataclasses.replace(model, score=_of(change, "ref"))
    if math.isnan(change["corrupted_difference"]):
        return model
    tested = {
        name: Shift(_of(change, column), change[f"{column}_p_holm"] < SIGNIFICANT)
        for name, column in DIFFERENCES.items()
    }
    return dataclasses.replace(model, change=Change(**tested))


def _of(row: dict[Any, Any], name: str) -> Estimate:
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _percent(found: Estimate) -> str:
    return html.interval(found.value, found.low, found.high, 0, scale=1)


def _lost(study: Study) -> pd.DataFrame:
    """MAP@R of each model's classes, as they are and in front of other backgrounds, means over seeds, draws and photos."""
    wanted = [*MODEL, "setting", "condition", "image_id", "label", MAP_AT_R]
    queries = pd.read_parquet(study.files.at("all_queries"), columns=wanted)
    own = queries[(queries["setting"] == SYMMETRIC) & queries["condition"].isin([CLEAN, RANDOM_BACKGROUND])]
    means = own.groupby([*MODEL, "label", "condition"], sort=False)[MAP_AT_R].mean().unstack()
    about = own.groupby([*MODEL, "label"], sort=False)["image_id"].agg(["first", "nunique"])
    found = means.join(about).reset_index()
    # A class is called after its photos' folder, if that is its own.
    found["folder"] = found["first"].str.rpartition("/")[0].str.rpartition("/")[2]
    alone = found.groupby(["dataset", "folder"])["label"].transform("nunique") == 1
    named = alone & (found["folder"] != "")
    return found.assign(name=found["folder"].where(named, found["label"].astype(str)))


def _classes(own: pd.DataFrame, methods: list[str]) -> Iterator[dict[str, Any]]:
    """Of each class its photos, what the first model finds with their own background, and what each loses without it."""
    lost = (own[CLEAN] - own[RANDOM_BACKGROUND]).groupby([own["label"], own["method"]]).first().unstack()
    clean = own[own["method"] == methods[0]].set_index("label")
    for label in lost.sort_values(methods[0], ascending=False, kind="stable").index:
        about = clean.loc[label]
        yield {
            "name": about["name"],
            "queries": about["nunique"],
            "clean": about[CLEAN],
            "lost": lost.loc[label, methods].tolist(),
        }


def _sections(study: Study, read: dict[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    drawn = figures.wanted(study)
    placed = {name for _, some, shown in SECTIONS.values() for name in (*some, *shown)}
    rest = [name for name in read if name not in placed], [name for name in drawn if name not in placed]
    every = {COMPARED: ("Methods compared", *rest), **SECTIONS}
    for name, (title, some, shown) in every.items():
        printed = [_table(study, table) for table in some if table in read]
        pictures = [_figure(study, figure) for figure in shown if figure in drawn]
        if printed or pictures:
            yield {"id": name, "title": title, "tables": printed, "figures": pictures}


def _table(study: Study, name: str) -> dict[str, Any]:
    """A table with its caption, as its own page has it: both were escaped when that was written."""
    text = study.files.at("table_html", table=name).read_text(encoding="utf-8")
    caption, _, rest = text.partition("</style>")[2].partition("<div>")
    # A head without words is none, for whoever hears the page.
    body = rest.partition("</div>")[0].replace("<tr><th></th>", "<tr><td></td>", 1)
    return {
        "name": names.table(name),
        "about": tables.load(name).ABOUT,
        "caption": caption,
        "body": body,
    }


def _figure(study: Study, name: str) -> dict[str, Any]:
    data = study.files.at("figure_png", figure=name).read_bytes()
    return _inside(data) | {"about": figures.load(name).ABOUT}


def _drawn(figure: look.Figure | None) -> dict[str, Any]:
    if figure is None:
        return {}
    data = io.BytesIO()
    with look.style():
        figure.savefig(data, format="png", dpi=look.DPI, metadata={"Software": None})
    return _inside(data.getvalue())


def _inside(png: bytes) -> dict[str, Any]:
    """A picture as a page holds it: the page keeps its place free before it is drawn."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        width, height = picture.size
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return {"picture": url, "width": width, "height": height}


def _caveats(study: Study, table: pd.DataFrame) -> Iterator[str]:
    """What a reader of the verdict must know at once."""
    trained = table[names.trained(table["method"])]
    counted = trained if len(trained) else table
    queries, draws = (
        names.how_many(counted, column, noun)
        for column, noun in (("queries", "test photo"), ("draws", "random background"))
    )
    seeds = f"Each method was trained with {names.how_many(counted, 'seeds', 'seed')}. " * bool(len(trained))
    yield f"{seeds}{queries} of each dataset were put in front of {draws} each."
    again = "methods were trained with other seeds and " if (counted["seeds"] >= FEWEST_SEEDS).all() else ""
    yield f"[low, high]: 95 % confidence interval: where a number would lie if {again}other classes of this kind were asked for."


def _compared(study: Study, table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Datasets, methods and networks, in a sentence each: their files' own."""
    for name, own in table.groupby("dataset", sort=False):
        chosen = study.datasets[str(name)]
        options = ", ".join(f"{key}: {value}" for key, value in chosen.options.items())
        count = f"{names.how_many(own, 'queries', 'test photo')} of {int(own['classes'].max())} classes"
        about = _first_sentence(plugins.load("datasets", chosen.kind))
        yield names.dataset(str(name)), f"{about} {count}{f' ({options})' if options else ''}."
    for method in dict.fromkeys(table["method"]):
        if file := names.family(method):
            yield names.method(method), _first_sentence(plugins.load("methods", file))
    for backbone in dict.fromkeys(table["backbone"]):
        yield (
            backbone,
            _first_sentence(plugins.load("backbones", backbone))
            if plugins.known("backbones", backbone)
            else "",
        )


def _first_sentence(file: ModuleType) -> str:
    text = " ".join((file.__doc__ or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".") + "."


def _of_masks(study: Study) -> Iterator[str]:
    masks = pd.read_csv(study.files.at("mask_report"))
    for row in masks.to_dict("records"):
        area = f"mean area {html.percent(row['mean_area'], 0)} %"
        truth = (
            "" if math.isnan(row["mean_iou"]) else f", IoU with true masks {html.number(row['mean_iou'], 2)}"
        )
        count, without = int(row["test_photos"]), int(row["test_photos_without_trusted_mask"])
        policy = study.mask_policy
        bounds = f"(area outside {html.percent(policy.min_area, 0)} to {html.percent(policy.max_area, 0)} %)"
        yield (
            f"{names.dataset(row['dataset'])}: {row['masker']}, {area}{truth}; {without or 'none'} of {count:,} test photos"
            f" {'is' if without == 1 else 'are'} no query because of the mask {bounds}."
        )


def _advice(blocks: list[LossBlock], read: dict[str, pd.DataFrame]) -> Iterator[str]:
    """What the numbers suggest, each with what was measured of it."""
    losing, others = _losing(blocks)
    for block, _ in losing:
        changes = [(model, model.change) for model in block.models if model.change]
        gaining = [pair for pair in changes if pair[1].corrupted.more]
        lessening = [pair for pair in changes if pair[1].drop.less]
        if gaining:
            best, change = max(gaining, key=lambda pair: pair[0].corrupted.value)
            paid = "beyond chance" if change.clean.sure else "which may be chance"
            yield (
                f"{block.title}: train with {best.title}. Where backgrounds differ it gains {_points(change.corrupted.found)}"
                f" points of MAP@R, beyond chance; on clean photos it is {_points(change.clean.found)} ({paid})."
            )
        elif lessening:
            best, change = min(lessening, key=lambda pair: pair[1].drop.found.value)
            yield (
                f"{block.title}: {best.title} changes the drop by {_points(change.drop.found)} points, beyond chance, but what it"
                f" gains where backgrounds differ, {_points(change.corrupted.found)}, may be chance: more seeds or classes would"
                " tell."
            )
        elif changes:
            yield f"{block.title}: of what was tried nothing helps by more than chance."
    if others:
        yield f"{_listed([block.title for block in others])}: no loss beyond chance, and so no need of a cure, is shown."
    if "table7" in read:
        yield "What needs no training was tried on every model: the cures above."


def _points(found: Estimate) -> str:
    said = html.interval(found.value, found.low, found.high, 1, scale=1)
    return said if found.value < 0 else f"+{said}"


def _methods(study: Study, table: pd.DataFrame) -> Iterator[str]:
    """A paragraph for a paper."""
    cells = plan.trained(study)
    maskers = dict.fromkeys(study.datasets[name].masker for name in plan.datasets(study))
    pools = dict.fromkeys(study.datasets[name].backgrounds for name in plan.datasets(study))
    yield (
        f"Following Kobs & Hotho (2022), objects were cut out by masks ({', '.join(maskers)}) and pasted in front of"
        f" {study.evaluation.draws} random backgrounds each ({', '.join(map(str, pools))}), in query and gallery."
    )
    if cells:
        train = study.train
        backbones, losses = dict.fromkeys(c.backbone for c in cells), dict.fromkeys(c.loss for c in cells)
        yield (
            f"Models ({', '.join(backbones)}, {train.embedding_dim} dimensions; {', '.join(map(names.loss, losses))}) were"
            f" trained for up to {train.max_epochs} epochs, in batches of {train.batch_size}, by {train.optimizer}, with"
            f" {names.how_many(table[names.trained(table['method'])], 'seeds', 'seed')}, and selected"
            f" {sentences.SELECTIONS[train.selection]}."
        )
    yield (
        "Retrieval by the embeddings' distance was measured by MAP@R (Musgrave et al. 2020), the query itself left out."
        " Intervals are 95 %, by the jackknife over classes with Student's t, over classes and training seeds from"
        f" {FEWEST_SEEDS} seeds on (Cameron, Gelbach & Miller 2011; MacKinnon, Nielsen & Webb 2023). Differences from plain"
        " training are paired by query and seed, and corrected after Holm (1979)."
    )


def _facts(study: Study) -> Iterator[tuple[str, str]]:
    born = publication.birth(study)
    yield "command", f"snakemake --cores all --config grid={study.grid}"
    yield "commit", born["commit"]
    yield "finished", born["date"]
    yield "machine", f"{born['machine']}; read here with {names.count(born['cores'], 'core')}"
    yield "minutes", f"{born['minutes']} of all steps, {born['minutes_of_training']} of training"
    yield "tables and figures", f"{study.files.at('results').parent}/"
