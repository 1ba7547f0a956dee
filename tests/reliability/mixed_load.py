"""Loads a server with many clients and watches its memory, its descriptors and its answers.

    PYTHONPATH=tests python -m reliability.mixed_load --clients 200 --seconds 600     # overload
    PYTHONPATH=tests python -m reliability.mixed_load --clients 8 --seconds 3600      # mixed load

Under overload, a server refuses with 503 or 429 and ``Retry-After``, or stops a read at its deadline, stays alive for
``/health/live``, and needs no more memory than its limits. Under a load that it bears, memory and descriptors do not
grow.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from reliability.command_line import exit_code
from reliability.kill_rounds import SERVE, make_project
from support.http_caller import token_of
from support.order_events import order
from support.service_records import send

from attrib_ds.contract.operation import DEADLINE_EXCEEDED
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key

PROJECT = "/api/v1/projects/shop"
REFUSED = (429, 503)
SECONDS_TO_ANSWER = 120
_INTERVAL = 0.25


@dataclass
class Watched:
    """What was seen while the server was loaded."""

    answers: Counter = field(default_factory=Counter)
    accepted: set[str] = field(default_factory=set)
    #: Seconds of each accepted event, and of each call of ``/health/live``.
    intake: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    #: Instant, resident bytes and open descriptors.
    process: list[tuple[float, int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Client(threading.Thread):
    """Sends events, updates and reads until ``stop`` is set."""

    def __init__(self, url: str, token: str, watched: Watched, name: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(name)
        self.name = name
        self.netloc = urlsplit(url).netloc
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.watched, self.stop = watched, stop
        self.connection = http.client.HTTPConnection(self.netloc, timeout=SECONDS_TO_ANSWER)

    def run(self) -> None:
        acts = [self.event] * 8 + [self.search, self.insights, self.users]
        number = 0
        while not self.stop.is_set():
            number += 1
            try:
                self.random.choice(acts)(f"{self.name}-{number}")
            except TimeoutError:
                self.watched.problems.append(f"no answer within {SECONDS_TO_ANSWER} s")
                self.connection.close()
            except (OSError, http.client.HTTPException) as error:
                # A refused connection is closed by the server.
                self.watched.answers[type(error).__name__] += 1
                self.connection.close()
        self.connection.close()

    def call(self, method: str, path: str, body: dict) -> int:
        self.connection.request(method, path, json.dumps(body), self.headers)
        response = self.connection.getresponse()
        body = response.read()
        self.watched.answers[response.status] += 1
        if response.status in REFUSED:
            # A read that is stopped at its deadline is not to be repeated as it is.
            if response.headers.get("Retry-After") is None and DEADLINE_EXCEEDED.encode() not in body:
                self.watched.problems.append(f"{path}: {response.status} without Retry-After")
            time.sleep(0.05)
        elif response.status != 200:
            self.watched.problems.append(f"{path}: {response.status}")
        return response.status

    def event(self, nonce: str) -> None:
        envelope = order(
            nonce, data={"mail": f"user{self.random.randrange(1000)}@example.com", "confirmed": 1}
        )
        names = {"event_type": "eventType", "event_date": "eventDate"}
        body = {"projectId": "shop"} | {names.get(key, key): value for key, value in envelope.items()}
        began = time.monotonic()
        if self.call("POST", "/api/v1/events", body) == 200:
            self.watched.intake.append(time.monotonic() - began)
            self.watched.accepted.add(nonce)

    def search(self, _: str) -> None:
        self.call("POST", f"{PROJECT}/interactions/search", {"limit": 10})

    def insights(self, _: str) -> None:
        body = {"since": "2025-01-01T00:00:00Z", "until": "2025-03-01T00:00:00Z"}
        body |= {"metrics": ["event-count"], "groupBy": "event-type", "interval": "day"}
        self.call("POST", f"{PROJECT}/events/insights", body)

    def users(self, _: str) -> None:
        self.call("POST", "/api/v2/projects/shop/users/search", {"fields": ["eventCount"], "limit": 10})


def _watch(url: str, pid: int, watched: Watched, stop: threading.Event) -> None:
    """Ask for the server's health, and for what its process holds, until told to stop."""
    while not stop.wait(_INTERVAL):
        began = time.monotonic()
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        try:
            connection.request("GET", "/health/live")
            status = connection.getresponse().status
            if status != 200:
                watched.problems.append(f"/health/live answers {status}")
        except OSError as error:
            watched.problems.append(f"/health/live: {error!r}")
        finally:
            connection.close()
        watched.health.append(time.monotonic() - began)
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            watched.process.append((time.monotonic(), pages * os.sysconf("SC_PAGE_SIZE"), descriptors))


