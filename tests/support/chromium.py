"""Debian's Chromium without a window, driven over its own pipe: no driver, no port, no further package."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from project import PATIENCE

PROGRAM = shutil.which("chromium")


class Page:
    """One page of a running Chromium."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._read, self._session = 0, b"", ""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"])[:500])
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def open(self, url: str, width: int = 1400, height: int = 900) -> None:
        """Go to an address, seen in a window of this size, until its page is there."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        # Another place in the same page would not load it anew.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    @property
    def text(self) -> str:
        """What a reader of the page reads."""
        return str(self.ask("document.body ? document.body.innerText : ''"))

    def wait_for(self, expression: str) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression} is in vain; the page says: {self.text[:2000]}"
            time.sleep(0.2)

    def wait_for_text(self, *words: str) -> None:
        """Until all these words stand in the page."""
        text = "document.body && document.body.innerText.replace(/\\s+/g, ' ')"
        for word in words:
            self.wait_for(f"{text}.includes({json.dumps(word)})")

    def shoot(self, path: Path) -> None:
        """The window's content as PNG."""
        shot = self.call("Page.captureScreenshot", format="png")["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot))

    def printed(self) -> bytes:
        """The page as PDF, as its reader would print it."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            assert select.select([self._answers], [], [], PATIENCE)[0], "Chromium is silent"
            more = os.read(self._answers, 2**20)
            assert more, "Chromium has ended"
            self._read += more
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browsing() -> Iterator[Page]:
    """A Chromium with one page, for as long as the block lasts."""
    assert PROGRAM, "Chromium is not installed: apt-get install chromium"
    to_read, commands = os.pipe()
    answers, to_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        words += ["--remote-debugging-pipe", "--disable-dev-shm-usage", "--disable-background-networking"]
        # It reads commands from descriptor 3 and writes answers to 4.
        shell = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write} </dev/null >/dev/null 2>&1', "bash"]
        chromium = subprocess.Popen(
            [*shell, PROGRAM, *words, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write),
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            yield Page(commands, answers)
        finally:
            os.close(commands)  # Chromium ends when its pipe does
            os.close(answers)
            with contextlib.suppress(subprocess.TimeoutExpired):
                chromium.wait(timeout=10)
            if chromium.poll() is None:
                chromium.kill()
                chromium.wait()
