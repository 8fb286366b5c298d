"""Records written by hand."""

from pathlib import Path

import pytest
from handmade_records import Project, chain


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def chained(project: Project) -> Project:
    """With the records of one model, from its photos to its attribution."""
    chain(project)
    return project
