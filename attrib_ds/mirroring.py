"""Mirrors a project of a remote service into an embedded one."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import instants, schema
from attrib_ds.attribution.durations import parse_duration
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.filters import interaction, user
from attrib_ds.progress import progress
from attrib_ds.project import open_embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project

_LOG: Final = logging.getLogger(__name__)
_MEMORY: Final = ":memory:"
#: Records of one transaction, and what a kill makes to be read again.
_INTERACTIONS: Final = 5_000
_USERS: Final = 1_000
_SESSIONS: Final = 1_000
#: Requests on their way at the same time.
_AT_ONCE: Final = 8
_LONGEST_OVERLAP: Final = timedelta(days=365)
#: When the service got to know of an interaction, or changed it.
_NOTED: Final = ("ingestedAt", "createdAt", "updateDate", "vendorUpdateDate")
_EVERYTHING: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in schema.INTERACTION.names))


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
        Of a new mirror: the project's, which a remote service does not tell; by default the currency of an
        embedded source, or EUR, and UTC.

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
    asked = _Asked(_instant(since, "since"), _instant(until, "until"))
    window = parse_duration(overlap, argument="overlap")
    if window > _LONGEST_OVERLAP:
        raise InvalidRequest(f"overlap: {overlap!r} is not allowed; allowed: up to 365 days", field="overlap")
    source = _address(project, to)
    is_new = str(to) == _MEMORY or not Path(to).expanduser().exists()
    currency = currency or (_currency(project) if is_new else None)
    mirror = open_embedded(project.project_id, to, currency=currency, timezone=timezone)
    try:
        state = _begun(mirror, source, hits=hits, personal=personal)
        run = _planned(mirror, state, asked, window)
        _Copying(project, mirror, state, run).copy()
    except BaseException:
        mirror.close()
        raise
    return mirror


@dataclass(frozen=True)
class _Asked:
    """The period that was asked for."""

    since: datetime | None
    until: datetime | None

    def as_json(self) -> dict[str, str | None]:
        return {"since": _text(self.since), "until": _text(self.until)}


def _instant(value: datetime | str | None, argument: str) -> datetime | None:
    return None if value is None else instants.parse(value, argument=argument)


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instants.format(instant)


def _date(text: str | None) -> datetime | None:
    return None if text is None else instants.parse(text, argument="progress")


def _address(project: Project, to: str | Path) -> str:
    """Return what the source is known by in the mirror, which is another file."""
    address = project.transport.address
    if "://" in address or address == _MEMORY:
        return address
    file = Path(address).expanduser().resolve()
    if str(to) != _MEMORY and Path(to).expanduser().resolve() == file:
        raise InvalidRequest(f"to: {str(to)!r} is the source itself; allowed: another file", field="to")
    return str(file)


def _currency(project: Project) -> str | None:
    return None if "://" in project.transport.address else project.tables().currency


def _begun(mirror: Project, source: str, *, hits: bool | None, personal: bool | None) -> dict[str, Any]:
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


def _planned(mirror: Project, state: dict[str, Any], asked: _Asked, overlap: timedelta) -> dict[str, Any]:
    """Return the run that goes on, or a new one.

    A run tells what it reads: what is dated from ``since`` to ``until``, and what is older, as far as the
    mirror goes back (``scope``), and has changed from ``changed`` on; and how far it is.
    """
    run: dict[str, Any] | None = state.get("run")
    if run is not None and run["asked"] == asked.as_json():
        return run
    through, changed = _date(state.get("through")), _date(state.get("changed"))
    scope = asked.since
    if "scope" in state:
        scope = _date(state["scope"])
        scope = None if scope is None else min(scope, asked.since or scope)
    since = scope
    if through is not None and changed is not None:
        since = min(through, changed) - overlap
        since = since if asked.since is None else min(since, asked.since)
        changed -= overlap
    run = {
        "asked": asked.as_json(),
        "began": _text(datetime.now(UTC)),
        "since": _text(since),
        "changed": _text(changed),
        "scope": _text(scope),
        "interactions": None,
        "users": None,
    }
    state["run"] = run
    mirror.send("keep_mirror", progress=state)
    return run


class _Copying:
    """Copies from the source to the mirror what a run is about.

    Every chunk of records is kept before how far the run is, and keeping one again changes nothing: a run may
    end at any moment and go on later.
    """

    def __init__(self, source: Project, mirror: Project, state: dict[str, Any], run: dict[str, Any]) -> None:
        self._source = source
        self._mirror = mirror
        self._state = state
        self._run = run
        self._since, self._changed = _date(run["since"]), _date(run["changed"])
        self._scope, self._until = _date(run["scope"]), _date(run["asked"]["until"])
        self._written: dict[str, int] = {}

    def copy(self) -> None:
        """Copy everything, and keep that it is done."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sync") as pool:
            try:
                self._pool = pool
                self._copy_nodes()
                self._copy_event_types()
                self._copy_rates()
                if self._run["interactions"] != "done":
                    self._copy_interactions()
                self._copy_users()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self._finish()

    def _copy_nodes(self) -> None:
        nodes = self._listed("list_nodes")
        self._load("nodes", nodes)
        vendors = sorted({each for each in nodes["vendorId"].to_pylist() if each})
        found = self._pool.map(lambda vendor: self._listed("list_campaigns", vendor_id=vendor), vendors)
        for vendor, campaigns in zip(vendors, found, strict=True):
            if campaigns.num_rows:
                self._mirror.send("mirror_records", resource="campaigns", records=campaigns)
                self._copy_outlays(vendor, campaigns["id"].to_pylist())

    def _copy_outlays(self, vendor: str, campaigns: Sequence[str]) -> None:
        """Copy all outlays of an integration; those that the source has no longer are deleted here too."""

        def listed(campaign: str) -> tuple[pa.Table, pa.Table]:
            of_campaign = {"vendor_id": vendor, "parent_campaign_id": campaign}
            present = self._listed("list_outlays", **of_campaign)
            deleted = self._listed("list_outlays", deleted=True, **of_campaign)
            return present, deleted.filter(pc.is_valid(deleted["deletedAt"]))

        found = list(self._pool.map(listed, campaigns))
        everything = pa.concat_tables([table for pair in found for table in pair])
        self._load("spend", everything)
        listed_ids = set(everything["_id"].to_pylist())
        for campaign in campaigns:
            of_campaign = {"vendor_id": vendor, "parent_campaign_id": campaign}
            held = _whole(self._mirror, "list_outlays", **of_campaign)
            for gone in sorted(set(held["_id"].to_pylist()) - listed_ids):
                self._mirror.send("delete_outlay", outlay_id=gone, **of_campaign)

    def _copy_event_types(self) -> None:
        for archived in (False, True):
            types = self._listed("list_event_types", archived=archived)
            if types.num_rows:
                self._mirror.send("mirror_records", resource="event-types", records=types)

    def _copy_rates(self) -> None:
        rates = self._listed("list_rates").to_pylist()
        held = _whole(self._mirror, "list_rates").to_pylist()
        kept = {(each["currency"], each["date"]) for each in rates}
        gone = [{**each, "rate": None} for each in held if (each["currency"], each["date"]) not in kept]
        if rates or gone:
            self._mirror.send("set_rates", rates=[*rates, *gone])

    def _copy_interactions(self) -> None:
        where = self._changes(interaction, "startDate", _NOTED)
        since = _date(self._run["interactions"]) or self._scope
        is_first = self._changed is None and self._run["interactions"] is None
        pages = self._interactions(where, since)
        first, total = next(pages, (None, 0))
        with progress("interactions", total) as advance:
            while first is not None:
                self._load_interactions(first, is_first=is_first)
                self._keep(interactions=_text(pc.max(first["startDate"]).as_py()))
                advance(first.num_rows)
                first, _ = next(pages, (None, 0))
        self._keep(interactions="done")

    def _interactions(
        self, where: Predicate | None, since: datetime | None
    ) -> Iterator[tuple[pa.Table, int]]:
        """Yield pages by startDate, each with how many were left before it; each begins where one ended."""
        skipped = 0
        while True:
            answer = self._source.send(
                "search_interactions",
                where=where,
                since=since,
                until=self._until,
                columns=_EVERYTHING if self._state["personal"] else None,
                sort={"startDate": 1, "_id": 1},
                limit=_INTERACTIONS,
                offset=skipped,
                filtered=None,
                bots=None,
            )
            page = answer.table
            if page is None or not page.num_rows:
                return
            left = (answer.total or 0) - skipped
            yield page, left
            if answer.total is not None and page.num_rows >= left:
                return
            last = pc.max(page["startDate"]).as_py()
            # Others of the same moment may follow.
            at_last = pc.sum(pc.equal(page["startDate"], pa.scalar(last, schema.INSTANT))).as_py()
            skipped = skipped + page.num_rows if last == since else at_last
            since = last

    def _load_interactions(self, page: pa.Table, *, is_first: bool = False) -> None:
        if not self._state["personal"]:
            page = page.drop_columns([name for name in page.column_names if name in schema.ON_REQUEST])
        self._load("interactions", page)
        if self._state["hits"]:
            self._copy_hits(page, is_first=is_first)

    def _copy_hits(self, page: pa.Table, *, is_first: bool) -> None:
        """Copy the hits of sessions of which the mirror has not as many as they count."""
        sessions = [
            (opening, count)
            for opening, count in zip(
                page["firstHitId"].to_pylist(), page["hitCount"].to_pylist(), strict=True
            )
            if opening is not None and count != 0
        ]

        def lacks(session: tuple[str, int | None]) -> bool:
            opening, count = session
            held = self._mirror.send("list_hits", first_hit_id=opening).table
            return held is None or held.num_rows != count

        wanted = [opening for opening, count in sessions if is_first or lacks((opening, count))]
        for start in range(0, len(wanted), _SESSIONS):
            part = wanted[start : start + _SESSIONS]
            found = self._pool.map(lambda id: self._source.send("list_hits", first_hit_id=id).table, part)
            self._load("hits", pa.concat_tables(list(found)))

    def _copy_users(self) -> None:
        """Copy the events of users, of whom the source tells which have changed; it lists no events."""
        where = self._changes(user, "lastEventDate", ("updatedAt",))
        with progress("users", self._users(where, limit=0)[1]) as advance:
            while True:
                users, left = self._users(where, limit=_USERS)
                if not users.num_rows:
                    return
                self._copy_events(users)
                self._mirror.send("mirror_records", resource="users", records=users)
                self._keep(users=max(users["_id"].to_pylist()))
                advance(users.num_rows)
                if users.num_rows >= left:
                    return

    def _users(self, where: Predicate | None, *, limit: int) -> tuple[pa.Table, int]:
        answer = self._source.send(
            "search_users",
            fields=["eventCount", "firstEventDate", "lastEventDate", "createdAt"],
            where=where,
            sort="_id",
            id_after=self._run["users"],
            limit=limit,
        )
        assert answer.table is not None  # noqa: S101  (the operation answers with records)
        return answer.table, answer.total or 0

    def _copy_events(self, users: pa.Table) -> None:
        ids = users["_id"].to_pylist()
        found = list(self._pool.map(self._events, self._buyers(users)))
        if found:
            self._load("events", pa.concat_tables(found))
        if self._changed is not None:
            # Interactions of users who were merged since then do not tell that they changed.
            for page, _ in self._interactions(interaction("userId").isin(ids), self._scope):
                self._load_interactions(page)

    def _buyers(self, users: pa.Table) -> list[str]:
        """Return those users who may have events in the period."""
        wanted = pc.greater(users["eventCount"], 0)
        if self._scope is not None:
            wanted = pc.and_(wanted, pc.greater_equal(users["lastEventDate"], self._scope))
        if self._until is not None:
            wanted = pc.and_(wanted, pc.less_equal(users["firstEventDate"], self._until))
        ids: list[str] = users.filter(wanted)["_id"].to_pylist()
        return ids

    def _events(self, user_id: str) -> pa.Table:
        return _whole(
            self._source, "list_user_events", id=user_id, since=self._scope, until=self._until, sort="_id"
        )

    def _changes(self, field: Callable[[str], Any], date: str, noted: Sequence[str]) -> Predicate | None:
        """Return what tells records that are to be read, None for all."""
        if self._changed is None:
            return None
        bounds = {date: self._since, **dict.fromkeys(noted, self._changed)}
        return reduce(or_, [field(name) >= bound for name, bound in bounds.items()])  # type: ignore[no-any-return]

    def _listed(self, operation: str, **arguments: Any) -> pa.Table:
        """List all records of the source; none where it does not know the operation or what it is about."""
        try:
            return _whole(self._source, operation, **arguments)
        except NotFound:
            return schema.RESOURCES[_LISTED[operation]].empty_table()

    def _load(self, resource: str, records: pa.Table) -> None:
        if not records.num_rows:
            return
        answer = self._mirror.send("load_records", resource=resource, source=records, replace=True)
        counts: Any = answer.value
        for kind, count in counts.items():
            self._written[kind] = self._written.get(kind, 0) + count
        if answer.table is not None and answer.table.num_rows:
            first = answer.table.slice(0, 1).to_pylist()[0]
            _LOG.warning(
                "%s: %d records of the source do not fit and are left out; the first is %s (%s)",
                resource,
                answer.table.num_rows,
                first["id"],
                first["reason"],
            )

    def _keep(self, **how_far: str | None) -> None:
        self._run |= how_far
        self._mirror.send("keep_mirror", progress=self._state)

    def _finish(self) -> None:
        """Keep up to when the mirror is complete, and from when on changes are to be read the next time."""
        began = _date(self._run["began"])
        assert began is not None  # noqa: S101  (every run has begun)
        held = _date(self._state.get("through"))
        through = began if self._until is None else min(self._until, began)
        if held is None or self._until is None or self._until >= held:
            self._state["changed"] = self._run["began"]
        self._state |= {
            "through": _text(through if held is None else max(held, through)),
            "scope": self._run["scope"],
            "run": None,
        }
        self._mirror.send("keep_mirror", progress=self._state)
        written = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in self._written.items())
        _LOG.info("%s: %s", self._mirror.transport.address, written or "nothing new")


#: What is listed, by operation.
_LISTED: Final = {
    "list_nodes": "Node",
    "list_campaigns": "Campaign",
    "list_outlays": "Outlay",
    "list_event_types": "EventType",
    "list_rates": "Rate",
}


def _whole(project: Project, operation: str, **arguments: Any) -> pa.Table:
    """Return all records of a list, however many the service gives at once."""
    parts: list[pa.Table] = []
    count = 0
    while True:
        answer = project.send(operation, offset=count, **arguments)
        assert answer.table is not None  # noqa: S101  (lists answer with records)
        parts.append(answer.table)
        count += answer.table.num_rows
        if not answer.table.num_rows or answer.total is None or count >= answer.total:
            return pa.concat_tables(parts)
