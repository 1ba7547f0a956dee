"""Events and updates per second that a served project accepts over HTTP.

``python tests/benchmarks/service_events.py`` serves a new project in a separate process, without rate limits, and sends
requests over keep-alive connections, each as soon as the previous response has arrived. For every kind of request it
prints events per second and the median and 99th percentile of the response time; for asynchronous requests also the 99th
percentile of the time from acceptance until the event can be read.

The client competes with the server for processors: run it on an idle machine, and compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

PROJECT = "shop"
FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "confirmed", "optional": True},
]
BATCH = 200
#: One in this many accepted events is polled until it can be read.
LOOK_FOR = 200


@dataclass
class Tally:
    """Results of one kind of request."""

    events: int = 0
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)
    visible: list[float] = field(default_factory=list)
    refused: int = 0


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000, help="events per kind of request")
    parser.add_argument("--seconds", type=float, default=20.0, help="maximum seconds per kind of request")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve))
        return
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        token = prepare(home)
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", made],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            load = Load(server.stdout.readline().strip(), token, options.connections)
            print(
                f"{'request':<12}{'events':>8}{'events/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'visible p99 ms':>16}"
            )
            for kind in options.kinds:
                tally = asyncio.run(load.run(kind, options.events, options.seconds))
                print(row(kind, tally), flush=True)
        finally:
            server.stdin.close()
            server.wait(60)


def prepare(home: Path) -> str:
    """Create a project with an event type, and return a token for it."""
    from attrib_ds.contract import OPERATIONS, build
    from attrib_ds.service import Service
    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.accounts.administration import create_key

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
    from attrib_ds.service.http.server import running
    from attrib_ds.service.http.server_options import ServerOptions

    with running(home, options=ServerOptions(rate_limits=None)) as url:
        print(url, flush=True)
        sys.stdin.read()


class Load:
    """Client that sends requests from one thread over keep-alive connections."""

    def __init__(self, url: str, token: str, connections: int) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname, address.port
        self._token = token
        self._connections = connections
        self._stored: list[str] = []

    async def run(self, kind: str, events: int, seconds: float) -> Tally:
        """Send the given number of events of one kind, within a maximum of seconds."""
        tally = Tally()
        makes, size = KINDS[kind]
        left = iter(range(events // size))
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
                status, content = await self._ask(reader, writer, method, path, body)
                last = time.monotonic()
                tally.waits.append(last - start)
                if status != 200:
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
        return tally

    async def _look_for(self, reader, writer, id: str, tally: Tally, accepted: float) -> None:
        while time.monotonic() - accepted < 30:
            path = f"/api/v1/projects/{PROJECT}/events/{id}"
            status, _ = await self._ask(reader, writer, "GET", path, None)
            if status == 200:
                break
            await asyncio.sleep(0.01)
        tally.visible.append(time.monotonic() - accepted)

    async def _ask(self, reader, writer, method: str, path: str, body: object) -> tuple[int, bytes]:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n"
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

    def state(self, number: int) -> tuple[str, str, object]:
        """Return an update of a state of an event that was sent before."""
        id = self._stored[number % len(self._stored)]
        return "PUT", f"/api/v1/projects/{PROJECT}/events/{id}/states/confirmed", {"value": number % 2}


KINDS = {
    "async": (Load.one, 1),
    "sync": (Load.one_sync, 1),
    "batch": (Load.batch, BATCH),
    "batch wait": (Load.batch_sync, BATCH),
    "state": (Load.state, 1),
}


def row(kind: str, tally: Tally) -> str:
    """Return a line of the table."""

    def within(waits: list[float], share: float) -> str:
        ordered = sorted(waits)
        return f"{1_000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]:.0f}" if ordered else "-"

    rate = tally.events / tally.seconds if tally.seconds else 0.0
    times = f"{within(tally.waits, 0.5):>9}{within(tally.waits, 0.99):>9}{within(tally.visible, 0.99):>16}"
    refused = f"  {tally.refused} refused" if tally.refused else ""
    return f"{kind:<12}{tally.events:>8}{rate:>10.0f}{times}{refused}"


if __name__ == "__main__":
    main()
