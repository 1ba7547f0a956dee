"""Requests, and what one may bring: how often a client sends them, how large a body, how many values."""

from __future__ import annotations

import ipaddress
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request, empty_receive
from starlette.types import Receive, Scope

from attrib_ds import instants
from attrib_ds.contract.json_values import DEEPEST, is_deeper
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.records.json_records import decode
from attrib_ds.service.http.errors import HttpError, busy
from attrib_ds.service.http.reads import ThreadPool

MEBIBYTE: Final = 2**20
#: Maximum number of commas and opening brackets in a JSON body, which bounds the number of its values. No
#: other thread runs while they are parsed, which takes up to a fifth of a second.
_MOST_VALUES: Final = 250_000
#: Memory of a parsed value, about.
_BYTES_PER_VALUE: Final = 64
_MOST_PARAMETERS: Final = 100
_KINDS: Final = {type(None): "null", list: "an array", dict: "an object", str: "text", bool: "a boolean"}
#: Number of buckets from which on full ones are dropped.
_MOST_BUCKETS: Final = 10_000


class ServiceRequest(Request):
    """A request to the service.

    Attributes
    ----------
    id : str
        Its id, in the log and in the response.
    rate_headers : mapping of str to str
        What is left of the client's rate limits; added to every response, errors included.
    operation : str
        What answers it, in metrics.
    received : datetime
        When it arrived.
    """

    id: str = ""
    rate_headers: Mapping[str, str] = MappingProxyType({})
    operation: str = "none"

    def __init__(self, scope: Scope, receive: Receive = empty_receive) -> None:
        super().__init__(scope, receive)
        self.received = instants.now()

    @property
    def address(self) -> str:
        """Address of the client; behind a trusted proxy the one that it forwards."""
        return self.client.host if self.client else ""


class Rate(NamedTuple):
    """A number of requests, events or hits per period of seconds, with a burst of the same size."""

    amount: int
    seconds: float


#: Rate limits by their name in the headers: requests, and those among them that are heavy, per account and
#: project; events and hits per project and per client address.
RATES: Final[Mapping[str, Rate]] = {
    "requests": Rate(600, 60),
    "heavy": Rate(60, 60),
    "events": Rate(200, 1),
    "events-by-address": Rate(50, 1),
    "hits": Rate(1_000, 1),
    "hits-by-address": Rate(50, 1),
}


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of a server.

    Parameters
    ----------
    rate_limits : mapping of str to Rate, optional
        Rate limits by name; None for no limits. A kind that it leaves out has none.
    sql : bool, default True
        Whether accounts with the scope may search users by SQL.
    new_keys : bool, default True
        Whether accounts with the scope may create keys.
    geo, asn : Path, optional
        MMDB files in which the address of each hit is looked up at receipt; None for no look-up.
    max_page_size : int, optional
        Maximum number of records of a page, also for requests without a limit; None for no maximum.
    behind_proxy : tuple of str
        Addresses and networks of reverse proxies, whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are
        trusted. None by default: the headers are ignored.
    metrics : tuple of str and int, optional
        Address and port of metrics for Prometheus; none by default.
    threads : int, default 32
        Maximum number of concurrent requests that are not reads.
    reads : int, default 4
        Maximum number of concurrent reads; they never use the threads above.
    streams : int, default 2
        Maximum number of long answers (unlimited searches, exports) that an account receives at once; further
        ones wait for one to end.
    most_waiting : int, default 400
        Maximum number of requests, and of reads, waiting for a thread; further ones get 503.
    seconds_to_read : float, default 30
        Time limit of a read until its answer begins, waiting included, and for each portion of a streamed
        answer after that.
    body_mebibytes : int, default 256
        Memory for request bodies in flight, parsed values included; beyond it, requests get 503. Requests
        without a token may use half of it.
    """

    rate_limits: Mapping[str, Rate] | None = field(default_factory=lambda: RATES)
    sql: bool = True
    new_keys: bool = True
    geo: Path | None = None
    asn: Path | None = None
    max_page_size: int | None = None
    behind_proxy: tuple[str, ...] = ()
    metrics: tuple[str, int] | None = None
    threads: int = 32
    reads: int = 4
    streams: int = 2
    most_waiting: int = 400
    seconds_to_read: float = 30
    body_mebibytes: int = 256


@dataclass(frozen=True)
class Claim:
    """Requests or events to take out of one bucket.

    Parameters
    ----------
    name : str
        Name of the rate limit.
    caller : str
        Whose bucket it is.
    amount : int, default 1
        Number of requests or events.
    may_borrow : bool, default False
        Whether one that is left in the bucket is enough for all; the caller then waits until the others have
        come back. Only for a bucket that no other caller shares.
    """

    name: str
    caller: str
    amount: int = 1
    may_borrow: bool = False


class Buckets:
    """Token buckets, one per rate limit and caller; not thread-safe.

    Parameters
    ----------
    rates : mapping of str to Rate, optional
        Rate limits by name; None for no limits. A kind that it leaves out has none.
    clock : callable, optional
        Returns seconds of a monotonic clock.

    Examples
    --------
    >>> buckets = Buckets({"two": Rate(2, 10)}, clock=lambda: 0.0)
    >>> buckets.take([Claim("two", "anna")])
    {'RateLimit-Policy': '"two";q=2;w=10', 'RateLimit': '"two";r=1;t=5'}
    """

    def __init__(self, rates: Mapping[str, Rate] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = rates or {}
        self._clock = clock
        # Level of each bucket, time of that level, and time when it will be full.
        self._levels: dict[tuple[str, str], tuple[float, float, float]] = {}

    def take(self, claims: Iterable[Claim]) -> dict[str, str]:
        """Take all claims, at most one per bucket, or none if one of them has to wait.

        Returns
        -------
        dict of str to str
            Headers that tell the caller what is left.

        Raises
        ------
        HttpError
            With 429 and the time to wait.
        """
        now = self._clock()
        if len(self._levels) >= _MOST_BUCKETS:
            self._levels = {key: state for key, state in self._levels.items() if state[2] > now}
        taken = []
        for claim in claims:
            rate = self._rates.get(claim.name)
            if rate is None:
                continue
            level, before, _ = self._levels.get((claim.name, claim.caller), (float(rate.amount), now, now))
            level = min(rate.amount, level + (now - before) * rate.amount / rate.seconds)
            needed = min(claim.amount, 1) if claim.may_borrow else claim.amount
            if level < needed:
                wait = max(_round_up((needed - level) * rate.seconds / rate.amount), 1)
                headers = _headers([(claim.name, rate, level)])
                raise HttpError(429, headers={**headers, "Retry-After": str(wait)})
            taken.append((claim, rate, level - claim.amount))
        for claim, rate, level in taken:
            full_at = now + _seconds_to_full(rate, level)
            self._levels[claim.name, claim.caller] = (level, now, full_at)
        return _headers([(claim.name, rate, level) for claim, rate, level in taken])


def network_of(address: str) -> str:
    """Return what counts as one client address: for IPv6 the 64 bits of a network, whose host picks the rest.

    Examples
    --------
    >>> network_of("203.0.113.7"), network_of("2001:db8::7"), network_of("::ffff:203.0.113.7")
    ('203.0.113.7', '2001:db8::', '203.0.113.7')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    # An IPv4 address may be written as an IPv6 address.
    return str(parsed.ipv4_mapped or ipaddress.IPv6Address(int(parsed) >> 64 << 64))


