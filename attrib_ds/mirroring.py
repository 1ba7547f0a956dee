"""Mirrors a remote project into an embedded one: first all records, later what is new or changed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Final

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import instants, schema
from attrib_ds.attribution.calendar import parse_duration
from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.attribution.paths.project_tables import Tables
from attrib_ds.contract import OPERATIONS
from attrib_ds.display import counted, progress
from attrib_ds.errors import Forbidden, InvalidRequest, NotFound, NotSupported, warn
from attrib_ds.filters import Predicate, interaction, user
from attrib_ds.project import Project, open_embedded, takes_project, warn_of_gaps

_MEMORY: Final = ":memory:"
_LONGEST_OVERLAP: Final = timedelta(days=365)
#: Concurrent requests.
_WORKERS: Final = 8


@takes_project
def sync(
    project: Project,
    to: str | Path,
    *,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    overlap: str | timedelta = "2D",
    hits: bool | None = None,
    personal: bool | None = None,
    integrations: Sequence[str] | None = None,
    currency: str | None = None,
    timezone: str | None = None,
) -> Project:
    """Mirror a project into an embedded one, or update its mirror.

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
        Length of the period before the last call to read again, for late records and clock differences; up to
        365 days.
    hits : bool, optional
        Also mirror the hits of sessions, with one request per session. By default as in earlier calls; False
        in the first. Cannot be turned off for an existing mirror.
    personal : bool, optional
        Also mirror ``userData``, ``rawUserData`` and ``rawNodeData`` of interactions; default as for
        ``hits``. Personal values inside events are always mirrored.
    integrations : sequence of str, optional
        Ids of the integrations (``vendorId``) whose campaigns and outlays to mirror, for a service that does
        not list its nodes; by default those that interactions mention. An empty list is for a project that
        has none.
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
    A mirror holds every record of its source. What it derives itself (the duration of a session) may differ
    by milliseconds; an interaction without a node stays unattributed, and an amount whose currency is unknown
    keeps it, with a warning. Some records cannot be kept, such as interactions without a user. This function
    warns of them once, as does each opening of the mirror. :func:`attrib_ds.admin.check` lists them, with the
    integrations whose campaigns and outlays are missing.

    A service without the additions to the specification is read by the operations that it has, which takes
    longer: the events with a request per user. The logger ``attrib_ds.mirroring`` reports the number of
    records written (INFO).

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
    period: dict[str, str | None] = {}
    for name, bound in (("since", since), ("until", until)):
        parsed = project.bound(bound, argument=name, timezone=timezone)
        period[name] = None if parsed is None else format_instant(instants.parse(parsed, argument=name))
    window = parse_duration(overlap, argument="overlap")
    if window > _LONGEST_OVERLAP:
        raise InvalidRequest(f"overlap: {overlap!r} is not allowed; allowed: up to 365 days")
    source = _address(project, to)
    properties: dict[str, Any] = {"currency": currency, "timezone": timezone}
    if str(to) == _MEMORY or not Path(to).expanduser().exists():
        properties |= _source_properties(project, properties)
    mirror = open_embedded(project.project_id, to, is_synced=True, **properties)
    try:
        state = open_state(mirror, source, hits=hits, personal=personal)
        run = plan_run(state, period, window)
        if run is not state.get("run"):
            state["run"] = run
            mirror.send("keep_mirror", progress=state)
        _copy(project, mirror, state, integrations)
    except BaseException:
        mirror.close()
        raise
    return mirror


def tables_of(project: Project) -> Tables:
    """Return the tables that attribution reads; those of a remote project are mirrored into memory."""
    try:
        return project.tables()
    except NotSupported:
        engine = DuckDB().connect()
    with sync(project, _MEMORY) as mirror:
        tables = mirror.tables()
        held = {name: table for name, table in vars(tables).items() if isinstance(table, ir.Table)}
        # In an engine of their own: paths are lazy, and no mirror has to be closed after them.
        copies = {name: engine.create_table(name, table.to_pyarrow()) for name, table in held.items()}
    return replace(tables, **copies)


def _copy(
    source: Project, mirror: Project, state: dict[str, Any], integrations: Sequence[str] | None
) -> None:
    """Copy all kinds of records, then save that the run is complete."""
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="sync") as pool:
        try:
            copier = Copier(source, mirror, state, pool)
            copy_nodes(copier)
            copy_event_types(copier)
            copy_rates(copier)
            copy_interactions(copier)
            copy_campaigns(copier, integrations)
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
        raise InvalidRequest(f"to: {str(to)!r} is the source itself; allowed: another file")
    return str(file)


