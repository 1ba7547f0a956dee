"""The result of an importer: tables of visits, views and conversions, as frames and paths."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import duckdb
import pandas as pd
import pyarrow as pa

from attrib_ds import display, errors, sql_results
from attrib_ds.api.results import Loaded, load
from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.attribution.paths.paths import Bound, Paths
from attrib_ds.attribution.paths.project_tables import ancestors_at, replaced
from attrib_ds.attribution.paths.windows import Lookback
from attrib_ds.contract.identifiers import code_of
from attrib_ds.importers.aliases import Aliases
from attrib_ds.importers.columns import names_of
from attrib_ds.importers.reading import Reading
from attrib_ds.project import Project
from attrib_ds.queries import raw_hits
from attrib_ds.records import export_tables, written_values
from attrib_ds.records.currencies import checked_code, warn_of_missing
from attrib_ds.records.frames import Frame, FrameOrPath, to_pandas
from attrib_ds.records.sources import cases, literal, quoted
from attrib_ds.traffic import sessions
from attrib_ds.traffic.channel_rules import channel_matcher, default_channel, read_rules
from attrib_ds.traffic.sources import (
    CLICKED,
    NAMED,
    Node,
    Traffic,
    chain,
    referrer_type,
    resolve_visits,
    tree,
)

#: Column of events with their id in the source.
SOURCE_ID = "event.sourceId"
#: Statistic with the value of conversions.
REVENUE = "statistics.revenue"


@dataclass(frozen=True, eq=False, repr=False)
class Journeys:
    """Interactions, events and nodes read from an export.

    Returned by :func:`attrib_ds.read_ga4`, :func:`attrib_ds.read_snowplow`, :func:`attrib_ds.read_matomo` and
    :func:`attrib_ds.read_journeys`. The frames have the columns that :func:`attrib_ds.load` takes. Ids are
    derived from those of the source, so that reading the same data again gives the same ids.

    Attributes
    ----------
    interactions : DataFrame
        One row per session or touchpoint, by date.
    events : DataFrame
        One row per conversion, by date; ``event.sourceId`` is its id in the source.
    nodes : DataFrame
        The tree of traffic sources, parents before children.
    hits : DataFrame
        One row per page view; empty if the source has none.
    rejected : DataFrame
        Rows that could not be read: ``file`` (str), ``row`` (Int64), ``reason`` (str). Rows of frames are
        counted from 0, those of files from 1, with their header.
    repeated : int
        Number of duplicate conversions that were dropped.
    columns : dict of str to dict
        The columns used, by kind and role, if they were matched by name.
    notes : tuple of str
        What was understood of exports of known services, a line each.
    spend : DataFrame, optional
        ``node_id``, ``spend`` and, if known, ``currency`` and ``date``, of the files of spend; the paths have
        it.
    users : DataFrame, optional
        ``_id`` in these frames and ``user_id`` in the source, which the paths have.
    groups : DataFrame, optional
        ``event_id`` in the source, and ``country`` and ``device_type`` of files that have them, by which
        ``Paths.split`` divides.
    refunds : DataFrame, optional
        ``event_id`` in the source, and ``value`` (below 0), of the refunds in an export that are subtracted.
    reading : Reading, optional
        How files of one's own were understood, to be used again.
    """

    interactions: pd.DataFrame
    events: pd.DataFrame
    nodes: pd.DataFrame
    hits: pd.DataFrame
    rejected: pd.DataFrame
    repeated: int = 0
    columns: dict[str, dict[str, str | Sequence[str]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    spend: pd.DataFrame | None = None
    users: pd.DataFrame | None = None
    groups: pd.DataFrame | None = None
    refunds: pd.DataFrame | None = None
    reading: Reading | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by kind."""
        frames = {"interactions": self.interactions, "events": self.events, "hits": self.hits}
        return {name: len(frame) for name, frame in frames.items() if len(frame) or name != "hits"}

    def load(self, project: Project) -> Loaded:
        """Load everything into an embedded project.

        Records with the same id are replaced if they differ and never duplicated, so that the days of an
        export may overlap.

        Parameters
        ----------
        project : Project
            An embedded project, from :func:`attrib_ds.connect`.

        Returns
        -------
        Loaded
            Counts of new and changed records, and rejected rows.
        """
        names = ("nodes", "interactions", "hits", "events")
        frames: dict[str, Any] = {name: frame for name in names if len(frame := getattr(self, name))}
        amount, unit = f"{REVENUE}.amount", f"{REVENUE}.currency"
        if "events" in frames and unit in self.events.columns:
            # A number alone is in the currency of the project.
            known = self.events[unit].notna()
            numbers = {REVENUE: self.events[amount].mask(known), amount: self.events[amount].where(known)}
            frames["events"] = self.events.assign(**{} if known.all() else numbers)
        return load(project, **frames, replace=True)

    def paths(
        self,
        *,
        event_type: str | Sequence[str] | None = None,
        lookback: Lookback = "30D",
        level: str | None = None,
        since: Bound = None,
        until: Bound = None,
        reset: str = "none",
        adjustments: FrameOrPath | None = None,
        in_currency: str | None = None,
        rates: Frame | None = None,
        later_rate: str = "original",
    ) -> Paths:
        """Build the paths of conversions without a project.

        Parameters
        ----------
        event_type : str or sequence of str, optional
            Types of the events that are conversions; required if there are several.
        lookback : str, timedelta or mapping, default "30D"
            As in :func:`attrib_ds.conversion_paths`; all touchpoints have the type ``session``.
        level : str, optional
            Credit the ancestor of this type (``"campaign"``), or the channel (``"channel"``), instead of the
            node that was touched.
        since, until : datetime, date or str, optional
            Earliest and latest date of conversions, as in :meth:`Paths.within`; by default all.
        reset : {"none", "same", "any"}, default "none"
            Which earlier conversions of a user end the window: none of them, those of the same event type, or
            all that are read, whatever ``event_type``.
        adjustments : DataFrame or path of a Parquet file, optional
            Amounts later than their conversion, such as refunds, as in ``Paths.from_frames``: ``event_id``
            (the conversion's id in the source), ``date``, ``value`` and, optionally, ``currency``. Leave out
            refunds that are subtracted already, as those in Google Analytics are.
        in_currency : str, optional
            Currency to convert every value to by ``rates``, at the date of the conversion.
        rates : DataFrame, optional
            ``currency``, ``date`` and ``rate``, as in ``Paths.from_frames``.
        later_rate : {"original", "own"}, default "original"
            Whether adjustments are converted at the date of their conversion or at their own.

        Returns
        -------
        Paths
            Conversions are identified by their id in the source; bots are left out.

        Raises
        ------
        InvalidRequest
            If the event type does not exist, or there are several and none is given; or a currency has no
            rate at a date.

        Warns
        -----
        InputWarning
            If adjustments lower the value of conversions whose refunds are subtracted already.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> clicks = pd.DataFrame({"user": ["u"], "channel": ["search"], "date": ["2025-01-01"]})
        >>> orders = pd.DataFrame({"order_id": [1001], "user": ["u"], "date": ["2025-01-02"],
        ...                        "value": [90.0]})
        >>> refunds = pd.DataFrame({"event_id": [1001], "date": ["2025-01-09"], "value": [-30.0]})
        >>> paths = at.read_journeys(clicks, orders, currency="EUR").paths(adjustments=refunds)
        >>> at.attribute(paths, "linear")["value"].tolist()
        [60.0]
        """
        event_types = sorted(set(self.events["eventType"]))
        if event_type is None and len(event_types) > 1:
            raise errors.InvalidRequest(
                f"event_type is required with several event types; allowed: {', '.join(event_types)}",
                field="event_type",
            )
        # Days without any conversion are not an error: they have no paths, for any event type.
        wanted = [event_type] if isinstance(event_type, str) else list(event_type or event_types)
        for each in wanted if event_types else ():
            errors.check_choice("event_type", each, event_types)
        is_wanted = self.events["eventType"].isin(wanted)
        # Events of other types end windows, but have no paths of their own.
        events = self.events[is_wanted | (reset == "any")]
        human = self.interactions[~self.interactions["isBot"].astype(bool)]
        touchpoints = human[["_id", "userId", "nodeId", "startDate"]].set_axis(
            ["touch_id", "user_id", "node_id", "date"], axis="columns"
        )
        if level is not None:
            touchpoints["node_id"] = replaced(touchpoints["node_id"], ancestors_at(self.nodes, level))
        if isinstance(lookback, Mapping):
            touchpoints["type"] = human["type"]
        names = {SOURCE_ID: "event_id", "userId": "user_id", "eventDate": "date"}
        columns = {"touch": "touch_id"}
        if reset != "none":
            names["eventType"] = columns["kind"] = "kind"
        amount = REVENUE if REVENUE in events.columns else f"{REVENUE}.amount"
        if events.loc[is_wanted, amount].notna().any():
            names |= {amount: "value", f"{REVENUE}.currency": "currency"}
        conversions = events[[name for name in names if name in events.columns]].rename(columns=names)
        others = conversions.index[~is_wanted.loc[conversions.index]]
        if len(others):
            conversions.loc[others, "event_id"] = conversions["kind"] + _SEPARATOR + conversions["event_id"]
        if "value" in conversions.columns:
            conversions.loc[others, "value"] = None
        if self.users is not None:
            known = self.users.set_index("_id")["user_id"]
            for rows in (touchpoints, conversions):
                rows["user_id"] = rows["user_id"].map(known).fillna(rows["user_id"])
        with warnings.catch_warnings():
            # Reading the files has told of these.
            told = ".*(a spreadsheet has rounded it|counts as one person|a value but no currency)"
            warnings.filterwarnings("ignore", told, UserWarning)
            paths = Paths.from_frames(
                touchpoints,
                conversions,
                lookback=lookback,
                columns=columns,
                reset=reset,
                adjustments=adjustments,
                in_currency=in_currency,
                rates=rates,
                later_rate=later_rate,
            )
        if len(others):
            tables = {name: getattr(paths, name) for name in ("touches", "converted", "conversions")}
            paths = replace(paths, **{k: rows.filter(rows.kind.isin(wanted)) for k, rows in tables.items()})
        self._warn_of_repeated_refunds(paths)
        tree = self.nodes.rename(columns={"_id": "node_id", "parentId": "parent_id"})
        tree = tree[["node_id", "name", "type", "parent_id"]]
        # Reading files of one's own has told of doubts.
        is_checked = self.reading is not None
        dates = self._date_of("touchpoints"), self._date_of("conversions")
        paths = replace(paths, nodes=tree, groups=self.groups, is_checked=is_checked, date_columns=dates)
        if self.spend is not None:
            ids = self.spend["node_id"]
            credited = ids if level is None else replaced(ids, ancestors_at(self.nodes, level))
            paths = paths.with_spend(self.spend.assign(node_id=credited))
        return paths.within(since=since, until=until)

    def _date_of(self, table: str) -> str:
        """Return the column of dates of a table, as code."""
        return f"{table}[{', '.join(map(repr, names_of(self.columns.get(table, {}).get('date', 'date'))))}]"

    def _warn_of_repeated_refunds(self, paths: Paths) -> None:
        """Warn of adjustments that may be refunds that are subtracted already."""
        if self.refunds is None or paths.later is None or self.refunds.empty:
            return
        later = paths.later.filter(paths.later.value < 0).select("event_id").to_pyarrow().to_pandas()
        twice = later["event_id"][later["event_id"].isin(self.refunds["event_id"])]
        if len(twice):
            errors.warn(
                f"adjustments: {display.counted(len(twice), 'rows')} below 0 of conversions whose refunds "
                f"are already subtracted, such as {display.printable(repr(min(twice)))}. Leave out refunds "
                "that are also in the export: they count twice"
            )

    def __repr__(self) -> str:
        kinds = {**self.counts, "nodes": len(self.nodes)}
        counts = ", ".join(display.counted(count, kind) for kind, count in kinds.items())
        said = "".join(f"; {note}" for note in self.notes)
        return f"<Journeys of {counts}; {display.counted(len(self.rejected), 'rows')} rejected{said}>"


