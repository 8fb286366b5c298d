"""Published results, for real: the README has their numbers, and whoever makes them again is told whether they are the same."""

import json
import subprocess
from pathlib import Path

import project
import pytest
import typer
from miniatures import as_folder
from project import SMOKE, Project

from bgbias.cli import reproduce
from bgbias.errors import UserError
from bgbias.results import publication

pytestmark = pytest.mark.workflow
README = f"""# A page

Plain training drops by <!-- {{{{ number("smoke", "table1", "{SMOKE}/plain", "relative_drop", 1) }}}} -->?<!-- end --> %.

<!-- {{{{ columns("smoke", "table1: Corrupted | Clean; table2: Score") }}}} --><!-- end -->

![Drop](docs/results/smoke/drop.png)
"""


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


def test_the_readme_is_written_from_files_and_checked_against_them(published: Project) -> None:
    page = published.folder / "README.md"
    written = page.read_text()
    assert "?" not in written
    assert "| BGAugment | " in written
    published.bgbias("publish", "--check")
    folder = published.folder / "docs/results/smoke"
    assert {path.name for path in folder.iterdir()} >= {"made.json", "seeds.csv", "table1.csv", "drop.png"}
    assert json.loads((folder / "made.json").read_text())["command"] == "make run GRID=smoke"
    assert "README.md" in published.bgbias("reproduce").stdout
    page.write_text(written.replace("-->", "-->1", 1))
    failed = published.bgbias("publish", "--check", check=False)
    assert failed.returncode == 1
    assert failed.stdout.endswith("The numbers of README.md are not those of docs/results: make publish\n")
    published.bgbias("publish")
    assert page.read_text() == written
    page.write_text(written.replace('"table1"', '"table7"'))
    assert "has no table7.csv" in published.bgbias("publish", "--check", check=False).stdout
    page.write_text(written)
    failed = published.bgbias("reproduce", "smok", check=False)
    assert failed.returncode == 2
    assert "no published results of a grid 'smok' in docs/results; there are: smoke. Did" in failed.stdout
    published.edit("max_epochs: 2\n", "max_epochs: 3\n")
    refused = published.bgbias("publish", "--grid", "smoke", check=False).stdout
    assert "is not what this code and these settings give: train " in refused
    assert "(train.max_epochs: 2 -> 3). Make it by: python -m bgbias restore --grid smoke && make" in refused


def test_a_harmless_edit_asks_nothing_and_gives_identical_numbers(published: Project) -> None:
    values = "params.model_dump()"
    published.edit(f"**{values}", f"**dict({values})", "src/bgbias/training/losses/contrastive.py")
    caption = "src/bgbias/report/tables/retrieval.j2"
    published.edit("MAP@R and P@1 in percent.", "MAP@R and P@1, in percent.", caption)
    published.bgbias("publish", "--check")
    assert "identical: all " in published.bgbias("reproduce", "smoke", "plain").stdout
    # Of the other row nothing was made.
    assert f"train {SMOKE}/bgaugment/0" in published.planned("--config", "grid=smoke")


@pytest.mark.slow
def test_other_backgrounds_lie_within_the_interval_and_an_edited_formula_does_not(published: Project) -> None:
    published.edit(
        'seeds.key(key_set, "bg", ', 'seeds.key(key_set, "other bg", ', "src/bgbias/backgrounds/draws.py"
    )
    text = published.bgbias("reproduce", "smoke", "plain", "--fresh").stdout
    assert "\nwithin the interval: " in text
    assert "; 11 of 11 steps ran." in text
    # Beyond any interval, however wide that of so few photos is.
    found = "n.per_relevant((precision * hits).sum(axis=1))"
    published.edit(found, f"{found} + 1", "src/bgbias/evaluation/metrics/map_at_r.py")
    made = published.bgbias("reproduce", "smoke", "plain", check=False)
    assert made.returncode == 1
    assert "\ndifferent: " in made.stdout


def test_results_of_photos_elsewhere_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project.fresh(tmp_path / "project")
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path / "nowhere"))
    (folder := made.folder / publication.RESULTS / "cub50").mkdir(parents=True)
    (folder / publication.MADE).write_text(json.dumps({"captions": {}, "settings": {}}))
    failed = made.bgbias("reproduce", "cub50", check=False)
    assert failed.returncode == 2
    assert "cub50 cannot be made on this machine" in failed.stdout


def test_a_footnote_names_the_source_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (file := tmp_path / reproduce.SOURCE / "a.py").parent.mkdir(parents=True)
    file.write_text("A = 1\n")
    assert reproduce.changed_source("0123abcd") == ""
    script = "git init -q; git add .; git -c user.name=A -c user.email=a@b commit -qm one; git rev-parse HEAD"
    made = subprocess.run(["sh", "-ec", script], check=True, capture_output=True, text=True)
    commit = made.stdout.strip()
    assert reproduce.changed_source(f"{commit} with edits") == "No file of src/bgbias has changed since."
    file.write_text("A = 2\n")
    assert "Changed since in src/bgbias: 1 file (a.py); git log " in reproduce.changed_source(commit)


@pytest.mark.parametrize(
    ("again", "said"),
    [
        ("a,b\n1,2.5\n", "tables/one.csv: identical"),
        ("a,b\n1,2.75\n", "tables/one.csv: different: up to 0.25, in b; git diff tables/one.csv"),
        ("a,b\n1,\n", "tables/one.csv: different: in b; git diff tables/one.csv"),
        ("a,b\n1,most\n", "tables/one.csv: different: in b; git diff tables/one.csv"),
        ("a,b\n1,2.5\n3,4\n", "different: 2 rows of 2 columns, published 1 of 2"),
        ("", "cp again.csv tables/one.csv failed (above); what is finished is kept"),
    ],
)
def test_the_tables_of_a_script_are_made_again_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], again: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    noted = {"command": "cp again.csv tables/one.csv", "tables": {"tables/one.csv": {}}}
    files = {"tables/one.csv": "a,b\n1,2.5\n", "docs/results/study.json": json.dumps(noted)}
    files |= {"again.csv": again} if again else {}
    as_folder(tmp_path, {name: text.encode() for name, text in files.items()})
    with pytest.raises((typer.Exit, UserError)) as ended:
        reproduce.reproduce("study")
    assert said in capfd.readouterr().out + str(ended.value)
    assert bool(getattr(ended.value, "exit_code", 1)) == ("identical" not in said)
