"""Project: the handle that every function takes first."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import platformdirs

from attrib_ds import display, errors, instants
from attrib_ds.contract import OPERATIONS, Answer, Operation, Request, administration, build, wire_order
from attrib_ds.contract.identifiers import coded
from attrib_ds.filters import predicates
from attrib_ds.transports import Transport
from attrib_ds.transports.http.configuration import Remote, find_remote

if TYPE_CHECKING:
    from attrib_ds.attribution.paths.project_tables import Tables

T = TypeVar("T")

#: Operations after which what is remembered of event types is out of date.
_OF_EVENT_TYPES: Final = frozenset(
    {"create_event_type", "update_event_type", "archive_event_type", "restore_event_type"}
)
_LARGEST_PAGE: Final = 100_000
_BOUNDS: Final = frozenset({"since", "until", "changed_since"})
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def takes_project(function: FunctionT) -> FunctionT:
    """Refuse anything but a project as the first argument of a public function."""

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        given = arguments[0] if arguments else named.get("project")
        if not isinstance(given, Project) and (arguments or "project" in named):
            what = f"the id {given!r}" if isinstance(given, str) else type(given).__name__
            raise errors.InvalidRequest(
                f"project: {what} is not allowed; expected a project, such as attrib_ds.connect("
                f"{given if isinstance(given, str) else 'my-shop'!r})"
            )
        return function(*arguments, **named)

    return cast(FunctionT, checked)


@dataclass(frozen=True)
class Project:
    """A project of an attribution service, from :func:`connect`.

    Use it as a context manager, or :meth:`close` it, to release an embedded project's file.

    Attributes
    ----------
    project_id : str
        3 to 64 characters of ``a-z``, ``0-9`` and single hyphens.
    """

    project_id: str
    transport: Transport = field(repr=False)
    #: Arguments of :func:`connect` that open it again, without secrets; none for an embedded project.
    opening: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False, compare=False)
    _memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def send(self, operation: str, **arguments: Any) -> Answer:
        """Validate the arguments of an operation and carry it out."""
        self._refuse_fork()
        declared = OPERATIONS[operation]
        if operation in _OF_EVENT_TYPES:
            self._memory.clear()
        return self.transport.send(declared, self._request(declared, arguments))

    def stream(self, operation: str, **arguments: Any) -> Answer:
        """Validate the arguments of an operation and stream its records; close the answer afterwards."""
        self._refuse_fork()
        declared = OPERATIONS[operation]
        return self.transport.stream(declared, self._request(declared, arguments))

    def bound(self, value: Any, *, argument: str, timezone: str | None = None) -> Any:
        """Return the last instant of a day for ``until`` and the first one for other bounds.

        Parameters
        ----------
        value : datetime, date, str or None
            Anything but a day is returned as it is.
        argument : {"since", "until", "changed_since"}
            The bound.
        timezone : str, optional
            IANA name of the days' time zone; by default that of the project. A remote project is asked for
            its settings; if it does not have them, days are in UTC.
        """
        day = instants.parse_day(value, argument=argument)
        if day is None:
            return value
        instant = instants.last_instant if argument == "until" else instants.first_instant
        return instant(day, self._zone(timezone), argument=argument)

    def with_instants(self, predicate: Any, *, timezone: str | None = None) -> Any:
        """Return a predicate with instants instead of calendar days; other values as they are."""
        if not isinstance(predicate, predicates.Predicate):
            return predicate
        return predicates.in_zone(predicate, partial(self._zone, timezone))

    def _zone(self, timezone: str | None) -> ZoneInfo:
        name = timezone or self.timezone()
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError, TypeError, ValueError) as error:
            raise errors.InvalidRequest(
                f"timezone: {name!r} is not allowed; allowed: an IANA time zone, such as 'Europe/Paris'"
            ) from error

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        self._refuse_fork()
        return self.transport.tables()

    def close(self) -> None:
        """Close the project; closing it again, or in a forked process, does nothing."""
        if os.getpid() == self._process:
            self.transport.close()

    def _refuse_fork(self) -> None:
        """Raise in a forked process: it shares connections with its parent, but has none of its threads."""
        if os.getpid() != self._process:
            raise errors.Unavailable(
                "the project was opened in another process; call connect() in the process that needs it, or "
                "start processes with multiprocessing.get_context('spawn')"
            )

    def _request(self, operation: Operation, arguments: dict[str, Any]) -> Request:
        if "sort" in arguments:
            arguments |= wire_order(operation, arguments["sort"])
        timezone = arguments.get("timezone")
        for name, value in arguments.items():
            if name in _BOUNDS:
                arguments[name] = self.bound(value, argument=name, timezone=timezone)
            elif name == "columns" and isinstance(value, str):
                arguments[name] = [value]
            else:
                arguments[name] = self.with_instants(value, timezone=timezone)
        return build(operation, project_id=self.project_id, **arguments)

    def timezone(self) -> str:
        """Return the IANA name of the project's time zone, or UTC if the service does not provide it."""
        local = self.transport.timezone
        return self.remembered("timezone", self._timezone_of_service) if local is None else local

    def _timezone_of_service(self) -> str:
        try:
            settings = self.send("get_settings").read()
        except (errors.NotFound, errors.Forbidden):
            return "UTC"
        except errors.NotSupported:
            errors.warn(f"{self.transport.address} has no get_settings: days are in UTC")
            return "UTC"
        return settings["timezone"][0].as_py() or "UTC"

    def remembered(self, name: str, read: Callable[[], T]) -> T:
        """Return the result of ``read``; for a remote project, read it once per connection."""
        if self.transport.timezone is not None:
            return read()
        if name not in self._memory:
            self._memory[name] = read()
        value: T = self._memory[name]
        return value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Project {self.project_id!r} at {self.transport.address}>"

    def _repr_html_(self) -> str:
        return display.card("Project", {"id": self.project_id, "at": self.transport.address})