def _source_properties(project: Project, requested: dict[str, str | None]) -> dict[str, str]:
    """Return the currency and time zone of the source, if its service reports them."""
    try:
        table = project.send("get_settings").read()
    except (NotFound, Forbidden):
        return {}
    except NotSupported:
        if None in requested.values():
            cost = "days are in UTC and amounts in EUR; pass timezone= or currency= if they are not"
            warn(f"{project.transport.address} has no get_settings: {cost}")
        return {}
    properties = {name: value for name in requested if (value := table[name][0].as_py()) is not None}
    for name, value in properties.items():
        if (given := requested[name]) not in (None, value):
            raise InvalidRequest(f"{name}: got {given!r}, but the project has {value!r}; leave it out")
    return properties


def open_state(mirror: Project, source: str, *, hits: bool | None, personal: bool | None) -> dict[str, Any]:
    """Return the saved state of the mirror, with the kinds of records to mirror.

    Raises
    ------
    InvalidRequest
        If records that the mirror has would no longer be mirrored.
    """
    saved = mirror.send("begin_mirror", source=source).value
    state = dict(saved)
    for name, requested in (("hits", hits), ("personal", personal)):
        is_mirrored = saved.get(name, False)
        if is_mirrored and requested is False:
            raise InvalidRequest(f"{name}: the mirror holds them; leave {name} out, or sync into a new file")
        state[name] = is_mirrored or bool(requested)
        if state[name] and not is_mirrored and "hits" in saved:
            # Read again what was mirrored without them.
            state |= {"through": None, "changed": None, "run": None}
    return state


def plan_run(state: Mapping[str, Any], period: dict[str, str | None], overlap: timedelta) -> dict[str, Any]:
    """Return the interrupted run of the same period, or a new run; the state stays as it is.

    A run reads records dated from ``since`` to ``until``, and older ones of the mirrored period (from
    ``scope`` on) that changed since ``changed``. It also holds its progress.
    """
    run: dict[str, Any] | None = state.get("run")
    if run is not None and run["asked"] == period:
        return run
    through, changed = parse_instant(state.get("through")), parse_instant(state.get("changed"))
    scope = first = parse_instant(period["since"])
    if "scope" in state:
        scope = parse_instant(state["scope"])
        scope = None if scope is None else min(scope, first or scope)
    since = scope
    if through is not None and changed is not None:
        since = min(min(through, changed) - overlap, first or changed)
        changed -= overlap
    bounds = {"began": instants.now(), "since": since, "changed": changed, "scope": scope}
    texts = {name: format_instant(bound) for name, bound in bounds.items()}
    return {"asked": period, **texts, "interactions": None, "users": None}


_LOG: Final = logging.getLogger("attrib_ds.mirroring")
#: Records per transaction; a killed process reads at most as many again.
_INTERACTIONS: Final = 5_000
#: Records that a mirror remembers as not kept, per kind.
_MOST_KEPT_OUT: Final = 10_000
#: Records of other kinds at a time.
_BATCH: Final = 1_000
#: Dates on which the service recorded or changed an interaction.
_CHANGE_DATES: Final = ("ingestedAt", "createdAt", "updateDate", "vendorUpdateDate")
_ALL_COLUMNS: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in schema.INTERACTION.names))


