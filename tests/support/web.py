"""A web server on this machine's own loopback that misbehaves on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves ``content`` at ``path``, and sends /moved there; anything else is missing.

    ``breaks`` holds after how many bytes each of its next answers breaks off, ``stalls`` after how many bytes each falls
    silent, ``failures`` the status of each; ``ranges`` is whether it can continue a file, ``version`` its ETag; a ``misplaced``
    answer goes on from the file's beginning, whatever was asked for.
    """

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.path = "/archive"
        self.kind = "application/octet-stream"
        self.asked: list[str | None] = []
        self.breaks: list[int] = []
        self.stalls: list[int] = []
        self.failures: list[int] = []
        self.ranges = True
        self.version = '"1"'
        self.misplaced = False
        self.over = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Silence: clients that hang up are part of the play."""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.root}{self.path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        path = self.path.partition("?")[0]
        if path == "/moved":
            self.send_response(302)
            self.send_header("Location", server.path)
            self.end_headers()
            return
        server.asked.append(asked)
        if server.failures:
            self.send_error(server.failures.pop(0))
            return
        if path != server.path:
            self.send_error(404)
            return
        content = server.content
        if self.headers.get("If-Range") not in (None, server.version):
            asked = None
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and server.ranges else 0
        if start and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        if start and server.misplaced:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes 0-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            server.misplaced = False
            return
        body = content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", server.kind)
        self.send_header("ETag", server.version)
        self.end_headers()
        if server.stalls:
            self.wfile.write(body[: server.stalls.pop(0)])
            self.wfile.flush()
            server.over.wait()
            return
        self.wfile.write(body[: server.breaks.pop(0)] if server.breaks else body)

    def log_message(self, *words: object) -> None:
        """Silence."""


@contextmanager
def serving(content: bytes) -> Iterator[Server]:
    """The server, running."""
    with Server(content) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
