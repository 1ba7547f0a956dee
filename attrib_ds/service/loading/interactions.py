"""Loads interactions with their hits, and raw hits, which the service makes into sessions."""

from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, schema
from attrib_ds.contract.interactions import MINUTES_OF_DAY
from attrib_ds.errors import InvalidRequest
from attrib_ds.instants import naive
from attrib_ds.records.person_ids import LOST, nobody_sql
from attrib_ds.records.sources import Source, literal, quoted
from attrib_ds.service.campaigns import integrations_of
from attrib_ds.service.collection import hits, traffic_sources, visitors
from attrib_ds.service.identity import identities, merging
from attrib_ds.service.loading import batch
from attrib_ds.service.store.tables import HEX_ID, UUID
from attrib_ds.traffic import agents, channel_rules, sessions
from attrib_ds.traffic.sources import LONGEST_SENT_URL, LONGEST_URL

_HEX_FORM: Final = "24 lower-case hexadecimal digits"
_WORDS: Final = {"_id", "userId", "nodeId", "type", "firstHitId", "projectId"}
_HIT_WORDS: Final = {"id", "projectId", "sessionId", "hitType"}
# Durations may be rounded to milliseconds.
_TOLERANCE: Final = 0.001
#: Largest sizes of numbers that have bounds.
_MOST: Final = {"timezoneOffset": MINUTES_OF_DAY, "geo.latitude": 90, "geo.longitude": 180}
_SESSION_ONLY: Final = [
    column for name in sorted(schema.SESSION_ONLY) for column in schema.leaves(schema.INTERACTION, name)
]


def check_interactions(connection: Connection, source: Source, project: batch.Project) -> batch.Batch:
    """Validate rows and stage them for insertion.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows.
    project : Project
        Their project.

    Returns
    -------
    Batch
        With the counts ``interactions`` and ``implicit_nodes``.

    Raises
    ------
    InvalidRequest
        If a column is unknown.
    """
    checks = batch.Checks(source, argument="interactions", is_verbatim=project.is_mirror)
    checks.refuse_unknown(schema.INTERACTION.names, schema.properties(schema.INTERACTION))
    checks.project(project.project_id)
    numbered = source.rows + source.unreadable.num_rows
    checks.word("_id", pattern=HEX_ID, form=_HEX_FORM, default=project.ids.many("row", count=numbered))
    checks.word("userId", pattern=HEX_ID, form=_HEX_FORM, required=True)
    checks.word("firstHitId", pattern=UUID, form="a UUID", lower=True)
    if project.is_mirror:
        # A mirror holds every record of its source, however odd.
        checks.word("type", default="'session'")
        checks.word("nodeId", always=True)
    else:
        checks.choice("type", ("session", "offline"), default="session")
        checks.word("nodeId", pattern=batch.NAME, form=batch.NAME_FORM, required=True)
    _check_times(checks, is_mirror=project.is_mirror)
    _check_properties(checks, is_mirror=project.is_mirror)
    checks.instant("ingestedAt", default=project.now)
    is_offline = f"{quoted('type')} = 'offline'"
    # Offline interactions always have a creation date.
    created = f"coalesce({quoted('createdAt')}, CASE WHEN {is_offline} THEN {project.now} END)"
    checks.instant("createdAt")
    checks.derive("createdAt", created)
    if not project.is_mirror:
        checks.rule(f"{is_offline} AND {quoted('isBot')}", "'isBot: is true on an offline interaction'")
    for name in _SESSION_ONLY:
        if checks.has(name):
            checks.derive(name, f"CASE WHEN {is_offline} IS NOT TRUE THEN {quoted(name)} END")
    staged = checks.stage(connection, id="_id")
    return batch.Batch(staged, "_id", lambda writer, valid: _insert_interactions(writer, valid, project))