_TRAFFIC: Final = [field.name for field in fields(Traffic)]
#: Columns of the table ``visits``. ``device`` is the browser, ``account`` the user's id in the source; at
#: least one of them is set. ``landing`` and ``came_from`` are the addresses by which the source of a visit is
#: resolved, beside its words, which ``is_derived`` tells from a campaign; without them, the words are it.
VISITS: Final = dict.fromkeys(
    [
        "visit_key", "device", "account", "started", "ended", *_TRAFFIC, "page", "referrer", "is_bot",
        "landing", "came_from", "is_derived", "reason",
        "agent", "browser", "browser_version", "system", "system_version", "device_type", "country", "region",
        "city",
    ],
    "VARCHAR",
) | {"started": "TIMESTAMP", "ended": "TIMESTAMP", "is_bot": "BOOLEAN", "is_derived": "BOOLEAN"}  # fmt: skip
#: Columns of the table ``views``: page views.
VIEWS: Final = {"view_key": "VARCHAR", "visit_key": "VARCHAR", "viewed": "TIMESTAMP", "page": "VARCHAR"}
#: Columns of the table ``conversions``; rows with the same ``kind`` and ``source_id`` are duplicates.
CONVERSIONS: Final = dict.fromkeys(
    ("source_id", "kind", "name", "device", "account", "occurred", "amount", "currency"), "VARCHAR"
) | {"occurred": "TIMESTAMP", "amount": "DOUBLE"}
_SEPARATOR: Final = "\x1f"
_MAX_NAMES: Final = 20


