"""Mirrors a remote project into an embedded one: first all records, later what is new or changed."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from attrib_ds import instants
from attrib_ds.attribution.calendar import parse_duration
from attrib_ds.errors import Forbidden, InvalidRequest, NotFound
from attrib_ds.mirroring.copying import (
    Copier,
    copy_event_types,
    copy_interactions,
    copy_nodes,
    copy_rates,
    copy_users,
    format_instant,
    parse_instant,
)
from attrib_ds.project import Project, open_embedded

_MEMORY: Final = ":memory:"
_LONGEST_OVERLAP: Final = timedelta(days=365)
#: Concurrent requests.
_WORKERS: Final = 8


def sync(
    project: Project,
    to: str | Path,
    *,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    overlap: str | timedelta = "2D",
    hits: bool | None = None,
    personal: bool | None = None,
    currency: str | None = None,
    timezone: str | None = None,
) -> Project:
    """Mirror a project into an embedded one, or bring its mirror up to date.

    The first call reads all records, later calls new and changed ones. After an interruption, even a crash,
    the same call resumes where the last one stopped.

    Parameters
    ----------
    project : Project
        The source, from :func:`attrib_ds.connect`; usually of a remote service.
    to : str or Path
        File of the mirror, or ``":memory:"``; created if it does not exist.
    since, until : datetime, date or str, optional
        Bounds of ``startDate`` and ``eventDate``, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`; days are in ``timezone`` if it is given. An existing mirror
        reads the whole period from ``since`` again.
    overlap : str or timedelta, default "2D"
        How much of the time before the last call to read again, for late records and clock differences; up
        to 365 days.
    hits : bool, optional
        Also mirror the hits of sessions, with one request per session. By default as in earlier calls, at
        first False. Cannot be turned off for an existing mirror.
    personal : bool, optional
        Also mirror ``userData``, ``rawUserData`` and ``rawNodeData`` of interactions; default as for
        ``hits``. Personal values inside events are always mirrored.
    currency, timezone : str, optional
        Properties of a new mirror, for a service that does not report them; EUR and UTC by default.

    Returns
    -------
    Project
        The mirror, an embedded project to be closed by the caller. All functions work on it except sending.

    Raises
    ------
    InvalidRequest
        If an argument is invalid, or the file is not a mirror of this source.
    AttribError
        If a request to the source fails; the mirror keeps the records read before.

    See Also
    --------
    load : Loads frames and files into an embedded project.

    Notes
    -----
    The logger ``attrib_ds.mirroring`` reports the number of records written (INFO) and invalid records that
    were skipped (WARNING).

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, list_nodes, load, sync
    >>> shop = connect("my-shop", path=":memory:")
    >>> nodes = pd.DataFrame({"_id": ["search"], "name": ["Search"], "type": ["channel"]})
    >>> _ = load(shop, nodes=nodes)
    >>> mirror = sync(shop, ":memory:")
    >>> list_nodes(mirror)["name"].tolist()
    ['Search']
    """
    period = Period.of(
        project.bound(since, argument="since", timezone=timezone),
        project.bound(until, argument="until", timezone=timezone),
    )
    window = parse_duration(overlap, argument="overlap")
    if window > _LONGEST_OVERLAP:
        raise InvalidRequest(f"overlap: {overlap!r} is not allowed; allowed: up to 365 days", field="overlap")
    source = _address(project, to)
    properties = {"currency": currency, "timezone": timezone}
    if str(to) == _MEMORY or not Path(to).expanduser().exists():
        properties |= _source_properties(project, properties)
    mirror = open_embedded(
        project.project_id, to, currency=properties["currency"], timezone=properties["timezone"]
    )
    try:
        state = open_state(mirror, source, hits=hits, personal=personal)
        run = plan_run(state, period, window)
        if run is not state.get("run"):
            state["run"] = run
            mirror.send("keep_mirror", progress=state)
        _copy(project, mirror, state)
    except BaseException:
        mirror.close()
        raise
    return mirror


def _copy(source: Project, mirror: Project, state: dict[str, Any]) -> None:
    """Copy all kinds of records, then save that the run is complete."""
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="sync") as pool:
        try:
            copier = Copier(source, mirror, state, pool)
            copy_nodes(copier)
            copy_event_types(copier)
            copy_rates(copier)
            copy_interactions(copier)
            copy_users(copier)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    copier.finish()


def _address(project: Project, to: str | Path) -> str:
    """Return the address of the source as saved in the mirror; refuse a mirror in the source's own file."""
    address = project.transport.address
    if "://" in address or address == _MEMORY:
        return address
    file = Path(address).expanduser().resolve()
    if str(to) != _MEMORY and Path(to).expanduser().resolve() == file:
        raise InvalidRequest(f"to: {str(to)!r} is the source itself; allowed: another file", field="to")
    return str(file)


def _source_properties(project: Project, requested: dict[str, str | None]) -> dict[str, str]:
    """Return the currency and time zone of the source, if its service reports them."""
    try:
        table = project.send("get_settings").read()
    except (NotFound, Forbidden):
        return {}
    properties = {name: value for name in requested if (value := table[name][0].as_py()) is not None}
    for name, value in properties.items():
        if requested[name] not in (None, value):
            raise InvalidRequest(
                f"{name}: {requested[name]!r} is not that of the project, which is {value!r}; leave it out",
                field=name,
            )
    return properties


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
