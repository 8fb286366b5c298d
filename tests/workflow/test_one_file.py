"""A new node is its file, its rule and, where DVC keeps what it makes, a stage: nothing else has to know of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import Project
from repository import Repository, finished, jobs, ran

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
NODE = '''"""Node: the mean brightness of a dataset's photos."""

from bgbias.engine import inputs, records
from bgbias.engine.node import Dependencies, step
from bgbias.files.atomic import write_text
from bgbias.study import plan

SUBJECT = ("dataset",)
OUTPUTS = {
    "brightness": "REPORT/brightness/{dataset}.txt",
    "brightness_record": "REPORT/brightness/{dataset}.json",
}


def goals(study):
    return [{"dataset": dataset} for dataset in plan.datasets(study)]


def depends(study, dataset):
    return Dependencies(inputs.photos(dataset))


def brightness(study, dataset):
    """Measure how bright a dataset's photos are."""
    from bgbias.files.store import ImageStore

    with records.node(study, step("brightness", dataset=dataset)) as made:
        photos = ImageStore(study.files.at("photos", dataset=dataset))
        mean = sum(float(photos.array(name).mean()) for name in photos.ids) / len(photos)
        write_text(made.outputs["brightness"], f"{mean:.3f}")
        made.metrics["brightness"] = mean
'''
RULE = """

rule brightness:
    input:
        reads("brightness"),
    output:
        **RULES.outputs("brightness"),
    log:
        RULES.log("brightness"),
    params:
        command("brightness"),
    shell:
        BGBIAS
"""
STAGE = """
  brightness:
    desc: how bright photos are
    cmd: snakemake --cores all ${paths.report}/${grid}/brightness/toy_smoke.json
    deps: [src/bgbias, params.yaml, grids, "${paths.work}/datasets"]
    outs:
      - ${paths.report}/${grid}/brightness: {persist: true}
"""


@pytest.fixture
def project(smoke_run: Project, tmp_path: Path) -> Repository:
    """A finished run under git, with one node more."""
    made = finished(smoke_run, tmp_path / "project")
    (made.folder / "src/bgbias/nodes/brightness.py").write_text(NODE, encoding="utf-8")
    for name, text in (("workflow/rules/data.smk", RULE), ("dvc.yaml", STAGE)):
        with (made.folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
    return made


def test_a_new_node_is_planned_run_kept_and_shown(project: Repository) -> None:
    changed = {line[3:] for line in project.git("status", "--porcelain").splitlines()}
    assert changed == {"src/bgbias/nodes/brightness.py", "workflow/rules/data.smk", "dvc.yaml"}
    record = "data/report/smoke/brightness/toy_smoke.json"
    assert project.planned(record) == ["brightness toy_smoke"]
    said = project.dvc("repro", "--single-item", "brightness")
    assert (ran(said), jobs(said)) == (["brightness"], {"brightness"})
    made = project.folder / "data/report/smoke/brightness/toy_smoke.txt"
    mean = float(made.read_text(encoding="utf-8"))
    assert 0 < mean < 255
    # Forecast, freshness and the command line know it by its file alone.
    assert "brightness" in project.bgbias("forecast", "--grid", "smoke").stdout
    assert "Measure how bright" in project.bgbias("brightness", "--help").stdout
    assert project.planned(record) == []
    made.write_text("0")
    assert "brightness/toy_smoke.txt has changed" in project.bgbias("status", "--grid", "smoke").stdout
    assert project.planned(record) == ["brightness toy_smoke"]
    kept = (project.folder / "dvc.lock").read_text(encoding="utf-8")
    assert "path: data/report/smoke/brightness\n" in kept