@dataclass(frozen=True)
class Summary:
    problems: list[str]
    answers: Counter
    accepted: int
    intake_p50: float
    intake_p99: float
    slowest_health: float
    most_mebibytes: float
    #: Growth over the second half, per hour if it went on.
    mebibytes_per_hour: float
    descriptors_per_hour: float
    most_descriptors: int


def run(clients: int, seconds: float) -> Summary:
    """Load a server for a while."""
    watched, stop = Watched(), threading.Event()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = make_project(home)
        key = create_key(home, home / "key.json")
        # A file: a server whose pipe nobody empties stands still.
        complaints = stack.enter_context(tempfile.TemporaryFile("w+"))
        command = [sys.executable, "-c", SERVE, str(home)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as process:
            try:
                url = process.stdout.readline().split()[-1]
                token = token_of(url, key)
                threads = [Client(url, token, watched, f"c{number}", stop) for number in range(clients)]
                threads.append(
                    threading.Thread(target=_watch, args=(url, process.pid, watched, stop), daemon=True)
                )
                for thread in threads:
                    thread.start()
                time.sleep(seconds)
                stop.set()
                for thread in threads:
                    thread.join(SECONDS_TO_ANSWER)
            finally:
                process.terminate()
                process.wait(120)
            # A slow machine may not answer a heavy read in time, which is said.
            complaints.seek(0)
            unexpected = [line for line in complaints if "the limit of this server" not in line]
            if unexpected:
                watched.problems.append(f"the server complains: {''.join(unexpected)[-500:]}")
        with closing(Service.open("shop", path)) as service, service._store.cursor() as cursor:
            stored = [nonce for (nonce,) in cursor.execute("SELECT nonce FROM raw_events").fetchall()]
            if len(set(stored)) != len(stored) or not watched.accepted <= set(stored):
                watched.problems.append("an acknowledged event is lost or doubled")
            findings = send(service, "check_project").read().to_pylist()
            watched.problems += [f"the check finds {finding}" for finding in findings]
    return _summary(watched)


def _summary(watched: Watched) -> Summary:
    instants, resident, descriptors = np.array(watched.process, dtype=float).T
    half = len(instants) // 2
    grown = [np.polyfit(instants[half:], values[half:], 1)[0] * 3_600 for values in (resident, descriptors)]
    p50, p99 = np.percentile(watched.intake, [50, 99])
    return Summary(
        problems=watched.problems,
        answers=watched.answers,
        accepted=len(watched.accepted),
        intake_p50=float(p50),
        intake_p99=float(p99),
        slowest_health=max(watched.health),
        most_mebibytes=float(resident.max() / 2**20),
        mebibytes_per_hour=float(grown[0] / 2**20),
        descriptors_per_hour=float(grown[1]),
        most_descriptors=int(descriptors.max()),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Load a server and watch it.")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    summary = run(options.clients, options.seconds)
    for name, value in vars(summary).items():
        if name != "problems":
            print(f"{name}: {value:,.3f}" if isinstance(value, float) else f"{name}: {value}")
    return exit_code(f"{count:,} × {problem}" for problem, count in Counter(summary.problems).most_common())


if __name__ == "__main__":
    sys.exit(main())
