"""Controls through Snakemake: what a grid asks for beside its tables is added to what is there, and nothing is trained again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from project import Project

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
ASKED = """    evaluation:
      draws: 2
      conditions: [clean, random_background, own_inpainted, mixed_same, mixed_rand, only_fg, only_bg, cue_conflict, moved]
    crossing: {objects: 8, backgrounds: 6}
    cures: {names: [grey, object_pooling, leace], objects: 6, backgrounds: 4}
    sanity: {images: 4}
    probes: {folds: 2}
    attacked: {attacks: [stax], epsilon: [0, 0.1], steps: 2}
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
    first, cures, attacks = (pd.read_csv(made.folder / REPORT / f"table{n}.csv") for n in (1, 7, 9))
    # Without a cure, and under an attack of no strength, it is the model of Table 1.
    clean = pytest.approx(first["clean"].tolist())
    assert cures.loc[cures["index"] == "–", "clean"].tolist() == clean
    attacked = attacks.set_index("method")["map_at_r"]
    assert attacked[["plain+stax@0", "bgaugment+stax@0"]].tolist() == clean
    said = made.bgbias("show", "--grid", "smoke").stdout
    for number in (5, 6, 7, 8, 9, 12, 14):
        assert f"Table {number} (data/report/smoke/table{number}.md)" in said