def _check_times(checks: batch.Checks, *, is_mirror: bool) -> None:
    checks.instant("startDate", required=True, recent=not is_mirror)
    checks.instant("endDate", recent=not is_mirror)
    checks.number("duration", low=None if is_mirror else 0)
    start, end, duration = quoted("startDate"), quoted("endDate"), quoted("duration")
    if is_mirror:
        end = f"CASE WHEN {end} >= {start} THEN {end} END"
    else:
        _check_order(checks, start, end, duration)
    # Truncated too, so that duration is exactly endDate minus startDate.
    microseconds = f"TRY_CAST(round(CASE WHEN isfinite({duration}) THEN {duration} END * 1e6) AS BIGINT)"
    by_duration = batch.truncated(f"TRY({start} + to_microseconds({microseconds}))")
    ending = f"coalesce({end}, {by_duration}, {start})"
    checks.derive("endDate", ending)
    checks.derive("duration", f"(epoch_us({ending}) - epoch_us({start})) / 1e6")


def _check_order(checks: batch.Checks, start: str, end: str, duration: str) -> None:
    """Refuse ends before the start, and durations that are not the time between them."""
    checks.rule(f"{start} > {end}", f"'startDate: is later than ' || {batch.labelled_value('endDate')}")
    length = f"(epoch_us({end}) - epoch_us({start})) / 1e6"
    checks.rule(
        f"{start} <= {end} AND abs({length} - {duration}) > {_TOLERANCE}",
        f"{batch.labelled_value('duration')} || ' is not the ' || {length} || ' seconds from startDate to "
        "endDate'",
    )


def _check_numbers(checks: batch.Checks, names: Collection[str], *, is_mirror: bool) -> None:
    """Check numbers that have bounds, except in a mirror, whose source may have other ones."""
    for name in names:
        low, high = (None, None) if is_mirror else (-_MOST[name], _MOST[name])
        checks.number(name, low=low, high=high)


def _check_properties(checks: batch.Checks, *, is_mirror: bool) -> None:
    checks.flag("isBot", default="false")
    checks.count("hitCount")
    _check_numbers(checks, ("geo.latitude", "geo.longitude"), is_mirror=is_mirror)
    for field in schema.INTERACTION:
        if schema.is_json(field):
            checks.json(field.name)
        elif field.name in {"updateDate", "vendorUpdateDate"}:
            checks.instant(field.name)
        elif pa.types.is_string(field.type) and field.name not in _WORDS:
            checks.text(field.name)


def _insert_interactions(
    connection: Connection, valid: batch.ValidRows, project: batch.Project
) -> dict[str, int]:
    valid.reject_stored(connection, "interactions", "_id")
    batch.reject_erased(connection, valid, identities.of_interactions(valid.rows))
    with valid.replace_stored(
        connection, "interactions", "_id", changed="updateDate", filled=("integrationId",)
    ) as replaced:
        _delete_hits(connection, valid, replaced)
        implicit = batch.insert_implicit_nodes(connection, valid, project, column="nodeId", kind="channel")
        rows = merging.surviving(connection, valid.rows)
        connection.execute(
            "CREATE TEMP TABLE returning_users AS SELECT DISTINCT userId FROM interactions "
            f"WHERE userId IN (SELECT userId FROM {rows}) UNION SELECT userId FROM {replaced}"
        )
        position = 'row_number() OVER (PARTITION BY "userId" ORDER BY "startDate", "_id")'
        values = {"userLifetimeIndex": position, "integrationId": _integration(valid)}
        loaded = valid.insert(connection, "interactions", values=values, rows=rows)
        merging.register(connection, f"(SELECT userId, ingestedAt AS seen FROM {rows})")
        # Renumber users who have stored interactions.
        merging.renumber(connection, "SELECT userId FROM temp.returning_users")
        connection.execute("DROP TABLE temp.returning_users")
        merging.remove_absent(connection, replaced)
    if "userData" in valid.staged.columns:
        # Replacing records come from a service that has merged users already.
        identities.assign_identities(
            connection,
            identities.of_interactions(rows),
            naive(instants.now()),
            may_merge=not valid.is_replacing,
        )
    return {"interactions": loaded, "implicit_nodes": implicit}


