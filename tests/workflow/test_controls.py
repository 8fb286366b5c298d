"""Controls through Snakemake: what a grid asks for beside its tables is added to what is there, and nothing is trained again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from project import Project

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
CONDITIONS = (
    "[clean, random_background, own_inpainted, mixed_same, mixed_rand, only_fg, no_fg, only_bg, cue_conflict,"
    " moved, scaled]"
)
ASKED = f"""    evaluation: {{draws: 2, conditions: {CONDITIONS}}}
    crossing: {{objects: 8, backgrounds: 6}}
    cures: {{names: [grey, cropped, object_pooling, fused, patchwise, leace, moved_directions], objects: 6, backgrounds: 4}}
    sanity: {{images: 4}}
    probes: {{folds: 2}}
    attacked: {{attacks: [stax, "mtax:5"], epsilon: [0, 0.1], steps: 2}}
"""
REPORT = Path("data/report/smoke")


def test_controls_are_added_to_a_study_that_is_there(smoke_run: Project, tmp_path: Path) -> None:
    made = smoke_run.copy(tmp_path / "project")
    before = {n: (made.folder / REPORT / f"table{n}.csv").read_bytes() for n in (1, 2, 3)}
    made.edit(
        "    evaluation: {draws: 2}\n    attribution: {images: 6", f"{ASKED}    attribution: {{images: 6"
    )
    ran = Counter(job.split()[0] for job in made.planned("--config", "grid=smoke"))
    assert ran == {
        **{"evaluate": 2, "cross": 2, "remask": 1, "cure": 2, "attack": 2, "sanity": 2, "probe": 2},
        **{"collect": 1, "table": 10, "figure": 4, "all": 1},
    }
    made.snakemake("--config", "grid=smoke")
    assert made.planned("--config", "grid=smoke") == []
    for number, table in before.items():
        assert (made.folder / REPORT / f"table{number}.csv").read_bytes() == table
    tables = {n: pd.read_csv(made.folder / REPORT / f"table{n}.csv") for n in (1, 5, 6, 7, 8, 9, 12, 14)}
    steps = tables[5][["pasting", "own_background", "class_background"]].sum(axis=1)
    assert steps.tolist() == pytest.approx(tables[5]["drop"].tolist())
    # Galleries of steps lack the photos that lend backgrounds.
    drop = tables[1]["clean"] - tables[1]["corrupted"]
    assert steps.tolist() == pytest.approx(drop.tolist(), abs=10)
    assert tables[6]["backgrounds"].tolist() == [6, 6]
    assert len(tables[7]) == 2 * (1 + 7)
    # Without a cure it is the model of Table 1, with the first background of each photo alone.
    assert tables[7].loc[tables[7]["index"] == "–", "clean"].tolist() == pytest.approx(
        tables[1]["clean"].tolist()
    )
    assert set(tables[8]["method"]) == {"plain", "bgaugment"}
    shown = ["", "+random_background", "+stax@0", "+stax@0.1", "+mtax:5@0", "+mtax:5@0.1"]
    assert tables[9]["method"].tolist() == [name + view for name in ("plain", "bgaugment") for view in shown]
    under = tables[9].set_index("method")[["map_at_r", "p_at_1", "recall_at_4", "nmi", "pi_ratio"]]
    assert under.loc["plain", "map_at_r"] == pytest.approx(tables[1]["clean"][0])
    for unchanged in ("plain+stax@0", "plain+mtax:5@0"):
        assert under.loc[unchanged].equals(under.loc["plain"])
    assert set(tables[12]["method"]) == {"plain", "bgaugment"}
    assert tables[12]["photos"].nunique() == 1
    assert tables[14][["shape", "texture", "neither"]].sum(axis=1).tolist() == pytest.approx([100, 100])
    said = made.bgbias("show", "--grid", "smoke").stdout
    assert "What the drop is made of" in (made.folder / REPORT / "table5.md").read_text(encoding="utf-8")
    for number in (5, 6, 7, 8, 9, 12, 14):
        assert f"Table {number} (data/report/smoke/table{number}.md)" in said
    made.bgbias("status", "--check", "--grid", "smoke")
