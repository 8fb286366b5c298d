"""Resuming opens what a killed program left shut; whole runs are killed in tests/workflow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_study import described, load

from bgbias.engine import resume


@pytest.mark.usefixtures("small_plugins")
@pytest.mark.parametrize(("text", "stays"), [("", False), ('{"read": {}, "write": {}}', True)])
def test_a_list_of_locks_that_dvc_began_to_write_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, stays: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *_: None)
    locks = tmp_path / resume.DVC_LOCKS
    locks.parent.mkdir(parents=True)
    locks.write_text(text, encoding="utf-8")
    resume.resume(load(tmp_path, described(tmp_path)), tmp_path / "params.yaml", None, [])
    assert locks.exists() == stays
    resume._held.close()
