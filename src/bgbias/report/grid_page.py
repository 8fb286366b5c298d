"""``report.html``: a finished grid as one page, which needs no other file. Its numbers are those of the tables."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import yaml

from bgbias import plugins
from bgbias.backgrounds.settings import Backgrounds
from bgbias.engine import freshness
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.files import atomic
from bgbias.report import (
    comparisons,
    costs,
    figures,
    formats,
    grid_photos,
    html,
    names,
    prose,
    style,
    tables,
)
from bgbias.report.figures import _panels
from bgbias.report.queries import UNSURE
from bgbias.results import publication
from bgbias.results.rows import records
from bgbias.results.uncertainty import FEWEST_SEEDS
from bgbias.study import plan
from bgbias.study.cell import NO_LOSS, side_by_side
from bgbias.study.params import Study
from bgbias.training.methods import REPLACING
from bgbias.version import VERSION

JPEG_QUALITY = 88
CLASSES = 500  # rows of the page's tables of classes
NEXT_SENTENCE = re.compile(r"(?<! al)\. (?=[A-Z])")  # "et al. 2011" goes on
TEMPLATE = "grid_page.j2"
MONITORED = "^val_(corrupted_)?map_at_r$"
# What stands where; whatever else a grid has comes with the comparison.
SECTIONS = {
    "parts": ("What the drop is made of", ("table5", "table6"), ("worst_of",)),
    "seen": ("What the models saw and found", (), ("photos", "retrieval")),
    "looks": ("Where they look", ("table2", "table8"), ("attribution",)),
    "segments": ("What they take for the object", ("table4",), ("segmentation",)),
    "masks": ("Can the masks be trusted?", ("table10",), ("masks",)),
    "cures": ("Cures without training", ("table7",), ()),
    "pretrained": ("What learning without labels changes", ("table13",), ()),
    "shapes": ("Shape or texture", ("table14",), ("shape_share",)),
    "probed": ("What classifiers make of the embeddings", ("table12",), ()),
    "attacked": ("Under attack", ("table9",), ()),
}
COMPARED = "compared"


def write(study: Study) -> Path:
    """The page of a grid beside its tables; gives its path. Raises UserError if tables or figures are missing or stale."""
    if lacking := freshness.lacking(freshness.examine(study)):
        elsewhere = (
            " Where other libraries are those of another environment, this command needs it, too (source .venv/bin/activate)."
            if lacking.why.startswith("libraries.")
            else ""
        )
        raise UserError(
            f"The tables and figures of grid '{study.grid}' are not all here and current: {lacking}.{elsewhere} Make them by:"
            f" snakemake --cores all --config grid={study.grid} (bgbias status --grid {study.grid} says what is out of date)"
        )
    path = study.files.at("table_csv", table="table1").parent / "report.html"
    atomic.write_text(path, render(study))
    return path


def render(study: Study) -> str:
    """The page."""
    read = {
        name: formats.read(study.files.at("table_csv", table=name)) for name in tables.list_enabled(study)
    }
    blocks = list(comparisons.compare_grid(study, read))
    photos = list(grid_photos.list_photos(study, blocks))
    leaks = {part.dataset: part.leak for part in photos}
    headline, more = comparisons.verdict(blocks)
    spent, legend = costs.tabulate_costs(study)
    report = records(pd.read_csv(study.files.at("mask_report")))
    masks = prose.fill_macro(TEMPLATE, "masks", report=report, policy=study.mask_policy)
    values: dict[str, Any] = {
        "grid": study.grid,
        "verdict": headline,
        "more": more,
        "caveats": _caveats(read["table1"]),
        "same_backgrounds": _same_backgrounds(study),
        "compared": [(name, about) for name, about in _describe_compared(study, read["table1"]) if about],
        "blocks": blocks,
        "photos": photos,
        "portraits": {part.dataset: part.portraits or {} for part in photos},
        "four": grid_photos.four(blocks, leaks),
        "leaks": [(names.dataset(name), leak) for name, leak in leaks.items() if leak],
        "opened": grid_photos.find_largest_drop(blocks),
        "sections": list(_sections(study, read)),
        "curves": _inline_picture(_png(drawn)) if (drawn := draw_curves(study)) else {},
        "rising": describe_best_epochs(study),
        "masks_told": [*masks, *comparisons.by_masks(blocks, read)],
        "unsure": UNSURE,
        "advice": list(comparisons.advice(blocks, read)),
        "methods": _methods(study, read["table1"]),
        "born": publication.birth(study),
        "folder": f"{study.files.at('results').parent}/",
        "settings": yaml.safe_dump(publication.settings_of(study), sort_keys=False, allow_unicode=True),
        "costs": _body(formats.html_rows(spent, costs.COLUMNS)) if legend else "",
        "legend": legend,
        "judged": "table8" in read,
        "version": VERSION,
        "files": [f"{name}.csv" for name in read],
        "most": CLASSES,
    }
    return html.render("study.html", values)


def _sections(study: Study, read: dict[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    drawn = figures.list_enabled(study)
    placed = {name for _, *kinds in SECTIONS.values() for kind in kinds for name in kind}
    rest = [name for name in read if name not in placed], [name for name in drawn if name not in placed]
    every = {COMPARED: ("Methods compared", *rest), **SECTIONS}
    for name, (title, table_names, figure_names) in every.items():
        printed = [_table(study, table) for table in table_names if table in read]
        pictures = [
            _inline_picture(study.files.at("figure_png", figure=figure).read_bytes())
            | {"about": tables.describe(figures.load(figure))}
            for figure in figure_names
            if figure in drawn
        ]
        if printed or pictures:
            yield {"id": name, "title": title, "tables": printed, "figures": pictures}


def _table(study: Study, name: str) -> dict[str, Any]:
    """A table with its caption, as its own page has it: both were escaped when that was written."""
    text = study.files.at("table_html", table=name).read_text(encoding="utf-8")
    caption, _, rest = text.partition("</style>")[2].partition("<div>")
    return {
        "name": names.table(name),
        "about": tables.describe(tables.load(name)),
        "caption": caption,
        "body": _body(rest.partition("</div>")[0]),
    }


def _body(table: str) -> str:
    # A head without words is none, for whoever hears the page.
    return html.whole_intervals(table.replace("<tr><th></th>", "<tr><td></td>", 1))


def _png(figure: style.Figure) -> bytes:
    data = io.BytesIO()
    with style.style():
        figure.savefig(data, format="png", dpi=style.DPI, metadata={"Software": None})
    return data.getvalue()


def _inline_picture(png: bytes) -> dict[str, Any]:
    """A picture as a page holds it, which keeps its place free before it is drawn. Drawings are small as PNG, photos as JPEG."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        width, height = picture.size
        jpeg = io.BytesIO()
        picture.convert("RGB").save(jpeg, "JPEG", quality=JPEG_QUALITY)
    is_smaller = 2 * jpeg.tell() < len(png)
    address = html.url(jpeg.getvalue()) if is_smaller else html.url(png, "image/png")
    return {"picture": address, "width": width, "height": height}


