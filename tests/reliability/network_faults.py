"""Calls a server through a network that breaks connections, and examines what arrived.

    PYTHONPATH=tests python -m reliability.network_faults --calls 2000

Every call ends in bounded time, with a result or with an error of the package. What was acknowledged is there; nothing
is there twice; what was not acknowledged is there once or not at all.
"""

import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from reliability.command_line import run_from_command_line
from support.faulty_proxy import FaultyProxy
from support.order_events import declare_order
from support.service_records import send

import attrib_ds as at
from attrib_ds import Project
from attrib_ds.errors import AttribError
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.credentials import protect_key
from attrib_ds.transports.http.session import RetryPolicy, Timeouts
from attrib_ds.transports.http.transport import Options, open_http

THREADS = 4
#: A call may take its time for retries, and once more its longest wait for an answer.
SECONDS_FOR_RETRIES = 10.0
SECONDS_TO_READ = 5.0
SECONDS_PER_CALL = 2 * (SECONDS_FOR_RETRIES + SECONDS_TO_READ)
DATE = "2025-01-31T12:00:00Z"


@dataclass
class Journal:
    #: What was sent, and the ids of what was acknowledged; None if the answer that had it was cut.
    sent: set[str] = field(default_factory=set)
    accepted: dict[str, str] = field(default_factory=dict)
    slugs: set[str] = field(default_factory=set)
    campaigns: dict[str, str | None] = field(default_factory=dict)
    visits: set[str] = field(default_factory=set)
    made_visits: dict[str, str | None] = field(default_factory=dict)
    outcomes: Counter = field(default_factory=Counter)
    slowest: float = 0.0
    problems: list[str] = field(default_factory=list)