def _integration(valid: batch.ValidRows) -> str:
    """Return SQL for the integration of a row: its own, else that of a session's node."""
    of_node = (
        "CASE WHEN valid.type = 'session' THEN (SELECT owner.integrationId "
        f"FROM {integrations_of()} AS owner "
        "WHERE owner._id = valid.nodeId) END"
    )
    return f"coalesce(valid.integrationId, {of_node})" if "integrationId" in valid.staged.columns else of_node


def _delete_hits(connection: Connection, valid: batch.ValidRows, replaced: str) -> None:
    """Delete hits of replaced sessions with other counts; they are loaded again, or unknown."""
    if not valid.is_replacing:
        return
    counts = {
        name: f"loaded.{quoted(name)}" if name in valid.staged.columns else "NULL"
        for name in ("hitCount", "firstHitId")
    }
    differs = " OR ".join(f"stored.{quoted(name)} IS DISTINCT FROM {value}" for name, value in counts.items())
    connection.execute(
        f"DELETE FROM hits WHERE sessionId IN (SELECT stored._id FROM {replaced} AS stored "
        f"JOIN {valid.rows} AS loaded USING (_id) WHERE {differs})"
    )


def check_hits(connection: Connection, source: Source, project: batch.Project) -> batch.Batch:
    """Validate rows and stage them for insertion.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows.
    project : Project
        Their project.

    Returns
    -------
    Batch
        With the count ``hits``.

    Raises
    ------
    InvalidRequest
        If a column is unknown.
    """
    checks = batch.Checks(source, argument="hits")
    checks.refuse_unknown([*schema.HIT.names, "ingestedAt"], schema.properties(schema.HIT))
    checks.project(project.project_id)
    checks.word("id", pattern=UUID, form="a UUID", lower=True, default="CAST(uuidv7() AS VARCHAR)")
    checks.word("sessionId", pattern=HEX_ID, form=_HEX_FORM, required=True)
    checks.instant("serverDate", required=True, recent=True)
    checks.instant("ingestedAt", default=project.now)
    checks.word("hitType", default="'pageview'")
    texts = [name for name in schema.HIT.names if name not in _HIT_WORDS]
    _check_hit(checks, texts, is_mirror=project.is_mirror)
    lengths = {"userAgent": agents.LONGEST_AGENT, "pageUrl.hostname": channel_rules.LONGEST_HOST}
    parts = [name for name in texts if name.startswith("pageUrl.")]
    _cut(checks, dict.fromkeys(parts, LONGEST_URL) | lengths)
    staged = checks.stage(connection, id="id")
    return batch.Batch(staged, "id", _insert_hits)


def _check_hit(checks: batch.Checks, names: Collection[str], *, is_mirror: bool = False) -> None:
    """Check what hits and raw hits have in common; of the names, those of texts."""
    checks.flag("isBot", default="false")
    _check_numbers(checks, _MOST, is_mirror=is_mirror)
    for name in names:
        if pa.types.is_string(schema.HIT.field(name).type):
            checks.text(name)


def _insert_hits(connection: Connection, valid: batch.ValidRows) -> dict[str, int]:
    valid.reject_stored(connection, "hits", "id")
    valid.reject(
        connection,
        f"SELECT row, 'sessionId: ' || {batch.quote_text(quoted('sessionId'))} || CASE WHEN session._id IS "
        "NULL "
        "THEN ' is not an interaction of this project' ELSE ' is offline and has no hits' END "
        f"FROM {valid.staged.relation} AS staged LEFT JOIN interactions AS session "
        "ON staged.sessionId = session._id WHERE staged.sessionId IS NOT NULL "
        "AND (session._id IS NULL OR session.type = 'offline')",
    )
    with valid.replace_stored(connection, "hits", "id") as replaced:
        touched = f"SELECT sessionId FROM {valid.rows} UNION SELECT sessionId FROM {replaced}"
        connection.execute(f"CREATE TEMP TABLE touched_sessions AS {touched}")
        loaded = valid.insert(connection, "hits")
    count_hits(connection, "SELECT sessionId FROM temp.touched_sessions")
    connection.execute("DROP TABLE temp.touched_sessions")
    return {"hits": loaded}


