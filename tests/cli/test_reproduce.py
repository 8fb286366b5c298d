"""Published results, for real: what a page shows is checked, and whoever makes it again is told whether it is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import project
import pytest
import yaml
from project import SMOKE, Project

from bgbias.results import publication
from bgbias.study.params import load

pytestmark = pytest.mark.workflow
PLAIN = f"{SMOKE}/plain"
README = f"""# A page

Plain training drops by <!-- from smoke table1 {PLAIN} relative_drop .1[] -->?<!-- end --> %.

<!-- from smoke table1: Corrupted | Clean; table2: Score --><!-- end -->

![Drop](docs/results/smoke/drop.png)
"""
LOSS = "src/bgbias/training/losses/contrastive.py"
REWRITTEN = (
    "margins = params.pos_margin, params.neg_margin",
    "margins = (params.pos_margin, params.neg_margin + 0)",
)
FIGURE = "src/bgbias/report/figures/drop.py"
CAPTION = "src/bgbias/report/tables/retrieval.py"
METRIC = "src/bgbias/evaluation/metrics/map_at_r.py"
# Beyond any interval, however wide that of so few photos is.
RAISED = (
    "n.per_relevant((precision * hits).sum(axis=1))",
    "n.per_relevant((precision * hits).sum(axis=1)) + 1",
)
OTHER_BACKGROUNDS = ('seeds.key(key_set, "bg", repeat', 'seeds.key(key_set, "other bg", repeat')
DRAWS = "src/bgbias/backgrounds/draws.py"


@pytest.fixture(scope="module")
def finished(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A finished run whose results were published, and a page that shows them."""
    made = smoke_run.copy(tmp_path_factory.mktemp("published") / "project")
    made.own_source()
    (made.folder / "README.md").write_text(README)
    made.bgbias("publish", "--grid", "smoke")
    return made


@pytest.fixture
def published(finished: Project, tmp_path: Path) -> Project:
    return finished.copy(tmp_path / "project")


@pytest.fixture
def checked(published: Project) -> Callable[[], str]:
    """What the check says, nothing if it passes."""

    def check() -> str:
        done = published.bgbias("publish", "--check", check=False)
        said = done.stdout.partition("bgbias publish --check\n")[2]
        assert (done.returncode == 0) == (said == ""), done.stdout
        return said

    return check


def test_a_page_is_written_from_files_and_checked_against_them(
    published: Project, checked: Callable[[], str]
) -> None:
    page = published.folder / "README.md"
    written = page.read_text()
    assert "?" not in written
    assert checked() == ""
    assert "README.md" in published.bgbias("reproduce").stdout
    page.write_text(written.replace("drops by ", "drops by 1").replace("-->", "-->1", 1))
    said = checked()
    assert "README.md line 3: 'smoke table1" in said
    assert "is not what docs/results/smoke has ('1" in said
    assert said.endswith("write it anew: make publish\n")
    published.bgbias("publish")
    assert page.read_text() == written.replace("drops by ", "drops by 1")
    page.write_text(written.replace("smoke table1 ", "smoke table7 "))
    assert "the mark 'smoke table7" in checked()
    page.write_text(written.replace("smoke/drop.png", "smoke/pareto.png"))
    assert checked() == (
        "docs/results/smoke/pareto.png is not what was published: git checkout docs/results/smoke/pareto.png, or"
        " make run GRID=smoke, then make publish GRID=smoke\n"
    )
    page.write_text(written)
    published.edit("ROW, BETWEEN_LOSSES, HEADING = 0.175", "ROW, BETWEEN_LOSSES, HEADING = 0.2", FIGURE)
    assert checked() == (
        "docs/results/smoke/drop.png is not what this code draws of the tables beside it: make publish\n"
    )
    assert published.bgbias("publish").stdout.endswith("docs/results/smoke/drop.png\n")
    assert checked() == ""
    made = published.folder / "docs/results/smoke/made.yaml"
    told = made.read_text()
    made.write_text(told.replace("MAP@R and P@1 in percent.", "MAP@R in percent."))
    assert checked() == (
        "The caption of table1 in docs/results/smoke is not what this code says of the table: make publish\n"
    )
    assert published.bgbias("publish").stdout.endswith("docs/results/smoke: the caption of table1\n")
    assert made.read_text() == told
    table = published.folder / "docs/results/smoke/table1.csv"
    table.write_text(table.read_text().replace("contrastive,plain,1", "contrastive,plain,2"))
    # It is said of the table, not of the page, which still says what was published and stays so.
    assert checked().startswith("docs/results/smoke/table1.csv is not what was published: git checkout ")
    before = page.read_text()
    assert "table1.csv is not what was published" in published.bgbias("publish", check=False).stdout
    assert page.read_text() == before
    assert (
        "no published results of a grid 'smok' in docs/results; there are: smoke. Did you mean 'smoke'?"
        in (said := published.bgbias("reproduce", "smok", check=False)).stdout
    )
    assert said.returncode == 2
    published.edit("max_epochs: 2\n", "max_epochs: 3\n")
    assert "was made by other settings than now (train.max_epochs: 2 -> 3): make run GRID=smoke" in checked()
    assert "is not what this code and these settings give: make run GRID=smoke" in (
        published.bgbias("publish", "--grid", "smoke", check=False).stdout
    )


