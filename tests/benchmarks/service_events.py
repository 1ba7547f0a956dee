"""Events and updates per second that a served project accepts over HTTP.

``python tests/benchmarks/service_events.py`` serves a new project in a separate process, without rate limits, and sends
requests over keep-alive connections, each as soon as the previous response has arrived. Beside it runs a bare Starlette
handler that parses the body and stores nothing, on uvicorn with its defaults; the two take turns, ``--rounds`` times for
every kind of request, so that whatever else runs on the machine slows down both. For every kind the benchmark prints events per second, the median and 99th percentile of the response time,
processor time per event, and the ratios of the rate and of the 99th percentile to those of the bare handler; for
asynchronous requests also the 99th percentile of the time from acceptance until the event can be read. The goal is 0.4
of the bare handler's rate (0.15 for synchronous requests) and less than five times its 99th percentile.

Events of the kind ``refused`` have no event type and go to the trash. Single events are sent without a token, as browsers
send them; ``--token`` sends one.

The client competes with the servers for processors: run it on an idle machine, and compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = "shop"
FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "confirmed", "optional": True},
]
BATCH = 200
#: One in this many accepted events is polled until it can be read.
LOOK_FOR = 500


#: Requests to the bare handler, for each kind of request.
BARE_REQUESTS = 4_000


@dataclass
class Tally:
    """Results of one kind of request."""

    events: int = 0
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)
    visible: list[float] = field(default_factory=list)
    refused: int = 0
    processor_seconds: float = 0.0
    bare: Tally | None = None

    def add(self, other: Tally) -> None:
        """Add the results of another round."""
        self.events += other.events
        self.seconds += other.seconds
        self.waits += other.waits
        self.visible += other.visible
        self.refused += other.refused
        self.processor_seconds += other.processor_seconds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000, help="events per kind of request")
    parser.add_argument("--seconds", type=float, default=20.0, help="maximum seconds per kind of request")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each server")
    parser.add_argument("--kinds", nargs="*", default=EVENTS, choices=EVENTS)
    parser.add_argument("--token", action="store_true", help="send a token with single events")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve == "bare":
        serve_bare()
        return
    if options.serve:
        serve(Path(options.serve))
        return
    with tempfile.TemporaryDirectory() as made:
        token = prepare(Path(made))
        with started(made) as (url, process_id), started("bare") as (bare_url, bare_id):
            load = Load(url, process_id, token, options.connections, sends_token=options.token)
            bare = Load(bare_url, bare_id, token, options.connections, sends_token=False)
            print(HEADER)
            for kind in options.kinds:
                tally = Tally(bare=Tally())
                for _ in range(options.rounds):
                    requests, seconds = BARE_REQUESTS // options.rounds, options.seconds / options.rounds
                    tally.bare.add(asyncio.run(bare.run("refused", requests, seconds)))
                    tally.add(asyncio.run(load.run(kind, options.events // options.rounds, seconds)))
                print(row("bare", tally.bare))
                print(row(kind, tally), flush=True)


@contextmanager
def started(what: str) -> Iterator[tuple[str, int]]:
    """Run this file as a server; yields its address and process id."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield server.stdout.readline().strip(), server.pid
    finally:
        server.stdin.close()
        server.wait(60)