class Copier:
    """Copies records of a run from the source to the mirror.

    Each chunk of records is stored before the progress of the run, and storing a chunk twice changes nothing:
    an interrupted run can resume at any point.

    Parameters
    ----------
    source, mirror : Project
        The projects.
    state : dict
        Saved state of the mirror, with the current ``run``; see :func:`.plan_run`.
    pool : ThreadPoolExecutor
        Runs concurrent requests.
    """

    def __init__(
        self, source: Project, mirror: Project, state: dict[str, Any], pool: ThreadPoolExecutor
    ) -> None:
        self.source, self.mirror, self.state, self.pool = source, mirror, state, pool
        self.run: dict[str, Any] = state["run"]
        self.can_search_events = self.has_nodes = self.can_filter = True
        self.user_columns = ["eventCount", "firstEventDate", "lastEventDate", "createdAt"]
        #: Ids of integrations in nodes.
        self.vendors: list[str] = []
        self.since, self.changed = parse_instant(self.run["since"]), parse_instant(self.run["changed"])
        self.scope, self.until = parse_instant(self.run["scope"]), parse_instant(self.run["asked"]["until"])
        self._written: Counter[str] = Counter()

    def changes(
        self, field: Callable[[str], Any], date: str, change_dates: Sequence[str]
    ) -> Predicate | None:
        """Return the predicate for new and changed records, or None for all records."""
        if self.changed is None:
            return None
        bounds = {date: self.since, **dict.fromkeys(change_dates, self.changed)}
        return reduce(or_, [field(name) >= bound for name, bound in bounds.items()])  # type: ignore[no-any-return]

    def give_up_filters(self, error: InvalidRequest, where: Predicate | None) -> None:
        """Read everything from now on if a service refuses a filter, whose operators it may lack."""
        if where is None or error.details:
            raise error
        self.can_filter = False
        warn(f"sync: the service refuses the filter of changes, so that all records are read: {error}")

    def list_source(self, operation: str, **arguments: Any) -> pa.Table:
        """List all records of the source; none if it lacks the operation or the parent record."""
        try:
            return list_all(self.source, operation, **arguments)
        except (NotFound, NotSupported):
            return schema.RESOURCES[str(OPERATIONS[operation].answer.resource)].empty_table()

    def load(self, resource: str, records: pa.Table) -> None:
        """Load records into the mirror, replacing earlier versions; remember those that it cannot keep."""
        if not records.num_rows:
            return
        options = {"replace": True, "mirrored": True}
        answer = self.mirror.send("load_records", resource=resource, source=records, **options)
        self._written.update(answer.value)
        kept_out = self.state.setdefault("kept_out", {}).setdefault(resource, {})
        for id in kept_out.keys() & {*records["id" if "id" in records.column_names else "_id"].to_pylist()}:
            del kept_out[id]
        for rejected in answer.read().to_pylist():
            if len(kept_out) < _MOST_KEPT_OUT:
                kept_out[rejected["id"] or f"row {rejected['row']}"] = rejected["reason"]

    def save_progress(self, **progress: str | None) -> None:
        """Save the progress of the run."""
        self.run |= progress
        self.mirror.send("keep_mirror", progress=self.state)

    def finish(self) -> None:
        """Save up to which date the mirror is complete, and since when the next run reads changes."""
        began = parse_instant(self.run["began"])
        assert began is not None  # noqa: S101  (set by plan_run)
        previous = parse_instant(self.state.get("through"))
        through = began if self.until is None else min(self.until, began)
        if previous is None or self.until is None or self.until >= previous:
            self.state["changed"] = self.run["began"]
        latest = format_instant(through if previous is None else max(previous, through))
        self.state |= {"through": latest, "scope": self.run["scope"], "run": None}
        self.mirror.send("keep_mirror", progress=self.state)
        warn_of_gaps("sync", self.state.get("kept_out", {}))
        written = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in self._written.items())
        _LOG.info("%s: %s", self.mirror.transport.address, written or "no new records")


def list_all(project: Project, operation: str, **arguments: Any) -> pa.Table:
    """Return all records of a list in one table, in the columns of its schema."""
    with closing(project.stream(operation, **arguments)) as answer:
        return answer.read()


def copy_nodes(copier: Copier) -> None:
    """Copy the tree of nodes."""
    try:
        nodes = list_all(copier.source, "list_nodes")
    except (NotFound, NotSupported):
        copier.has_nodes = False
        return
    copier.load("nodes", nodes)
    copier.vendors = sorted({vendor for vendor in nodes["vendorId"].to_pylist() if vendor})


