"""How services that keep the specification may differ: `Variation`, and `VARIATIONS` by name."""

import tomllib
from collections.abc import Container
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from support.vendor.world import SERVICE

WRITES = [name for name, operation in SERVICE["operations"].items() if operation.get("write")]
CALLS = {"always": range(1, 10**9), "thirds": range(3, 10**9, 3)}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failure of some calls."""

    answer: int | str  # a status, or lost (carried out, no answer), dropped, or cut (half an answer)
    on: str = "all"  # all, reads, writes, token or the name of an operation
    calls: Container[int] = (1,)  # counted from 1, per operation or per equal request
    per: str = "operation"
    retry_after: str | None = None  # seconds, date (two seconds ahead), or any text
    carried_out: bool = False  # a status: after the operation instead of in its place

    def fails(self, operation: str, call: int) -> bool:
        """Tell whether a call of an operation fails."""
        kind = "token" if operation == "exchange_token" else "writes" if operation in WRITES else "reads"
        return call in self.calls and (self.on in (kind, operation) or (self.on == "all" and kind != "token"))


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One way to keep the specification; the defaults are the plainest reading of it."""

    write: tuple[int, str] = (200, "record")  # status and body of writes whose answer is not shown ([writes])
    every_write: bool = False  # the same where the specification shows another answer
    uuid: str = "bare"  # id of a new event: bare (JSON), plain (text) or upper (capitals)
    invalid_sync: int = 400  # an invalid event sent synchronously: 400, or 200 with its id
    repeated_nonce: int = 200  # a known nonce sent synchronously: 200 with the first id, or 409
    absent: int | None = None  # what is not in the specification; None: 404, or 405 where the path is known
    absent_body: str | None = None  # its body if not `error_body`
    error_body: str = "json"  # form of refusals ([errors])
    malformed: int = 400  # a malformed id where both 400 and 404 are listed
    faults: tuple[Fault, ...] = ()
    extra: bool = False  # unknown fields in every record, page and nested object
    missing: tuple[str, ...] = ()  # patterns such as interactions.nodeId; *.* leaves what is [essential]
    missing_as: str = "absent"  # absent or null
    missing_every: int = 1  # in one of about so many records
    duration: str = "exact"  # of sessions: exact, off (by a millisecond), whole (seconds) or absent
    dates: str = "z"  # z, plain, offset, mixed, lower, nanoseconds or naive
    ids: str = "hex"  # where the specification says string: hex, numeric or strange
    builtins: bool = True  # event-count and delays of states among the metrics of an event
    event_object: str = (
        "values"  # content of `event`: values, metric (raw and current), empty, or list (an empty one)
    )
    keys: str = "nested"  # of projections: nested, or flat such as geo.city
    always_id: bool = True  # _id beside a projection that does not name it
    reduced: bool = True  # a field of several values is reduced to an array of one
    shuffle: bool = False  # another order in each answer, as far as no sort is given
    page_cap: int | None = None  # larger pages are silently shortened
    page_limit: int | None = None  # larger pages are refused
    page_refusal: int = 400  # with this status
    zeros: str = "rows"  # of event insights: rows, none, or sparse (neither rows nor values)
    labels: str = "iso"  # iso, start (a date-time), number, or native (numbers and flags)
    event_type_as: str = "reference"  # identifier in event insights: reference, _id or name
    export: str = "file"  # file, login, json, empty or stale (a file of other columns)
    export_type: str | None = None  # its Content-Type
    export_dialect: str = "plain"  # plain, bom or semicolon
    token: str = "reference"  # members of the token's answer ([tokens])
    token_uses: int | None = None  # requests until a token has expired
    token_required: str = "all"  # all, or listed (not for events, campaigns and outlays)
    token_redirect: int | None = None  # the token route redirects with this status
    clock_off: float = 0  # seconds that the service's clock is ahead
    assertion_ahead: float = 86_400  # seconds that exp may be ahead
    gzip: bool = False
    delay: float = 0  # seconds before each answer
    head: int | None = None  # answer to every HEAD; None: as for what is absent
    prefix: str = ""  # inserted after /api/v1, /api/v2 and /auth


def _read(row):
    faults = tuple(Fault(**f | {"calls": CALLS.get(f.get("calls"), (1,))}) for f in row.pop("faults", []))
    return Variation(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}, faults=faults)


def _table():
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    answers = [*product((200, 201, 202), SERVICE["writes"]), (204, "empty")]
    for (status, form), every in product(answers, (False, True)):
        name = f"{'every-' if every else ''}write-{status}-{form}"
        rows[name] = {"write": (status, form), "every_write": every}
    for status, on in product((408, 425, 429, 500, 502, 503, 504), ("reads", "writes")):
        for after in (None, "0", "date", "soon"):
            fault = {"answer": status, "on": on, "retry_after": after}
            rows[f"{status}-{on}" + (f"-after-{after}" if after else "")] = {"faults": [fault]}
        rows[f"{status}-{on}-carried-out"] = {"faults": [{"answer": status, "on": on, "carried_out": True}]}
    for answer, on in product(("lost", "cut", "dropped"), ("reads", "writes", *WRITES)):
        rows[f"{answer}-{on}"] = {"faults": [{"answer": answer, "on": on}]}
    for option, value in rows.pop("each").items():
        rows |= {f"{option.replace('_', '-')}-{one}": {option: one} for one in value}
    for status in (400, 401, 403, 407, 429, 500, 503):
        rows[f"token-{status}"] = {"faults": [{"answer": status, "on": "token", "calls": "always"}]}
    return {"plain": Variation()} | {name: _read(row) for name, row in rows.items()}


VARIATIONS: dict[str, Variation] = _table()
