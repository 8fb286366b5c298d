"""MLflow's pages of the store at hand, opened where models are compared."""

from __future__ import annotations

import os
import socket
import sys

from bgbias.errors import UserError
from bgbias.tracking import store, views


def link(uri: str, grid: str | None, server: str) -> str:
    """The address, in an MLflow ``server``, of the charts that compare a grid's models; of the grid that ran last, if None.

    Raises UserError where the store knows no such grid.
    """
    if uri.startswith(store.SQLITE) and not store.database(uri).exists():
        raise UserError(f"{store.database(uri)} is missing; `make demo` or `bgbias track` makes it.")
    grids = store.grids(uri)
    chosen = grid or next(iter(grids), None)
    if chosen not in grids:
        asked = f"grid '{chosen}' (grids: {', '.join(sorted(grids)) or 'none'})" if chosen else "grid"
        raise UserError(f"{uri} has no {asked}; `bgbias track --grid NAME` writes one from its records.")
    return f"{server}/{views.page(grids[chosen], 'compare')}"


def check_free(port: int) -> None:
    """Refuse a port that somebody listens on."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise UserError(f"Port {port} is in use; name another one: bgbias ui --port {port + 1}")


def serve(uri: str, port: int) -> None:
    """Become MLflow's server, which tells nobody of its use."""
    os.environ.update({k: v for k, v in store.ENVIRONMENT.items() if k not in os.environ})
    words = ["ui", "--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", *words])