def copy_campaigns(copier: Copier, integrations: Sequence[str] | None) -> None:
    """Copy campaigns and outlays of integrations that have any: of nodes, named, or of interactions."""
    vendors = copier.vendors
    if not copier.has_nodes:
        named = copier.state.get("mentioned", ()) if integrations is None else integrations
        vendors = copier.state["vendors"] = sorted({*copier.state.get("vendors", ()), *named})

    kept_out: dict[str, str] = {}
    copier.state.setdefault("kept_out", {})["integrations with their campaigns and outlays"] = kept_out

    def campaigns_of(vendor: str) -> pa.Table:
        try:
            return copier.list_source("list_campaigns", vendor_id=vendor)
        except (InvalidRequest, Forbidden) as error:
            # What an interaction mentions may be no integration with campaigns.
            if vendor in (integrations or ()):
                kept_out[vendor] = error.message
            return schema.RESOURCES["Campaign"].empty_table()

    tables = list(copier.pool.map(campaigns_of, vendors))
    for vendor, campaigns in zip(vendors, tables, strict=True):
        campaigns = campaigns.filter(pc.is_valid(campaigns["id"]))
        if campaigns.num_rows:
            if not copier.has_nodes:
                campaigns = _load_campaign_nodes(copier, vendor, campaigns)
            copier.mirror.send("mirror_records", resource="campaigns", records=campaigns)
            _copy_outlays(copier, vendor, campaigns["id"].to_pylist())
    if integrations is None and not (copier.has_nodes or any(table.num_rows for table in tables)):
        kept_out["all"] = "the service does not list them; give sync their ids as integrations="


def _load_campaign_nodes(copier: Copier, vendor: str, campaigns: pa.Table) -> pa.Table:
    """Load nodes for campaigns of a service that lists none; return the campaigns with their integration."""
    of_vendor = {"integrationId": vendor, "vendorId": vendor, "path": [], "active": True}
    integration = campaigns["integrationId"].drop_null()
    of_vendor["integrationId"] = root = integration[0].as_py() if len(integration) else vendor
    nodes = [{**of_vendor, "_id": root, "name": vendor, "type": "integration"}]
    for campaign in campaigns.to_pylist():
        named = {"name": campaign["name"] or campaign["campaignSlug"] or campaign["id"]}
        named["active"] = campaign["active"] is not False
        place = {"_id": campaign["id"], "parentId": root, "path": [root], "type": "campaign"}
        nodes.append({**of_vendor, **named, **place, "campaignSlug": campaign["campaignSlug"]})
    copier.load("nodes", pa.Table.from_pylist(nodes, schema.RESOURCES["Node"]))
    filled = pc.fill_null(campaigns["integrationId"], root)
    return campaigns.set_column(campaigns.column_names.index("integrationId"), "integrationId", filled)


def _copy_outlays(copier: Copier, vendor: str, campaigns: Sequence[str]) -> None:
    """Copy all outlays of an integration; delete those that no longer exist in the source."""

    def list_outlays(campaign: str) -> pa.Table:
        of_campaign = {"vendor_id": vendor, "campaign_id": campaign}
        present = copier.list_source("list_outlays", **of_campaign)
        if not copier.has_nodes:
            # The specification has no parameter for deleted ones.
            return present
        deleted = copier.list_source("list_outlays", deleted=True, **of_campaign)
        return pa.concat_tables([present, deleted.filter(pc.is_valid(deleted["deletedAt"]))])

    outlays = pa.concat_tables(copier.pool.map(list_outlays, campaigns))
    copier.load("spend", outlays)
    source_ids = set(outlays["_id"].to_pylist())
    for campaign in campaigns:
        of_campaign = {"vendor_id": vendor, "campaign_id": campaign}
        mirrored = list_all(copier.mirror, "list_outlays", **of_campaign)
        for outlay_id in sorted(set(mirrored["_id"].to_pylist()) - source_ids):
            copier.mirror.send("delete_outlay", outlay_id=outlay_id, **of_campaign)


def copy_event_types(copier: Copier) -> None:
    """Copy event types, including archived ones."""
    for archived in (False, True):
        event_types = copier.list_source("list_event_types", archived=archived)
        if event_types.num_rows:
            copier.mirror.send("mirror_records", resource="event-types", records=event_types)


def copy_rates(copier: Copier) -> None:
    """Copy currency rates; remove those that no longer exist in the source."""
    rates = copier.list_source("list_rates").to_pylist()
    mirrored = list_all(copier.mirror, "list_rates").to_pylist()
    keys = {(rate["currency"], rate["date"]) for rate in rates}
    removed = [{**rate, "rate": None} for rate in mirrored if (rate["currency"], rate["date"]) not in keys]
    if rates or removed:
        copier.mirror.send("set_rates", rates=[*rates, *removed])


def copy_interactions(copier: Copier) -> None:
    """Copy interactions, and hits if the mirror has hits."""
    if copier.run["interactions"] == "done":
        return
    where = copier.changes(interaction, "startDate", _CHANGE_DATES)
    until = parse_instant(copier.run["interactions"]) or copier.until
    is_first = copier.changed is None and copier.run["interactions"] is None
    with _search(copier, where, until) as (chunks, total), progress("interactions", total) as advance:
        for chunk in chunks:
            _load_interactions(copier, chunk, is_first=is_first)
            copier.save_progress(interactions=format_instant(pc.min(chunk["startDate"]).as_py()))
            advance(chunk.num_rows)
    copier.save_progress(interactions="done")