def count_hits(connection: Connection, sessions: str) -> None:
    """Give the sessions of a SQL query the number of their stored hits, one of which opened them."""
    connection.execute(
        "UPDATE interactions SET hitCount = counted.hits, firstHitId = counted.opening FROM ("
        "SELECT hits.sessionId, count(*) AS hits, "
        "coalesce(max(hits.id) FILTER (hits.id = session.firstHitId), "
        "first(hits.id ORDER BY hits.serverDate, hits.id)) AS opening "
        "FROM hits JOIN interactions AS session ON session._id = hits.sessionId "
        f"WHERE hits.sessionId IN ({sessions}) GROUP BY hits.sessionId"
        ") AS counted WHERE interactions._id = counted.sessionId"
    )


_OTHER: Final = "otherTrackerId"
_TRACKER: Final = "[^\\s]{1,128}"
_TRACKER_FORM: Final = "text of 1 to 128 characters without spaces"
_SCHEMES: Final = r"^[a-zA-Z][a-zA-Z0-9+.-]*://."


def is_raw(source: Source) -> bool:
    """Return whether hits are raw: they name a tracker, and no session."""
    return identities.TRACKER in source.types and "sessionId" not in source.types


def check_raw_hits(
    connection: Connection,
    source: Source,
    project: batch.Project,
    *,
    lookup: visitors.AddressLookup,
    rules: traffic_sources.Rules,
) -> batch.Batch:
    """Validate rows and stage them for insertion.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows.
    project : Project
        Their project.
    lookup : AddressLookup
        Databases for the places and networks of addresses, which are looked up once each.
    rules : Rules
        What the project tells about its hits.

    Returns
    -------
    Batch
        With the counts ``hits``, ``interactions`` and ``implicit_nodes``.

    Raises
    ------
    InvalidRequest
        If a column is unknown, or there is no address to look up.
    """
    checks = batch.Checks(source, argument="hits")
    checks.refuse_unknown(schema.RAW_HIT.names)
    is_collected = _OTHER in source.types
    if lookup and "ip" not in source.types:
        raise InvalidRequest("hits: the column 'ip' is missing; geo and asn look up its addresses")
    checks.project(project.project_id)
    checks.word("trackerId", pattern=_TRACKER, form=_TRACKER_FORM, required=True)
    checks.rule(
        nobody_sql(quoted("trackerId")), f"{batch.labelled_value('trackerId')} || ' is a placeholder'"
    )
    checks.rule(
        f"regexp_matches({quoted('trackerId')}, {literal(LOST)})",
        f"{batch.labelled_value('trackerId')} || ' was a number above 2^53, and its last digits are lost'",
    )
    checks.word(_OTHER, pattern=_TRACKER, form=_TRACKER_FORM)
    checks.word("hitId", pattern=UUID, form="a UUID", lower=True)
    checks.instant("date", required=True, recent=True)
    checks.not_later("date", project.now)
    checks.instant("ingestedAt")
    checks.word("pageUrl", required=True)
    checks.rule(
        f"NOT regexp_matches({quoted('pageUrl')}, {literal(_SCHEMES)})",
        f"{batch.labelled_value('pageUrl')} || ' is not a URL, such as https://shop.example/'",
    )
    checks.word("referrer", always=True)
    # An empty text is that of a request without a user agent.
    checks.text("userAgent", always=True)
    checks.word("hitType", default="'pageview'", always=True)
    _check_hit(checks, [*schema.leaves(schema.HIT, "asn"), *schema.leaves(schema.HIT, "geo")])
    checks.word("ip", always=True)
    checks.derive("address", quoted("ip"))
    longest = LONGEST_SENT_URL
    _cut(checks, {"pageUrl": longest, "referrer": longest, "userAgent": agents.LONGEST_AGENT})
    checks.derive("serverDate", quoted("date"))
    parts = ", chr(10), ".join(
        f"coalesce(CAST({quoted(name)} AS VARCHAR), '')"
        for name in ("trackerId", "date", "pageUrl", "referrer", "hitType")
    )
    checks.derive("id", f"coalesce({quoted('hitId')}, CAST(CAST(md5(concat({parts})) AS UUID) AS VARCHAR))")
    # A page may send a hit again to another collector, or with the id that its visitor has agreed to.
    staged = checks.stage(connection, id="" if is_collected else "hitId", order=hits.rank())
    for name in source.types:
        # Of the source, only the ids of rejected rows are read again.
        if name != "hitId":
            connection.execute(f"ALTER TABLE {source.relation} DROP COLUMN {quoted(name)}")
    raw = ", ".join(
        quoted(name) if name in staged.columns else f"CAST(NULL AS {kind}) AS {quoted(name)}"
        for name, kind in hits.RAW.items()
    )
    also = f"{quoted(_OTHER)}, " if is_collected else ""
    raw = f"(SELECT row, {also}{raw} FROM {staged.relation})"
    place = staged.relation.rsplit(".", 1)[0]
    if lookup:
        lookup.create_table(connection, staged.relation, into=f"{place}.places")
        raw = visitors.located(raw, f"{place}.places")
    resolved = traffic_sources.resolve_hits(
        connection, raw, rules=rules, span=sessions.SPAN, into=f"{place}.resolved_hits"
    )
    for name in staged.columns:
        # What is stored is in the resolved hits.
        if name not in ("trackerId", "serverDate", "hitId", _OTHER):
            connection.execute(f"ALTER TABLE {staged.relation} DROP COLUMN {quoted(name)}")
    connection.execute(
        f"INSERT INTO {staged.problems} SELECT row, 0, 'pageUrl, referrer or userAgent: ' || problem "
        f"FROM {resolved.relation} ANTI JOIN {staged.problems} USING (row) WHERE problem IS NOT NULL"
    )
    return batch.Batch(
        staged, "hitId", lambda writer, valid: _insert_raw_hits(writer, valid, project, resolved)
    )


