"""MLflow's pages of the store at hand, opened where models are compared."""

import http.client
import os
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress

import psutil

from bgbias.errors import UserError
from bgbias.progress import say
from bgbias.tracking import entries, store

HOST = "127.0.0.1"


def link(uri: str, grid: str | None, server: str) -> str:
    """The address, in an MLflow ``server``, of the charts that compare a grid's models; of the grid that ran last, if None.

    Raises UserError where the store knows no such grid.
    """
    if uri.startswith(store.SQLITE) and not store.database(uri).exists():
        raise UserError(f"{store.database(uri)} is missing; `make demo` or `bgbias track` makes it.")
    grids = store.grids(uri)
    chosen = grid or next(iter(grids), None)
    if chosen not in grids:
        subject = f"grid '{chosen}' (grids: {', '.join(sorted(grids)) or 'none'})" if chosen else "grid"
        raise UserError(f"{uri} has no {subject}; `bgbias track --grid NAME` writes one from its records.")
    return f"{server}/{entries.page(grids[chosen], 'compare')}"


def check_free(port: int) -> None:
    """Refuse a port that somebody listens on."""
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            raise UserError(f"Port {port} is in use; name another one: bgbias ui --port {port + 1}")


def serve(uri: str, port: int, address: str) -> None:
    """Run MLflow's server, which tells nobody of its use, until Ctrl-C; the address is printed when it answers.

    Raises UserError where the server ends by itself.
    """
    words = ["ui", "--backend-store-uri", uri, "--host", HOST, "--port", str(port)]
    say("MLflow starts, which takes half a minute; then its address stands here ...")
    server = subprocess.Popen([sys.executable, "-m", "mlflow", *words], env=store.ENVIRONMENT | os.environ)
    try:
        while server.poll() is None and not _answers(port):
            time.sleep(0.2)
        if server.returncode is None:
            print(f"open {address}", flush=True)
        status = server.wait()
    except KeyboardInterrupt:
        return
    finally:
        # Its workers hear nothing for as long as they import, and have nothing to lose.
        workers = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
        server.kill()
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        server.wait()
    raise UserError(
        f"MLflow's server has ended (exit status {status}). Put right what it says above, and run the same command again."
    )


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
