"""Begins a mirror or goes on with it, and copies what a run is about."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.attribution.durations import parse_duration
from attrib_ds.errors import Forbidden, InvalidRequest, NotFound
from attrib_ds.mirroring.copying import Copying
from attrib_ds.mirroring.event_types import copy_event_types
from attrib_ds.mirroring.interactions import copy_interactions
from attrib_ds.mirroring.nodes import copy_nodes
from attrib_ds.mirroring.rates import copy_rates
from attrib_ds.mirroring.runs import Period, begun, planned
from attrib_ds.mirroring.users import copy_users
from attrib_ds.project import open_embedded

if TYPE_CHECKING:
    from datetime import datetime

    from attrib_ds.project import Project

_MEMORY: Final = ":memory:"
_LONGEST_OVERLAP: Final = timedelta(days=365)
#: Requests on their way at the same time.
_AT_ONCE: Final = 8


def sync(
    project: Project,
    to: str | Path,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    overlap: str | timedelta = "2D",
    hits: bool | None = None,
    personal: bool | None = None,
    currency: str | None = None,
    timezone: str | None = None,
) -> Project:
    """Mirror a project into an embedded one, or bring its mirror up to date.

    The first time everything is read, from then on what is new or has changed. What is interrupted, even by
    a crash, goes on where it stopped when it is called again in the same words.

    Parameters
    ----------
    project : Project
        The source, from :func:`attrib_ds.connect`; usually of a remote service.
    to : str or Path
        File of the mirror, or ``":memory:"``. One that is not there is made.
    since, until : datetime or str, optional
        Bounds of ``startDate`` and ``eventDate``, inclusive; without an offset they are UTC. Of a mirror that
        is there already, the period from ``since`` on is read again as a whole.
    overlap : str or timedelta, default "2D"
        How far behind the last time to read again, for what arrives late and clocks that differ; up to
        365 days.
    hits : bool, optional
        Mirror the hits of sessions too, by one request per session. By default as it was begun, at first
        not. Once mirrored they go on being so.
    personal : bool, optional
        Mirror ``userData``, ``rawUserData`` and ``rawNodeData`` of interactions too. By default and once
        mirrored as with ``hits``. Values of users that events carry come with the events in any case.
    currency, timezone : str, optional
        Of a new mirror, for a service that does not tell those of the project; EUR and UTC by default there.

    Returns
    -------
    Project
        The mirror, embedded, to be closed: everything but sending works on it, attribution too.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or what is at ``to`` is not a mirror of this source.
    AttribError
        What the source refuses; what was read by then stays in the mirror.

    See Also
    --------
    load : Loads frames and files into an embedded project.

    Notes
    -----
    The logger ``attrib_ds.mirroring`` tells how much was written (INFO), and of records that do not fit and
    are left out (WARNING).

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
    asked = Period.of(since, until)
    window = parse_duration(overlap, argument="overlap")
    if window > _LONGEST_OVERLAP:
        raise InvalidRequest(f"overlap: {overlap!r} is not allowed; allowed: up to 365 days", field="overlap")
    source = _address(project, to)
    chosen = {"currency": currency, "timezone": timezone}
    if str(to) == _MEMORY or not Path(to).expanduser().exists():
        chosen |= _told(project, chosen)
    mirror = open_embedded(project.project_id, to, currency=chosen["currency"], timezone=chosen["timezone"])
    try:
        state = begun(mirror, source, hits=hits, personal=personal)
        run = planned(mirror, state, asked, window)
        _copy(project, mirror, state, run)
    except BaseException:
        mirror.close()
        raise
    return mirror


def _copy(source: Project, mirror: Project, state: dict[str, Any], run: dict[str, Any]) -> None:
    """Copy everything, and keep that it is done."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sync") as pool:
        try:
            copying = Copying(source, mirror, state, run, pool)
            copy_nodes(copying)
            copy_event_types(copying)
            copy_rates(copying)
            copy_interactions(copying)
            copy_users(copying)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    copying.finish()


def _address(project: Project, to: str | Path) -> str:
    """Return what the source is known by in the mirror, which is another file."""
    address = project.transport.address
    if "://" in address or address == _MEMORY:
        return address
    file = Path(address).expanduser().resolve()
    if str(to) != _MEMORY and Path(to).expanduser().resolve() == file:
        raise InvalidRequest(f"to: {str(to)!r} is the source itself; allowed: another file", field="to")
    return str(file)


def _told(project: Project, chosen: dict[str, str | None]) -> dict[str, str]:
    """Return the currency and the time zone of the source, as far as it tells them."""
    try:
        table = project.send("get_settings").read()
    except (NotFound, Forbidden):
        return {}
    told = {name: value for name in chosen if (value := table[name][0].as_py()) is not None}
    for name, value in told.items():
        if chosen[name] not in (None, value):
            raise InvalidRequest(
                f"{name}: {chosen[name]!r} is not that of the project, which is {value!r}; leave it out",
                field=name,
            )
    return told