def create_table(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    types: Mapping[str, str],
    columns: Mapping[str, str],
    rows: str,
) -> None:
    """Create one of the tables that :func:`assemble` reads.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the table.
    table : str
        Name of the table.
    types : mapping of str to str
        SQL type by column.
    columns : mapping of str to str
        SQL expression by column; one without is selected by its name, or NULL if the rows do not have it.
    rows : str
        Rest of the query, from ``FROM`` on.
    """
    present = connection.sql(f"SELECT * {rows}").columns
    selected = ", ".join(
        f"CAST({columns.get(name, name if name in present else 'NULL')} AS {sql_type}) AS {name}"
        for name, sql_type in types.items()
    )
    connection.execute(f"CREATE TABLE {table} AS SELECT {selected} {rows}")


_ORIGIN: Final = "^([a-zA-Z][a-zA-Z0-9+.-]*:)?//[^/?#]*"


def resolve_sources(connection: duckdb.DuckDBPyConnection, table: str, *, own: Sequence[str] = ()) -> None:
    """Resolve the sources of the rows of a table with the columns of visits, by their evidence.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        With the table, which gets ``is_campaign`` and ``leaf``, the node, too.
    table : str
        Its name.
    own : sequence of str
        Hosts of the site, of pages without a host.
    """

    def origin(address: str) -> str:
        return f"coalesce(nullif(regexp_extract({address}, {literal(_ORIGIN)}), ''), {address})"

    words = ("source", "medium", "campaign", "ad", "keyword")
    has_words = f"regexp_matches(lower(landing), {literal(NAMED)})"
    query = f"regexp_extract(landing, '[?#].*'), {literal(CLICKED)}, '\\1x\\4', 'gi'"
    evidence = {
        "search": f"CASE WHEN {has_words} THEN regexp_replace({query}) END",
        "page": f"CASE WHEN regexp_matches(landing, {literal(_ORIGIN)}) THEN {origin('landing')} END",
        "referrer": origin("regexp_replace(came_from, '[?#].*', '')"),
        **{name: name for name in words},
        "is_derived": "coalesce(is_derived, false)",
    }
    key = " || ".join(f"coalesce({value}, '') || {literal(_SEPARATOR)}" for value in evidence.values())
    key = f"CASE WHEN coalesce(landing, came_from) IS NOT NULL THEN {key} END"
    key = key.replace("coalesce(coalesce(is_derived, false), '')", "coalesce(is_derived, false)")
    selected = ", ".join(f"any_value({value}) AS {name}" for name, value in evidence.items())
    distinct = sql_results.read_arrow(
        connection,
        f"SELECT {key} AS evidence, {selected} FROM {table} "
        "WHERE coalesce(landing, came_from) IS NOT NULL GROUP BY 1 ORDER BY 1",
    )
    resolved = resolve_visits(distinct, own=own).append_column("evidence", distinct["evidence"])
    connection.register("resolved_sources", resolved)
    is_known = "found.evidence IS NOT NULL"
    is_same = " AND ".join(f"found.{name} IS NOT DISTINCT FROM visit.{name}" for name in words[:3])
    values = {name: f"CASE WHEN {is_known} THEN found.{name} ELSE visit.{name} END" for name in words}
    # What else a record says is that of its campaign.
    of_record = {name: f"CASE WHEN NOT {is_known} OR ({is_same}) THEN visit.{name} END" for name in _BESIDE}
    channel = f"coalesce({of_record['channel']}, found.channel)"
    values |= of_record | {"channel": channel, "reason": "found.reason"}
    replaced = ", ".join(f"{value} AS {name}" for name, value in values.items())
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} AS SELECT visit.* EXCLUDE (visit_evidence) REPLACE ({replaced}), "
        f"coalesce(found.is_campaign, true) AS is_campaign, found.node_id AS leaf "
        f"FROM (SELECT *, {key} AS visit_evidence FROM {table}) AS visit "
        "LEFT JOIN resolved_sources AS found ON visit_evidence = found.evidence"
    )
    connection.unregister("resolved_sources")