def _headers(states: Iterable[tuple[str, Rate, float]]) -> dict[str, str]:
    """Return the headers of buckets: their limits, what remains, and the seconds until they are full."""
    policies, items = [], []
    for name, rate, level in states:
        policies.append(f'"{name}";q={rate.amount};w={math.ceil(rate.seconds)}')
        items.append(f'"{name}";r={max(int(level), 0)};t={_round_up(_seconds_to_full(rate, level))}')
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(items)} if items else {}


def _seconds_to_full(rate: Rate, level: float) -> float:
    return (rate.amount - level) * rate.seconds / rate.amount


def _round_up(seconds: float) -> int:
    """Round up to whole seconds, ignoring floating-point error."""
    return math.ceil(round(seconds, 6))


class BodyBudget:
    """Memory that the bodies of all requests in flight share; not thread-safe.

    Requests without a token get half of it at most, so that they cannot keep out those with one.

    Parameters
    ----------
    most_bytes : int
        Size of the budget.

    Examples
    --------
    >>> budget = BodyBudget(100)
    >>> with budget.request(has_token=False) as memory:
    ...     memory.take(51)
    Traceback (most recent call last):
        ...
    attrib_ds.service.http.errors.HttpError: (503, '')
    """

    def __init__(self, most_bytes: int) -> None:
        self.left = most_bytes
        self.left_without_token = most_bytes // 2

    @contextmanager
    def request(self, *, has_token: bool) -> Iterator[BodyMemory]:
        """Give one request its memory, and take it back at the end of the block."""
        memory = BodyMemory(self, has_token)
        try:
            yield memory
        finally:
            memory.take(-memory.taken)


@dataclass
class BodyMemory:
    """Memory of one request's body, from :meth:`BodyBudget.request`."""

    budget: BodyBudget
    has_token: bool
    taken: int = 0

    def take(self, amount: int) -> None:
        """Take more bytes; raises 503 if the budget is used up."""
        budget = self.budget
        if amount > (budget.left if self.has_token else min(budget.left, budget.left_without_token)):
            raise busy()
        self.taken += amount
        budget.left -= amount
        if not self.has_token:
            budget.left_without_token -= amount


