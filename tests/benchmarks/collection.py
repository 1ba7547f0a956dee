"""Hits that a served project accepts over HTTP, and what the tracking script costs a page.

``python tests/benchmarks/collection.py`` sends hits over keep-alive connections, each as soon as the previous response has
arrived, to a server without rate limits; a hit is answered once it is durable. Before each round a bare Starlette handler,
which parses the same body and stores nothing, is measured in the same way. The rounds' medians are printed. Then Chromium
opens a page with and without the script, in turn: the cost is the difference of the medians of the time that the page's main
thread was busy. The rows of the script are left out where Chromium is not installed.

``--rates 2 20 100`` measures steady traffic instead: at each of these rates, in hits a second, ``--portion`` hits (500 by
default) go to the service and to the bare handler at the same instants. Each rate ends with a read, which makes the service
put the remaining hits into sessions, so that the processor time per hit includes that work. It also includes what the idle
server uses while it waits for the next hit; "of which idle" shows that share, as measured before the first rate.

The client competes with the servers for processors: run it on an idle machine, and compare numbers of one run only.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

from results import Row, parser, report
from service_events import (
    PROJECT,
    Load,
    Tally,
    prepare,
    processor_seconds,
    rate_of,
    started,
    within,
)

sys.path.append(str(Path(__file__).parents[1]))
from support.listening import listening

from attrib_ds.service.http.pages import tracking_script

if TYPE_CHECKING:
    from collections.abc import Iterator

BARE = "a bare Starlette handler"
GOAL = "≥ 0.4"
SECONDS_IDLE = 10
#: Largest compressed script, in bytes.
LARGEST = 6_000
#: Time for a page to become idle after its load.
MILLISECONDS_TO_SETTLE = 300
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--hits", type=int, default=5_000, help="hits of a round")
    options.add_argument("--seconds", type=float, default=20.0, help="maximum seconds of a round")
    options.add_argument("--connections", type=int, default=32)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--views", type=int, default=30, help="page views with and without the script")
    options.add_argument(
        "--rates", type=float, nargs="*", default=(), help="hits a second, one after the other"
    )
    options.add_argument("--portion", type=int, default=500, help="hits of each rate")
    options = options.parse_args()
    if options.rates:
        report(traffic(options), options.json)
        return
    rows = hits(options)
    rows.append(script_size())
    if CHROMIUM is not None:
        rows += page_views(options.views)
    report(rows, options.json)


def hits(options) -> list[Row]:
    """Measure how fast hits are accepted."""
    with tempfile.TemporaryDirectory() as made:
        token = prepare(Path(made))
        with started(made) as (url, process_id), started("bare") as (bare_url, bare_id):
            load = Load(url, process_id, token, options.connections, sends_token=False)
            bare = Load(bare_url, bare_id, token, options.connections, sends_token=False)
            rounds = []
            for _ in range(options.rounds):
                before = asyncio.run(bare.run("hit", options.hits, options.seconds))
                rounds.append((before, asyncio.run(load.run("hit", options.hits, options.seconds))))
    size = f"{options.hits:,} hits"
    ratio = statistics.median(rate_of(own) / rate_of(before) for before, own in rounds)
    return [
        Row("collection", BARE, size, figures=figures([before for before, _ in rounds])),
        Row(
            "collection",
            "hits accepted over HTTP",
            size,
            peer=BARE,
            ratio=ratio,
            goal=GOAL,
            figures=figures([own for _, own in rounds]),
        ),
    ]


def traffic(options) -> list[Row]:
    """Measure what a hit costs at steady rates."""
    rows = []
    with tempfile.TemporaryDirectory() as made:
        token = prepare(Path(made))
        with started(made) as (url, process_id), started("bare") as (bare_url, bare_id):
            servers = {BARE: (bare_url, bare_id), "a hit": (url, process_id)}
            loads = {
                name: Load(*server, token, options.connections, sends_token=False)
                for name, server in servers.items()
            }
            asyncio.run(at_rate(loads, 1, options.connections))
            before = {name: processor_seconds(server[1]) for name, server in servers.items()}
            time.sleep(SECONDS_IDLE)
            idle = {
                name: (processor_seconds(server[1]) - before[name]) / SECONDS_IDLE
                for name, server in servers.items()
            }
            for rate in options.rates:
                tallies = asyncio.run(at_rate(loads, rate, options.portion))
                for name, tally in tallies.items():
                    shown = figures([tally]) | {"of which idle": 1_000 * idle[name] / rate}
                    rows.append(Row("traffic", name, f"{rate:g} hits/s", figures=shown))
    return rows


async def at_rate(loads: dict[str, Load], rate: float, hits: int) -> dict[str, Tally]:
    """Send as many hits a second to each server; return the results by server."""
    tallies = await asyncio.gather(*(load.run_at(rate, "hit", hits) for load in loads.values()))
    return dict(zip(loads, tallies, strict=True))


def figures(tallies: list[Tally]) -> dict[str, float]:
    """Return the medians of rounds."""
    if any(tally.refused for tally in tallies):
        raise SystemExit(f"{sum(tally.refused for tally in tallies)} hits were refused")
    each = {
        "hits/s": rate_of,
        "p50 ms": lambda tally: within(tally.waits, 0.5),
        "p99 ms": lambda tally: within(tally.waits, 0.99),
        "CPU ms/hit": lambda tally: 1_000 * tally.processor_seconds / tally.events,
    }
    return {name: statistics.median(map(figure, tallies)) for name, figure in each.items()}


def script_size() -> Row:
    """Return the size of the script as it is sent."""
    size = len(tracking_script().compressed)
    return Row(
        "tracker",
        "compressed",
        "t.js",
        peer=f"target of {LARGEST:,} bytes",
        ratio=size / LARGEST,
        goal="≤ 1",
        figures={"bytes": size},
    )


def page_views(views: int) -> list[Row]:
    """Measure the time of the main thread per page view."""
    from playwright.sync_api import sync_playwright

    busy: dict[str, list[dict[str, float]]] = {"/without": [], "/with": []}
    with site() as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(views):
            for path, seen in busy.items():
                seen.append(view(browser, url + path))
        browser.close()
    tasks, scripts = (
        {path: 1_000 * statistics.median(each[name] for each in seen) for path, seen in busy.items()}
        for name in ("TaskDuration", "ScriptDuration")
    )
    size = f"{views} views"
    return [
        Row("tracker", "page without t.js", size, figures={"main thread ms": tasks["/without"]}),
        Row(
            "tracker",
            "page with t.js",
            size,
            peer="page without t.js",
            ratio=tasks["/with"] / tasks["/without"],
            figures={
                "main thread ms": tasks["/with"],
                "ms of t.js": tasks["/with"] - tasks["/without"],
                "of which script ms": scripts["/with"] - scripts["/without"],
            },
        ),
    ]


def view(browser, url: str) -> dict[str, float]:
    """Open a page as a new visitor; return the metrics of its main thread."""
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    before = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    page.goto(url, wait_until="load")
    page.wait_for_timeout(MILLISECONDS_TO_SETTLE)
    after = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    context.close()
    return {name: after[name] - before[name] for name in ("TaskDuration", "ScriptDuration")}


@contextmanager
def site() -> Iterator[str]:
    """Serve the two pages, and the script with the route that it sends to."""
    script = tracking_script().content
    tag = f'<script async src="/t.js" data-project="{PROJECT}" data-consent="granted"></script>'
    pages = {
        path: f"<!DOCTYPE html><title>Shop</title>{extra}<h1>Shop</h1>"
        for path, extra in (("/with", tag), ("/without", ""))
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            is_script = self.path == "/t.js"
            self.reply(200, script if is_script else pages.get(self.path, "").encode(), is_script=is_script)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            # As the service answers.
            self.reply(202, b'{"clockOffset": 0}')

        def reply(self, status: int, content: bytes, *, is_script: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/javascript" if is_script else "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as port:
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    main()
