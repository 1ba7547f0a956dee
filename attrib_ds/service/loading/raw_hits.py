"""Loads raw hits, which the service makes into sessions with traffic sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract.hits import MINUTES_OF_DAY
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.page_urls import url_parts
from attrib_ds.records.sources import Source, literal, quoted
from attrib_ds.service.collection.address_lookup import located
from attrib_ds.service.collection.collected_hits import RAW, collect
from attrib_ds.service.identity.resolution import TRACKER
from attrib_ds.service.identity.tombstones import buried_rows, identity_kind
from attrib_ds.service.loading.batch import Batch, Project, ValidRows
from attrib_ds.service.loading.checks import Checks, labelled_value, quote_text
from attrib_ds.service.store.ids import UUID

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.service.collection.address_lookup import AddressLookup

#: Columns of raw hits, named as the tracking script sends them (G-189).
COLUMNS: Final = (
    *("projectId", "trackerId", "hitId", "date", "pageUrl", "referrer", "userAgent", "hitType"),
    *("timezoneOffset", "isBot", "ip", *schema.leaves(schema.HIT, "asn"), *schema.leaves(schema.HIT, "geo")),
)
_TRACKER: Final = "[^\\s]{1,128}"
_TRACKER_FORM: Final = "text of 1 to 128 characters without spaces"
_SCHEMES: Final = r"^[a-zA-Z][a-zA-Z0-9+.-]*://."


def is_raw(source: Source) -> bool:
    """Return whether hits are raw: they name a tracker, and no session."""
    return TRACKER in source.types and "sessionId" not in source.types


def check(
    connection: duckdb.DuckDBPyConnection, source: Source, project: Project, *, lookup: AddressLookup
) -> Batch:
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

    Returns
    -------
    Batch
        With the counts ``hits``, ``interactions`` and ``implicit_nodes``.

    Raises
    ------
    InvalidRequest
        If a column is unknown, or there is no address to look up.
    """
    checks = Checks(source, argument="hits")
    checks.refuse_unknown(COLUMNS)
    if lookup and "ip" not in source.types:
        raise InvalidRequest(
            "hits: there is no column 'ip', whose addresses geo and asn look up", field="hits"
        )
    checks.project(project.project_id)
    checks.word(
        "trackerId", pattern=_TRACKER, form="text of 1 to 128 characters without spaces", required=True
    )
    checks.word("hitId", pattern=UUID, form="a UUID", lower=True)
    checks.instant("date", required=True, recent=True)
    checks.not_later("date", project.now)
    checks.word("pageUrl", required=True)
    checks.rule(
        f"NOT regexp_matches({quoted('pageUrl')}, {literal(_SCHEMES)})",
        f"{labelled_value('pageUrl')} || ' is not a URL, such as https://shop.example/'",
    )
    checks.word("referrer", always=True)
    # An empty text is that of a request without a user agent.
    checks.text("userAgent")
    checks.word("hitType", default="'pageview'", always=True)
    checks.number("timezoneOffset", low=-MINUTES_OF_DAY, high=MINUTES_OF_DAY)
    checks.flag("isBot", default="false")
    checks.number("geo.latitude", low=-90, high=90)
    checks.number("geo.longitude", low=-180, high=180)
    for field in schema.HIT:
        if field.name in COLUMNS and pa.types.is_string(field.type):
            checks.text(field.name)
    checks.word("ip", always=True)
    checks.derive("address", quoted("ip"))
    for name, value in url_parts(quoted("pageUrl"), "pageUrl").items():
        checks.derive(name, value)
    checks.derive("serverDate", quoted("date"))
    parts = ", chr(10), ".join(
        f"coalesce(CAST({quoted(name)} AS VARCHAR), '')"
        for name in ("trackerId", "date", "pageUrl", "referrer", "hitType")
    )
    checks.derive("id", f"coalesce({quoted('hitId')}, CAST(CAST(md5(concat({parts})) AS UUID) AS VARCHAR))")
    staged = checks.stage(connection)
    checks.unique(connection, staged, "hitId")
    places = None
    if lookup:
        places = f"{staged.relation.rsplit('.', 1)[0]}.places"
        lookup.create_table(connection, staged.relation, into=places)
    return Batch(staged, "hitId", lambda writer, valid: _insert(writer, valid, project, places=places))


def _insert(
    connection: duckdb.DuckDBPyConnection, valid: ValidRows, project: Project, *, places: str | None
) -> dict[str, int]:
    _reject_erased(connection, valid)
    _reject_repeated(connection, valid)
    columns = ", ".join(
        quoted(name) if name in valid.staged.columns else f"CAST(NULL AS {kind}) AS {quoted(name)}"
        for name, kind in RAW.items()
    )
    raw = f"(SELECT {columns} FROM {valid.rows})"
    return collect(
        connection,
        f"{raw if places is None else located(raw, places)} AS raw",
        project_id=project.project_id,
        now=project.now,
        ids=project.ids,
    )


def _reject_erased(connection: duckdb.DuckDBPyConnection, valid: ValidRows) -> None:
    """Reject hits of browsers of people who were erased after the date of the hit (G-209)."""
    marks = f"SELECT row, {literal(identity_kind(TRACKER))} AS kind, trackerId AS value, serverDate AS seen"
    erased = buried_rows(connection, f"({marks} FROM {valid.rows})")
    if erased is not None:
        reason = literal("trackerId: belongs to a person who was erased after this date")
        valid.reject(connection, f"SELECT row, {reason} FROM ({erased})")


def _reject_repeated(connection: duckdb.DuckDBPyConnection, valid: ValidRows) -> None:
    """Reject stored hits that were given an id, unless rows replace; those without are skipped."""
    if "hitId" in valid.staged.source_columns and not valid.is_replacing:
        reason = f"'hitId: ' || {quote_text(quoted('hitId'))} || ' is already loaded'"
        stored = "hitId IN (SELECT id FROM hits)"
        valid.reject(connection, f"SELECT row, {reason} FROM {valid.rows} WHERE {stored}")