def test_code_that_computes_the_same_costs_a_row_and_other_backgrounds_lie_within_the_spread(
    published: Project, checked: Callable[[], str]
) -> None:
    published.edit(*REWRITTEN, LOSS)
    said = checked()
    assert said == (
        "docs/results/smoke was made by other code than now (training/losses/contrastive.py): bgbias reproduce smoke"
        f" {PLAIN}\n"
    )
    made = published.bgbias("reproduce", "smoke", "plain").stdout
    assert "same: all " in made
    assert "docs/results/smoke/made.yaml says now that the code of now gives the same." in made
    assert checked() == ""
    # Of the other row nothing was made.
    assert f"train {SMOKE}/bgaugment/0" in published.planned("--config", "grid=smoke")
    # Where making it again takes too long, somebody's word will do, and is told until it is made again.
    published.edit(REWRITTEN[1], REWRITTEN[1].replace(" + 0", " + 0.0"), LOSS)
    assert "training/losses/contrastive.py" in checked()
    page, table = published.folder / "README.md", "<!-- from smoke table1 -->\n<!-- end -->\n"
    page.write_text(page.read_text() + table)
    published.edit("MAP@R and P@1 in percent.", "MAP@R and P@1, in percent.", CAPTION)
    assert "the caption" not in published.bgbias("publish").stdout  # of code that nobody vouches for
    published.bgbias("publish", "--grid", "smoke", "--accept", "a zero is a zero, and a comma a comma")
    assert checked() == ""
    assert "MAP@R and P@1, in percent." in page.read_text()
    words = (
        "Edited since, and taken for computing the same: 2 files of its code (made.yaml says which, and why)."
    )
    assert words in page.read_text()
    assert "a comma a comma" in (published.folder / "docs/results/smoke/made.yaml").read_text()
    for why in ("", "two\nlines", "a <!-- mark"):
        said = published.bgbias("publish", "--grid", "smoke", "--accept", why, check=False)
        assert "Say in one line" in said.stdout
    assert (
        "nothing to accept or to keep"
        in published.bgbias("publish", "--grid", "smoke", "--accept", "x", check=False).stdout
    )
    published.edit(" + 0.0", " - 0.0", LOSS)
    published.bgbias("publish", "--grid", "smoke", "--keep", "a zero was added.")
    assert "Made before an edit that computes otherwise: a zero was added.\n" in page.read_text()
    assert "same: all " in published.bgbias("reproduce", "smoke").stdout
    published.bgbias("publish")
    assert words not in page.read_text()
    assert "an edit that computes otherwise" not in page.read_text()
    published.edit(*OTHER_BACKGROUNDS, DRAWS)
    made = published.bgbias("reproduce", "smoke", "plain", "--fresh").stdout
    assert "\nwithin spread: " in made
    assert "; all 11 steps ran." in made
    assert (published.folder / f"data/work/reproduced/fresh/runs/smoke/models/{SMOKE}/plain/seed0").is_dir()
    assert "says now that" not in made
    assert f"(backgrounds/draws.py): bgbias reproduce smoke {PLAIN}" in checked()


def test_results_of_photos_that_are_elsewhere_fail_until_somebody_says_what_an_edit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project.fresh(tmp_path / "project")
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path / "nowhere"))
    birds = load(Path("params.yaml"), "cub50")
    code = publication.code_of(birds)
    before = {
        "settings": publication.settings_of(birds),
        "excluded": {"cub50": 0},
        "captions": {},
        "files": {},
        "code": code | {"steps": {}, "files": code["files"] | {"training/loop.py": "before"}},
    }
    (folder := Path("docs/results/cub50")).mkdir(parents=True)
    (folder / "made.yaml").write_text(yaml.safe_dump(before))
    said = made.bgbias("publish", "--check", check=False)
    assert said.returncode == 1
    assert said.stdout.endswith(
        "docs/results/cub50 was made by other code than now (training/loop.py), and cannot be made again on this machine (the"
        ' photos of cub50 are not here): bgbias publish --grid cub50 --accept "why it computes the same" or --keep "how its'
        ' results differ"\n'
    )
    said = made.bgbias("reproduce", "cub50", check=False)
    assert said.returncode == 2
    assert "cub50 cannot be made on this machine" in said.stdout
    made.bgbias("publish", "--grid", "cub50", "--accept", "it computes the same")
    made.bgbias("publish", "--check")
    (folder / "made.yaml").write_text(yaml.safe_dump(before | {"settings": {}}))
    said = made.bgbias("publish", "--check", check=False)
    assert said.returncode == 1
    assert "make run GRID=cub50, then make publish GRID=cub50, where they are\n" in said.stdout


def test_an_edited_formula_is_different(published: Project, checked: Callable[[], str]) -> None:
    published.edit(*RAISED, METRIC)
    assert f"(evaluation/metrics/map_at_r.py): bgbias reproduce smoke {PLAIN}" in checked()
    made = published.bgbias("reproduce", "smoke", "plain", check=False)
    assert made.returncode == 1
    assert "\ndifferent: " in made.stdout
    assert "says now that" not in made.stdout
    assert "bgbias reproduce smoke" in checked()
    # Where it cannot be made again soon, it may stay, and says how it differs.
    page, table = published.folder / "README.md", "<!-- from smoke table1 -->\n<!-- end -->\n"
    page.write_text(page.read_text() + table)
    published.bgbias("publish", "--grid", "smoke", "--keep", "MAP@R was 1 less")
    said = published.bgbias("publish", "--check").stdout
    assert "smoke was made before an edit that computes otherwise (MAP@R was 1 less): make run GRID=" in said
    assert "Made before an edit that computes otherwise: MAP@R was 1 less." in page.read_text()
    assert "computing the same" not in page.read_text()
    both = published.bgbias("publish", "--grid", "smoke", "--keep", "x", "--accept", "x", check=False)
    assert "--accept and --keep say opposites" in both.stdout
