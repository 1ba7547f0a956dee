"""Kills a server under load again and again, and examines what it leaves behind.

    PYTHONPATH=tests python -m reliability.kill_rounds --rounds 200

Each round sends events, hits, updates of states, offline interactions and campaigns over several connections, ends
the server by SIGKILL at a random moment, opens the project and holds what is in it against what was
acknowledged.
"""

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from reliability.command_line import run_from_command_line
from support.http_caller import token_of
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.errors import AttribError
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key

SERVE = (
    "import sys; from attrib_ds.service.http.server import serve; "
    "from attrib_ds.service.http.server import ServerOptions; serve(sys.argv[1], port=0, options=ServerOptions(rate_limits=None))"
)
PROJECT = "/api/v1/projects/shop"
CONNECTIONS = 8
MAILS = 20
#: Rounds on one project, which so goes through several kills.
ROUNDS_OF_A_PROJECT = 10


@dataclass
class Journal:
    """What was asked, and what was acknowledged; nothing is asked twice at the same time."""

    #: Envelope by nonce, and id by nonce once there is an answer.
    sent: dict[str, dict] = field(default_factory=dict)
    accepted: dict[str, str] = field(default_factory=dict)
    #: Acknowledged value by event and state, and what was asked since without an answer.
    states: dict[tuple[str, str], int] = field(default_factory=dict)
    asked_states: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Interaction by external id, campaign by slug.
    visits: dict[str, str] = field(default_factory=dict)
    campaigns: dict[str, str] = field(default_factory=dict)
    #: Browser by hit that was sent, and hits that were acknowledged.
    sent_hits: dict[str, str] = field(default_factory=dict)
    hits: set[str] = field(default_factory=set)
    refused_slugs: set[str] = field(default_factory=set)
    answers: Counter = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)


