"""A headless Chromium that tests open pages in and click buttons of, over its debugging pipe."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
_PAGE_TIMEOUT_S = 60.0
_LOADED = "new Promise(r => document.readyState === 'complete' ? r() : addEventListener('load', () => r()))"


class Page:
    """One page. Dialogs must be stubbed: nobody is there to answer them."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._read = b""
        self._number = 0
        self._session: str | None = None
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def open(self, url: str) -> None:
        """Go there and wait until all is loaded."""
        self._send("Page.navigate", url=url)
        self.run(_LOADED)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; of a promise, once it is kept."""
        told = self._send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Of the whole page, also of what is below the window."""
        data = self._send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def prefer(self, scheme: str) -> None:
        """What the person at the screen prefers: ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", features=features)

    def turn(self, script: str) -> None:
        """Do what brings another page, and wait until all of that is loaded."""
        self.run("window.isLeft = true")
        self.run(script)
        deadline_s = time.monotonic() + _PAGE_TIMEOUT_S
        while not self._is_there():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{script} brought no other page")
            time.sleep(0.05)

    def _is_there(self) -> bool:
        try:
            return bool(self.run("!window.isLeft && document.readyState === 'complete'"))
        except AssertionError:  # the page was left meanwhile
            return False

    def resize(self, width: int, height: int) -> None:
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = os.read(self._answers, 1 << 16)
            if not more:
                raise AssertionError("the browser ended")
            self._read += more
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A page of a browser of its own, which ends with the block."""
    pipes = (*os.pipe(), *os.pipe())
    # Chromium reads commands from descriptor 3 and writes to 4: none of ours may be one of these.
    theirs_in, ours_out, ours_in, theirs_out = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in pipes)
    for fd in pipes:
        os.close(fd)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "browser", str(CHROMIUM)]
        command += ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        # A scroll bar would make pages narrower than the window, and than their pictures.
        command += ["--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(ours_out, ours_in)
        finally:
            process.kill()
            process.wait()
            os.close(ours_out)
            os.close(ours_in)
