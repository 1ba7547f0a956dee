"""Runs of a mirror: what one is about, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta

    from attrib_ds.project import Project


@dataclass(frozen=True)
class Period:
    """The period that was asked for, open where there is no bound."""

    since: datetime | None
    until: datetime | None

    @classmethod
    def of(cls, since: datetime | str | None, until: datetime | str | None) -> Period:
        """Read its bounds."""
        return cls(
            None if since is None else instants.parse(since, argument="since"),
            None if until is None else instants.parse(until, argument="until"),
        )

    def as_json(self) -> dict[str, str | None]:
        """Return it as the mirror keeps it."""
        return {"since": text(self.since), "until": text(self.until)}


def text(instant: datetime | None) -> str | None:
    """Return an instant as the mirror keeps it."""
    return None if instant is None else instants.format(instant)


def date(kept: str | None) -> datetime | None:
    """Return an instant that the mirror kept."""
    return None if kept is None else instants.parse(kept, argument="progress")


def begun(mirror: Project, source: str, *, hits: bool | None, personal: bool | None) -> dict[str, Any]:
    """Return the state of the mirror, with what it is to hold."""
    state: Any = mirror.send("begin_mirror", source=source).value
    is_new = "hits" not in state
    for name, wanted in (("hits", hits), ("personal", personal)):
        held = state.get(name, False)
        if held and wanted is False:
            raise InvalidRequest(
                f"{name}: the mirror holds them; leave {name} out, or sync into a new file", field=name
            )
        state[name] = held or bool(wanted)
        if state[name] and not held and not is_new:
            # What was mirrored without it is read again.
            state |= {"through": None, "changed": None, "run": None}
    return dict(state)


def planned(mirror: Project, state: dict[str, Any], asked: Period, overlap: timedelta) -> dict[str, Any]:
    """Return the run that goes on, or a new one.

    A run tells what it reads: what is dated from ``since`` to ``until``, and what is older, as far as the
    mirror goes back (``scope``), and has changed from ``changed`` on; and how far it is.
    """
    run: dict[str, Any] | None = state.get("run")
    if run is not None and run["asked"] == asked.as_json():
        return run
    through, changed = date(state.get("through")), date(state.get("changed"))
    scope = asked.since
    if "scope" in state:
        scope = date(state["scope"])
        scope = None if scope is None else min(scope, asked.since or scope)
    since = scope
    if through is not None and changed is not None:
        since = min(through, changed) - overlap
        since = since if asked.since is None else min(since, asked.since)
        changed -= overlap
    run = {
        "asked": asked.as_json(),
        "began": text(datetime.now(UTC)),
        "since": text(since),
        "changed": text(changed),
        "scope": text(scope),
        "interactions": None,
        "users": None,
    }
    state["run"] = run
    mirror.send("keep_mirror", progress=state)
    return run