def connect(
    project_id: str,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    url_v2: str | None = None,
    auth_url: str | None = None,
    key: str | Path | Mapping[str, str] | None = None,
    routes: str | Path | None = None,
    page_size: int | None = None,
    currency: str | None = None,
    timezone: str | None = None,
    read_only: bool = False,
    allow_insecure: bool = False,
) -> Project:
    """Open an embedded project, or a project of a remote service.

    Parameters
    ----------
    project_id : str
        3 to 64 characters of ``a-z``, ``0-9`` and single hyphens.
    path : str or Path, optional
        File of an embedded project, or ``":memory:"`` for one that is lost when it is closed. By default
        ``<project_id>.duckdb`` in the folder ``ATTRIB_DS_HOME``, or in the user's data folder. A missing file
        is created.
    url : str, optional
        Address of a remote service, with or without ``/api/v1``; by default ``ATTRIB_DS_URL``, then ``url``
        in ``config.toml`` in the user's configuration folder. With ``path`` the project is embedded.
    url_v2, auth_url : str, optional
        Addresses of the second version of the service (by default beside ``url``) and of its accounts (by
        default ``/auth`` at the same origin). ``ATTRIB_DS_URL_V2`` and ``ATTRIB_DS_AUTH_URL`` apply together
        with ``ATTRIB_DS_URL``.
    key : str, Path or mapping, optional
        The service account's key file, or its content; by default ``ATTRIB_DS_KEY``, then ``key`` in
        ``config.toml``. Services may accept events without one.
    routes : str or Path, optional
        A TOML file with the methods and paths of a service that differ from the default: ``[list_nodes]``,
        then ``path = "/projects/{projectId}/sources"``; by default ``ATTRIB_DS_ROUTES``.
    page_size : int, optional
        Number of records per request to a remote service, 10,000 by default. If the service or a gateway
        refuses as many, fewer are requested.
    currency, timezone : str, optional
        Currency (a code of ISO 4217 or a sign of one currency) and time zone (IANA name) of a new embedded
        project, by default ``"EUR"`` and ``"UTC"``. They never change: other values are an error for an
        existing project.
    read_only : bool, default False
        Open the file of an embedded project read-only. Several processes may do this at once.
    allow_insecure : bool, default False
        Allow ``http://`` for the address of another machine, although tokens and data are then readable on
        the network.

    Returns
    -------
    Project
        The handle that every other function takes first.

    Raises
    ------
    InvalidRequest
        If the project id is not well-formed or belongs to another file, or an address or the key is invalid;
        the message never shows the key.
    ProjectInUse
        If another process holds the file.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     shop
    <Project 'my-shop' at :memory:>
    """
    build(OPERATIONS["list_nodes"], project_id=project_id)
    # Tracebacks must not show the content of a key.
    given = {"url": url, "url_v2": url_v2, "auth_url": auth_url, "key": _veiled(key), "routes": routes}
    del key
    remote = _find_remote(given, path)
    if remote is not None:
        embedded_only = {"read_only": read_only, "currency": currency, "timezone": timezone}
        for name, value in embedded_only.items():
            if value:
                raise errors.InvalidRequest(f"{name}: only for embedded projects; leave it out")
        # Imported late, since embedded projects do not need it.
        from attrib_ds.transports.http.transport import open_http

        if page_size is not None:
            page_size = errors.check_whole("page_size", page_size, minimum=1, maximum=_LARGEST_PAGE)
        http = open_http(remote, allow_insecure=allow_insecure, page_size=page_size)
        opening = {name: str(value) for name, value in vars(remote).items() if isinstance(value, str | Path)}
        return Project(project_id, http, opening)
    if page_size is not None:
        raise errors.InvalidRequest("page_size: only for remote projects; leave it out")
    file = path if path is not None else home() / f"{project_id}.duckdb"
    return open_embedded(project_id, file, currency=currency, timezone=timezone, read_only=read_only)