def serve_bare() -> None:
    """Serve a handler that stores nothing, until standard input ends."""
    import socket
    import threading

    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def create(request):
        await request.json()
        return JSONResponse("0190b0f0-0000-7000-8000-000000000000")

    app = Starlette(routes=[Route("/{path:path}", create, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, loop="asyncio", log_config=None, access_log=False))
    # Without an explicit protocol, asyncio leaves TCP_NODELAY off, and small responses wait 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1_024)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    sys.stdin.read()
    server.should_exit = True
    thread.join()


def processor_seconds(process_id: int) -> float:
    """Return the processor time of a process so far, from ``/proc``; 0 where there is none."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepare(home: Path) -> str:
    """Create a project with an event type, and return a token for it."""
    from attrib_ds.contract import OPERATIONS, build
    from attrib_ds.service import Service
    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.accounts.accounts import create_key

    operation = OPERATIONS["create_event_type"]
    with closing(Service.open(PROJECT, home / f"{PROJECT}.duckdb")) as service:
        service.send(
            operation, build(operation, project_id=PROJECT, reference="order", name="Order", fields=FIELDS)
        )
    key = create_key(home, home / "key.json")
    with closing(Accounts.open(home)) as accounts:
        return accounts.issue(accounts.find_key(key.clientId, key.privateKeyId), ("full_access",)).text


def serve(home: Path) -> None:
    """Serve a folder until standard input ends."""
    from attrib_ds.service.http.server import ServerOptions, running

    with running(home, options=ServerOptions(rate_limits=None)) as url:
        print(url, flush=True)
        sys.stdin.read()


class Load:
    """Client that sends requests from one thread over keep-alive connections."""

    def __init__(self, url: str, process_id: int, token: str, connections: int, *, sends_token: bool) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname, address.port
        self._process_id = process_id
        self._authorization = f"Authorization: Bearer {token}\r\n"
        self._sends_token = sends_token
        self._connections = connections
        self._stored: list[str] = []

    async def run(self, kind: str, events: int, seconds: float) -> Tally:
        """Send the given number of events of one kind, within a maximum of seconds."""
        tally = Tally()
        makes, size = KINDS[kind]
        left = iter(range(events // size))
        has_token = self._sends_token or kind not in WITHOUT_TOKEN
        processor_before = processor_seconds(self._process_id)
        began = time.monotonic()
        last = began

        async def work() -> None:
            nonlocal last
            reader, writer = await asyncio.open_connection(self._host, self._port)
            for number in left:
                start = time.monotonic()
                if start - began > seconds:
                    break
                method, path, body = makes(self, number)
                status, content = await self._ask(reader, writer, method, path, body, has_token=has_token)
                last = time.monotonic()
                tally.waits.append(last - start)
                if status not in (200, 202):
                    tally.refused += 1
                    continue
                tally.events += size
                if kind == "async":
                    self._stored.append(json.loads(content))
                    if number % LOOK_FOR == 0:
                        await self._look_for(reader, writer, json.loads(content), tally, last)
            writer.close()

        await asyncio.gather(*(work() for _ in range(self._connections)))
        tally.seconds = last - began
        tally.processor_seconds = processor_seconds(self._process_id) - processor_before
        return tally

    async def run_at(self, rate: float, kind: str, events: int) -> Tally:
        """Send events at a steady rate, over as many connections as they need, then read what they made."""
        tally = Tally()
        makes, _ = KINDS[kind]
        processor_before = processor_seconds(self._process_id)
        began = time.monotonic()
        numbers = iter(range(events))

        async def work() -> None:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            for number in numbers:
                await asyncio.sleep(began + number / rate - time.monotonic())
                start = time.monotonic()
                status, _ = await self._ask(reader, writer, *makes(self, number), has_token=False)
                tally.waits.append(time.monotonic() - start)
                tally.events += 1
                tally.refused += status not in (200, 202)
            writer.close()

        await asyncio.gather(*(work() for _ in range(min(self._connections, math.ceil(rate / 10)))))
        tally.seconds = time.monotonic() - began
        reader, writer = await asyncio.open_connection(self._host, self._port)
        path = f"/api/v1/projects/{PROJECT}/interactions/search"
        await self._ask(reader, writer, "POST", path, {"limit": 1}, has_token=True)
        writer.close()
        tally.processor_seconds = processor_seconds(self._process_id) - processor_before
        return tally

    async def _look_for(self, reader, writer, id: str, tally: Tally, accepted: float) -> None:
        while time.monotonic() - accepted < 30:
            path = f"/api/v1/projects/{PROJECT}/events/{id}"
            status, _ = await self._ask(reader, writer, "GET", path, None, has_token=True)
            if status == 200:
                break
            await asyncio.sleep(0.05)
        tally.visible.append(time.monotonic() - accepted)

    async def _ask(
        self, reader, writer, method: str, path: str, body: object, *, has_token: bool
    ) -> tuple[int, bytes]:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"{self._authorization if has_token else ''}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        response = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in response.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        return int(response[9:12]), await reader.readexactly(length)

    def _event(self, number: int) -> dict:
        return {
            "projectId": PROJECT,
            "eventType": "order",
            "nonce": str(uuid4()),
            "eventDate": "2025-01-31T12:00:00Z",
            "trackerId": f"t{number % 5_000}",
            "data": {
                "email": f"user{number % 5_000}@example.com",
                "turnover": 5 + number % 90,
                "confirmed": 0,
            },
        }

    def one(self, number: int) -> tuple[str, str, object]:
        """Return an asynchronous creation."""
        return "POST", "/api/v1/events", self._event(number)

    def one_refused(self, number: int) -> tuple[str, str, object]:
        """Return an asynchronous creation of an event that is trashed."""
        return "POST", "/api/v1/events", self._event(number) | {"eventType": "unknown"}

    def one_sync(self, number: int) -> tuple[str, str, object]:
        """Return a synchronous creation."""
        return "POST", "/api/v1/events/sync", self._event(number)

    def batch(self, number: int) -> tuple[str, str, object]:
        """Return the creation of many events."""
        return "POST", "/api/v1/events/batch", [self._event(number * BATCH + each) for each in range(BATCH)]

    def batch_sync(self, number: int) -> tuple[str, str, object]:
        """Return the creation of many events whose response waits for their processing."""
        method, path, body = self.batch(number)
        return method, f"{path}?wait=true", body

    def hit(self, number: int) -> tuple[str, str, object]:
        """Return a hit as the tracking script sends it."""
        page = f"https://shop.example/{number % 200}"
        hit = {
            "projectId": PROJECT,
            "hitId": str(uuid4()),
            "trackerId": f"t{number % 5_000}",
            "isPersistent": True,
            "pageUrl": page
            if number % 5
            else f"{page}?utm_source=google&utm_medium=cpc&utm_campaign=c{number % 50}",
            "referrer": "" if number % 5 else "https://www.google.com/",
            "timezoneOffset": -60,
            "hitType": "pageview",
        }
        return "POST", "/c", hit

    def state(self, number: int) -> tuple[str, str, object]:
        """Return an update of a state of an event that was sent before."""
        id = self._stored[number % len(self._stored)]
        return "PUT", f"/api/v1/projects/{PROJECT}/events/{id}/states/confirmed", {"value": number % 2}


KINDS = {
    "refused": (Load.one_refused, 1),
    "async": (Load.one, 1),
    "sync": (Load.one_sync, 1),
    "batch": (Load.batch, BATCH),
    "batch wait": (Load.batch_sync, BATCH),
    "state": (Load.state, 1),
    "hit": (Load.hit, 1),
}
#: ``collection.py`` measures hits.
EVENTS = [kind for kind in KINDS if kind != "hit"]


#: Kinds of requests that need no token.
WITHOUT_TOKEN = {"refused", "async", "sync", "hit"}

HEADER = (
    f"{'request':<12}{'events':>8}{'events/s':>10}{'of bare':>9}{'p50 ms':>9}{'p99 ms':>9}{'of bare':>9}"
    f"{'CPU ms/event':>14}{'visible p99 ms':>16}"
)


def row(kind: str, tally: Tally) -> str:
    """Return a line of the table."""
    rate, wait = rate_of(tally), within(tally.waits, 0.99)
    of_rate = f"{rate / rate_of(tally.bare):.2f}" if tally.bare else ""
    of_wait = f"{wait / within(tally.bare.waits, 0.99):.1f}" if tally.bare else ""
    processor = 1_000 * tally.processor_seconds / max(tally.events, 1)
    visible = f"{within(tally.visible, 0.99):.0f}" if tally.visible else "-"
    refused = f"  {tally.refused} refused" if tally.refused else ""
    return (
        f"{kind:<12}{tally.events:>8}{rate:>10.0f}{of_rate:>9}{within(tally.waits, 0.5):>9.0f}{wait:>9.0f}"
        f"{of_wait:>9}{processor:>14.2f}{visible:>16}{refused}"
    )


def rate_of(tally: Tally) -> float:
    """Return events per second."""
    return tally.events / tally.seconds if tally.seconds else 0.0


def within(waits: list[float], share: float) -> float:
    """Return a percentile of response times, in milliseconds."""
    ordered = sorted(waits)
    return 1_000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


if __name__ == "__main__":
    main()