async def read(request: Request, *, most_bytes: int, memory: BodyMemory) -> bytes:
    """Return the body of a request.

    Parameters
    ----------
    request : Request
        Its body has not been read.
    most_bytes : int
        Maximum size of the body.
    memory : BodyMemory
        Memory of the request; the body is counted as it arrives.

    Returns
    -------
    bytes
        The whole body.

    Raises
    ------
    HttpError
        With 413 as soon as the body is too large; with 503 if the memory for bodies is used up.
    """
    if _content_length(request) > most_bytes:
        raise _too_large(most_bytes)
    body = bytearray()
    has_more = True
    while has_more:
        # `request.stream()` takes several times as long.
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        memory.take(len(chunk))
        body += chunk
        if len(body) > most_bytes:
            raise _too_large(most_bytes)
        has_more = message.get("more_body", False)
    return bytes(body)


def _content_length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length[:20]) if length.isdigit() else 0


def _too_large(most_bytes: int) -> HttpError:
    return HttpError(413, f"body: is too large; allowed: {most_bytes:,} bytes")


async def receive(
    request: Request, file: Path, *, pool: ThreadPool, memory: BodyMemory, most_bytes: int | None = None
) -> None:
    """Stream the body of a request to a file.

    Parameters
    ----------
    request : Request
        Its body has not been read.
    file : Path
        A new file.
    pool : ThreadPool
        Threads that write the file.
    memory : BodyMemory
        Memory of the request, for what is not written yet.
    most_bytes : int, optional
        Maximum size of the body.

    Raises
    ------
    HttpError
        With 413 if the body is larger than that or than the free disk space; with 503 if the memory for
        bodies is used up.
    Unavailable
        If the file cannot be written.
    """
    if _content_length(request) > shutil.disk_usage(file.parent).free:
        raise HttpError(413, "body: is larger than the disk of the service has room for")
    memory.take(MEBIBYTE)
    received = 0
    try:
        sink = await pool.run(file.open, "xb")
        try:
            buffer = bytearray()
            async for chunk in request.stream():
                buffer += chunk
                received += len(chunk)
                if most_bytes is not None and received > most_bytes:
                    raise _too_large(most_bytes)
                if len(buffer) >= MEBIBYTE:
                    await pool.run(sink.write, bytes(buffer))
                    buffer.clear()
            await pool.run(sink.write, bytes(buffer))
        finally:
            await pool.run(sink.close)
    except OSError as error:
        raise Unavailable(f"the body cannot be written: {error}") from error


def check_values(content: bytes, *, memory: BodyMemory) -> None:
    """Check the number of values of a JSON body before it is parsed, and count their memory.

    Parameters
    ----------
    content : bytes
        The body. Commas and brackets inside its texts count as well.
    memory : BodyMemory
        Memory of the request.

    Raises
    ------
    HttpError
        With 413 if there are too many; with 503 if the memory for bodies is used up.
    """
    values = content.count(b",") + content.count(b"[") + content.count(b"{")
    if values > _MOST_VALUES:
        raise HttpError(413, f"body: has too many values; allowed: {_MOST_VALUES:,} commas and brackets")
    memory.take(values * _BYTES_PER_VALUE)


def parse(content: bytes, *, is_array: bool = False) -> Any:
    """Parse a JSON object or array; None for an empty body.

    Parameters
    ----------
    content : bytes
        The body.
    is_array : bool, default False
        Whether to expect an array instead of an object.

    Returns
    -------
    mapping or list, optional
        The object or array.

    Raises
    ------
    InvalidRequest
        If it is not JSON or of the wrong kind.

    Examples
    --------
    >>> parse(b'{"limit": 1}')
    {'limit': 1}
    >>> parse(b"null")
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: body: null is not allowed; expected an object
    """
    if not content.strip():
        return None
    # An array may hold items that are too deep: these alone are refused.
    levels = DEEPEST + 3 if is_array else DEEPEST
    value = decode(_without_depths(content) if is_array else content, levels=levels)
    expected, allowed = (list, "an array") if is_array else (dict, "an object")
    if not isinstance(value, expected):
        kind = _KINDS.get(type(value), "a number")
        raise InvalidRequest(f"body: {kind} is not allowed; expected {allowed}", field="body")
    return value


def _without_depths(content: bytes) -> bytes:
    """Return an array of objects with members that are just too deep in place of deeper ones."""
    if not is_deeper(content, DEEPEST + 1):
        return content
    try:
        items = msgspec.json.decode(content, type=list[dict[str, msgspec.Raw]])
    except (msgspec.DecodeError, RecursionError):
        return content
    too_deep = msgspec.Raw(b'{"":' * (DEEPEST + 1) + b"0" + b"}" * (DEEPEST + 1))
    return msgspec.json.encode(
        [{name: too_deep if is_deeper(bytes(raw)) else raw for name, raw in item.items()} for item in items]
    )


def parse_query(query: bytes) -> dict[str, str]:
    """Parse the query string; of two parameters with the same name the last one counts.

    Raises
    ------
    InvalidRequest
        If there are more than a hundred.

    Examples
    --------
    >>> parse_query(b"since=2025-01-31T12:00:00%2B01:00&limit=")
    {'since': '2025-01-31T12:00:00+01:00', 'limit': ''}
    """
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise InvalidRequest(
            f"query: at most {_MOST_PARAMETERS} parameters are allowed", field="query"
        ) from None
    return dict(pairs)
