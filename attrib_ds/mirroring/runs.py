"""Plans the runs of a sync: which records to read, and where to resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from attrib_ds.project import Project


@dataclass(frozen=True)
class Period:
    """The requested period; None is an open bound."""

    since: datetime | None
    until: datetime | None

    @classmethod
    def of(cls, since: datetime | str | None, until: datetime | str | None) -> Period:
        """Parse the bounds."""
        return cls(
            None if since is None else instants.parse(since, argument="since"),
            None if until is None else instants.parse(until, argument="until"),
        )

    def as_json(self) -> dict[str, str | None]:
        """Return the period as saved in the mirror."""
        return {"since": format_instant(self.since), "until": format_instant(self.until)}


def format_instant(instant: datetime | None) -> str | None:
    """Format an instant as saved in the mirror."""
    return None if instant is None else instants.format(instant)


def parse_instant(saved: str | None) -> datetime | None:
    """Parse an instant saved in the mirror."""
    return None if saved is None else instants.parse(saved, argument="progress")


def open_state(mirror: Project, source: str, *, hits: bool | None, personal: bool | None) -> dict[str, Any]:
    """Return the saved state of the mirror, with the kinds of records to mirror.

    Raises
    ------
    InvalidRequest
        If records that the mirror has would no longer be mirrored.
    """
    saved: Any = mirror.send("begin_mirror", source=source).value
    state = dict(saved)
    for name, requested in (("hits", hits), ("personal", personal)):
        is_mirrored = saved.get(name, False)
        if is_mirrored and requested is False:
            raise InvalidRequest(
                f"{name}: the mirror holds them; leave {name} out, or sync into a new file", field=name
            )
        state[name] = is_mirrored or bool(requested)
        if state[name] and not is_mirrored and "hits" in saved:
            # Read again what was mirrored without them.
            state |= {"through": None, "changed": None, "run": None}
    return state


def plan_run(state: Mapping[str, Any], period: Period, overlap: timedelta) -> dict[str, Any]:
    """Return the interrupted run of the same period, or a new run; the state stays as it is.

    A run reads records dated from ``since`` to ``until``, and older ones of the mirrored period (from
    ``scope`` on) that changed since ``changed``. It also holds its progress.
    """
    run: dict[str, Any] | None = state.get("run")
    if run is not None and run["asked"] == period.as_json():
        return run
    through, changed = parse_instant(state.get("through")), parse_instant(state.get("changed"))
    scope = period.since
    if "scope" in state:
        scope = parse_instant(state["scope"])
        scope = None if scope is None else min(scope, period.since or scope)
    since = scope
    if through is not None and changed is not None:
        since = min(through, changed) - overlap
        since = since if period.since is None else min(since, period.since)
        changed -= overlap
    return {
        "asked": period.as_json(),
        "began": format_instant(instants.now()),
        "since": format_instant(since),
        "changed": format_instant(changed),
        "scope": format_instant(scope),
        "interactions": None,
        "users": None,
    }
