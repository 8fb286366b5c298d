"""One screen for a run on a terminal, and lines where there is none; Snakemake with it: ``workflow/test_workflow.py``."""

import io
import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from bgbias.engine import progress_screen
from bgbias.engine.progress_screen import Course, Screen, Work

CELL = {"dataset": "toys", "backbone": "tiny", "loss": "arcface", "method": "plain", "seed": "0"}
NAME = "toys/tiny/arcface/plain/seed0"


def test_without_a_terminal_it_is_a_line_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    out, clock = io.StringIO(), Mock(return_value=100.0)
    screen = Screen(out, clock)
    monkeypatch.setattr(progress_screen, "_guess", dict)
    progress_screen.expect(lambda: {"train": 30.0, "table": 5.0})
    screen.begins({"train": 2, "table": 1, "total": 3})
    screen.started(0, "train", CELL, ["data/work/logs/g/train.log"])
    screen.started(1, "train", CELL | {"seed": "1"}, [])
    clock.return_value += 60
    screen.finished(0)
    clock.return_value += 20
    screen.failed(1)
    screen.ends()
    # One of two that ran at once took a minute: a training that is as old is about to end, and a table is left, of which 5 s were
    # guessed; but the training took 160 s where 130 were guessed, 100 of both to begin with.
    assert out.getvalue().splitlines() == [
        f"1 of 3: train {NAME}, 60 s; about 3 s left",
        "1 of 3 jobs in 80 s",
        "failed: train toys/tiny/arcface/plain/seed1; see ",
    ]


def test_what_none_has_ended_of_is_guessed_and_not_taken_for_a_training() -> None:
    course = Course(guessed={"index": 10.0, "train": 100.0, "score": 2.0}, total=8)
    course.left.update(index=1, train=4, score=2, all=1)
    # Before anything has ended the guess stands; `all` makes nothing.
    assert course.seconds_left([], 0.0) == 10 + 4 * 100 + 2 * 2
    # One that took twice as long as was guessed says something of the others, and no more than its share.
    course.left["index"] = 0
    course.took = {"index": [20.0]}
    assert course.seconds_left([], 0.0) == pytest.approx((4 * 100 + 2 * 2) * (100 + 20) / (100 + 10))
    # A training says more, and scores of which none has ended are still short.
    course.left["train"] = 3
    course.took["train"] = [300.0]
    assert course.seconds_left([], 0.0) == pytest.approx(3 * 300 + 2 * 2 * (100 + 320) / (100 + 110))


@pytest.mark.parametrize(
    ("rule", "subject", "settings", "rows", "told"),
    [
        (
            *("train", NAME, {"train": {"max_epochs": 20}}),
            "epoch,loss,val_map_at_r\n1,0.9,0.25\n2,0.8,0.5\n3,0.7,0.4\n4,0.",
            "epoch 3 of at most 20, best validation MAP@R 50.0 %",
        ),
        (
            *("pretrain", "tiny_moco/toys/0", {"pretraining": {"epochs": 60}}),
            "epoch,loss,train_seconds\n1,4.5,0.2\n2,4.25,0.2\n3,",
            "epoch 2 of 60, loss 4.250",
        ),
    ],
)
def test_a_training_tells_its_epoch_and_how_it_fares(
    tmp_path: Path, rule: str, subject: str, settings: dict[str, object], rows: str, told: str
) -> None:
    work = Work(rule, subject, 0.0, f"{tmp_path}/logs/grid/{rule}/{subject}.log")
    assert progress_screen.training(work) == ""
    (tmp_path / "running").mkdir()
    history = tmp_path / "history.csv"
    for name, other in (("mine", subject), ("another", "toys/tiny/arcface/plain/seed1")):
        record = {"subject": other, "history": str(history), "spec": settings}
        (tmp_path / "running" / f"{name}.json").write_text(json.dumps(record))
    for begun in ("", rows.partition("\n")[0] + "\n"):
        history.write_text(begun)
        assert progress_screen.training(work) == ""
    history.write_text(rows)
    assert progress_screen.training(work) == told
    assert progress_screen.training(Work("embed", subject, 0.0, work.log)) == ""


def test_a_terminal_shows_what_is_at_work_and_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    screen = Screen(out, lambda: 100.0)
    screen.begins({"train": 2, "total": 2})
    screen.started(0, "train", CELL, ["train.log"])
    screen._live.refresh()
    screen.failed(0)
    screen.ends()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    assert re.search(rf"0 of 2 jobs, 0 s *\n  train {NAME}", text)
    assert text.endswith(f"0 of 2 jobs in 0 s\nfailed: train {NAME}; see train.log\n")