class Caller(threading.Thread):
    def __init__(self, url: str, key: object, journal: Journal, number: int, calls: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(f"{seed}-{number}")
        options = Options(
            timeouts=Timeouts(connect=2.0, read=SECONDS_TO_READ, body=SECONDS_TO_READ),
            retry_policy=RetryPolicy(seconds=SECONDS_FOR_RETRIES, first_wait=0.05, longest_wait=0.5),
        )
        remote = Remote(url=url, key=protect_key(key))
        self.project = Project("shop", open_http(remote, options=options))
        self.journal, self.number, self.calls = journal, number, calls

    def run(self) -> None:
        acts = [self.send_events] * 4 + [self.campaign, self.visit, self.search, self.update, self.users]
        with self.project:
            for count in range(self.calls):
                act = self.random.choice(acts)
                began = time.monotonic()
                try:
                    act(f"{self.number}-{count}")
                    outcome = "result"
                except AttribError as error:
                    outcome = type(error).__name__
                except Exception as error:  # noqa: BLE001  (any other error is what is looked for)
                    outcome = type(error).__name__
                    self.journal.problems.append(f"{act.__name__}: {error!r}")
                seconds = time.monotonic() - began
                self.journal.outcomes[act.__name__, outcome] += 1
                self.journal.slowest = max(self.journal.slowest, seconds)
                if seconds > SECONDS_PER_CALL:
                    self.journal.problems.append(f"{act.__name__} took {seconds:.1f} s")

    def send_events(self, name: str) -> None:
        nonces = [f"{name}-{row}" for row in range(self.random.choice([1, 3, 50]))]
        mails = [f"user{self.random.randrange(20)}@example.com" for _ in nonces]
        rows = {"nonce": nonces, "eventDate": DATE, "data.mail": mails, "data.confirmed": 1}
        orders = pd.DataFrame(rows)
        self.journal.sent.update(nonces)
        wait = self.random.random() < 0.3
        try:
            sent = at.send_events(self.project, orders, event_type="order", wait=wait)
        except AttribError as error:
            if error.partial is not None:
                self._note(nonces, error.partial)
            raise
        self._note(nonces, sent)

    def _note(self, nonces: list[str], outcomes: pd.DataFrame) -> None:
        for nonce, id in zip(nonces, outcomes["id"], strict=True):
            if isinstance(id, str) and id:
                self.journal.accepted[nonce] = id

    def campaign(self, name: str) -> None:
        self.journal.slugs.add(name)
        campaign = at.create_campaign(self.project, "ads", name, name=name)
        self.journal.campaigns[name] = campaign

    def visit(self, name: str) -> None:
        self.journal.visits.add(name)
        row = {
            "date": DATE,
            "userData.email": f"user{self.number}@example.com",
            "nodeData.vendorId": "ads",
            "externalId": name,
        }
        made = at.create_offline_interactions(self.project, pd.DataFrame([row]))
        status, id = made["status"][0], made["id"][0]
        self.journal.outcomes["visit", status] += 1
        # The answer to a visit of unknown status was lost, so that it may be there or not.
        if status in {"created", "present"}:
            self.journal.made_visits[name] = id if isinstance(id, str) else None

    def search(self, name: str) -> None:
        found = at.search_interactions(self.project, sort="startDate")
        if found["_id"].duplicated().any():
            self.journal.problems.append("an interaction is returned twice")

    def users(self, name: str) -> None:
        found = at.search_users(self.project, columns=["eventCount"])
        if found["_id"].duplicated().any():
            self.journal.problems.append("a user is returned twice")

    def update(self, name: str) -> None:
        if self.journal.accepted:
            id = self.random.choice(list(self.journal.accepted.values()))
            at.update_states(self.project, pd.DataFrame([{"id": id, "storageKey": "returned", "value": 1}]))


@dataclass(frozen=True)
class Summary:
    problems: list[str]
    outcomes: dict
    faults: dict
    slowest: float
    accepted: int


def run(calls: int, seed: int, *, share: float = 0.2) -> Summary:
    """Make calls through a network that breaks a share of the connections."""
    journal = Journal()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        path = home / "shop.duckdb"
        with closing(Service.open("shop", path)) as service:
            declare_order(service)
            send(service, "create_integration", vendor_id="ads", name="Ads")
        key = create_key(home, home / "key.json")
        port = free_port()
        # Clients name the address of the proxy when they ask for a token.
        with (
            closing(FaultyProxy(("127.0.0.1", port), seed=seed, share=share)) as proxy,
            running(home, port=port, url=proxy.url, options=ServerOptions(rate_limits=None)),
        ):
            callers = [
                Caller(proxy.url, json.loads(key.to_json()), journal, number, calls // THREADS, seed)
                for number in range(THREADS)
            ]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(SECONDS_PER_CALL * calls)
        with closing(Service.open("shop", path)) as service:
            problems = [*journal.problems, *examine(service, journal)]
    return Summary(
        problems, dict(journal.outcomes), dict(proxy.faults), journal.slowest, len(journal.accepted)
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def examine(service: Service, journal: Journal) -> list[str]:
    """Return the differences between what was acknowledged and what is stored."""
    problems = []

    def rows(query: str) -> list[tuple]:
        with service._store.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def compare(
        noun: str, listed: list[tuple], asked: set[str], acknowledged: Mapping[str, str | None]
    ) -> None:
        stored = dict(listed)
        if len(stored) != len(listed):
            problems.append(f"{noun}: some are there twice")
        if not stored.keys() <= asked:
            problems.append(f"{noun}: nobody asked for {sorted(stored.keys() - asked)[:5]}")
        lost = sorted(
            name
            for name, id in acknowledged.items()
            if name not in stored or (id is not None and stored[name] != id)
        )
        if lost:
            problems.append(f"{noun}: {len(lost)} acknowledged ones are lost, such as {lost[:5]}")

    service._ingestion.settle()
    compare("events", rows("SELECT nonce, _id FROM raw_events"), journal.sent, journal.accepted)
    found = rows("SELECT campaignSlug, id FROM campaigns WHERE explicit")
    compare("campaigns", found, journal.slugs, journal.campaigns)
    found = rows("SELECT externalId, _id FROM interactions")
    compare("interactions", found, journal.visits, journal.made_visits)
    if len(rows("FROM events")) != len(rows("FROM raw_events")):
        problems.append("an event is not processed")
    problems += [
        f"the check finds {finding}" for finding in send(service, "check_project").read().to_pylist()
    ]
    return problems


def main() -> int:
    return run_from_command_line(
        run,
        _lines,
        times="calls",
        default=2_000,
        purpose="Call a server through a network that breaks connections.",
    )


def _lines(summary: Summary) -> list[str]:
    return [
        f"{summary.accepted:,} events acknowledged; the slowest call took {summary.slowest:.1f} s",
        *(
            f"  {count:6,} requests: {fault or 'no fault'}"
            for fault, count in sorted(summary.faults.items(), key=str)
        ),
        *(f"  {count:6,} {call}: {outcome}" for (call, outcome), count in sorted(summary.outcomes.items())),
    ]


if __name__ == "__main__":
    sys.exit(main())
