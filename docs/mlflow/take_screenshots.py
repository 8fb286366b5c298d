"""Take this folder's pictures of MLflow's pages, from the store of the project in the current folder: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chromium import Page, browsing
from mlflow_servers import free_port, mlflow_server

from bgbias.tracking import entries, watch
from bgbias.tracking import store as mlflow_store

HERE = Path(__file__).parent
CORRUPTED, DROP, CLEAN = (
    "MAP at R corrupted",
    "Drop percent",
    "MAP at R clean",
)  # as tracking/views.yaml has them
# A picture: the view, what stands in the page when it is drawn, and the window's width and height.
PICTURES = {
    "models": ("cell", (CORRUPTED, DROP), 1700, 800),
    "compare": ("compare", ("Clean and corrupted", f"{CLEAN} vs. {CORRUPTED}"), 1400, 1010),
    "settings": ("compare", ("Settings and results", "Parallel Coordinates", "What differs"), 1400, 1040),
    "curves": ("train", ("Training curves", "epoch/validation MAP at R"), 1400, 780),
}
# Pages load their charts one after the other, and say nothing when the last one is there.
SECONDS_TO_DRAW = 4.0
# Buttons over charts that Chromium without a mouse shows all the time, and a floating one.
HIDDEN = ".modebar-container, [data-assistant-ui] {display: none !important}"


def take(page: Page, address: Callable[[str], str], name: str) -> Path:
    """One picture; ``address`` is that of a view."""
    view, words, width, height = PICTURES[name]
    page.open(address(view), width, height)
    page.wait_for_text("seed 0")
    # The first one is as a person sees it who comes for the first time.
    for label in () if name == "models" else ("Close", "Hide banner", "Toggle sidebar"):
        page.ask(f"document.querySelector('button[aria-label=\"{label}\"]')?.click()")
    page.ask(
        f"document.head.append(Object.assign(document.createElement('style'), {{textContent: {HIDDEN!r}}}))"
    )
    page.wait_for_text(words[0])
    if name == "settings":
        page.ask(
            "[...document.querySelectorAll('*')].find(e => !e.children.length"
            f" && e.textContent.startsWith({words[0]!r}))?.scrollIntoView({{block: 'start'}})"
        )
    page.wait_for_text(*words)
    time.sleep(SECONDS_TO_DRAW)
    picture = HERE / f"{name}.png"
    page.shoot(picture)
    return picture


if __name__ == "__main__":
    grid = sys.argv[1] if len(sys.argv) > 1 else "demo"
    store = watch.default_uri(Path.cwd())
    with mlflow_store.experiment(store, grid) as found:
        experiment = found.identity
    with (
        tempfile.TemporaryDirectory() as folder,
        mlflow_server(Path(folder), store, free_port()) as server,
        browsing() as browser,
    ):
        for chosen in PICTURES:
            print(take(browser, lambda view: f"{server}/{entries.page(experiment, view)}", chosen))
