"""Models of a hub that answers are fetched from it; of one that does not, the copies that are here, and no second try."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub
import pytest
from huggingface_hub import constants, hf_hub_download

from bgbias.errors import UserError
from bgbias.models.adapters._library import load_source

PAGE = "https://huggingface.co/someone/hers"
CONTENT = b"weights"
HEADERS = {"X-Repo-Commit": "c" * 40, "ETag": '"1"', "Content-Length": str(len(CONTENT))}


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(CONTENT)

    def log_message(self, *words: object) -> None:
        """Silence."""


@contextmanager
def answering(port: int) -> Iterator[None]:
    """A hub with one file, whatever it is asked for."""
    with HTTPServer(("127.0.0.1", port), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Where the hub is, if it is there; to wait for it a moment longer fails."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = int(free.getsockname()[1])
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    place = f"http://127.0.0.1:{number}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", place)

    def sleep(seconds: float) -> None:
        raise AssertionError(f"slept {seconds} s")

    monkeypatch.setattr(time, "sleep", sleep)
    return number


def test_what_a_hub_gave_once_is_taken_while_it_does_not_answer(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(huggingface_hub.get_session().event_hooks["request"])

    def fetched() -> bytes:
        def get() -> str:
            return hf_hub_download("someone/hers", "model.safetensors", cache_dir=tmp_path)

        return Path(load_source("hers", PAGE, get)).read_bytes()

    with pytest.raises(
        UserError, match=rf"hers could not be fetched from {PAGE}.* \(\[Errno 111\] Connection refused\)"
    ):
        fetched()
    with answering(port):
        assert fetched() == CONTENT
    assert fetched() == CONTENT
    assert huggingface_hub.get_session().event_hooks["request"] == before
    # A client from before version 1.0 of the library has no hooks.
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: object())
    assert fetched() == CONTENT