def open_tables(
    backend: Any,
    *,
    interactions: Any,
    events: Any,
    metrics: Any = None,
    nodes: Any = None,
    spend: Any = None,
    users: Any = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    project_id: str = "tables",
    currency: str = "EUR",
    timezone: str = "UTC",
    unchecked: bool = False,
) -> Project:
    """Open a read-only project over tables of Spark, a warehouse or another engine.

    Queries run where the tables are; only results leave the engine. Each table is given by its name in the
    engine or as an Ibis table, and may have further columns.

    Parameters
    ----------
    backend : ibis backend
        An Ibis connection to DuckDB, Spark, PostgreSQL or ClickHouse, such as
        ``ibis.pyspark.connect(session)`` or ``ibis.postgres.connect(host=..., database=...)``. Set its
        session to UTC: it determines how instants with a time zone are read.
    interactions : str or ibis.Table
        ``_id``, ``userId``, ``nodeId`` (text), ``startDate`` (timestamp); optionally ``type``,
        ``isBot``, ``trafficFilterId``, ``hitCount``, ``duration``, and the columns that filters use.
    events : str or ibis.Table
        ``_id``, ``userId``, ``eventType`` (text), ``eventDate`` (timestamp). A column
        ``statistics.turnover`` is the statistic ``turnover`` of the event, an amount of money if there is a
        column ``statistics.turnover.currency``; ``states.paid`` is the date on which the event reached the
        state ``paid``.
    metrics : str or ibis.Table, optional
        Statistics and states in rows, instead of or in addition to columns of events: ``eventId``, ``key``,
        ``type`` (``"statistic"`` or ``"state"``), and ``number``, or ``amount`` and ``currency``; ``date``.
    nodes : str or ibis.Table, optional
        The tree of traffic sources, read once: ``_id``, ``name``, and optionally ``parentId``, ``type``,
        ``channel``. Without it, ids serve as names.
    spend : str or ibis.Table, optional
        ``campaignId`` (a node), ``startDate``, ``endDate``, ``amount.amount`` and, unless it is the
        project's, ``amount.currency``.
    users : str or ibis.Table, optional
        ``_id`` and the properties that filters on users name, such as ``fields.city`` or ``eventCount``; a
        column of lists holds several values of a field.
    columns : mapping of str to mapping, optional
        Names of columns in your tables by the names above:
        ``{"interactions": {"userId": "visitor", "geo.city": "city"}}``.
    project_id : str, default "tables"
        Name of the project in results.
    currency : str, default "EUR"
        The project's currency (a code of ISO 4217 or a sign of one currency).
    timezone : str, default "UTC"
        The project's time zone (IANA).
    unchecked : bool, default False
        Whether to accept an engine on which the tests do not run. Its SQL may differ, so
        :func:`attrib_ds.attribute` then checks that the credits of each model add up to the conversions;
        insights are not checked.

    Returns
    -------
    Project
        For :func:`attrib_ds.conversion_paths`, :func:`attrib_ds.interaction_insights`,
        :func:`attrib_ds.event_insights` and :func:`attrib_ds.list_nodes`; other functions raise
        ``NotSupported``.

    Raises
    ------
    InvalidRequest
        If a table or column is missing, or a column has another type; the message names it.
    NotSupported
        If the tests do not run on the engine, and ``unchecked`` is false.

    Examples
    --------
    >>> import ibis
    >>> import pyarrow as pa
    >>> import attrib_ds as at
    >>> days = pa.array([1, 2], pa.timestamp("s"))
    >>> engine = ibis.duckdb.connect()
    >>> visits = {"_id": ["1"], "userId": ["ann"], "nodeId": ["search"], "startDate": days[:1]}
    >>> _ = engine.create_table("visits", pa.table(visits))
    >>> orders = {"_id": ["a"], "userId": ["ann"], "eventType": ["order"], "eventDate": days[1:]}
    >>> _ = engine.create_table("orders", pa.table(orders))
    >>> shop = at.open_tables(engine, interactions="visits", events="orders")
    >>> at.attribute(at.conversion_paths(shop, event_type="order"), "linear")["node_id"].tolist()
    ['search']
    """
    currency = coded(currency)
    administration.check_project(project_id=project_id, currency=currency, timezone=timezone)
    # Imported late, since other projects do not need it.
    from attrib_ds.attribution.engines.engine import portable
    from attrib_ds.attribution.paths.table_inputs import ExternalTables, read_tables
    from attrib_ds.transports.opened_tables import OpenedTables

    given = {"interactions": interactions, "events": events, "metrics": metrics}
    given |= {"nodes": nodes, "spend": spend, "users": users}
    external = ExternalTables(portable(backend, unchecked=unchecked), _checked_columns(columns, given))
    tables = read_tables(external, given, currency, timezone)
    return Project(project_id, OpenedTables(tables, f"tables of {external.backend.name}"))


