"""The page of a grid: its numbers are those of the tables, it needs no network, and a browser shows all of it."""

import contextlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import chromium
import numpy as np
import pandas as pd
import pytest
from in_memory import table
from project import Project
from single_page import Reader, accessible, printed_whole, shown_whole
from small_study import described, load

from bgbias import plugins
from bgbias.backgrounds.settings import Backgrounds
from bgbias.errors import UserError
from bgbias.report import grid_page, queries
from bgbias.study import params, plan

EMBEDDINGS = "runs/smoke/scores/toy_smoke/tiny/contrastive/plain/seed0/embeddings.npz"


@pytest.fixture(scope="module")
def finished(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = smoke_run.copy(tmp_path_factory.mktemp("page") / "project")
    assert "open data/report/smoke/report.html" in made.bgbias("report", "smoke").stdout
    return made


@pytest.fixture(scope="module")
def page(finished: Project) -> Path:
    return finished.folder / "data/report/smoke/report.html"


@pytest.mark.workflow
def test_the_page_says_the_numbers_of_the_tables(page: Path) -> None:
    read = Reader.of(page)
    assert read.wrong == read.open == []
    table = pd.read_csv(page.parent / "table1.csv")
    for name, digits in (("corrupted", 1), ("clean", 1), ("relative_drop", 0)):
        for value in table[name]:
            assert f"{value:.{digits}f}".replace("-", "−") in read.text
    of_all = pd.read_parquet(page.parent / "queries.parquet")
    own = of_all[(of_all["setting"] == "symmetric") & (of_all["method"] == "plain")]
    means = own.groupby(["label", "condition"])["map_at_r"].mean().unstack()
    for label, (clean, corrupted) in means[["clean", "random_background"]].iterrows():
        said = f"{100 * clean:.1f}{100 * (clean - corrupted):.1f}".replace("-", "−")
        of_class = own[own["label"] == label]
        folder = of_class["image_id"].iloc[0].split("/")[-2]
        assert f"{folder}{of_class['image_id'].nunique()}{said}" in read.text
    # A grid of one seed says so first.
    first = read.text.partition("or at the background?")[2].strip()
    assert first.startswith("With 1 training seed each, this says little about methods.")
    drawn = page.read_text("utf-8").count('<figure class="drawn">')
    assert drawn == 1 + len(list((page.parent / "figures").glob("*.png")))


def test_curves_are_of_the_score_that_picks_epochs(tmp_path: Path, small_plugins: None) -> None:
    """BGAugment's by corrupted photos, where models are selected as published."""
    raw = described(tmp_path)
    raw["train"]["selection"] = "published"
    raw["grids"]["small"]["cells"][0]["losses"] = ["contrastive"]
    study = load(tmp_path, raw)
    scores = {"plain": ("val_map_at_r", 0.5), "bgaugment": ("val_corrupted_map_at_r", 0.125)}
    with contextlib.chdir(tmp_path):
        for cell in plan.trained_models(study):
            name, last = scores[cell.method]
            path = study.files.at("history", **cell.wildcards)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"epoch,loss,{name}\n1,2,0.25\n2,1,{last}\n")
        figure, told = grid_page.draw_curves(study), grid_page.describe_best_epochs(study)
    assert figure
    lines = [line.get_ydata().tolist() for axes in figure.axes for line in axes.get_lines()]
    assert sorted(map(tuple, lines)) == [(25, 12.5), (25, 50)]
    assert told == "1 of 2 trainings was best at its last epoch, 1 of 1 of Plain."


@pytest.mark.workflow
def test_the_worst_queries_are_those_of_the_results_and_what_they_find_is_what_is_near(page: Path) -> None:
    text = Reader.of(page).text
    rows = pd.read_parquet(page.parent / "queries.parquet").query("method == 'plain'")
    by_view = rows.groupby(["setting", "condition", "image_id"])["map_at_r"].mean()
    clean, elsewhere = (by_view[view] for view in (("symmetric", "clean"), ("query", "random_background")))
    lost = (clean - elsewhere).sort_index().sort_values(ascending=False, kind="stable")
    every = text.partition("The queries that lose most")[2]
    worst = every.partition("Randomly chosen queries")[0]
    assert re.findall(r"(test/[\w/.]+) ?Plain: MAP@R", worst) == list(lost.index[:12])
    for name, *levels in re.findall(r"(test/[\w/.]+) ?Plain: MAP@R (\d+) → (\d+)", every):
        assert [int(n) for n in levels] == [round(100 * of[name]) for of in (clean, elsewhere)]
    # Three photos, right where they are of the query's class.
    stored = np.load(page.parents[2] / EMBEDDINGS)
    row = stored["ids"].tolist().index(lost.index[0])
    near = stored["clean"] @ stored["clean"][row]
    near[row] = -2
    said = [
        f"{'right' if stored['labels'][i] == stored['labels'][row] else 'wrong'} {stored['ids'][i].split('/')[1]}"
        for i in np.argsort(-near, kind="stable")[:3]
    ]
    assert worst.partition("Plain finds")[2].startswith("".join(said))