def _cut(checks: batch.Checks, lengths: Mapping[str, int]) -> None:
    """Cut texts to lengths, and mark hits with longer ones."""
    for name in lengths.keys() & checks.stored:
        checks.derive(name, f"left({quoted(name)}, {lengths[name]})")
    longer = (f"coalesce(len({quoted(name)}) > {most}, false)" for name, most in lengths.items())
    checks.derive("truncated", " OR ".join(longer))


def _insert_raw_hits(
    connection: Connection,
    valid: batch.ValidRows,
    project: batch.Project,
    resolved: traffic_sources.ResolvedHits,
) -> dict[str, int]:
    relation = valid.among(resolved.relation)
    _reject_erased(connection, valid, relation)
    is_collected = _OTHER in valid.staged.columns
    if not is_collected:
        _reject_repeated(connection, valid, relation)
    return hits.collect_arrivals(
        connection,
        relation,
        resolved,
        is_anonymous=is_collected,
        project_id=project.project_id,
        now=project.now,
        ids=project.ids,
    )


def _reject_erased(connection: Connection, valid: batch.ValidRows, relation: str) -> None:
    """Reject hits of browsers of people who were erased after the date of the hit."""
    erased = hits.erased_hits(connection, relation)
    if erased is not None:
        reason = literal("trackerId: belongs to a person who was erased after this date")
        valid.reject(connection, f"SELECT row, {reason} FROM ({erased})")


def _reject_repeated(connection: Connection, valid: batch.ValidRows, relation: str) -> None:
    """Reject stored hits that were given an id, unless they count in the place of the stored ones."""
    if "hitId" in valid.staged.source_columns and not valid.is_replacing:
        reason = f"'hitId: ' || {batch.quote_text(quoted('hitId'))} || ' is already loaded'"
        given = f"{valid.rows} AS given JOIN {relation} AS loaded USING (row)"
        pairs = f"{given} JOIN hits AS stored ON stored.id = given.hitId"
        better = hits.beats("loaded", "stored")
        valid.reject(connection, f"SELECT row, {reason} FROM {pairs} WHERE ({better}) IS NOT TRUE")
