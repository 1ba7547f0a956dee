"""How services that keep the specification may differ: `Variation`, and `VARIATIONS` by name."""

from collections.abc import Container
from dataclasses import dataclass

ALWAYS = range(1, 1_000_000_000)
WRITES = (
    "create_offline_interaction",
    "create_event",
    "create_event_sync",
    "update_event_state",
    "update_event_statistic",
    "create_event_type",
    "create_campaign",
    "update_campaign",
    "create_outlay",
    "update_outlay",
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failure of some calls.

    `answer` is a status, or "lost" (carried out, and the connection closes without an answer), "dropped" (the
    same, but not carried out) or "cut" (the answer breaks off). `on` is all, reads, writes, token or the name of an
    operation. `calls` are the failing calls, counted from 1 per operation or, with `per="request"`, per equal request.
    A status is answered instead of the operation, or after it if `carried_out`.
    """

    answer: int | str
    on: str = "all"
    calls: Container[int] = (1,)
    per: str = "operation"
    retry_after: str | None = None  # seconds, "date" for a date two seconds ahead, or any text
    carried_out: bool = False

    def fails(self, operation: str, call: int) -> bool:
        """Tell whether a call of an operation fails."""
        kind = "token" if operation == "exchange_token" else "writes" if operation in WRITES else "reads"
        return call in self.calls and (self.on in (kind, operation) or (self.on == "all" and kind != "token"))


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One way to keep the specification; the defaults are the plainest reading of it."""

    # Writes
    write: tuple[int, str] = (200, "record")  # status and body (see `Vendor.written`) where none is shown
    every_write: bool = False  # the same where the specification shows another answer
    uuid: str = "json"  # the id of a new event: json, text or upper (capitals)
    invalid_sync: int = 400  # an invalid event sent synchronously: 400, or 200 with its id
    repeated_nonce: int = 200  # a known nonce sent synchronously: 200 with the first id, or 409
    # Refusals
    absent: int | None = None  # for what is not in the specification; None: 404, or 405 where the path is known
    absent_body: str | None = None  # its body, if not `error_body`
    error_body: str = "json"  # json, sentences, nested, list, problem, text, html or empty
    malformed: int = 400  # for a malformed id, where both 400 and 404 are listed
    faults: tuple[Fault, ...] = ()
    # Records
    extra: bool = False  # unknown fields in every record, page and nested object
    missing: tuple[str, ...] = ()  # patterns such as "interactions.nodeId" or "*.*" (all but the essential ones)
    missing_as: str = "absent"  # absent or null
    missing_every: int = 1  # in about one of so many records
    duration: str = "exact"  # of sessions: exact, off (by a millisecond), whole (seconds) or absent
    dates: str = "z"  # z, plain, offset, mixed, lower, nanoseconds or naive
    ids: str = "hex"  # where the specification says string: hex, numeric or strange
    builtins: bool = True  # event-count and state delays among the metrics of an event
    event_object: str = "values"  # content of `event`: values, metric (raw and current) or empty
    # Selection
    keys: str = "nested"  # of projections: nested or flat ("geo.city")
    always_id: bool = True  # _id beside a projection that does not name it
    reduced: bool = True  # a field of several values is reduced to an array of one
    shuffle: bool = False  # rows in another order in each answer, as far as no sort is given
    page_cap: int | None = None  # larger pages are silently shortened
    page_limit: int | None = None  # larger pages are refused
    page_refusal: int = 400  # with this status
    # Insights
    zeros: str = "rows"  # rows for intervals without events, none, or no zeros in values (sparse)
    labels: str = "iso"  # iso, start (a date-time), number or native (numbers and flags)
    event_type_as: str = "reference"  # identifier in event insights: reference, id or name
    # Export
    export: str = "file"  # file, login, json, empty or stale (a file of other columns)
    export_type: str | None = None  # Content-Type
    export_dialect: str = "plain"  # plain, bom, semicolon or quoted
    # Tokens
    token: str = "reference"  # members of the answer: reference, lean or verbose
    token_uses: int | None = None  # requests after which a token has expired
    token_required: str = "all"  # all, or listed (not for events, campaigns and outlays)
    token_redirect: int | None = None  # status of a redirect to /login/oidc/token
    clock_off: float = 0  # seconds that the service is ahead
    assertion_ahead: float = 86_400  # seconds that exp may be ahead
    # Transport
    gzip: bool = False
    delay: float = 0
    head: int | None = None  # answer to every HEAD; None: as for what is absent
    prefix: str = ""  # part before the names of collections in every path, such as "/v"


def _writes() -> dict[str, Variation]:
    bodies = ("record", "id", "_id", "bare", "modified", "true", "null", "text", "object", "envelope", "empty")
    answers = [(status, body) for status in (200, 201, 202) for body in bodies] + [(204, "empty")]
    varied = {f"write-{status}-{body}": Variation(write=(status, body)) for status, body in answers}
    every = {f"every-{name}": Variation(write=v.write, every_write=True) for name, v in varied.items()}
    lost = {f"lost-{name}": Variation(faults=(Fault(answer="lost", on=name),)) for name in ("writes", *WRITES)}
    cut = {f"cut-{name}": Variation(faults=(Fault(answer="cut", on=name),)) for name in WRITES}
    return {**varied, **every, **lost, **cut}


def _refusals() -> dict[str, Variation]:
    bodies = ("json", "sentences", "nested", "list", "problem", "text", "html", "empty")
    varied = {f"absent-{status}": Variation(absent=status) for status in (404, 405, 410, 501, 401, 403)}
    varied |= {f"gateway-{status}": Variation(absent=status, absent_body="html") for status in (401, 403, 404)}
    varied |= {f"errors-{body}": Variation(error_body=body) for body in bodies}
    for status in (408, 425, 429, 500, 502, 503, 504):
        for name, after in (("", None), ("-after-0", "0"), ("-after-date", "date"), ("-after-text", "soon")):
            for on in ("reads", "writes"):
                fault = Fault(answer=status, on=on, retry_after=after)
                varied[f"{status}{name}-{on}"] = Variation(faults=(fault,))
        done = Fault(answer=status, on="writes", carried_out=True)
        varied[f"{status}-carried-out"] = Variation(faults=(done,))
    for status in (400, 401, 403, 407, 429, 500, 503):
        varied[f"token-{status}"] = Variation(faults=(Fault(answer=status, on="token", calls=ALWAYS),))
    return varied


VARIATIONS: dict[str, Variation] = {
    "plain": Variation(),
    **_writes(),
    **_refusals(),
    "dropped-writes": Variation(faults=(Fault(answer="dropped", on="writes"),)),
    "dropped-reads": Variation(faults=(Fault(answer="dropped", on="reads"),)),
    "cut-reads": Variation(faults=(Fault(answer="cut", on="reads", per="request"),)),
    "every-third-fails": Variation(faults=(Fault(answer=503, on="reads", calls=range(3, 10**9, 3)),)),
    "lost-then-409": Variation(repeated_nonce=409, faults=(Fault(answer="lost", on="create_event_sync"),)),
    "repeated-nonce-409": Variation(repeated_nonce=409),
    "invalid-sync-200": Variation(invalid_sync=200),
    "malformed-404": Variation(malformed=404),
    "uuid-as-text": Variation(uuid="text"),
    "uuid-upper": Variation(uuid="upper"),
    "extra-fields": Variation(extra=True),
    "optional-absent": Variation(missing=("*.*",)),
    "optional-null": Variation(missing=("*.*",), missing_as="null"),
    "optional-mixed": Variation(missing=("*.*",), missing_every=3),
    "no-created-at": Variation(missing=("*.createdAt", "*.updatedAt")),
    "no-node": Variation(missing=("interactions.nodeId",), missing_every=3),
    "no-node-null": Variation(missing=("interactions.nodeId",), missing_as="null", missing_every=3),
    "no-user": Variation(missing=("interactions.userId",), missing_every=3),
    "no-event-user": Variation(missing=("events.userId",), missing_every=3),
    "no-end": Variation(missing=("interactions.endDate",), missing_every=3),
    "duration-off": Variation(duration="off"),
    "duration-whole": Variation(duration="whole"),
    "duration-absent": Variation(duration="absent"),
    **{f"dates-{d}": Variation(dates=d) for d in ("plain", "offset", "mixed", "lower", "nanoseconds", "naive")},
    "ids-numeric": Variation(ids="numeric"),
    "ids-strange": Variation(ids="strange"),
    "no-builtins": Variation(builtins=False),
    "event-as-metric": Variation(event_object="metric"),
    "event-empty": Variation(event_object="empty"),
    "flat-keys": Variation(keys="flat"),
    "only-named-keys": Variation(always_id=False),
    "all-field-values": Variation(reduced=False),
    "unsorted": Variation(shuffle=True),
    **{f"cap-{n}": Variation(page_cap=n) for n in (7, 100)},
    **{f"cap-{n}-unsorted": Variation(page_cap=n, shuffle=True) for n in (7, 100)},
    **{f"limit-1000-{status}": Variation(page_limit=1000, page_refusal=status) for status in (400, 413, 504)},
    **{f"limit-100-{status}": Variation(page_limit=100, page_refusal=status) for status in (400, 413, 504)},
    "insights-no-zero-rows": Variation(zeros="none"),
    "insights-sparse": Variation(zeros="sparse"),
    **{f"labels-{labels}": Variation(labels=labels) for labels in ("start", "number", "native")},
    **{f"event-types-by-{name}": Variation(event_type_as=name) for name in ("id", "name")},
    **{f"export-{form}": Variation(export=form) for form in ("login", "json", "empty", "stale")},
    **{f"export-{form}": Variation(export_dialect=form) for form in ("bom", "semicolon", "quoted")},
    "export-octets": Variation(export_type="application/octet-stream"),
    "export-untyped": Variation(export_type=""),
    "token-lean": Variation(token="lean"),
    "token-verbose": Variation(token="verbose"),
    "token-short": Variation(token_uses=5),
    "token-listed": Variation(token_required="listed"),
    **{f"token-redirect-{status}": Variation(token_redirect=status) for status in (301, 302, 307, 308)},
    "clock-ahead": Variation(clock_off=600),
    "clock-behind": Variation(clock_off=-600, assertion_ahead=600),
    "gzip": Variation(gzip=True),
    "slow": Variation(delay=0.05),
    **{f"head-{status}": Variation(head=status) for status in (200, 403, 404, 405, 501)},
    "other-paths": Variation(prefix="/r"),
    "odd-in-every-way": Variation(
        write=(202, "empty"), every_write=True, extra=True, missing=("*.*",), missing_every=2, missing_as="null",
        duration="off", dates="mixed", ids="strange", keys="flat", always_id=False, shuffle=True, page_cap=100,
        zeros="none", labels="native", gzip=True, absent=405, error_body="nested", token="lean", token_uses=50
    ),
}  # fmt: skip
