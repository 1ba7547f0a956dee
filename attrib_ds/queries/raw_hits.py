"""Raw hits on any engine: their sources, sessions and users, by the rules of collection.

What an engine does cheaply are expressions over tables. Distinct texts, which are few, are read by the
functions of collection, and joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from itertools import groupby
from operator import add
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from attrib_ds import display, errors, instants, schema
from attrib_ds.attribution.engines.engine import batches_of, builtin, dialect_of, digest
from attrib_ds.attribution.paths.table_inputs import ExternalTables
from attrib_ds.records import ga4_events, snowplow_events
from attrib_ds.records.export_tables import apart
from attrib_ds.traffic import agents, channel_rules, sessions, sources
from attrib_ds.traffic.sources import OF_NODE, Node, resolve_source

_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_UUID_LENGTHS: Final = (8, 4, 4, 4, 12)
_EPOCH: Final = "1970-01-01 00:00:00"
_EARLIEST: Final = "1990-01-01 00:00:00"
_MOST_OF_TRACKER: Final = 128
_BOUNDS: Final = {"timezoneOffset": 1_440, "geo.latitude": 90, "geo.longitude": 180}
#: Rows of distinct texts that are read at a time.
_BATCH: Final = 50_000
_SCHEME: Final = "^[a-zA-Z][a-zA-Z0-9+.-]*://"
_BEFORE_HOST: Final = f"{_SCHEME}([^/?#@]*@)?"
_HOST: Final = r"(\[[^/?#\]]*\]|[^/?#:]*)"
#: Parts of a URL, each as a group of a pattern. Snowflake has no groups that do not capture.
_PARTS: Final = {
    "protocol": ("^([a-zA-Z][a-zA-Z0-9+.-]*:)//", 1),
    "hostname": (_BEFORE_HOST + _HOST, 2),
    "port": (_BEFORE_HOST + _HOST + "(:([0-9]+))?", 4),
    "origin": (f"^({_SCHEME[1:]}[^/?#]*)", 1),
    "pathname": (_BEFORE_HOST + _HOST + "(:[0-9]+)?([^?#]*)", 4),
    "search": (r"^[^?#]*(\?[^#]*)", 1),
    "hash": ("^[^#]*(#.*)", 1),
}
#: Fragments do not continue after a line break, so that the text is not a URL.
_BROKEN: Final = "#.*\n"


@dataclass(frozen=True)
class Settings:
    """What a project says about its hits.

    Parameters
    ----------
    project_id : str
        Its id, of which those of sessions are made.
    traffic_filters, excluded_referrers, domains : sequence of str
        As the settings of a project.
    """

    project_id: str
    traffic_filters: Sequence[str] = ()
    excluded_referrers: Sequence[str] = ()
    domains: Sequence[str] = ()


@dataclass(frozen=True)
class Collected:
    """Sessions of raw hits, stored in the engine.

    Parameters
    ----------
    hits : ibis.Table
        ``id``, ``trackerId``, ``serverDate``, ``nodeId``, ``isBot``, ``isCampaign``, ``referrerType``,
        ``is_opening`` and ``number``, that of the session among those of its tracker.
    sessions : ibis.Table
        The columns of interactions and ``trackerId``; without ``userId`` and ``userLifetimeIndex``.
    nodes : pyarrow.Table
        The nodes of all hits.
    """

    hits: ir.Table
    sessions: ir.Table
    nodes: pa.Table


def read(
    tables: ExternalTables, hits: Any, events: Any, settings: Settings
) -> tuple[ir.Table, ir.Table, ir.Table]:
    """Return interactions, events and nodes of raw hits, for :func:`attrib_ds.open_hits`."""
    raw = tables.read("hits", _page_views(tables, hits))
    if not raw._find_backends()[0]:
        # Rows in memory belong to no engine.
        raw = tables.backend._cached_table(raw)
    collected = collect(raw, settings)
    sessions = collected.sessions
    if events is None:
        given = sessions.filter(ibis.literal(False)).select(
            "trackerId", _id="_id", userId=ibis.null("string"), eventType="type", eventDate="startDate"
        )
    else:
        given = tables.read("events", events, like="events of hits", one_of=("trackerId", "userId"))
    identities = [name for name in given.columns if name.startswith("user.")]
    if identities:
        raise errors.NotSupported(
            f"events: {', '.join(identities)} are identities, and engines cannot merge users by them; leave "
            "them out, and give one id per person as userId"
        )
    visits, converted = assign_users(sessions, given)
    return visits, converted, ibis.memtable(collected.nodes)


def _page_views(tables: ExternalTables, hits: Any) -> Any:
    """Return raw hits, of page views in the tables of other services too."""
    match hits:
        case ga4_events.GA4Hits(exports=ir.Table() | str() as given):
            return ga4_events.page_views(tables.named("hits", given))
        case snowplow_events.SnowplowHits(events=ir.Table() | str() as given):
            return snowplow_events.page_views(tables.named("hits", given))
        case ir.Table() | str():
            return hits
    raise errors.InvalidRequest(
        f"hits: {type(hits).__name__} is not allowed; allowed: the name of a table or an Ibis table, also "
        "in hits.GA4(…) or hits.Snowplow(…); load(…) files and frames into an embedded project"
    )


def collect(raw: ir.Table, settings: Settings) -> Collected:
    """Make sessions of raw hits.

    Rows that break a rule are left out, with a warning. Several hits with one id count once: a hit of a
    browser that keeps its id goes before others, and then the earliest one.

    Parameters
    ----------
    raw : ibis.Table
        With all columns of raw hits; ``date`` in UTC without a zone.
    settings : Settings
        Of the project.
    """
    cleaned = _valid(_cleaned(raw, settings), rows=raw)
    keyed = _once(_with_lost_pages(stored(_keyed(cleaned, settings))))
    resolved, nodes = _read_sources(keyed)
    known_agents = _read_agents(keyed)
    placed = keyed.inner_join(resolved, list(_KEYS))
    bots = known_agents.select("ua", "problem", agent_is_bot="isBot")
    described = placed.left_join(bots, placed.userAgent == bots.ua)
    hits = described.filter(described.problem.isnull()).select(
        *("id", "trackerId", "serverDate", "nodeId", "isCampaign", "referrerType"),
        isBot=described.isBot | described.agent_is_bot.fill_null(False),
    )
    split = stored(sessions.split_into_sessions(hits))
    split = split_long_blocks(split)
    visits = _sessions(split, placed, known_agents, settings)
    return Collected(split, stored(visits), nodes)


def stored(table: ir.Table) -> ir.Table:
    """Return a table whose rows the engine computes once and keeps while it is used."""
    kept = table.cache()
    if dialect_of(kept) == "pyspark":
        # Spark computes a cached table when it is first read, and then only the partitions that are.
        kept.count().to_pyarrow()
    return kept


def _cleaned(raw: ir.Table, settings: Settings) -> ir.Table:
    """Return hits with trimmed texts, their id, and ``problem``, the number of the rule that they break."""
    trim = builtin("trim", "string", "string")
    words = {
        name: trim(raw[name]).nullif("") for name in ("trackerId", "pageUrl", "referrer", "hitType", "ip")
    }
    words["hitId"] = trim(raw.hitId).nullif("").lower()
    # Dates are kept to milliseconds.
    hits = apart(raw.mutate(**words, date=raw.date.truncate("ms").cast("timestamp(6)")))
    latest = instants.now() + timedelta(hours=24)
    rules = [
        hits.trackerId.isnull(),
        (hits.trackerId.length() > _MOST_OF_TRACKER) | hits.trackerId.re_search("[ \t\n\f\r]"),
        hits.date.isnull(),
        (hits.date < _timestamp(_EARLIEST)) | (hits.date > _timestamp(latest.strftime("%Y-%m-%d %H:%M:%S"))),
        hits.pageUrl.isnull() | ~hits.pageUrl.re_search(f"{_SCHEME}."),
        hits.hitId.notnull()
        & ~(hits.hitId.re_search(_UUID) & (hits.hitId.length() == sum(_UUID_LENGTHS) + 4)),
        hits.projectId != settings.project_id,
        *(~hits[name].between(-most, most) for name, most in _BOUNDS.items()),
    ]
    branches = [(rule.fill_null(False), number) for number, rule in enumerate(rules)]
    hits = hits.mutate(problem=ibis.cases(*branches))
    parts = [hits.trackerId, _written(hits.date), hits.pageUrl, hits.referrer, hits.hitType]
    text = reduce(lambda before, part: before + "\n" + part, [each.fill_null("") for each in parts])
    digits = "".join(f"(.{{{length}}})" for length in _UUID_LENGTHS)
    first, *others = _groups(hits, len(_UUID_LENGTHS))
    uuid = digest(text, "md5").re_replace(f"^{digits}$", "-".join([first, *others]))
    return hits.select(
        *("trackerId", "problem", "timezoneOffset", "ip", *_PLACES),
        id=hits.hitId.coalesce(uuid),
        serverDate=hits.date,
        pageUrl=hits.pageUrl.left(sources.LONGEST_SENT_URL),
        referrer=hits.referrer.left(sources.LONGEST_SENT_URL),
        userAgent=hits.userAgent.left(agents.LONGEST_AGENT),
        hitType=hits.hitType.fill_null("pageview"),
        isBot=hits.isBot.fill_null(False),
    )


def _groups(table: ir.Table, count: int) -> list[str]:
    """Return what stands for the groups of a pattern in a replacement."""
    mark = "$" if dialect_of(table) == "pyspark" else "\\"
    return [f"{mark}{number + 1}" for number in range(count)]


_PLACES: Final = (*schema.leaves(schema.HIT, "asn"), *schema.leaves(schema.HIT, "geo"))
#: What is wrong with rows, by the number of the rule.
_PROBLEMS: Final = (
    "trackerId is missing",
    "trackerId is not text of 1 to 128 characters without spaces",
    "date is missing",
    "date is before 1990 or more than 24 hours in the future",
    "pageUrl is missing or no URL, such as https://shop.example/",
    "hitId is not a UUID",
    "projectId belongs to another project",
    *(f"{name} is not from {-most} to {most}" for name, most in _BOUNDS.items()),
)


def _valid(hits: ir.Table, *, rows: ir.Table) -> ir.Table:
    """Return the hits that break no rule; warn of the others."""
    counts = hits.filter(hits.problem.notnull()).group_by("problem").agg(rows=lambda each: each.count())
    found = sorted(zip(*counts.to_pyarrow().to_pydict().values(), strict=True))
    if found:
        reasons = "; ".join(f"{_PROBLEMS[number]} ({count})" for number, count in found)
        total = rows.count().to_pyarrow().as_py()
        left_out = sum(count for _, count in found)
        rows_read = display.counted(total, "rows")
        errors.warn(f"hits: left out {left_out:,} of {rows_read}: {reasons}", errors.RejectedRows)
    return hits.filter(hits.problem.isnull())


def _timestamp(text: str) -> Any:
    return ibis.literal(text).cast("timestamp(6)")


def _written(date: Any) -> Any:
    """Return an instant as text, as DuckDB writes it, without zeros at the end of its fraction."""
    text = date.cast("string")
    if dialect_of(date) in ("duckdb", "postgres", "pyspark"):
        return text
    return text.re_replace("[.]0+$", "").re_replace("([.][0-9]*[1-9])0+$", r"\1")


def _once(hits: ir.Table) -> ir.Table:
    """Return each hit once: the one of a browser that keeps its id, then the earliest."""
    ids = hits.group_by("id").agg(rows=lambda each: each.count())
    repeated = ids.filter(ids.rows > 1)
    if not repeated.limit(1).to_pyarrow().num_rows:
        return hits
    several = hits.semi_join(repeated, "id")
    texts = [several[name].fill_null("") for name in ("pageUrl", "referrer", "userAgent", "hitType")]
    order = [several.trackerId.re_search("^(day|page|hit)[.]").cast("int8"), several.serverDate]
    position = ibis.row_number().over(group_by=several.id, order_by=[*order, several.trackerId, *texts])
    first = several.mutate(position=position)
    return hits.anti_join(repeated, "id").union(first.filter(first.position == 0).drop("position"))


_KEYS: Final = ("search_key", "referrer_key", "is_internal")


def _keyed(hits: ir.Table, settings: Settings) -> ir.Table:
    """Add what of URLs can decide on the source of a hit, and ``trafficFilterId``."""
    is_url = ~hits.pageUrl.re_search(_BROKEN)
    path = hits.pageUrl.re_extract("^[^?#]*", 0).fill_null("")
    read = hits.mutate(
        is_url=is_url,
        rest=ibis.ifelse(is_url, hits.pageUrl.substr(path.length()), ""),
        page_host=_host(ibis.ifelse(is_url, hits.pageUrl.re_extract(*_PARTS["hostname"]), "")),
        referrer_host=_host(hits.referrer.lower().re_extract(*_OF_REFERRER)),
    )
    hits = apart(read)
    # Every click has its own id, which says no more than that there is one.
    first, _, _, last = _groups(hits, 4)

    def campaign(text: Any, rest: Any) -> Any:
        is_marked = text.lower().re_search(sources.NAMED)
        return ibis.ifelse(is_marked, rest.re_replace(sources.CLICKED, f"{first}x{last}"), "")

    excluded = channel_rules.returning_hosts(settings.excluded_referrers, settings.domains)
    pairs = _read(hits.filter(hits.referrer_host != "").select("page_host", "referrer_host").distinct())
    internal = [(page, other) for page, other in pairs if sources.is_internal(page, other, excluded)]
    hits = _marked(hits, ("page_host", "referrer_host"), internal, "is_internal")
    # The tracking script makes ids of version 7.
    is_kept = (hits.id.substr(14, 1) == "7") & ~hits.trackerId.re_search("^(page|hit)[.]")
    is_recognised = hits.trackerId.startswith("day.") | is_kept
    hits = hits.mutate(
        search_key=campaign(hits.rest, hits.rest),
        lost_key=ibis.ifelse(
            is_recognised & (hits.page_host == hits.referrer_host),
            campaign(hits.referrer.fill_null(""), hits.referrer.fill_null("").re_extract("[?#].*", 0)),
            "",
        ),
        trafficFilterId=_captured(hits, settings.traffic_filters),
    )
    hits = apart(hits)
    without_query = hits.referrer.fill_null("").re_replace("[?#].*", "")
    keyed = hits.mutate(
        referrer_key=ibis.ifelse(hits.is_internal, "", without_query),
        pageUrl=hits.pageUrl.left(sources.LONGEST_URL),
        referrer=hits.referrer.left(sources.LONGEST_URL),
    )
    return apart(keyed.drop("rest", "ip", "page_host", "referrer_host"))


def _with_lost_pages(hits: ir.Table) -> ir.Table:
    """Give the first hit of a visitor the campaign of the page before, which may be lost."""
    if not hits.filter(hits.lost_key != "").limit(1).to_pyarrow().num_rows:
        return hits.drop("lost_key")
    # Rows that came twice are still there.
    place = ibis.rank().over(group_by=hits.trackerId, order_by=[hits.serverDate, hits.id])
    is_given = (place == 0) & (hits.search_key == "")
    key = ibis.ifelse(is_given, hits.lost_key, hits.search_key)
    return stored(hits.mutate(search_key=key).drop("lost_key"))


def _marked(rows: ir.Table, keys: Sequence[str], known: Sequence[tuple[str, ...]], flag: str) -> ir.Table:
    """Add a flag, whether the columns of a row are one of the known tuples."""
    columns = zip(*known, strict=True) if known else [()] * len(keys)
    table = {key: pa.array(values, pa.string()) for key, values in zip(keys, columns, strict=True)}
    marks = ibis.memtable(pa.table({**table, flag: pa.array([True] * len(known), pa.bool_())}))
    joined = rows.left_join(marks, list(keys)).drop(*(f"{key}_right" for key in keys))
    return joined.mutate(**{flag: joined[flag].fill_null(False)})


#: Pattern of the host of a referrer with groups that capture only, and that of the host.
_OF_REFERRER: Final = (agents.HOST.replace("(?:", "("), agents.HOST.count("(?:") + 1)


def _host(text: Any) -> Any:
    host = text.fill_null("").lower().re_replace(r"^www\.", "").re_replace("[.]+$", "")
    return host.right(channel_rules.LONGEST_HOST)


def _captured(hits: ir.Table, filters: Sequence[str]) -> Any:
    """Return the first filter that captures a hit."""
    branches = []
    for text in filters:
        kind, _, value = text.partition(":")
        if kind == "address":
            known = _read(hits.filter(hits.ip.notnull()).select("ip").distinct())
            addresses = [ip for (ip,) in known if agents.captures_address([text], ip)]
            is_captured: Any = hits.ip.isin(addresses) if addresses else ibis.literal(False)
        elif kind == "userAgent":
            is_captured = hits.userAgent.lower().contains(value.lower())
        else:
            host = hits.page_host if kind == "hostname" else hits.referrer_host
            name = value.lower().removeprefix("www.")
            is_captured = (host == name) | host.endswith(f".{name}")
        branches.append((is_captured.fill_null(False), ibis.literal(text)))
    return ibis.cases(*branches) if branches else ibis.null("string")


def _read(table: ir.Table) -> Iterator[tuple[Any, ...]]:
    """Read the rows of a table, some at a time where the engine can."""
    for batch in batches_of(table, _BATCH):
        yield from zip(*batch.to_pydict().values(), strict=True)


def _portions(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    for _, portion in groupby(enumerate(rows), lambda each: each[0] // _BATCH):
        yield [row for _, row in portion]


def _read_sources(hits: ir.Table) -> tuple[ir.Table, pa.Table]:
    """Return the node and the type of each distinct source, and all nodes."""
    rows: list[tuple[Any, ...]] = []
    nodes: dict[str, Node] = {}
    unread = 0
    for keys in _portions(_read(hits.select(*_KEYS).distinct())):
        resolved = sources.resolve_in_time(
            lambda key: resolve_source(*key[:2], is_internal=key[2]), keys, example=sources.KEY
        )
        for key, source in zip(keys, resolved, strict=True):
            if isinstance(source, sources.Unresolved):
                unread += 1
                continue
            nodes |= {node.node_id: node for node in source.nodes}
            kind = source.referrer_type
            rows.append((*key, source.nodes[-1].node_id, kind, kind == "campaign" and not key[2]))
    _warn_of(unread, "pageUrl and referrer")
    kinds = {"is_internal": pa.bool_(), "isCampaign": pa.bool_()}
    names = (*_KEYS, "nodeId", "referrerType", "isCampaign")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    table = {
        name: pa.array(values, kinds.get(name, pa.string()))
        for name, values in zip(names, columns, strict=True)
    }
    return ibis.memtable(pa.table(table)), _tree(nodes)


def _tree(nodes: dict[str, Node]) -> pa.Table:
    return pa.table(
        {
            name: pa.array([getattr(node, field) for node in nodes.values()], pa.string())
            for name, field in OF_NODE.items()
        }
    )


def _read_agents(hits: ir.Table) -> ir.Table:
    texts = hits.filter(hits.userAgent.notnull()).select("userAgent").distinct()
    found = [agents.agent_table([text for (text,) in portion]) for portion in _portions(_read(texts))]
    table = pa.concat_tables([agents.agent_table([]), *found])
    _warn_of(len(table) - table["problem"].null_count, "userAgent")
    return ibis.memtable(table)


def _warn_of(unread: int, texts: str) -> None:
    if unread:
        message = f"hits: those with {unread} texts of {texts} are left out: these cannot be read"
        errors.warn(message, errors.RejectedRows)


def split_long_blocks(hits: ir.Table) -> ir.Table:
    """Return the hits of :func:`.sessions.split_into_sessions` with the limits of length applied."""
    limits = {"longest": sessions.LONGEST, "most_hits": sessions.MOST_HITS}
    blocks = sessions.long_blocks(hits, **limits)
    if not blocks.limit(1).to_pyarrow().num_rows:
        return hits.drop(*_HELPERS)
    long = hits.semi_join(blocks, ["trackerId", "block"])
    names = ("trackerId", "block", "instant", "isCampaign", "nodeId", "id")
    ordered = long.order_by("trackerId", *sessions.ORDERED).select(*names)
    openings = sessions.openings(_read(ordered), **limits)
    opened = ibis.memtable(pa.table({"id": pa.array(openings, pa.string())}))
    split = [
        long.semi_join(opened, "id").mutate(is_opening=ibis.literal(True)),
        long.anti_join(opened, "id").mutate(is_opening=ibis.literal(False)),
    ]
    others = hits.anti_join(blocks, ["trackerId", "block"])
    together = ibis.union(others, *(each.select(*others.columns) for each in split))
    return stored(sessions.numbered(together, number="is_opening").drop(*_HELPERS))


_HELPERS: Final = ("instant", "entry", "block")


def _sessions(split: ir.Table, hits: ir.Table, described: ir.Table, settings: Settings) -> ir.Table:
    """Return sessions with the properties of their first hit."""
    spans = split.group_by("trackerId", "number").agg(
        startDate=split.serverDate.min(),
        endDate=split.serverDate.max(),
        hitCount=split.count(),
        bots=split.isBot.cast("int8").min(),
    )
    openings = split.filter(split.is_opening).select("id", "trackerId", "number")
    first = hits.inner_join(openings.select("id", "number"), "id").inner_join(spans, ["trackerId", "number"])
    described = described.drop("isBot", "problem")
    first = first.left_join(described, first.userAgent == described.ua)
    parts = {name: _part(first, name) for name in schema.URL_PARTS}
    page = reduce(add, [parts[name].fill_null("") for name in ("origin", "pathname", "search", "hash")])
    ended = sessions.micros(first.endDate) - sessions.micros(first.startDate)
    return first.select(
        *("trackerId", "startDate", "endDate", "hitCount"),
        *("nodeId", "referrer", "referrerType", "trafficFilterId"),
        *(name for name in described.columns if name != "ua"),
        *_PLACES,
        **{
            "_id": digest(ibis.literal(f"{settings.project_id} ") + first.id, "sha256").left(24),
            "projectId": ibis.literal(settings.project_id),
            "type": ibis.literal("session"),
            "duration": ended.cast("float64") / ibis.literal(1e6),
            "firstHitId": first.id,
            "isBot": first.bots == 1,
            "firstPage": page.nullif(""),
            "userAgent.ua": first.userAgent,
        },
        **{f"firstPageUrl.{name}": value for name, value in parts.items()},
    )


def _part(hits: ir.Table, name: str) -> Any:
    part = hits.pageUrl.re_extract(*_PARTS[name]).fill_null("")
    if name == "pathname":
        part = ibis.ifelse(part == "", "/", part)
    return ibis.ifelse(hits.is_url, part, ibis.null("string"))


#: Beginning of the id of a user who is nobody else than a browser.
_ANONYMOUS: Final = "trackerId "


def assign_users(sessions: ir.Table, events: ir.Table) -> tuple[ir.Table, ir.Table]:
    """Add ``userId`` to sessions, and to the events without one.

    The user of a browser is who was last identified by it before, or else the first one who is later, or
    nobody else than the browser.

    Parameters
    ----------
    sessions : ibis.Table
        From :func:`collect`.
    events : ibis.Table
        With ``_id``, ``eventDate``, ``trackerId`` and ``userId``, of which the last two may be null.
    """
    tracked = events.filter(events.trackerId.notnull())
    kinds = [ibis.literal(kind).cast("int8") for kind in (0, 1)]
    dates = [date.cast("timestamp(6)") for date in (sessions.startDate, tracked.eventDate)]
    items = ibis.union(
        sessions.select("trackerId", date=dates[0], kind=kinds[0], key="_id", person=ibis.null("string")),
        tracked.select("trackerId", date=dates[1], kind=kinds[1], key="_id", person="userId"),
    )
    people = items.filter(items.person.notnull()).select("trackerId").distinct()
    items = items.semi_join(people, "trackerId")
    so_far = ibis.window(group_by="trackerId", order_by=["date", "kind", "key"], rows=(None, 0))
    items = items.mutate(number=items.person.notnull().cast("int64").sum().over(so_far))
    marks = items.filter(items.person.notnull()).select("trackerId", "number", "person")
    others = items.filter(items.person.isnull())
    others = others.select("trackerId", "kind", "key", number=ibis.greatest(others.number, 1))
    found = others.inner_join(marks, ["trackerId", "number"]).select("kind", "key", "person")
    identified = [found.filter(found.kind == kind).select("key", "person") for kind in (0, 1)]
    joined = sessions.left_join(identified[0], sessions["_id"] == identified[0].key)
    user = joined.person.coalesce(ibis.literal(_ANONYMOUS) + joined.trackerId)
    visits = joined.mutate(userId=user).drop("person", "key")
    order = ibis.window(group_by="userId", order_by=["startDate", "_id"])
    visits = visits.mutate(userLifetimeIndex=ibis.row_number().over(order) + 1)
    joined = events.left_join(identified[1], events["_id"] == identified[1].key)
    user = joined.userId.coalesce(joined.person, ibis.literal(_ANONYMOUS) + joined.trackerId)
    return stored(visits), stored(joined.mutate(userId=user).drop("person", "key"))