def split_views(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Keep the first of each visit among page views in a table with the columns of visits."""
    resolve_sources(connection, table, own=_own_hosts(connection, table))
    connection.execute(
        "CREATE OR REPLACE TABLE split_views AS SELECT visit_key AS id, "
        "date_trunc('milliseconds', started) AS serverDate, "
        "coalesce('device ' || device, 'account ' || account) AS trackerId, leaf AS nodeId, "
        f"reason AS referrerType, is_campaign AS isCampaign FROM {table}"
    )
    hits = DuckDB.from_connection(connection).table("split_views")
    split = raw_hits.split_long_blocks(sessions.split_into_sessions(hits))
    connection.register("openings", split.select("id", "trackerId", "number", "is_opening").to_pyarrow())
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} AS WITH views AS (SELECT *, max(started) OVER "
        f"(PARTITION BY trackerId, number) AS last FROM {table} JOIN openings ON visit_key = id) "
        "SELECT * EXCLUDE (id, trackerId, number, is_opening, last) REPLACE (last AS ended) FROM views "
        "WHERE is_opening"
    )
    connection.unregister("openings")


def _own_hosts(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """Return the hosts of the site, if its pages have none: those whose pages are in the table themselves."""
    host = "regexp_extract(lower(came_from), '^[a-z]+://(?:www[.])?([^/:?#]+)', 1)"
    path = "regexp_replace(came_from, '^[a-z]+://[^/]+', '')"
    # Referrers have no campaign of the page that they are.
    pages = f"SELECT unnest([landing, regexp_replace(landing, '[?#].*', '')]) FROM {table}"
    rows = (
        f"SELECT {host} AS host, {path} IN ({pages}) AS is_page FROM {table} "
        f"WHERE starts_with(landing, '/') AND {path} NOT IN ('', '/')"
    )
    query = (
        f"SELECT host FROM ({rows}) WHERE host <> '' GROUP BY host HAVING avg(CAST(is_page AS INTEGER)) > 0.5"
    )
    return [own for (own,) in connection.execute(query).fetchall()]


#: What a vendor's record says of the campaign that it names, beyond the words of addresses.
_BESIDE: Final = ("campaign_id", "adset", "channel")


def assemble(
    connection: duckdb.DuckDBPyConnection,
    origin: str,
    *,
    stitch: bool,
    currency: str | None,
    channels: Frame | None = None,
    sightings: str = "visits",
    aliases: Aliases,
) -> Journeys:
    """Build the frames from the tables ``visits``, ``views``, ``conversions`` and ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        With the tables, whose columns are :data:`VISITS`, :data:`VIEWS` and :data:`CONVERSIONS`.
    origin : str
        Name of the source, hashed into every id to keep ids of different sources apart.
    stitch : bool
        Whether to assign a device's activity without an account to the account seen on the device, if there
        is exactly one.
    currency : str, optional
        Currency of amounts that have none.
    channels : DataFrame, optional
        Channel rules instead of the channels of the export and of the default rules.
    sightings : str, default "visits"
        Table whose columns ``device`` and ``account`` say which accounts were seen on which device.
    aliases : Aliases
        Present names of campaigns and other nodes by their former names.

    Returns
    -------
    Journeys
        With ids derived from those of the source.

    Raises
    ------
    InvalidRequest
        If ``currency`` is not a currency.

    Warns
    -----
    UnknownCurrency
        If some amounts only have a currency.
    """
    _assign_users(connection, sightings, stitch=stitch)
    notes = _keep_first_conversions(connection)
    nodes = _create_nodes(connection, None if channels is None else read_rules(channels), aliases)
    amount, note = _set_currencies(connection, currency)

    def frame(query: str) -> pd.DataFrame:
        return to_pandas(sql_results.read_arrow(connection, query))

    view, visit = _uuid(origin, "view", "view_key"), _hex(origin, "visit", "visit_key")
    user = _hex(origin, "user", "owner")
    interactions = frame(
        f"""
        SELECT {visit} AS _id, 'session' AS type, {user} AS userId,
            CASE WHEN account IS NULL THEN json_object('trackerId', device)
                ELSE json_object('vendorUserId', account) END::VARCHAR AS userData,
            node_id AS nodeId, started AS startDate, ended AS endDate,
            coalesce(view_counts.hitCount, 0) AS hitCount, view_counts.firstHitId AS firstHitId,
            coalesce(is_bot, false) AS isBot, referrer, coalesce(reason, referrer_type) AS referrerType,
            page AS firstPage, {export_tables.selected_url_parts("page", "firstPageUrl")},
            agent AS "userAgent.ua", browser AS "userAgent.browser.name",
            browser_version AS "userAgent.browser.version", system AS "userAgent.os.name",
            system_version AS "userAgent.os.version", device_type AS "userAgent.device.type",
            country AS "geo.countryCode", region AS "geo.state", city AS "geo.city"
        FROM user_visits JOIN sources USING (traffic)
        LEFT JOIN (SELECT visit_key, count(*) AS hitCount, arg_min({view}, (viewed, view_key)) AS firstHitId
            FROM views GROUP BY visit_key) AS view_counts USING (visit_key)
        ORDER BY startDate, _id
        """
    )
    hits = frame(
        f"""
        SELECT {view} AS id, {visit} AS sessionId,
            viewed AS serverDate, 'pageview' AS hitType,
            {export_tables.selected_url_parts("views.page", "pageUrl")},
            coalesce(is_bot, false) AS isBot
        FROM views JOIN user_visits USING (visit_key) ORDER BY serverDate, id
        """
    )
    event_key = f"kind || {literal(_SEPARATOR)} || source_id"
    events = frame(
        f"""
        SELECT {_uuid(origin, "event", event_key)} AS _id,
            coalesce({user}, {_hex(origin, "stranger", event_key)}) AS userId, kind AS eventType,
            occurred AS eventDate, occurred AS updatedAt, source_id AS {quoted(SOURCE_ID)},
            name AS "event.name", {amount}, account AS "user.vendorUserId"
        FROM user_conversions ORDER BY eventDate, _id
        """
    )
    # An id of a device that is an account, too, keeps its kind.
    users = frame(
        f"""
        WITH owners AS (SELECT owner FROM user_visits UNION SELECT owner FROM user_conversions)
        SELECT {user} AS _id, CASE WHEN starts_with(owner, 'account ') THEN substr(owner, 9)
            WHEN 'account ' || substr(owner, 8) IN (FROM owners) THEN owner
            ELSE substr(owner, 8) END AS user_id
        FROM owners WHERE owner IS NOT NULL
        """
    )
    rejected = frame("SELECT file, row, reason FROM rejected ORDER BY ALL")
    if len(rejected):
        warn_of_rejected(rejected)
    ((total,),) = connection.execute("SELECT count(*) FROM conversions").fetchall()
    tables = (interactions, events, nodes, hits, rejected)
    notes += (note,) if note else ()
    return Journeys(*tables, repeated=total - len(events), users=users, notes=notes)


def warn_of_rejected(rejected: pd.DataFrame) -> None:
    """Warn of rows that could not be read, with one as an example."""
    first = written_values.clearest(rejected)
    files = [
        f"{display.counted(count, 'rows')} of {name}"
        for name, count in rejected["file"].value_counts(sort=False).items()
    ]
    place = first["file"] if pd.isna(first["row"]) else f"row {first['row']} of {first['file']}"
    errors.warn(
        f"{' and '.join(files)} could not be read; the first is {place} "
        f"({display.printable(first['reason'])}). The others are used; the attribute rejected lists "
        "the rejected rows",
        errors.RejectedRows,
    )


def _assign_users(connection: duckdb.DuckDBPyConnection, sightings: str, *, stitch: bool) -> None:
    """Create ``user_visits`` and ``user_conversions``; an account is the same user on every device."""
    connection.execute(
        f"CREATE TABLE accounts AS SELECT device, min(account) AS stitched FROM {sightings} "
        "WHERE device IS NOT NULL AND account IS NOT NULL "
        f"AND {str(stitch).lower()} GROUP BY device HAVING count(DISTINCT account) = 1"
    )
    # An account and a device of the same name are different users.
    owner = "coalesce('account ' || coalesce(account, stitched), 'device ' || device) AS owner"
    parts = ", ".join(f"coalesce({name}, '')" for name in _TRAFFIC)
    connection.execute(
        f"CREATE TABLE user_visits AS SELECT visits.*, {owner}, "
        f"concat_ws({literal(_SEPARATOR)}, {parts}) AS traffic FROM visits LEFT JOIN accounts USING (device)"
    )
    connection.execute(
        f"CREATE TABLE user_conversions AS SELECT conversions.*, {owner} FROM conversions "
        "LEFT JOIN accounts USING (device)"
    )


def _keep_first_conversions(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Keep the first conversion of an id; return what is to be said of others than repetitions of it."""
    order = "occurred, amount DESC NULLS LAST, device, account"
    of_id = f"OVER (PARTITION BY kind, source_id ORDER BY {order})"
    same = " AND ".join(
        f"{name} IS NOT DISTINCT FROM first_value({name}) {of_id}"
        for name in ("owner", "amount", "upper(currency)")
    )
    connection.execute(
        f"CREATE TABLE ranked AS SELECT *, row_number() {of_id} AS place, {same} AS is_same "
        "FROM user_conversions"
    )
    connection.execute(
        "CREATE OR REPLACE TABLE user_conversions AS SELECT * EXCLUDE (place, is_same) FROM ranked "
        "WHERE place = 1"
    )
    count, example = connection.execute(
        "SELECT count(*), min(source_id) FROM ranked WHERE NOT is_same"
    ).fetchall()[0]
    if not count:
        return ()
    note = (
        f"{display.counted(count, 'conversions')} left out, with the id of an earlier one but another user "
        f"or amount, such as {display.printable(repr(example))}. Give every conversion an id of its own"
    )
    errors.warn(note)
    return (note,)


#: Columns of nodes by the field of a node.
_NODE_COLUMNS: Final = {
    "_id": "node_id", "parentId": "parent_id", "type": "kind", "name": "name", "channel": "channel",
    "source": "source", "medium": "medium", "campaignSlug": "slug", "externalId": "external_id",
}  # fmt: skip


def _create_nodes(
    connection: duckdb.DuckDBPyConnection, rules: pd.DataFrame | None, aliases: Aliases
) -> pd.DataFrame:
    """Create ``sources``, the node of each distinct traffic source; return the tree of nodes."""
    distinct = sql_results.read_arrow(
        connection,
        f"SELECT traffic, {', '.join(f'any_value({name}) AS {name}' for name in _TRAFFIC)}, "
        "min(started) AS started FROM user_visits GROUP BY traffic ORDER BY traffic",
    )
    distinct = aliases.renamed(distinct)
    chains = chains_of(distinct, rules)
    ids, types = [nodes[-1].node_id for nodes in chains], [referrer_type(nodes[-1]) for nodes in chains]
    sources = {"node_id": pa.array(ids, pa.string()), "referrer_type": pa.array(types, pa.string())}
    connection.register("sources", pa.table({"traffic": distinct["traffic"], **sources}))
    first_visits: dict[str, Any] = {}
    for nodes, started in zip(chains, distinct["started"].to_pylist(), strict=True):
        for node in nodes:
            first_visits[node.node_id] = min(started, first_visits.get(node.node_id, started))
    listed = tree(chains)
    texts = {
        name: pa.array([getattr(node, attribute) for node in listed], pa.string())
        for name, attribute in _NODE_COLUMNS.items()
    }
    dates = pa.array([first_visits[node.node_id] for node in listed], pa.timestamp("us"))
    return to_pandas(pa.table(texts | {"createdAt": dates, "updatedAt": dates}))


def chains_of(rows: pa.Table, rules: pd.DataFrame | None = None) -> list[tuple[Node, ...]]:
    """Return the nodes of each row, from the root down; columns are fields of a traffic source.

    Rules, if there are any, name the channels.
    """
    missing = pa.nulls(rows.num_rows, pa.string())
    given = pa.table({name: rows[name] if name in rows.column_names else missing for name in _TRAFFIC})
    label_of = None if rules is None else channel_matcher(rules)
    chains = []
    for row in given.to_pylist():
        words = [row[name] or "" for name in ("source", "medium", "campaign")]
        traffic = Traffic(**(row | {"channel": row["channel"] or default_channel()(*words)}))
        chains.append(chain(traffic, label_of and label_of(*words)))
    return chains


def checked_currency(currency: str | None) -> str | None:
    """Return the code of a currency that a user names.

    Raises
    ------
    InvalidRequest
        If it is neither a code of ISO 4217 nor the sign of one currency.
    """
    return None if currency is None else checked_code("currency", currency)


def _set_currencies(connection: duckdb.DuckDBPyConnection, currency: str | None) -> tuple[str, str]:
    """Set the currency of every amount; return SQL for the statistic's columns, and what is to be said."""
    currency = checked_currency(currency)
    found = connection.execute(
        "SELECT currency, count(amount) FROM user_conversions WHERE currency IS NOT NULL "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    unknown = {word: amounts for word, amounts in found if code_of(word) is None}
    for word, _ in found:
        # Amounts in something that is not a currency are left out.
        amount = "NULL" if word in unknown else "amount"
        connection.execute(
            f"UPDATE user_conversions SET currency = ?, amount = {amount} WHERE currency = ?",
            [code_of(word), word],
        )
    if sum(unknown.values()):
        words = ", ".join(map(repr, list(unknown)[:_MAX_NAMES]))
        errors.warn(
            f"{display.counted(sum(unknown.values()), 'conversions')} without a value, because the currency "
            f"is not in ISO 4217: {display.printable(words)}",
            errors.UnknownCurrency,
        )
    # A currency without an amount means nothing.
    connection.execute(
        "UPDATE user_conversions SET currency = CASE WHEN amount IS NOT NULL THEN coalesce(currency, ?) END",
        [currency],
    )
    count, total, units = connection.execute(
        "SELECT count(*) FILTER (currency IS NULL), fsum(amount) FILTER (currency IS NULL), "
        "count(currency) FROM user_conversions WHERE amount <> 0"
    ).fetchall()[0]
    if count and not units:
        conversions = display.counted(count, "conversions")
        return f"amount AS {quoted(REVENUE)}", f"{conversions} with revenue of an unknown currency"
    if count:
        warn_of_missing("conversions", count, total)
    return f"amount AS {quoted(f'{REVENUE}.amount')}, currency AS {quoted(f'{REVENUE}.currency')}", ""


def _hex(origin: str, kind: str, key: str) -> str:
    """Return SQL for an id of 24 hexadecimal digits, hashed from a key of the source."""
    return f"substr({_digest(origin, kind, key)}, 1, 24)"


def _digest(origin: str, kind: str, key: str) -> str:
    return f"md5({literal(f'{origin}{_SEPARATOR}{kind}{_SEPARATOR}')} || {key})"


def _uuid(origin: str, kind: str, key: str) -> str:
    """Return SQL for a UUID hashed from a key of the source."""
    digest = _digest(origin, kind, key)
    # UUID version 8 (RFC 9562): custom layout.
    pattern, layout = "^(.{8})(.{4}).(.{3}).(.{3})(.{12})$", r"\1-\2-8\3-8\4-\5"
    return f"regexp_replace({digest}, '{pattern}', '{layout}')"


def references(names: Sequence[str] | str) -> dict[str, str]:
    """Return the reference of an event type for each name.

    Raises
    ------
    InvalidRequest
        If there are no names, one has no letter or digit, or two have the same reference.

    Examples
    --------
    >>> references(["purchase", "Generate Lead"])
    {'purchase': 'purchase', 'Generate Lead': 'generate_lead'}
    """
    listed = [names] if isinstance(names, str) else list(names)
    by_name: dict[str, str] = {}
    for name in listed:
        if not isinstance(name, str) or not re.search("[A-Za-z0-9]", name):
            raise errors.InvalidRequest(f"conversions: {name!r} is not allowed; allowed: names of events")
        reference = re.sub("[^a-z0-9]+", "_", name.casefold()).strip("_")[:64].strip("_")
        if reference in by_name.values() and by_name.get(name) != reference:
            raise errors.InvalidRequest(
                f"conversions: {name!r} and another name both have the reference {reference!r}"
            )
        by_name[name] = reference
    if not by_name:
        raise errors.InvalidRequest("conversions: at least one event name is required")
    return by_name


def reference_sql(column: str, by_name: dict[str, str]) -> str:
    """Return SQL for the reference of the event named in a column, NULL if it is not a conversion."""
    return cases(column, {name: literal(reference) for name, reference in by_name.items()})
