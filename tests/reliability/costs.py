"""Searches for inputs of 16 KiB that cost more processor time than such inputs may.

    PYTHONPATH=tests nice python -m reliability.costs --examples 2000

Their size is fixed and their shape is drawn: labels, nesting, repetitions, unusual scripts. Hypothesis looks for
the dearest ones. What counts is the processor time beyond that of plain text of the same size, since opening a
table costs the same for any file, and the processor time inside of transactions.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import uuid4

from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import strategies as st
from support.order_events import declare_order
from support.service_records import table, visit

from attrib_ds.contract import OPERATIONS, from_wire
from attrib_ds.contract.interactions import read_hit
from attrib_ds.errors import AttribError
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.service import Service
from attrib_ds.service.collection.hits import HitIntake, pending_hit
from attrib_ds.service.http import limits
from attrib_ds.service.loading import load_records
from attrib_ds.service.store.store import Store
from attrib_ds.traffic import agents, channel_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 16 * 1024
MOST_SECONDS = 0.05
#: A query has 8 KiB at most, and each of some 2,500 constants costs as much as the others.
MOST_SECONDS_OF_QUERY = 0.3
#: Longest query.
LONGEST_QUERY = 8 * 1024
MOST_SECONDS_OF_TRANSACTION = 0.1

WORDS = [
    *"aA0.,:;/\\?&=#%@!~^*+-_|$<>'\"`()[]{} \t",
    *(
        "\r\n",
        "%25",
        "%2e",
        "//",
        "://",
        "..",
        "&utm_source=",
        "?utm_campaign=",
        "gclid=",
        "www.",
        "xn--",
        "de.",
    ),
    *(
        "google.",
        "co.uk.",
        "com.",
        "cp",
        "shop",
        "Android ",
        "Mobi",
        "AppleWebKit/537.36 ",
        "rv:1",
        "Chrome/",
    ),
    *(
        "bot",
        "Linux ",
        "Windows NT ",
        "arm",
        "64",
        "1e9",
        "-0.",
        "NaN",
        "null",
        "İ",
        "ß",
        "ﬃ",
        "ﷺ",
        "é",
        "e\u0301",
    ),
    *(
        "漢",
        "ع",
        "क्ष",
        "😀",
        "👩‍👩‍👧",
        "\u202e",
        "\u200d",
        "\u0345",
        "Ω",
        "ς",
        "\u1e9e",
        "\U0001d400",
        "\ufeff",
    ),
    *(
        "SELECT ",
        "FROM users ",
        " AND ",
        " OR ",
        "NOT ",
        "IN (",
        "CASE WHEN ",
        "LIKE '%",
        "(a|b)*",
        ".*",
        "[a-z]+",
    ),
    *("\\1", "\\u0000", '\\"', "--", "/*", "$$", "WITH ", "UNION ALL ", "JOIN ", "1+", "array[", "::text"),
]
PATTERNS = st.lists(
    st.sampled_from(WORDS) | st.text(st.characters(codec="utf-8"), max_size=3), min_size=1, max_size=4
)


@st.composite
def texts(draw: st.DrawFn, size: int = SIZE) -> str:
    """Runs of repeated patterns, together of the size."""
    runs = draw(st.lists(st.tuples(PATTERNS.map("".join), st.integers(1, size)), min_size=1, max_size=4))
    parts = [pattern * max(1, count // max(1, len(pattern))) for pattern, count in runs]
    whole = "".join(parts) or "a"
    return (whole * (size // len(whole) + 1))[:size]


@st.composite
def values(draw: st.DrawFn, size: int = SIZE) -> str:
    """JSON of about the size: deep, wide, long numbers, many or equal keys, and texts."""
    kind = draw(st.sampled_from(["deep", "objects", "wide", "keys", "number", "mixed", "text"]))
    text = json.dumps(draw(texts(size // 2)))
    if kind == "deep":
        return "[" * (size // 2) + "]" * (size // 2)
    if kind == "objects":
        return '{"a":' * (size // 6) + "1" + "}" * (size // 6)
    if kind == "wide":
        return f"[{','.join(['1'] * (size // 2))}]"
    if kind == "keys":
        step = draw(st.integers(0, 1))
        members = (f'"k{number * step}":1' for number in range(size // 8))
        return "{" + ",".join(members) + "}"
    if kind == "number":
        return draw(st.sampled_from(["", "-", "0.", "1e"])) + "9" * (size - 4)
    if kind == "mixed":
        return f"[{text},{'[' * 400}{']' * 400}]"
    return text


def _json(**members: Any) -> bytes:
    return json.dumps(members).encode()


HITS = st.builds(
    lambda name, text, host: _json(
        projectId="shop",
        pageUrl="https://shop.example/" + "".join(text.split())
        if name == "pageUrl"
        else "https://shop.example/",
        referrer=f"https://{host}{text}" if name == "referrer" else "",
        agent=text if name == "agent" else "",
    ),
    st.sampled_from(["pageUrl", "referrer", "agent"]),
    texts(SIZE - 200) | texts(2_000),
    st.sampled_from(["", "news.example/?"]),
)
EVENTS = st.builds(
    lambda member, value: (
        '{"projectId":"shop","eventType":"order","nonce":"n","data":'
        + (f'{{"mail":"anna@example.com","{member}":{value}}}}}' if member else f"{value}}}")
    ).encode(),
    st.sampled_from(["", "mail", "phone", "items", "turnover", "unheard"]),
    values(SIZE - 200),
)
#: Predicates: nested, repeated, with long values and patterns.
PREDICATE = '{{"id":"1","type":"predicate","field":"{}","operator":"{}","value":{}}}'
NAMES = st.sampled_from(["geo.city", "referrer", "hitCount", "startDate", "userData.email", "nodeId"])
OPERATORS = st.sampled_from(
    [
        "equals",
        "contains",
        "matches",
        "startsWith",
        "in",
        "=",
        "~",
        "is",
        "notEquals",
        "greaterThan",
        "between",
    ]
)


@st.composite
def filters(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["one", "many", "nested", "any"]))
    name, operator = draw(NAMES), draw(OPERATORS)
    if kind == "any":
        return f'{{"interactionFilter":{draw(values())}}}'.encode()
    if kind == "one":
        rule = PREDICATE.format(name, operator, draw(values(SIZE - 200)))
    else:
        small = PREDICATE.format(name, operator, json.dumps(draw(texts(draw(st.integers(1, 60))))))
        count = SIZE // (len(small) + 60)
        joint = '{{"id":"1","type":"condition","condition":"{}","rules":[{}]}}'
        word = draw(st.sampled_from(["AND", "OR"]))
        if kind == "many":
            rule = joint.format(word, ",".join([small] * count))
        else:
            rule = small
            for _ in range(min(count, 25)):
                rule = joint.format(word, rule)
    return f'{{"interactionFilter":{rule}}}'.encode()


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    """Queries of users: of any text, and well-formed ones that are wide, deep or long."""
    kind = draw(st.sampled_from(["any", "or", "in", "deep", "from", "text", "functions", "case", "union"]))
    column = draw(st.sampled_from(["_id", "eventCount", "createdAt", "1"]))
    size = draw(st.sampled_from([LONGEST_QUERY - 200, LONGEST_QUERY // 4, 500]))
    word = json.dumps(draw(texts(20)))[1:-1].replace("'", "")
    shapes = {
        "any": draw(st.sampled_from(["", " WHERE ", " WHERE _id = '", " ORDER BY ", ", "]))
        + draw(texts(size)),
        "or": " WHERE " + " OR ".join([f"{column} = 1"] * (size // 16)),
        "in": f" WHERE {column} IN ({','.join(['1'] * (size // 2))})",
        "deep": f" WHERE {'(' * (size // 2)}{column}{')' * (size // 2)} = 1",
        "from": "".join(f" JOIN users AS u{number} USING (_id)" for number in range(size // 32)),
        "text": f" WHERE _id LIKE '{(word + '%') * (size // (len(word) + 1))}'",
        "functions": f" WHERE {'abs(' * (size // 5)}{column}{')' * (size // 5)} > 1",
        "case": f" ORDER BY CASE {'WHEN eventCount > 1 THEN 2 ' * (size // 27)} END",
        "union": " UNION ALL SELECT _id FROM users" * (size // 32),
    }
    return _json(fields=["_id"], sqlQuery=f"SELECT _id FROM users{shapes[kind]}")


FILES = st.builds(
    lambda kind, head, text: (kind, head + text),
    st.sampled_from(
        ["nodes.csv", "nodes.ndjson", "hits.csv", "access.log", "events.ndjson", "interactions.csv"]
    ),
    st.sampled_from(["", "_id,type,name\n", "trackerId,date,pageUrl\n", "_id,nodeId\n", '{"_id":', "[{"]),
    texts(SIZE) | values(),
)


class Project:
    """A project whose transactions are timed."""

    def __init__(self) -> None:
        self.store = Store.open(":memory:", "shop")
        self.service = Service(self.store, ":memory:")
        self.intake = HitIntake(self.store)
        self.seconds = 0.0
        declare_order(self.service)
        load_records(self.store, "interactions", table(*(visit(number) for number in range(1, 100))))

    def close(self) -> None:
        self.service.close()

    def timed(self, write: Callable[..., Any], job: Callable[..., Any]) -> Any:
        def timed(connection: Any) -> Any:
            began = time.process_time()
            try:
                return job(connection)
            finally:
                self.seconds = max(self.seconds, time.process_time() - began)

        return write(timed)

    def hit(self, content: bytes) -> None:
        values = limits.parse(content) or {}
        agent = values.pop("agent", None) or "Firefox/130.0"
        record = pending_hit(read_hit(values), id=str(uuid4()), tracker_id=str(uuid4()), user_agent=agent)
        prepared = self.intake._prepare([record])
        self.store.write(lambda connection: self.intake._write(connection, prepared))

    def event(self, content: bytes) -> None:
        # Each time another event.
        self._send("create_event_sync", content.replace(b'"nonce":"n"', f'"nonce":"{uuid4()}"'.encode()))

    def filter(self, content: bytes) -> None:
        self._send("search_interactions", content)

    def sql(self, content: bytes) -> None:
        self._send("search_users", content)

    def _send(self, name: str, content: bytes) -> None:
        operation = OPERATIONS[name]
        request = from_wire(operation, path={"projectId": "shop"}, query=None, body=limits.parse(content))
        self.service.send(operation, request)

    def file(self, content: tuple[str, str]) -> None:
        name, text = content
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_text(text, encoding="utf-8", newline="")
            source = AccessLog(path, site="https://shop.example") if name == "access.log" else path
            load_records(self.store, name.split(".")[0].replace("access", "hits"), source)


#: What is drawn, and plain inputs of the same size.
TARGETS: dict[str, tuple[st.SearchStrategy[Any], list[Any]]] = {
    "hit": (HITS, [_json(projectId="shop", pageUrl="https://shop.example/" + "a" * 2_000)]),
    "event": (
        EVENTS,
        [
            _json(
                projectId="shop",
                eventType="order",
                nonce="n",
                data={"mail": "anna@example.com", "unheard": "a" * (SIZE - 200)},
            )
        ],
    ),
    "filter": (
        filters(),
        [
            f'{{"interactionFilter":{PREDICATE.format("geo.city", "equals", json.dumps("a" * 4_000))}}}'.encode()
        ],
    ),
    "sql": (queries(), [_json(fields=["_id"], sqlQuery="SELECT _id FROM users")]),
    "file": (
        FILES,
        [
            ("nodes.csv", "_id,type,name\n" + "ads,campaign,aaaaaaaaaaaaaaaaaaaaaaa\n" * 400),
            (
                "hits.csv",
                "trackerId,date,pageUrl\n" + "t,2025-01-31T12:00:00Z,https://shop.example/a\n" * 330,
            ),
            ("interactions.csv", "_id,nodeId\n" + "a,ads\n" * 2_700),
        ],
    ),
}


@dataclass
class Costs:
    """The dearest inputs that were found."""

    target: str
    worst: list[tuple[float, float, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, seconds: float, of_transaction: float, content: Any) -> None:
        self.worst = sorted([*self.worst, (seconds, of_transaction, content)], key=_rank, reverse=True)[:3]


def _rank(found: tuple[float, float, Any]) -> float:
    return max(found[0] / MOST_SECONDS, found[1] / MOST_SECONDS_OF_TRANSACTION)


def measure(run: Callable[[Any], None], content: Any, project: Project | None = None) -> tuple[float, float]:
    """Return the processor time of an input, and of its longest transaction."""
    agents.is_bot.cache_clear()
    agents.describe.cache_clear()
    channel_rules.default_channel.cache_clear()
    channel_rules.default_channel()
    if project is not None:
        project.seconds = 0.0
    gc.collect(0)
    began = time.process_time()
    with suppress(AttribError):
        run(content)
    return time.process_time() - began, 0.0 if project is None else project.seconds


def search(
    name: str,
    strategy: st.SearchStrategy[Any],
    run: Callable[[Any], None],
    *,
    plain: float,
    examples: int,
    project: Project | None = None,
) -> Costs:
    """Look for the dearest inputs; ``plain`` is the processor time of a plain one."""
    costs = Costs(name)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def attempt(content: Any) -> None:
        try:
            seconds, of_transaction = measure(run, content, project)
        except Exception as error:  # noqa: BLE001  (any fault is reported)
            costs.faults.append(f"{name}: {type(error).__name__}: {str(error)[:200]}: {str(content)[:120]}")
            return
        target(seconds, label="seconds")
        costs.add(seconds - plain, of_transaction, content)

    attempt()
    # Once more, and the least counts: another process may have disturbed.
    again = [[measure(run, content, project) for _ in range(8)] for *_, content in costs.worst]
    costs.worst = [
        (min(seconds for seconds, _ in runs) - plain, min(other for _, other in runs), content)
        for runs, (*_, content) in zip(again, costs.worst, strict=True)
    ]
    return costs


def problems(costs: Costs, *, times: float = 1.0) -> Iterator[str]:
    """Tell what is too dear: what costs more than the limits, times a factor for a busy machine."""
    yield from dict.fromkeys(costs.faults)
    for seconds, of_transaction, content in costs.worst:
        shown = f"{str(content)[:150]} … {str(content)[-60:]}"
        if seconds > times * (MOST_SECONDS_OF_QUERY if costs.target == "sql" else MOST_SECONDS):
            yield f"{costs.target}: {seconds * 1e3:.0f} ms: {shown}"
        if of_transaction > times * MOST_SECONDS_OF_TRANSACTION:
            yield f"{costs.target}: {of_transaction * 1e3:.0f} ms in a transaction: {shown}"


def run(names: list[str], *, examples: int, times: float = 1.0) -> tuple[list[str], list[Costs]]:
    """Return what is wrong, and the dearest inputs by target."""
    found, told = [], []
    for name in names:
        strategy, plain = TARGETS[name]
        with closing(Project()) as project:
            write = project.store.write
            with mock.patch.object(project.store, "write", partial(project.timed, write)):
                act = getattr(project, name)
                for content in plain:
                    measure(act, content, project)
                usual = max(min(measure(act, content, project)[0] for _ in range(3)) for content in plain)
                costs = search(name, strategy, act, plain=usual, examples=examples, project=project)
        told.append(costs)
        found += problems(costs, times=times)
    return found, told


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=1_000)
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    arguments = parser.parse_args()
    found, told = run(arguments.targets, examples=arguments.examples)
    for costs in told:
        for seconds, of_transaction, content in costs.worst:
            print(
                f"{costs.target}: {seconds * 1e3:.1f} ms beyond plain, {of_transaction * 1e3:.1f} ms in a transaction: {str(content)[:100]!r}"
            )
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
