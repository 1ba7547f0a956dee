"""Options of a server: rate limits, connections, memory, threads, shutdown, SQL searches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from attrib_ds.service.http.rate_limits import RateLimit

if TYPE_CHECKING:
    from pathlib import Path

    from attrib_ds.service.http.client_addresses import Network

_REQUESTS: Final = RateLimit("requests", 600, 60)
_HEAVY: Final = RateLimit("heavy", 60, 60)
_EVENTS: Final = RateLimit("events", 200, 1)
_EVENTS_BY_ADDRESS: Final = RateLimit("events-by-address", 50, 1)
_HITS: Final = RateLimit("hits", 1_000, 1)
_HITS_BY_ADDRESS: Final = RateLimit("hits-by-address", 50, 1)


@dataclass(frozen=True, kw_only=True)
class RateLimits:
    """Rate limits of a server (G-185).

    Parameters
    ----------
    requests : RateLimit
        Requests per account and project.
    heavy : RateLimit
        Insights, exports and searches without a limit, per account and project.
    events : RateLimit
        Events per project: of all clients without a token together, and of each account.
    events_by_address : RateLimit
        Events without a token per client address.
    hits : RateLimit
        Hits per project, of all clients together (G-189).
    hits_by_address : RateLimit
        Hits per client address.
    """

    requests: RateLimit = _REQUESTS
    heavy: RateLimit = _HEAVY
    events: RateLimit = _EVENTS
    events_by_address: RateLimit = _EVENTS_BY_ADDRESS
    hits: RateLimit = _HITS
    hits_by_address: RateLimit = _HITS_BY_ADDRESS


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of a server.

    Parameters
    ----------
    rate_limits : RateLimits, optional
        Rate limits; None for no limits.
    threads : int, default 32
        Maximum number of concurrent requests that are not reads.
    most_waiting : int, default 1,000
        Maximum number of requests, and of reads, waiting for a thread; further ones get 503 (G-140).
    reads : int, default 4
        Maximum number of concurrent reads; they never use the threads above.
    seconds_to_read : float, default 30
        Time limit of a read until its answer begins, waiting included, and for each portion of a streamed
        answer after that (G-230).
    most_connections : int, default 1,000
        Maximum number of open connections; further ones get 503 (G-229). The server also keeps some file
        descriptors free for its files.
    most_connections_per_address : int, default 250
        Maximum number of open connections per client address; those of trusted proxies are not counted.
    trusted_proxies : tuple of IPv4Network or IPv6Network
        Reverse proxies whose last entry of ``X-Forwarded-For`` is the client's address. None by default: the
        header is ignored, and clients behind a proxy share its address.
    seconds_for_headers : float, default 10
        Time for the headers of a request to arrive.
    seconds_for_body : float, default 60
        Time for the body of a request to arrive; one second more for each 64 KiB.
    seconds_idle : int, default 75
        Time after which a connection without a request is closed.
    body_mebibytes : int, default 256
        Memory for request bodies in flight, parsed values included; beyond it, requests get 503 (G-228).
        Requests without a token may use half of it.
    seconds_to_stop : int, default 30
        Time for running requests to finish when the server stops.
    sql : bool, default True
        Whether accounts with the scope may search users by SQL (G-096).
    new_keys : bool, default True
        Whether accounts with the scope may create keys (G-172).
    geo, asn : Path, optional
        MMDB files in which the address of each hit is looked up at receipt (G-199); None for no look-up.
    max_page_size : int, optional
        Maximum number of records of a page, also for requests without a limit (G-101); None for no maximum.
    """

    rate_limits: RateLimits | None = field(default_factory=RateLimits)
    threads: int = 32
    most_waiting: int = 1_000
    reads: int = 4
    seconds_to_read: float = 30
    most_connections: int = 1_000
    most_connections_per_address: int = 250
    trusted_proxies: tuple[Network, ...] = ()
    seconds_for_headers: float = 10
    seconds_for_body: float = 60
    seconds_idle: int = 75
    body_mebibytes: int = 256
    seconds_to_stop: int = 30
    sql: bool = True
    new_keys: bool = True
    geo: Path | None = None
    asn: Path | None = None
    max_page_size: int | None = None
