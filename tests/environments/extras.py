"""Checks what each extra installs in an environment that has nothing else.

Run as ``python tests/environments/extras.py [none app serve excel …]``, by default all, where ``.[test]`` is installed.
It lets ``uv`` make an environment for each, and checks it on real input. The app needs Chromium and its driver, Spark needs
Java, and ``postgres`` the programs of its server.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from support import postgres_server
from support.browsers import browser

ROOT = Path(__file__).parents[2]
#: What an example needs beside its extra: ClickHouse runs inside its process.
_BESIDE = {"clickhouse": ["chdb"]}
_DEADLINE = 600
_ATTRIBUTE = """
import sys, pandas as pd, attrib_ds as at
visits = pd.DataFrame({"user_id": ["a", "a"], "node_id": ["mail", "ads"],
    "date": pd.to_datetime(["2025-01-01", "2025-01-02"], utc=True)})
orders = pd.DataFrame({"event_id": ["1"], "user_id": ["a"], "date": pd.to_datetime(["2025-01-03"], utc=True)})
credits = at.attribute(at.Paths.from_frames(visits, orders), "linear")
assert credits.set_index("node_id")["conversions"].to_dict() == {"mail": 0.5, "ads": 0.5}, credits
"""
_EXCEL = """
import pandas as pd, attrib_ds as at
shop = at.sample_project()
at.export_users(shop, "users.xlsx", columns=["_id"])
assert len(pd.read_excel("users.xlsx")) > 100
"""
_VIEW = """
import attrib_ds as at
with at.connect("my-shop") as shop:
    assert len(at.search_interactions(shop, bots=None)) == 1
"""


def run(folder: Path, *command: str, text: str = "", quiet: bool = True) -> None:
    """Run a program of the environment in the folder; what a quiet one prints to standard error is a failure."""
    program = str(folder / "environment" / "bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=_environ(folder),
    )
    if done.returncode or (quiet and done.stderr):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "ATTRIB_DS_HOME": str(folder / "home"), "MPLCONFIGDIR": str(folder / "matplotlib")}


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def started(folder: Path, url: str, *command: str, end: signal.Signals = signal.SIGTERM):
    """Run a program that listens, until the block ends it by a signal; nothing of it may be left then."""
    program = str(folder / "environment" / "bin" / command[0])
    process = subprocess.Popen(
        [program, *command[1:]], cwd=folder, start_new_session=True, env=_environ(folder),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait(lambda: urllib.request.urlopen(url, timeout=60).status == 200)
        yield
    finally:
        process.send_signal(end)
        process.wait(30)
    wait(lambda: not _left(folder))


def _left(folder: Path) -> list[int]:
    """Return the processes that run a program of the environment."""
    left = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder / "environment").encode() in entry.read_bytes():
                left.append(int(entry.parent.name))
    return left


def wait(condition) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + _DEADLINE
    while time.monotonic() < end:
        with contextlib.suppress(OSError, RuntimeError):
            if condition():
                return
        time.sleep(0.2)
    raise SystemExit("not reached in time")


def none(folder: Path) -> None:
    """Without an extra: the demo, and attribution of frames."""
    run(folder, "attrib-ds", "demo", "--out", "report")
    assert (folder / "report" / "report.html").stat().st_size > 0
    run(folder, "python", "-", text=_ATTRIBUTE)


def app(folder: Path) -> None:
    """A browser shows the overview of the sample; nothing is left when the command ends, even when it is killed."""
    with browser("chromium") as page:
        for end in (signal.SIGTERM, signal.SIGKILL):
            port = free_port()
            url = f"http://127.0.0.1:{port}/"
            command = ("attrib-ds", "app", "--no-browser", "--port", str(port))
            with started(folder, url, *command, end=end):
                # A busy machine may need longer for a page than a browser waits; then the numbers are awaited below.
                with contextlib.suppress(RuntimeError):
                    page.go(f"{url}?sample=1&page=Overview")
                # The numbers come from the kernel, which lives as long as the page is open.
                wait(lambda: "Conversions" in page.js("document.body.innerText"))
                assert len(_left(folder)) >= 3, "the command, Voilà and its kernel"


def serve(folder: Path) -> None:
    """A page view arrives and is read."""
    run(folder, "attrib-ds", "projects", "create", "my-shop")
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with started(folder, f"{url}health/live", "attrib-ds", "serve", "--port", str(port)):
        hit = b'{"projectId": "my-shop", "pageUrl": "https://shop.example/"}'
        request = urllib.request.Request(
            f"{url}c",
            hit,
            {
                "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
                "Content-Type": "text/plain",
                "Origin": "https://shop.example",
            },
        )
        assert urllib.request.urlopen(request, timeout=30).status < 300
    run(folder, "python", "-", text=_VIEW)


def excel(folder: Path) -> None:
    """A workbook is written and read."""
    run(folder, "python", "-", text=_EXCEL)


def example(folder: Path, engine: str, connection: str = "") -> None:
    """The examples of the page on other engines run; Spark itself prints warnings to standard error."""
    program = str(ROOT / "tests" / "environments" / "engine_example.py")
    run(folder, "python", program, engine, text=connection, quiet=engine != "spark")


def postgres(folder: Path) -> None:
    """The examples run on a server."""
    with postgres_server.served() as connection:
        example(folder, "postgres", json.dumps(connection))


CHECKS = {
    "none": none,
    "app": app,
    "serve": serve,
    "excel": excel,
    "postgres": postgres,
    "clickhouse": lambda folder: example(folder, "clickhouse"),
    "spark": lambda folder: example(folder, "spark"),
}


def main(names: list[str]) -> None:
    """Check extras, each in an environment of its own."""
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    uv = shutil.which("uv") or sys.exit("uv is not installed")
    for name in names or CHECKS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            package = str(ROOT) if name == "none" else f"{ROOT}[{name}]"
            subprocess.run(
                [uv, "venv", "-q", "--python", sys.executable, folder / "environment"],
                check=True,
                env=environment,
            )
            python = folder / "environment" / "bin" / "python"
            subprocess.run(
                [uv, "pip", "install", "-q", "--python", python, package, *_BESIDE.get(name, [])],
                check=True,
                env=environment,
            )
            CHECKS[name](folder)
        print(f"{name}: works ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main(sys.argv[1:])
