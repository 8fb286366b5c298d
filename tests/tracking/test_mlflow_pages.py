"""MLflow's real pages, in a real browser, show the comparison that a user makes without a click."""

from __future__ import annotations

from pathlib import Path

import chromium
import pytest
from handmade_records import MODEL, TRAIN, Project, chain
from mlflow_servers import free_port, mlflow_server

from bgbias.tracking import entries, store


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium here: apt-get install chromium")
def test_tables_and_charts_are_there_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path)
    chain(project)
    project.sync()
    with store.experiment(project.uri, "demo") as found:
        experiment = found.identity
    with mlflow_server(tmp_path, project.uri, free_port()) as server, chromium.browsing() as page:

        def open_view(view: str) -> None:
            page.open(f"{server}/{entries.page(experiment, view)}", 1600, 1200)

        open_view("cell")
        page.wait_for_text(f"Group: {MODEL[:20]}", "seed 0", "MAP at R clean", "MAP at R corrupted")
        assert "45" in page.text
        assert TRAIN not in page.text

        open_view("compare")
        page.wait_for_text("Clean and corrupted (4)", "MAP at R clean vs. MAP at R corrupted", "Drop percent")
        page.wait_for(
            "document.querySelectorAll('.plotly .scatterlayer .points path, .plotly .barlayer path').length"
        )

        open_view("train")
        page.wait_for_text(MODEL[:20], "Training curves (3)", "epoch/loss", "epoch/validation MAP at R")
        page.wait_for("document.querySelectorAll('.plotly .scatterlayer .lines path').length")
        # Three epochs, three places along the line.
        (line,) = page.ask(
            "[...document.querySelectorAll('.plotly .scatterlayer .lines path')].map(e => e.getAttribute('d')).slice(0, 1)"
        )
        assert len(line.replace("L", " ").replace("M", " ").split()) == 3
        assert page.errors == []