def open_hits(
    backend: Any,
    *,
    hits: Any,
    events: Any = None,
    spend: Any = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    traffic_filters: Sequence[str] = (),
    excluded_referrers: Sequence[str] = (),
    domains: Sequence[str] = (),
    project_id: str = "hits",
    currency: str = "EUR",
    timezone: str = "UTC",
    unchecked: bool = False,
) -> Project:
    """Open a read-only project over raw hits in Spark, a warehouse or another engine.

    The engine makes sessions of the hits, by the rules of :func:`load`: the same sessions, traffic sources,
    channels, bots and filters. Distinct texts of URLs and user agents are read here, some at a time.

    Parameters
    ----------
    backend : ibis backend
        As for :func:`open_tables`. Sessions are kept in temporary tables while the project is in use.
    hits : str or ibis.Table
        ``trackerId``, ``pageUrl`` (text), ``date`` (timestamp), and the optional columns of raw hits as for
        :func:`load`. Rows that break a rule are left out with a warning. If several rows have the same
        ``hitId``, the earliest counts.
    events : str or ibis.Table, optional
        As for :func:`open_tables`, with ``trackerId``, ``userId`` or both. ``userId`` is the id of a person,
        such as a customer number, and null where nobody was identified. Without one, a session or an event
        belongs to the person whom an earlier event of the same browser identified, else to the first person
        identified afterwards, else to the user ``trackerId <id>``.
    spend : str or ibis.Table, optional
        As for :func:`open_tables`.
    columns : mapping of str to mapping, optional
        Names of columns in your tables by the names above: ``{"hits": {"trackerId": "visitor"}}``.
    traffic_filters, excluded_referrers, domains : sequence of str
        As the settings of a project, :func:`attrib_ds.admin.update_settings`.
    project_id : str, default "hits"
        Name of the project. Ids of sessions are made of it and of their first hit.
    currency, timezone : str
        As for :func:`open_tables`.
    unchecked : bool, default False
        As for :func:`open_tables`.

    Returns
    -------
    Project
        As from :func:`open_tables`.

    Raises
    ------
    InvalidRequest
        If a table or column is missing, or a column has another type; the message names it.
    NotSupported
        If the tests do not run on the engine and ``unchecked`` is false, or events have several identities.

    Examples
    --------
    >>> import ibis
    >>> import pyarrow as pa
    >>> import attrib_ds as at
    >>> engine = ibis.duckdb.connect()
    >>> days = pa.array([1_738_324_800, 1_738_325_000], pa.timestamp("s"))
    >>> pages = {"trackerId": ["t"], "date": days[:1], "pageUrl": ["https://shop.example/?gclid=1"]}
    >>> _ = engine.create_table("pages", pa.table(pages))
    >>> orders = {"_id": ["a"], "trackerId": ["t"], "eventType": ["order"], "eventDate": days[1:]}
    >>> _ = engine.create_table("orders", pa.table(orders))
    >>> shop = at.open_hits(engine, hits="pages", events="orders")
    >>> at.attribute(at.conversion_paths(shop, event_type="order"), "linear")["node_id"].tolist()
    ['google/cpc']
    """
    currency = coded(currency)
    administration.check_project(project_id=project_id, currency=currency, timezone=timezone)
    checked: Any = build(
        OPERATIONS["update_settings"],
        project_id=project_id,
        traffic_filters=traffic_filters,
        excluded_referrers=excluded_referrers,
        domains=domains,
    )
    lists = (checked.trafficFilters, checked.excludedReferrers, checked.domains)
    settings = [each or () for each in lists]
    # Imported late, since other projects do not need it.
    from attrib_ds.attribution.engines.engine import portable
    from attrib_ds.attribution.paths.table_inputs import ExternalTables, read_tables
    from attrib_ds.queries import raw_hits
    from attrib_ds.transports.opened_tables import OpenedTables

    named = _checked_columns(columns, {"hits", "events", "spend"})
    external = ExternalTables(portable(backend, unchecked=unchecked), named)
    interactions, converted, nodes = raw_hits.read(
        external, hits, events, raw_hits.Settings(project_id, *settings)
    )
    tables = read_tables(
        ExternalTables(external.backend, {"spend": external.columns.get("spend", {})}),
        {"interactions": interactions, "events": converted, "nodes": nodes, "spend": spend},
        currency,
        timezone,
    )
    return Project(project_id, OpenedTables(tables, f"hits of {external.backend.name}"))