@pytest.mark.workflow
def test_a_page_says_what_is_missing_and_wants_a_finished_grid(finished: Project, tmp_path: Path) -> None:
    other = finished.copy(tmp_path / "project")
    gone = Path("data") / EMBEDDINGS
    study = params.load(other.folder / "params.yaml", "smoke")
    (other.folder / gone).unlink()
    with contextlib.chdir(other.folder):
        with pytest.raises(UserError, match=r"embeddings.npz is missing.* Make them by: snakemake"):
            grid_page.write(study)
        text = grid_page.render(study)
    assert f"Nothing can be shown: {gone} is not on this machine." in text
    assert "The queries that lose most" not in text


@pytest.mark.workflow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
def test_a_browser_shows_all_of_it(page: Path) -> None:
    assert page.stat().st_size < 10e6
    with chromium.browsing() as browser:
        shown_whole(browser, page)
        printed_whole(browser, page)
        accessible(browser, page)
        browser.open(page.as_uri(), width=1280)
        browser.wait_for("document.readyState === 'complete' && document.querySelector('footer')")
        hidden = "[...document.querySelectorAll('.printed')].some(t => t.scrollWidth > t.clientWidth)"
        assert browser.ask(hidden) is False


def test_pages_tell_backgrounds_of_one_kind_from_others() -> None:
    def pools(train: dict[str, Any], test: dict[str, Any]) -> bool:
        roles = {"train": train, "val": {"colours": 2}, "test": test}
        return grid_page._is_of_one_kind(Backgrounds.model_validate(roles))

    assert pools({"textures": 9}, {"textures": 3})
    assert pools({"source": "walls", "part": [0, 9]}, {"source": "walls", "part": [9, 20]})
    assert not pools({"source": "walls"}, {"source": "streets"})
    assert not pools({"source": "walls"}, {"textures": 3})
    assert not pools({"colours": 9}, {"textures": 3})


def test_what_was_compared_has_the_masker_and_options_of_entries(tmp_path: Path, small_plugins: None) -> None:
    raw = described(tmp_path)
    at, mine = {"kind": "at", "epsilon": 0.5}, {"kind": "attr_frac", "weight": 2.0}
    raw["methods"] = {"at_strong": at, "mine": mine}
    methods = ["at", "at_strong", "at_strong+bgaugment", "mine"]
    raw["grids"]["small"]["cells"][0]["methods"] = methods
    rows = {"method": [*methods, "plain+128d"], "dataset": "squares", "backbone": "pixels"}
    table = pd.DataFrame(rows | {"queries": 12, "classes": 4})
    told = dict(grid_page._describe_compared(load(tmp_path, raw), table))
    assert len(told) == 1 + len(methods) + 1
    assert "12 test photos of 4 classes, with a usable mask by ground_truth" in told["squares"]
    assert told["AT at 0.1"] == "As AT (epsilon: 0.5)."
    assert told["AT at 0.1 + BGAugment"] == "As AT (epsilon: 0.5), on photos whose backgrounds were replaced."
    # Where the file has no row of its own, its first sentence stands before the options.
    first = told["Mine"].removesuffix(" (weight: 2.0).")
    about = " ".join(str(plugins.load("methods", "attr_frac").__doc__).replace("``", "").split())
    assert first
    assert about.startswith(first)


def test_queries_of_doubtful_masks_are_apart_and_random_ones_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "show", lambda image_id, *_: image_id)
    names = list("abcdef")
    levels = pd.DataFrame({"clean": 1.0, "random_background": np.linspace(0, 1, 6)}, index=names)
    masks = pd.DataFrame({"image_id": names, "clarity": [0.2, 0.95, 0.85, 0.84, np.nan, 1.0]})
    photos: Any = SimpleNamespace(table=table(dict.fromkeys(names, 0)))

    def select(levels: pd.DataFrame, unsure: frozenset[str], count: int) -> dict[str, Any]:
        model = queries.AskedModel("", cast(Any, None), levels)
        return queries.select_example_queries([model], photos, {0: "class"}, unsure, count)

    shown = select(levels, queries.unsure(masks), 3)
    assert (shown["worst"], shown["doubtful"]) == (["b", "c", "e"], ["a", "d"])
    assert shown["random"] == select(levels, frozenset(), 3)["random"]
    # Who loses nothing is none of those that lose most, however many there is room for.
    every = select(levels, frozenset(), 12)
    assert (every["worst"], sorted(every["random"])) == (names[:-1], names)
    assert list(select(levels.assign(random_background=1.0), frozenset(), 3)) == ["random"]