def _caveats(table: pd.DataFrame) -> list[str]:
    trained = table[names.is_trained(table["method"])]
    counted = trained if len(trained) else table
    return prose.fill_macro(
        TEMPLATE,
        "caveats",
        where=[*map(names.dataset, table["dataset"].unique()), *table["backbone"].unique()],
        how_many=partial(names.how_many, counted),
        any_trained=bool(len(trained)),
        several_datasets=table["dataset"].nunique() > 1,
        over_seeds=(counted["seeds"] >= FEWEST_SEEDS).all(),
    )


def _describe_compared(study: Study, table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Datasets, methods and networks, in a sentence each: their files' own."""
    for name, part in table.groupby("dataset", sort=False):
        dataset = study.datasets[str(name)]
        about = _first_sentence(plugins.load("datasets", dataset.kind))
        photos = names.how_many(part, "queries", "test photo")
        facts = {"photos": photos, "classes": int(part["classes"].max()), "masker": dataset.masker}
        sentence = _sentence("dataset", about=about, options=_options(dataset.options), **facts)
        yield names.dataset(str(name)), sentence
    cells = (cell for cell in plan.cells(study) if not side_by_side(cell.method)[1])
    methods = {cell.method: plan.method(study, cell) for cell in cells}
    for method in dict.fromkeys(table["method"]):
        if chosen := methods.get(method):
            about, options = _first_sentence(chosen.module).removesuffix("."), _options(chosen.options)
            like = chosen.kind if chosen.kind in methods and chosen.kind != method else ""
            yield (
                names.method(method),
                _sentence("method", about=about, like=like, options=options, is_replacing=chosen.replaces),
            )
    for backbone in dict.fromkeys(table["backbone"]):
        net = plan.backbone(study, backbone)
        about = _first_sentence(net.module) if plugins.known("backbones", net.kind) else ""
        like = net.kind if net.kind != backbone else ""
        yield backbone, _sentence("backbone", about=about, like=like, options=_options(net.options))


def _sentence(macro: str, **values: Any) -> str:
    return " ".join(prose.fill_macro(TEMPLATE, macro, **values))


def _first_sentence(file: ModuleType) -> str:
    text = " ".join((file.__doc__ or "").split("\n\n")[0].split())
    return NEXT_SENTENCE.split(text)[0].rstrip(".").replace("``", "") + "."


def _options(options: Mapping[str, Any]) -> str:
    """Options as params.yaml has them; nothing if there are none."""
    return yaml.safe_dump(
        dict(options), default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf
    ).strip()[1:-1]


def _same_backgrounds(study: Study) -> str:
    """Where training replaced backgrounds by pictures of the kind that the test shows; nothing where it did not."""
    replacing = (c for c in plan.trained_models(study) if plan.method(study, c).needs >= REPLACING)
    pools = {str(study.datasets[cell.dataset].backgrounds) for cell in replacing}
    alike = sorted(name for name in pools if _is_of_one_kind(study.backgrounds[name]))
    return _sentence("same_backgrounds", alike=alike) if alike else ""


def _is_of_one_kind(pools: Backgrounds) -> bool:
    """Whether training and test show pictures of one folder, zip or list, or drawn in one way."""
    train, test = pools.train, pools.test
    if train is None or test is None:
        return pools.propose is not None
    if train.source is not None or test.source is not None:
        return train.source == test.source
    return train.drawn is not None and test.drawn is not None and train.drawn[0] == test.drawn[0]


def _methods(study: Study, table: pd.DataFrame) -> str:
    cells = plan.trained_models(study)
    datasets = [study.datasets[name] for name in plan.datasets(study)]
    seeds = names.how_many(table, "seeds", "seed") if cells else ""
    return _sentence(
        "methods", study=study, datasets=datasets, cells=cells, seeds=seeds, fewest_seeds=FEWEST_SEEDS
    )


def _histories(study: Study) -> pd.DataFrame:
    """Each epoch of the trainings that are here: the model's names, ``cell``, ``epoch`` and as ``score`` the validation MAP@R
    that picks its best epoch, 0..1: clean or corrupted, as ``train.selection`` says.
    """
    histories = []
    for cell in plan.trained_models(study):
        path = step("train", cell=cell).file(study, "history")
        if path.exists():
            history = pd.read_csv(path)
            score = history.filter(regex=MONITORED).iloc[:, 0]
            histories.append(history[["epoch"]].assign(score=score, cell=cell.name, **cell.wildcards))
    return pd.concat(histories, ignore_index=True) if histories else pd.DataFrame()


def describe_best_epochs(study: Study) -> str:
    """How many trainings were best at their very end; nothing where no history is here."""
    histories = _histories(study)
    if histories.empty:
        return ""
    of_trainings = histories.groupby(["method", "cell"], sort=False)["score"]
    is_last = of_trainings.agg(lambda score: score.argmax() == len(score) - 1).astype(bool)
    by_method = is_last.groupby("method", sort=False).agg(["mean", "sum", "count"])
    ordered = by_method.sort_values("mean", ascending=False, kind="stable").reset_index()
    return _sentence("best_epochs", by_method=records(ordered))


def draw_curves(study: Study) -> style.Figure | None:
    """A panel for each dataset, backbone and loss: colours are methods, lines are seeds. None where no history is here."""
    histories = _histories(study)
    if histories.empty:
        return None
    histories = names.in_order(histories)
    low, high = 100 * histories["score"].min() - 2, 100 * histories["score"].max() + 2
    titles = histories["backbone"] + "\n" + histories["loss"].map(names.loss)

    def panel(axes: style.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
        from matplotlib.ticker import MaxNLocator

        for (method, _), line in rows.groupby(["method", "cell"], sort=False):
            colour = style.colour(str(method))
            axes.plot(line["epoch"], 100 * line["score"], color=colour, linewidth=0.9, alpha=0.75)
        axes.set_ylim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.grid(axis="y")

    panels = histories.assign(backbone=titles, loss=NO_LOSS)
    return _panels.figure(_panels.by_network(panels, panel), "epoch", "validation MAP@R, %")