def _checked_columns(columns: Any, tables: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Return names of columns by tables; refuse those of no table."""
    for name in columns or {}:
        errors.check_choice("columns", name, tables)
    return columns or {}


def open_embedded(
    project_id: str,
    path: str | Path,
    *,
    currency: str | None = None,
    timezone: str | None = None,
    read_only: bool = False,
    is_synced: bool = False,
) -> Project:
    """Open an embedded project; for the parameters see :func:`connect`. ``sync`` warns at its end instead."""
    # The only import of the service, late so that a remote client never loads it.
    from attrib_ds.service import Service

    chosen: dict[str, Any] = {
        name: value for name, value in (("currency", coded(currency)), ("timezone", timezone)) if value
    }
    opened = Service.open(project_id, str(path), read_only=read_only, **chosen)
    try:
        for name, value in chosen.items():
            held = getattr(opened, name)
            if held != value:
                raise errors.InvalidRequest(
                    f"{name}: got {value!r}, but the project has {held!r}, which cannot change"
                )
        if not is_synced:
            warn_of_gaps("connect", opened.kept_out())
    except BaseException:
        opened.close()
        raise
    return Project(project_id, opened)


def warn_of_gaps(function: str, kept_out: Mapping[str, Mapping[str, str]]) -> None:
    """Warn once of all that a mirror lacks of its source: reasons by id, by kind of record."""
    gaps = [
        f"{kind} ({len(reasons):,}, the first is {next(iter(reasons))}: {next(iter(reasons.values()))})"
        for kind, reasons in kept_out.items()
        if reasons
    ]
    if gaps:
        errors.warn(f"{function}: the mirror lacks {', '.join(gaps)}; attrib_ds.admin.check(mirror) lists it")


def _veiled(key: str | Path | Mapping[str, str] | None) -> Any:
    if key is None:
        return None
    from attrib_ds.transports.http.credentials import protect_key

    return protect_key(key)


def _find_remote(given: Mapping[str, Any], path: str | Path | None) -> Remote | None:
    named = [name for name, value in given.items() if value is not None]
    if path is None:
        return find_remote(given)
    if named:
        raise errors.InvalidRequest(
            f"path: is for embedded projects, {named[0]} for remote ones; leave one of them out"
        )
    return None


def home() -> Path:
    """Return the folder of embedded projects: ``ATTRIB_DS_HOME``, or one in the user's data folder."""
    named = os.environ.get("ATTRIB_DS_HOME")
    return Path(named) if named else Path(platformdirs.user_data_dir("attrib-ds"))
