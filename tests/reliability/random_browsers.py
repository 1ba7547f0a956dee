"""Plays browsers and callers at random, who send again what they have sent, and examines what is stored.

    PYTHONPATH=tests python -m reliability.random_browsers --examples 200

Browsers use ids, trackers and pages again, change their address and user agent between tries, agree and refuse,
and send days later. Callers repeat events, offline interactions, opportunities and portions. Collectors hand
over twice. Afterwards the project is consistent, each hit is there once, as the rule has it, and the sessions are
those that the same hits make when they are loaded at once, in another order. When all hits come again, nothing
changes. Unless users were merged or erased, or two people have ordered in one browser, which then belongs to the last
one (G-147), users and events are those of all hits that come at once, in another order, and of the events after them.
Half of the examples leave these out.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from reliability.command_line import run_from_command_line
from support.http_caller import Caller
from support.service_records import send, table, uuid

from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.interactions import OPPORTUNITY, opportunity_type, read_hit
from attrib_ds.errors import AttribError
from attrib_ds.records.parts import Folder
from attrib_ds.service import Service
from attrib_ds.service.collection.collector import part_rows
from attrib_ds.service.http import pages
from attrib_ds.service.http.limits import ServiceRequest
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.store.settings import ProjectSettings

SECONDS = 60
MAILS = ["ann@x.example", "ben@x.example"]
BROWSERS = ["c-1", "c-2"]
PAGES = ["p-1", "p-2", "p-3"]
ADDRESSES = ["203.0.113.7", "198.51.100.7"]
AGENTS = ["Firefox/130.0", "Safari/604.1"]
SIGNALS = [{}, {}, {}, {"sec-gpc": "1"}, {"dnt": "1"}]
#: The page of a hit is that of its id, as in every browser.
URLS = ["https://shop.example/", "https://shop.example/?utm_source=news&utm_medium=email&utm_campaign=spring"]

visits = st.fixed_dictionaries(
    {
        "number": st.integers(1, 8),
        "browser": st.sampled_from(BROWSERS),
        "page": st.sampled_from(PAGES),
        "way": st.sampled_from(["collected", "collected", "part", "portion"]),
    }
)
#: What changes when a browser sends a hit again.
tries = st.fixed_dictionaries(
    {
        "keeps": st.booleans(),
        "address": st.sampled_from(ADDRESSES),
        "agent": st.sampled_from(AGENTS),
        "signal": st.sampled_from(SIGNALS),
        # Up to three days late, and many within one session.
        "minutes": st.sampled_from([0, 0, 1, 2, 5, 29, 40, 200, 3 * 24 * 60]),
    }
)
ALIKE = {"address": ADDRESSES[0], "agent": AGENTS[0], "signal": {}}
attempts = st.lists(tries, min_size=1, max_size=4)


def body_of(visit):
    return {
        "projectId": "shop",
        "hitId": uuid(visit["number"]),
        "pageUrl": URLS[visit["number"] % 2],
        "trackerId": visit["browser"] if visit["keeps"] else visit["page"],
        "isPersistent": visit["keeps"],
        "delay": visit["minutes"] * 60_000,
    }


def prepared(file):
    """Open a new project with the event types and the integration of the machines."""
    service = Service.open("shop", file)
    mail = {
        "type": "email",
        "entity": "user",
        "storageKey": "email",
        "ingestionKey": "mail",
        "optional": True,
    }
    send(service, "create_event_type", reference="order", name="Order", fields=[mail])
    service.send(OPERATIONS["create_event_type"], opportunity_type("shop"))
    send(service, "create_integration", vendor_id="ads", name="Ads")
    return service


#: Users by what they did, without their ids.
USERS = """
SELECT hits, nonces FROM (
    SELECT userId, list(id ORDER BY id) AS hits FROM hits JOIN interactions ON sessionId = interactions._id GROUP BY userId
) FULL JOIN (
    SELECT userId, list(nonce ORDER BY nonce) AS nonces FROM events JOIN raw_events USING (_id) GROUP BY userId
) USING (userId) ORDER BY ALL
"""
#: Hits with their sessions, which keep their ids.
HITS = """
SELECT hits.id, trackerId, serverDate, hits.referrerType, hits.nodeId, interactions._id, startDate, endDate, hitCount, interactions.nodeId
FROM hits JOIN interactions ON sessionId = interactions._id ORDER BY hits.id
"""
#: Events without the dates on which their fields came, which differ.
EVENTS = r"""
SELECT nonce, events.eventType, regexp_replace(event::VARCHAR, '"date":"[^"]*"', '', 'g')
FROM events JOIN raw_events USING (_id) ORDER BY nonce
"""


class Embedded(RuleBasedStateMachine):
    """One embedded project."""

    @initialize(is_calm=st.booleans(), are_pages_apart=st.booleans())
    def open(self, is_calm, are_pages_apart):
        self.is_calm, self.are_pages_apart = is_calm, are_pages_apart
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.file = self.folder / "shop.duckdb"
        self.parts = Folder.open(self.folder / "parts", argument="parts")
        self.arrivals, self.is_changed, self.is_merged, self.people = [], False, False, set()
        # One second apart, and each visit at its own.
        self.now = datetime.now(UTC).replace(microsecond=0, tzinfo=None) - timedelta(hours=1)
        self.service = prepared(self.file)
        self.service.renew_salt()

    def accepted(self, visit):
        """The row of a hit as the server accepts it, at a time of ours."""
        hit = read_hit(body_of(visit))
        headers = [(name.encode(), value.encode()) for name, value in visit["signal"].items()]
        request = ServiceRequest(
            {
                "type": "http",
                "headers": [*headers, (b"user-agent", visit["agent"].encode())],
                "client": (visit["address"], 1),
            }
        )
        chosen = ProjectSettings(respect_dnt=True)
        visitor = None if visit["signal"] else self.service.salt.visitor(visit["address"], visit["agent"])
        record = pages._record(hit, request, chosen, visitor)
        self.now += timedelta(seconds=1)
        return record | {"serverDate": self.now - timedelta(minutes=visit["minutes"]), "ingestedAt": self.now}

    @rule(drawn=visits, attempts=attempts)
    def view(self, drawn, attempts):
        if self.are_pages_apart:
            # Everybody has one address and user agent.
            drawn = {**drawn, "page": f"p-{drawn['number']}"}
            attempts = [{**ALIKE, "minutes": each["minutes"], "keeps": each["keeps"]} for each in attempts]
        for visit in ({**drawn, **each} for each in attempts):
            record = self.accepted(visit)
            self.arrivals.append(record)
            if visit["way"] == "collected":
                self.service.start_hit(record).result(SECONDS)
                continue
            texts = record | {name: record[name].isoformat() for name in ("serverDate", "ingestedAt")}
            rows = part_rows([texts], project_id="shop")
            number = len(self.arrivals)
            if visit["way"] == "part":
                self.parts.write(f"hits/day=2025-01-31/{number:032x}-1-1.parquet", rows)
                for _ in range(2):
                    send(self.service, "load_records", resource="hits", source=self.folder / "parts")
            else:
                pq.write_table(rows, self.folder / "portion.parquet")
                for _ in range(2):
                    send(
                        self.service, "send_hits", portion_id=uuid(1_000 + number),
                        source=self.folder / "portion.parquet", replace=False,
                    )  # fmt: skip

    @rule(
        nonce=st.sampled_from(["n-1", "n-2", "n-3"]),
        kind=st.sampled_from(["order", OPPORTUNITY]),
        tracker=st.sampled_from([*BROWSERS, *PAGES]),
        mail=st.sampled_from([None, *MAILS]),
        waits=st.booleans(),
    )
    def event(self, nonce, kind, tracker, mail, waits):
        if self.is_calm and mail:
            mail = MAILS[0]
        data = {"mail": mail} if mail and kind == "order" else {}
        self.people.update(data.values())
        if kind == OPPORTUNITY:
            nonce = f"opportunity:{nonce}:autumn:{tracker}"
            data = {"holdout": "autumn", "node": "ads", "withheld": False}
        operation = "create_event_sync" if waits else "create_event"
        self.try_twice(operation, nonce=nonce, event_type=kind, tracker_id=tracker, data=data)

    @rule(external=st.sampled_from(["call-1", "call-2"]), mail=st.sampled_from(MAILS))
    def offline(self, external, mail):
        self.try_twice(
            "create_offline_interaction", date="2025-01-31T12:00:00Z", external_id=external,
            userData={"email": mail}, nodeData={"vendorId": "ads", "campaignSlug": "spring"},
        )  # fmt: skip

    @rule(name=st.sampled_from(["buyers", "all"]))
    def audience(self, name):
        condition = {"type": "fields", "field": "email", "operator": "contains", "value": "x"}
        self.try_twice("create_audience", name=name, condition=condition)

    @rule(drawn=st.data())
    def merge(self, drawn):
        users = self.rows("SELECT _id FROM users ORDER BY _id")
        if len(users) > 1 and not self.is_calm:
            self.is_merged = True
            (first,), (second,) = drawn.draw(st.permutations(users))[:2]
            self.try_twice("merge_users", id=first, userId=second)

    @rule(drawn=st.data(), mode=st.sampled_from(["anonymise", "delete"]))
    def erase(self, drawn, mode):
        users = self.rows("SELECT _id FROM users ORDER BY _id")
        if users and len(self.arrivals) > 6 and not self.is_calm:
            self.is_changed = True
            self.try_twice("delete_user", id=drawn.draw(st.sampled_from(users))[0], mode=mode)

    @rule()
    def read(self):
        found = send(self.service, "search_interactions").read()
        assert len(set(found["_id"].to_pylist())) == found.num_rows

    @rule()
    def restart(self):
        self.service.close()
        self.service = Service.open("shop", self.file)
        self.service.renew_salt()

    def try_twice(self, operation, **arguments):
        for _ in range(2):
            # A refusal, such as of a merged user who is there no more, stores nothing.
            with suppress(AttribError):
                send(self.service, operation, **arguments)

    def rows(self, query):
        return rows_of(self.service, query)

    def teardown(self):
        if not hasattr(self, "service"):
            return
        with self.stack, closing(self.service):
            self.examine()

    def examine(self):
        stored = {
            id: tuple(rest)
            for id, *rest in self.rows("SELECT id, trackerId, serverDate, userAgent FROM hits")
        }
        assert send(self.service, "check_project").read().to_pylist() == []
        assert self.rows("SELECT count(*) FROM hits") == [(len(stored),)]
        assert self.rows("SELECT count(*) FROM pending_hits") == [(0,)]
        nonces = self.rows("SELECT count(*) - count(DISTINCT nonce) FROM raw_events")
        assert nonces == [(0,)]
        if not self.is_changed:
            assert stored.keys() == {record["id"] for record in self.arrivals}
            for id, found in stored.items():
                expected = chosen([record for record in self.arrivals if record["id"] == id])
                # A visit of the day may have joined that of a browser that agreed.
                assert found[1:] == expected[1:], (id, found, expected)
                assert found[0] == expected[0] or (is_of_day(expected[0]) and not is_of_day(found[0]))
            if not self.is_merged and len(self.people) < 2:
                self.compare_with_all_at_once()
            if self.are_pages_apart:
                self.send_everything_again()
        self.compare_with_one_load()

    def send_everything_again(self):
        """Send every hit again; nothing changes. If hits had several pages, it would tell more of their browsers."""
        before = self.rows(USERS), self.rows(HITS)
        for arrived in [self.service.start_hit(record) for record in self.arrivals]:
            arrived.result(SECONDS)
        after = self.rows(USERS), self.rows(HITS)
        assert after == before, (after, before)

    def compare_with_all_at_once(self):
        """Send every hit to a new project, the last one first, and then every event."""
        sent = self.rows("SELECT nonce, eventType, trackerId, data FROM raw_events ORDER BY md5(nonce)")
        with closing(prepared(":memory:")) as again:
            for arrived in [again.start_hit(record) for record in reversed(self.arrivals)]:
                arrived.result(SECONDS)
            for nonce, kind, tracker, data in sent:
                send(
                    again,
                    "create_event",
                    nonce=nonce,
                    event_type=kind,
                    tracker_id=tracker,
                    data=json.loads(data),
                )
            for query in (USERS, EVENTS):
                found, expected = self.rows(query), rows_of(again, query)
                assert found == expected, (found, expected)

    def compare_with_one_load(self):
        columns = 'id, trackerId, serverDate, userAgent, concat("pageUrl.origin", "pageUrl.pathname", "pageUrl.search")'
        # Those of anonymised users have no tracker any more, and cannot be loaded: see G-209.
        hits = self.rows(f"SELECT {columns} FROM hits WHERE trackerId IS NOT NULL ORDER BY md5(id)")
        records = [
            {
                "hitId": id, "trackerId": tracker, "date": date.replace(tzinfo=UTC).isoformat(),
                "userAgent": agent, "pageUrl": url,
            }
            for id, tracker, date, agent, url in hits
        ]  # fmt: skip
        sessions = (
            "SELECT list(id ORDER BY serverDate, id), any_value(startDate), any_value(endDate), any_value(hitCount), "
            "any_value(interactions.nodeId), any_value(firstHitId) FROM hits JOIN interactions "
            "ON sessionId = interactions._id WHERE trackerId IS NOT NULL GROUP BY interactions._id ORDER BY 1"
        )
        with closing(Service.open("shop", ":memory:")) as again:
            if records:
                send(again, "load_records", resource="hits", source=table(*records))
            with again._store.cursor() as cursor:
                expected = cursor.execute(sessions).fetchall()
        found = self.rows(sessions)
        assert found == expected, (found, expected)


def rows_of(service, query):
    service._hits.settle()
    service._ingestion.settle()
    with service._store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def is_of_day(tracker):
    return tracker.startswith(("day.", "page.", "hit."))


def chosen(records):
    """The tracker, date and user agent of the hit that counts: see G-247."""
    first = min(
        records,
        key=lambda record: (
            is_of_day(tracker := record["trackerId"].split(" ")[0]),
            record["serverDate"],
            tracker,
        ),
    )
    return first["trackerId"].split(" ")[0], first["serverDate"], first["userAgent"]


class Served(Embedded):
    """One project behind a server: dates are those of receipt, so that each hit is held against its id alone."""

    @initialize()
    def open(self):
        super().open(is_calm=True, are_pages_apart=False)
        self.service.close()
        self.serve()

    def serve(self):
        self.server = ExitStack()
        options = ServerOptions(rate_limits=None, behind_proxy=("127.0.0.1",))
        self.call = Caller(self.server.enter_context(running(self.folder, options=options)))

    @rule(drawn=visits, attempts=attempts)
    def view(self, drawn, attempts):
        for visit in ({**drawn, **each} for each in attempts):
            headers = {"X_Forwarded_For": visit["address"], "User_Agent": visit["agent"], **visit["signal"]}
            assert self.call("POST", "/c", json.dumps(body_of(visit)), **headers).status == 202
            is_kept = visit["keeps"] and not visit["signal"].get("sec-gpc")
            self.arrivals.append(
                {"id": uuid(visit["number"]), "browser": visit["browser"] if is_kept else None}
            )

    @rule(nonce=st.sampled_from(["n-1", "n-2"]), tracker=st.sampled_from([*BROWSERS, *PAGES]))
    def event(self, nonce, tracker):
        envelope = {
            "projectId": "shop",
            "eventType": "order",
            "nonce": nonce,
            "trackerId": tracker,
            "data": {},
        }
        for _ in range(2):
            assert self.call("POST", "/api/v1/events", json.dumps(envelope)).status in (200, 409)

    @rule()
    def restart(self):
        self.server.close()
        self.serve()

    offline = audience = merge = erase = read = None

    def teardown(self):
        if not hasattr(self, "server"):
            return
        with self.stack:
            self.server.close()
            with closing(Service.open("shop", self.file)) as self.service:
                self.examine()

    def examine(self):
        assert send(self.service, "check_project").read().to_pylist() == []
        stored = dict(self.rows("SELECT id, trackerId FROM hits"))
        assert self.rows("SELECT count(*) FROM hits") == [(len(stored),)]
        assert stored.keys() == {arrival["id"] for arrival in self.arrivals}
        for id, tracker in stored.items():
            browsers = {arrival["browser"] for arrival in self.arrivals if arrival["id"] == id} - {None}
            assert not browsers or tracker in browsers, (id, tracker, browsers)
        self.compare_with_one_load()


@dataclass
class Summary:
    examples: int
    problems: list[str] = field(default_factory=list)


def run(examples, number, *, steps=30, machines=(Embedded, Served)):
    """Play some examples with each machine, from a seed; return a summary."""
    summary = Summary(examples)
    for machine in machines:
        chosen_settings = settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if examples > 20 else [Phase.generate],
        )
        try:
            run_state_machine_as_test(seed(number)(machine), settings=chosen_settings)
        except Exception as error:  # noqa: BLE001  (each is a problem)
            summary.problems.append(f"{machine.__name__}: {type(error).__name__}: {error}")
    return summary


if __name__ == "__main__":
    raise SystemExit(
        run_from_command_line(
            run,
            lambda summary: [f"{summary.examples} examples of each machine"],
            times="examples",
            default=50,
            purpose="Play browsers and callers who repeat what they send, and examine what is stored.",
        )
    )