@contextmanager
def _search(
    copier: Copier, where: Predicate | None, until: datetime | None
) -> Iterator[tuple[Iterator[pa.Table], int]]:
    """Search interactions up to a date, the newest first; yields chunks and the total number of records."""
    options: dict[str, Any] = {"since": copier.scope, "until": until, "sort": ["-startDate", "-_id"]}
    options |= {"limit": None, "filtered": None, "bots": None}
    options["columns"] = _ALL_COLUMNS if copier.state["personal"] else None
    where = where if copier.can_filter else None
    try:
        answer = copier.source.stream("search_interactions", where=where, **options)
    except InvalidRequest as error:
        copier.give_up_filters(error, where)
        answer = copier.source.stream("search_interactions", **options)
    with closing(answer):
        yield _chunks(answer), answer.total or 0


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rechunk tables to the size of a transaction."""
    buffer: list[pa.Table] = []
    for table in tables:
        buffer.append(table)
        while sum(map(len, buffer)) >= _INTERACTIONS:
            joined = pa.concat_tables(buffer)
            yield joined.slice(0, _INTERACTIONS)
            buffer = [joined.slice(_INTERACTIONS)]
    if any(map(len, buffer)):
        yield pa.concat_tables(buffer)


def _load_interactions(copier: Copier, page: pa.Table, *, is_first: bool = False) -> None:
    """Load a page of interactions, without personal columns unless the mirror has them."""
    mentioned = {*copier.state.get("mentioned", ())}
    for name in {"integrationId", "partialResolvedVendorId"}.intersection(page.column_names):
        mentioned.update(filter(None, page[name].unique().to_pylist()))
    copier.state["mentioned"] = sorted(mentioned)
    if not copier.state["personal"]:
        page = page.drop_columns([name for name in page.column_names if name in schema.ON_REQUEST])
    copier.load("interactions", page)
    personal = [name for name in page.column_names if name in schema.ON_REQUEST]
    kept_out = copier.state.get("kept_out", {}).get("interactions", {})
    refused = page.filter(pc.is_in(page["_id"], pa.array([*kept_out], pa.string())))
    if personal and refused.num_rows:
        # Identity data of a form that the mirror does not have costs no interaction.
        copier.load("interactions", refused.drop_columns(personal))
        count = refused.num_rows - len(kept_out.keys() & {*refused["_id"].to_pylist()})
        if count:
            names = ", ".join(personal)
            warn(f"sync: {counted(count, 'interactions')} mirrored without {names}, which cannot be kept")
    if copier.state["hits"]:
        _copy_hits(copier, page, is_first=is_first)


def _copy_hits(copier: Copier, page: pa.Table, *, is_first: bool) -> None:
    """Copy the hits of sessions for which the mirror does not have all hits."""

    def lacks(opening: str, count: int | None) -> bool:
        return is_first or copier.mirror.send("list_hits", first_hit_id=opening).count != count

    def hits_of(opening: str) -> pa.Table:
        return list_all(copier.source, "list_hits", first_hit_id=opening)

    counts = zip(page["firstHitId"].to_pylist(), page["hitCount"].to_pylist(), strict=True)
    missing = [first for first, count in counts if first is not None and count != 0 and lacks(first, count)]
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        tables = copier.pool.map(hits_of, batch)
        hits = pa.concat_tables(list(tables))
        # Dates of ingestion are not told; they keep the order.
        order = pa.array(range(hits.num_rows), pa.duration("ms"))
        copier.load("hits", hits.append_column("ingestedAt", pc.add(pa.scalar(instants.now()), order)))


def copy_users(copier: Copier) -> None:
    """Copy users and their events, found by the users that changed: a merge dates users, and no events."""
    where = (
        _within(copier) if copier.changed is None else copier.changes(user, "lastEventDate", ["updatedAt"])
    )
    total = 0
    with progress("users", lambda: total) as advance:
        while True:
            users, left = _users(copier, where, limit=_BATCH)
            total = total or left
            if not users.num_rows:
                break
            _copy_events(copier, users)
            copier.mirror.send("mirror_records", resource="users", records=users)
            copier.save_progress(users=max(users["_id"].to_pylist()))
            advance(users.num_rows)
            if users.num_rows >= left:
                break
    if copier.changed is not None and not copier.has_nodes and (copier.scope, copier.until) == (None, None):
        _copy_late_events(copier)


def _copy_late_events(copier: Copier) -> None:
    """Copy events of users whose number of events differs: another service may not date such a user anew."""
    counts = [
        project.send("search_users", columns=["eventCount"], sort="_id").read().select(["_id", "eventCount"])
        for project in (copier.source, copier.mirror)
    ]
    differing = counts[0].join(counts[1], ["_id", "eventCount"], join_type="left anti")
    ids = differing.filter(pc.greater(differing["eventCount"], 0))["_id"].to_pylist()
    for start in range(0, len(ids), _BATCH):
        copier.load("events", _events_of(copier, ids[start : start + _BATCH]))


def _within(copier: Copier) -> Predicate | None:
    """Return the predicate for users of the mirrored period, or None for all users."""
    if copier.scope is None and copier.until is None:
        return None
    # Users with only bots or filtered traffic have no counts and no dates.
    uncounted = (user("interactionCount") == 0) & (user("eventCount") == 0)
    within = uncounted
    for kind in ("EventDate", "InteractionDate"):
        bounds = [user(f"last{kind}") >= copier.scope] if copier.scope is not None else []
        bounds += [user(f"first{kind}") <= copier.until] if copier.until is not None else []
        within |= reduce(and_, bounds)
    return within


def _users(copier: Copier, where: Predicate | None, *, limit: int) -> tuple[pa.Table, int]:
    options = {"sort": "_id", "id_after": copier.run["users"], "limit": limit}
    while True:
        asked = where if copier.can_filter else None
        try:
            answer = copier.source.send("search_users", columns=copier.user_columns, where=asked, **options)
        except InvalidRequest as error:
            if not error.details and "createdAt" in copier.user_columns:
                # It is not a counter, and not all services take it for a key.
                copier.user_columns.remove("createdAt")
            else:
                copier.give_up_filters(error, asked)
        else:
            return answer.read(), answer.total or 0


def _copy_events(copier: Copier, users: pa.Table) -> None:

    if ids := _users_with_events(copier, users):
        copier.load("events", _events_of(copier, ids))
    if copier.changed is not None and copier.can_filter:
        # A merge changes interactions of a user without updating their dates.
        where = interaction("userId").isin(users["_id"].to_pylist())
        with _search(copier, where, copier.until) as (chunks, _):
            for chunk in chunks:
                _load_interactions(copier, chunk)


def _events_of(copier: Copier, ids: list[str]) -> pa.Table:
    """Return the events of users, with a request per user from services that cannot search events."""
    bounds = {"since": copier.scope, "until": copier.until}
    if copier.can_search_events:
        try:
            return list_all(copier.source, "search_events", user_ids=ids, **bounds)
        except (NotFound, NotSupported):
            copier.can_search_events = False

    def events(user_id: str) -> pa.Table:
        try:
            listed = list_all(copier.source, "list_user_events", id=user_id, sort="_id", **bounds)
        except NotFound:
            # Merged or erased since the users were read.
            return schema.RESOURCES["Event"].empty_table()
        place = listed.column_names.index("userId")
        return listed.set_column(place, "userId", pc.fill_null(listed["userId"], user_id))

    return pa.concat_tables(list(copier.pool.map(events, ids)))


def _users_with_events(copier: Copier, users: pa.Table) -> list[str]:
    """Return the ids of users who may have events in the period."""
    # What the service does not say of a user may be anything.
    mask = pc.greater(users["eventCount"], 0)
    if copier.scope is not None:
        mask = pc.and_(mask, pc.greater_equal(users["lastEventDate"], copier.scope))
    if copier.until is not None:
        mask = pc.and_(mask, pc.less_equal(users["firstEventDate"], copier.until))
    ids: list[str] = users.filter(pc.fill_null(mask, True))["_id"].to_pylist()
    return ids


def format_instant(instant: datetime | None) -> str | None:
    """Format an instant as saved in the mirror."""
    return None if instant is None else instants.format(instant)


def parse_instant(saved: str | None) -> datetime | None:
    """Parse an instant saved in the mirror."""
    return None if saved is None else instants.parse(saved, argument="progress")
