"""A web server on this machine's own loopback that misbehaves on demand."""

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
        server, content = self.server, self.server.content
        path = self.path.partition("?")[0]
        if path == "/moved":
            self.answer(302, {"Location": server.path})
            return
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if server.failures or path != server.path:
            self.send_error(server.failures.pop(0) if server.failures else 404)
            return
        is_there = server.ranges and self.headers.get("If-Range") in (None, server.version)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and is_there else 0
        if start and start >= len(content):
            self.answer(416, {"Content-Range": f"bytes */{len(content)}"})
            return
        first = 0 if server.misplaced else start
        body = content[first:]
        headers = {"Content-Length": str(len(body)), "Content-Type": server.kind, "ETag": server.version}
        if start:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            server.misplaced = False
        self.answer(206 if start else 200, headers)
        if server.stalls:
            self.wfile.write(body[: server.stalls.pop(0)])
            self.wfile.flush()
            server.over.wait()
            return
        self.wfile.write(body[: server.breaks.pop(0)] if server.breaks else body)

    def answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

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