class Client(threading.Thread):
    """Sends over one connection until that breaks."""

    def __init__(self, url: str, token: str, journal: Journal, name: str, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.random = random.Random(seed)
        self.journal = journal
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.number = 0
        self.processed: list[str] = []

    def run(self) -> None:
        acts = [self.event] * 6 + [self.sync_event] * 3 + [self.state] * 3 + [self.repeat] * 2
        acts += [self.hit] * 4 + [self.repeated_hit, self.visit, self.campaign]
        with contextlib.suppress(OSError, http.client.HTTPException), closing(self.connection):
            while True:
                self.number += 1
                self.random.choice(acts)()

    def call(self, method: str, path: str, body: dict, *statuses: int) -> object:
        self.connection.request(method, path, json.dumps(body), self.headers)
        response = self.connection.getresponse()
        content = response.read()
        self.journal.answers[f"{method} {path.rpartition('/')[2]} {response.status}"] += 1
        if response.status not in statuses:
            self.journal.surprises.append(f"{method} {path}: {response.status} {content[:200]!r}")
        return response.status, json.loads(content or b"null")

    def envelope(self) -> dict:
        nonce = f"{self.name}-{self.number}"
        data = {
            "mail": f"user{self.random.randrange(MAILS)}@example.com",
            "confirmed": self.random.randrange(2),
        }
        if self.random.random() < 0.2:
            data = {"items": "many"}
        return order(nonce, data=data)

    def body(self, envelope: dict) -> dict:
        names = {"event_type": "eventType", "event_date": "eventDate"}
        return {"projectId": "shop"} | {names.get(name, name): value for name, value in envelope.items()}

    def event(self) -> None:
        envelope = self.envelope()
        self.journal.sent[envelope["nonce"]] = envelope
        _, id = self.call("POST", "/api/v1/events", self.body(envelope), 200)
        self.journal.accepted[envelope["nonce"]] = id

    def sync_event(self) -> None:
        envelope = self.envelope()
        self.journal.sent[envelope["nonce"]] = envelope
        status, told = self.call("POST", "/api/v1/events/sync", self.body(envelope), 200, 400)
        if (status == 200) != ("confirmed" in envelope["data"]):
            self.journal.surprises.append(f"{envelope} was answered {status}")
        self.journal.accepted[envelope["nonce"]] = told if status == 200 else told["eventId"]
        if status == 200:
            self.processed.append(told)

    def repeat(self) -> None:
        known = list(self.journal.accepted.copy().items())  # others add to it meanwhile
        if known:
            nonce, id = self.random.choice(known)
            _, again = self.call("POST", "/api/v1/events", self.body(self.journal.sent[nonce]), 200)
            if again != id:
                self.journal.surprises.append(f"the nonce {nonce} was {id} and is {again}")

    def hit(self) -> None:
        id, browser = str(uuid4()), f"browser-{self.random.randrange(MAILS)}"
        self.journal.sent_hits[id] = browser
        self.send_hit(id)

    def repeated_hit(self) -> None:
        if self.journal.hits:
            self.send_hit(self.random.choice(sorted(self.journal.hits.copy())))

    def send_hit(self, id: str) -> None:
        browser = self.journal.sent_hits[id]
        page = {"pageUrl": "https://shop.example/", "isPersistent": True, "trackerId": browser}
        self.call("POST", "/c", {"projectId": "shop", "hitId": id, **page}, 202)
        self.journal.hits.add(id)

    def state(self) -> None:
        if self.processed:
            id, key = self.random.choice(self.processed), self.random.choice(["confirmed", "returned"])
            value = self.random.randrange(2)
            self.journal.asked_states[id, key] = value
            self.call("PUT", f"{PROJECT}/events/{id}/states/{key}", {"value": value}, 200)
            self.journal.states[id, key] = value
            del self.journal.asked_states[id, key]

    def visit(self) -> None:
        external = f"{self.name}-{self.number}"
        day = 1 + self.random.randrange(28)
        body = {
            "date": f"2025-01-{day:02}T10:00:00Z",
            "userData": {"email": f"user{self.random.randrange(MAILS)}@example.com"},
            "nodeData": {"vendorId": "ads", "campaignSlug": f"implicit-{self.random.randrange(5)}"},
            "externalId": external,
        }
        _, told = self.call("POST", f"{PROJECT}/interactions/offline", body, 201)
        self.journal.visits[external] = told["_id"]
        _, again = self.call("POST", f"{PROJECT}/interactions/offline", body, 200)
        if again["_id"] != told["_id"]:
            self.journal.surprises.append(f"the interaction {external} was made twice")

    def campaign(self) -> None:
        # Every second one is wanted by several at once.
        shared = self.random.random() < 0.5
        slug = f"shared-{self.number // 40}" if shared else f"{self.name}-{self.number}"
        body = {"campaignSlug": slug, "name": slug}
        status, told = self.call("POST", f"{PROJECT}/custom-ads/ads/campaigns", body, 200, 409)
        if status == 409:
            self.journal.refused_slugs.add(slug)
        elif slug in self.journal.campaigns:
            self.journal.surprises.append(f"the campaign {slug} was made twice")
        else:
            self.journal.campaigns[slug] = told["id"]


@contextlib.contextmanager
def server(home: Path):
    """Serve a folder in a process of its own, which is killed at the end of the block."""
    command = [sys.executable, "-c", SERVE, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            os.kill(process.pid, signal.SIGKILL)


def make_project(home: Path) -> Path:
    path = home / "shop.duckdb"
    with closing(Service.open("shop", path)) as service:
        declare_order(service)
        send(service, "create_integration", vendor_id="ads", name="Ads")
    return path


def start_clients(url: str, token: str, journal: Journal, name: str, seed: str) -> list[Client]:
    """Start clients that send, and return once the first answer has come."""
    clients = [Client(url, token, journal, f"{name}-{n}", f"{seed}-{n}") for n in range(CONNECTIONS)]
    before, last = journal.answers.total(), time.monotonic() + 30
    for client in clients:
        client.start()
    # Opening the project takes a while, in which nothing is sent.
    while journal.answers.total() == before and time.monotonic() < last:
        time.sleep(0.001)
    return clients


def load_and_kill(home: Path, key: object, journal: Journal, name: str, seed: str) -> float:
    """Send to a server and kill it; return after how many seconds of load."""
    moment = random.Random(seed).uniform(0, 0.7)
    with server(home) as process:
        url = process.stdout.readline().split()[-1]
        token = token_of(url, key)
        clients = start_clients(url, token, journal, name, seed)
        time.sleep(moment)
        os.kill(process.pid, signal.SIGKILL)
        for client in clients:
            client.join(30)
            assert not client.is_alive(), "a client waits for a server that is dead"
    return moment


def kill_while_it_recovers(home: Path, seed: str) -> None:
    """Open the project and die in the middle of what that leads to."""
    code = "import sys; from attrib_ds.service import Service; print(1, flush=True); Service.open('shop', sys.argv[1])"
    command = [sys.executable, "-c", code, str(home / "shop.duckdb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.3))
        os.kill(process.pid, signal.SIGKILL)


def examine(path: Path, journal: Journal) -> list[str]:
    """Return what is wrong with a project after a kill."""
    problems = [*journal.surprises]
    journal.surprises.clear()

    def hold(is_so: bool, told: str) -> None:
        if not is_so:
            problems.append(told)

    with closing(Service.open("shop", path)) as service:

        def rows(query: str) -> list[tuple]:
            with service._store.cursor() as cursor:
                return cursor.execute(query).fetchall()

        service._ingestion.settle()
        service._hits.settle()
        listed = rows("SELECT nonce, _id FROM raw_events")
        raw = dict(listed)
        hold(len(raw) == len(listed), "a nonce is there twice")
        lost = {nonce for nonce, id in journal.accepted.items() if raw.get(nonce) != id}
        hold(not lost, f"acknowledged events are lost: {sorted(lost)[:5]}")
        hold(raw.keys() <= journal.sent.keys(), "there are events that nobody sent")
        done = Counter(id for (id,) in rows("SELECT _id FROM events"))
        trash = Counter(id for (id,) in rows("SELECT _id FROM trashed_events"))
        hold(set((done + trash).values()) <= {1}, "an event is there twice, or processed and trashed")
        hold((done + trash).keys() == set(raw.values()), "an event is neither processed nor trashed")
        wanted = {raw[nonce] for nonce in raw if "confirmed" in journal.sent[nonce]["data"]}
        hold(done.keys() == wanted, "valid events are trashed, or the others processed")

        for nonce in random.Random(len(raw)).sample(sorted(journal.accepted), min(20, len(journal.accepted))):
            again = send(service, "create_event", **journal.sent[nonce]).value
            hold(again == journal.accepted[nonce], f"the nonce {nonce} is accepted once more")
        hold(len(rows("SELECT 1 FROM raw_events")) == len(raw), "a repeat was stored")

        problems += _wrong_states(rows, journal, raw)
        visits = dict(rows("SELECT externalId, _id FROM interactions WHERE type = 'offline'"))
        hold(journal.visits.items() <= visits.items(), "acknowledged interactions are lost")
        offline = rows("SELECT 1 FROM interactions WHERE type = 'offline'")
        hold(len(offline) == len(visits), "an interaction is there twice")
        problems += _wrong_hits(rows, journal)
        campaigns = dict(rows("SELECT campaignSlug, id FROM campaigns WHERE explicit"))
        hold(journal.campaigns.items() <= campaigns.items(), "acknowledged campaigns are lost")
        hold(journal.refused_slugs <= campaigns.keys(), "a slug was refused that nobody has")
        problems += _wrong_counts(rows, journal, raw)
        findings = send(service, "check_project").read().to_pylist()
        hold(not findings, f"the check finds {findings}")
    # What was asked and not answered is known now.
    stored = dict(listed)
    journal.accepted.update({nonce: stored[nonce] for nonce in journal.sent if nonce in stored})
    journal.visits.update(visits)
    journal.campaigns.update(campaigns)
    return problems


def _wrong_hits(rows, journal: Journal) -> list[str]:
    """Hold the hits and their sessions against what was acknowledged."""
    stored = dict(rows("SELECT id, trackerId FROM hits"))
    problems = []
    if len(stored) != len(rows("SELECT 1 FROM hits")):
        problems.append("a hit is there twice")
    lost = journal.hits - stored.keys()
    if lost:
        problems.append(f"acknowledged hits are lost: {sorted(lost)[:5]}")
    if not stored.items() <= journal.sent_hits.items():
        problems.append("there are hits that nobody sent")
    if rows("SELECT coalesce(sum(hitCount), 0) FROM interactions WHERE type = 'session'") != [(len(stored),)]:
        problems.append("a hit is in no session or in two")
    journal.hits.update(stored)
    return problems


def _wrong_states(rows, journal: Journal, raw: dict[str, str]) -> list[str]:
    """Hold the states against what was acknowledged last, or asked since."""
    values = rows("SELECT eventId, key, CAST(number AS INTEGER) FROM metrics WHERE type = 'state'")
    found = {(id, key): value for id, key, value in values}
    first = {
        (raw[nonce], "confirmed"): journal.sent[nonce]["data"]["confirmed"]
        for nonce in raw
        if "confirmed" in journal.sent[nonce]["data"]
    }
    expected = {**first, **journal.states}
    problems = []
    for each, value in found.items():
        allowed = {expected.get(each), journal.asked_states.get(each)}
        if value not in allowed:
            problems.append(f"the state {each} is {value}, not one of {allowed}")
    problems += [f"the state {each} is lost" for each in expected.keys() - found.keys()]
    journal.states.update({each: value for each, value in found.items() if each in journal.asked_states})
    journal.asked_states.clear()
    return problems


def _wrong_counts(rows, journal: Journal, raw: dict[str, str]) -> list[str]:
    """Count users, their events and their interactions anew, from what was sent."""
    problems = []
    mails: dict[str, set[str]] = {}
    by_id = {id: journal.sent[nonce]["data"] for nonce, id in raw.items()}
    for id, user in rows("SELECT _id, userId FROM events"):
        mails.setdefault(by_id[id]["mail"], set()).add(user)
    visitors = (
        "coalesce(json_extract_string(userData, '$.email'), json_extract_string(userData, '$.trackerId'))"
    )
    for visitor, user in rows(f"SELECT {visitors}, userId FROM interactions"):
        mails.setdefault(visitor, set()).add(user)
    if any(len(users) != 1 for users in mails.values()):
        problems.append(f"an email or a browser is of several users: {mails}")
    users = {user for found in mails.values() for user in found}
    if {user for (user,) in rows("SELECT _id FROM users")} != users or len(users) != len(mails):
        problems.append("the users are not those of the emails and the browsers")
    counted = dict(
        rows("SELECT eventId, sum(number) FROM metrics WHERE key = 'event-count' GROUP BY eventId")
    )
    if counted != {id: 1.0 for id, data in by_id.items() if "confirmed" in data}:
        problems.append("events are not counted once each")
    places: dict[str, list[tuple]] = {}
    for user, date, id, place in rows("SELECT userId, startDate, _id, userLifetimeIndex FROM interactions"):
        places.setdefault(user, []).append((date, id, place))
    for user, visits in places.items():
        if [place for *_, place in sorted(visits)] != list(range(1, len(visits) + 1)):
            problems.append(f"the interactions of {user} are not numbered in their order")
    return problems


@dataclass(frozen=True)
class Summary:
    rounds: int
    problems: list[str]
    accepted: int
    answers: Counter
    seconds: float


def run(rounds: int, seed: int, *, tell=print) -> Summary:
    """Kill a server several times; ``seed`` decides what is sent and when it dies."""
    problems: list[str] = []
    answers: Counter = Counter()
    accepted = 0
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kill-rounds-"))
    for first in range(0, rounds, ROUNDS_OF_A_PROJECT):
        home = folder / str(first)
        home.mkdir()
        path = make_project(home)
        key = create_key(home, home / "key.json")
        journal = Journal()
        for number in range(first, min(first + ROUNDS_OF_A_PROJECT, rounds)):
            own_seed = f"{seed}-{number}"
            keep(home, "before")
            moment = load_and_kill(home, key, journal, str(number), own_seed)
            keep(home, "killed")
            if random.Random(own_seed).random() < 0.3:
                kill_while_it_recovers(home, own_seed)
                keep(home, "killed-again")
            try:
                found = examine(path, journal)
            except AttribError as error:
                found = [f"the project cannot be opened: {error}"]
            problems += [f"round {number} of seed {seed}: {problem}" for problem in found]
            state = "; ".join(found) or "sound"
            tell(f"round {number}: killed after {moment:.2f} s, {len(journal.accepted)} events, {state}")
            if found:
                tell(f"what the round left is kept in {home}")
                break
        else:
            shutil.rmtree(home)
        accepted += len(journal.accepted)
        answers += journal.answers
    with contextlib.suppress(OSError):
        folder.rmdir()
    return Summary(rounds, problems, accepted, answers, time.monotonic() - began)


def keep(home: Path, moment: str) -> None:
    """Copy the files of the project as they are at a moment of a round, to be looked at if it goes wrong."""
    place = home / "kept" / moment
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for file in home.glob("shop.duckdb*"):
        shutil.copy2(file, place)


def main() -> int:
    return run_from_command_line(
        partial(run, tell=partial(print, flush=True)),
        _lines,
        times="rounds",
        default=200,
        purpose="Kill a server under load and examine what it leaves behind.",
    )


def _lines(summary: Summary) -> list[str]:
    statuses: Counter = Counter()
    for answer, count in summary.answers.items():
        method, name, status = answer.split()
        statuses[f"{method} {name if not name[0].isdigit() else '…'} {status}"] += count
    return [
        f"{summary.rounds} kills in {summary.seconds:.0f} s; {summary.accepted} events acknowledged or stored",
        *(f"  {count:8,} {answer}" for answer, count in sorted(statuses.items())),
    ]


if __name__ == "__main__":
    sys.exit(main())
