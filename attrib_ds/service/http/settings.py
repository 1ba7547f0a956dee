"""What the operator of a server may choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from attrib_ds.service.http.rate_limits import Rate

_REQUESTS: Final = Rate("requests", 600, 60)
_HEAVY: Final = Rate("heavy", 60, 60)
_EVENTS: Final = Rate("events", 200, 1)
_EVENTS_BY_ADDRESS: Final = Rate("events-by-address", 50, 1)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How often each may ask (G-185).

    Parameters
    ----------
    requests : Rate
        Requests of one account in one project.
    heavy : Rate
        Of these: insights, exports, and searches without a limit.
    events : Rate
        Events sent to one project.
    events_by_address : Rate
        Events sent from one address.
    """

    requests: Rate = _REQUESTS
    heavy: Rate = _HEAVY
    events: Rate = _EVENTS
    events_by_address: Rate = _EVENTS_BY_ADDRESS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the operator of a server may choose.

    Parameters
    ----------
    rates : Rates, optional
        How often each may ask; None for no limits.
    threads : int, default 32
        Requests worked on at once.
    most_waiting : int, default 1,000
        Requests that may wait for one of the threads; beyond, the answer is 503 (G-140).
    seconds_to_stop : int, default 30
        How long a stopping server lets running requests finish.
    sql : bool, default True
        Whether accounts with the scope may search users by SQL (G-096).
    """

    rates: Rates | None = field(default_factory=Rates)
    threads: int = 32
    most_waiting: int = 1_000
    seconds_to_stop: int = 30
    sql: bool = True
