"""Three engines by one driver: Chromium and WebKit speak WebDriver over HTTP, Firefox the same commands over Marionette."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import requests

_SECONDS = 60
_MINIBROWSER = next(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"), None)
#: What each engine needs, all of it from Debian's packages.
PROGRAMS = {
    "chromium": ("chromium", "chromedriver"),
    "firefox": ("firefox-esr",),
    "webkit": ("WebKitWebDriver", "Xvfb"),
}
_CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]
_FIREFOX = {
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.disabledForTesting": True,
    "browser.startup.homepage_override.mstone": "ignore",
    "toolkit.telemetry.server": "",
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "browser.safebrowsing.update.enabled": False,
}


def missing(engine):
    """Return the programs of an engine that are not installed."""
    names = [name for name in PROGRAMS[engine] if shutil.which(name) is None]
    return names + (["MiniBrowser"] if engine == "webkit" and _MINIBROWSER is None else [])


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _until(attempt):
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return attempt()
        except (OSError, requests.ConnectionError):
            assert time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.05)


class _Http:
    """WebDriver over HTTP."""

    def __init__(self, port, capabilities):
        self._base = f"http://127.0.0.1:{port}"
        _until(lambda: requests.get(f"{self._base}/status", timeout=5))
        body = {"capabilities": {"alwaysMatch": capabilities}}
        self._session = requests.post(f"{self._base}/session", json=body, timeout=_SECONDS).json()["value"][
            "sessionId"
        ]

    def send(self, method, path, body=None):
        url = f"{self._base}/session/{self._session}/{path}".rstrip("/")
        reply = requests.request(method, url, json=body if method == "POST" else None, timeout=_SECONDS)
        value = reply.json()["value"]
        if reply.status_code >= 400:
            raise RuntimeError(f"{path}: {value.get('error')}: {value.get('message')}")
        return value


class _Marionette:
    """The same over Firefox's own protocol: each message has its length before it."""

    _NAMES = {
        ("POST", "url"): "WebDriver:Navigate",
        ("POST", "back"): "WebDriver:Back",
        ("POST", "execute/async"): "WebDriver:ExecuteAsyncScript",
        ("POST", "window/new"): "WebDriver:NewWindow",
        ("POST", "window"): "WebDriver:SwitchToWindow",
        ("GET", "window"): "WebDriver:GetWindowHandle",
        ("DELETE", "window"): "WebDriver:CloseWindow",
        ("POST", "timeouts"): "WebDriver:SetTimeouts",
        ("DELETE", ""): "WebDriver:DeleteSession",
    }

    def __init__(self, port):
        self._socket = _until(lambda: socket.create_connection(("127.0.0.1", port), timeout=_SECONDS))
        self._read()
        self._number = 0
        self._call("WebDriver:NewSession", {})

    def send(self, method, path, body=None):
        value = self._call(self._NAMES[method, path], body or {})
        return value["value"] if set(value) == {"value"} else value

    def _call(self, name, body):
        self._number += 1
        content = json.dumps([0, self._number, name, body]).encode()
        self._socket.sendall(f"{len(content)}:".encode() + content)
        _, _, error, value = self._read()
        if error:
            raise RuntimeError(f"{name}: {error['error']}: {error['message']}")
        return value or {}

    def close(self):
        self._socket.close()

    def _read(self):
        size = b""
        while not size.endswith(b":"):
            size += self._receive(1)
        content = b""
        while len(content) < int(size[:-1]):
            content += self._receive(int(size[:-1]) - len(content))
        return json.loads(content)

    def _receive(self, most):
        content = self._socket.recv(most)
        if not content:
            raise ConnectionError("the browser has ended")
        return content


class Browser:
    """One browser; its tabs are windows by their handles."""

    def __init__(self, driver):
        self._driver = driver
        driver.send("POST", "timeouts", {"script": 30_000, "pageLoad": 60_000})

    def go(self, url):
        self._driver.send("POST", "url", {"url": url})

    def back(self):
        self._driver.send("POST", "back", {})

    def js(self, code):
        """Return the value of an expression, awaited if it is a promise."""
        script = (
            f"const done = arguments[arguments.length - 1]; (async () => ({code}))()"
            ".then((value) => done([value]), (error) => done([null, String(error)]))"
        )
        value, *error = self._driver.send("POST", "execute/async", {"script": script, "args": []})
        if error:
            raise RuntimeError(error[0])
        return value

    @property
    def tab(self):
        return self._driver.send("GET", "window")

    def new_tab(self):
        handle = self._driver.send("POST", "window/new", {"type": "tab"})["handle"]
        self.turn_to(handle)
        return handle

    def turn_to(self, handle):
        self._driver.send("POST", "window", {"handle": handle})

    def close_tab(self):
        self._driver.send("DELETE", "window")

    def quit(self):
        self._driver.send("DELETE", "")


@contextmanager
def started(*command, environment=None):
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def screen():
    """A screen that nobody sees; yields its name."""
    reader, writer = os.pipe()
    command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writer], stderr=subprocess.DEVNULL) as process:
        os.close(writer)
        try:
            with os.fdopen(reader) as told:
                yield f":{told.readline().strip()}"
        finally:
            process.terminate()


@contextmanager
def browser(engine, *, preferences=None):
    """Start a browser with an empty profile; ``preferences`` are those of Chromium or Firefox."""
    with tempfile.TemporaryDirectory() as profile:
        port = _free_port()
        if engine == "chromium":
            arguments = [
                *_CHROMIUM,
                "--disable-sync",
                "--disable-component-update",
                f"--user-data-dir={profile}",
            ]
            options = {
                "binary": shutil.which("chromium"),
                "args": arguments,
                "excludeSwitches": ["enable-automation"],
                "prefs": preferences or {},
            }
            with started("chromedriver", f"--port={port}"):
                yield from _running(_Http(port, {"browserName": "chrome", "goog:chromeOptions": options}))
        elif engine == "firefox":
            chosen = {**_FIREFOX, "marionette.port": port, **(preferences or {})}
            lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in chosen.items()]
            Path(profile, "user.js").write_text("\n".join(lines), encoding="utf-8")
            command = ["firefox-esr", "--headless", "--marionette", "--no-remote", "--profile", profile]
            environment = {"HOME": profile, "MOZ_DISABLE_CONTENT_SANDBOX": "1"}
            with started(*command, environment=environment), closing(_Marionette(port)) as driver:
                yield from _running(driver)
        else:
            options = {"binary": str(_MINIBROWSER), "args": ["--automation"]}
            with screen() as display:
                environment = {
                    "DISPLAY": display,
                    "HOME": profile,
                    "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1",
                }
                with started("WebKitWebDriver", f"--port={port}", environment=environment):
                    capabilities = {"browserName": "MiniBrowser", "webkitgtk:browserOptions": options}
                    yield from _running(_Http(port, capabilities))


def _running(driver):
    one = Browser(driver)
    try:
        yield one
    finally:
        with suppress(RuntimeError, OSError, requests.RequestException):
            one.quit()
