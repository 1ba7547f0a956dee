"""Fill the tables of visits and conversions with the rows of users' own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.importers.column_names import LEVEL_NAMES
from attrib_ds.importers.journey_tables import CONVERSIONS, VISITS, create_table
from attrib_ds.records.sources import literal

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_SOURCE: Final = ("source", "medium", "campaign")
#: Fields of a traffic source that the columns of a node can fill.
NODE_FIELDS: Final = ("node", "levels", *LEVEL_NAMES)


def create_visits(connection: duckdb.DuckDBPyConnection, points: pa.Table) -> None:
    """Create the table ``visits`` from touchpoints."""
    connection.register("points", points)
    # Identical touchpoints are distinct visits.
    fields = [name for name in NODE_FIELDS if name in points.column_names]
    person = _person(points)
    order = f"row_number() OVER (PARTITION BY {person}, {', '.join(fields)}, date ORDER BY row)"
    of_fields = ", ".join(f"coalesce({name}, '')" for name in fields)
    key = f"concat_ws(chr(31), {person}, {of_fields}, epoch_us(date), {order})"
    columns: dict[str, str] = dict.fromkeys(VISITS, "NULL") | {
        "visit_key": "'id ' || touch" if "touch" in points.column_names else f"'as ' || {key}",
        "device": "device" if "device" in points.column_names else "NULL",
        "account": '"user"',
        "started": "date",
        "ended": "date",
        "is_bot": "false",
    }
    columns |= {name: name for name in fields}
    if "referrer" in points.column_names:
        # A visit without UTM parameters comes from the site that links here.
        host = r"regexp_extract(lower(referrer), '^(?:[a-z][a-z0-9+.-]*://)?([^/?#:]+)', 1)"
        is_referred = "coalesce(source, medium, campaign) IS NULL AND referrer IS NOT NULL"
        missing = [f"CAST(NULL AS VARCHAR) AS {name}" for name in _SOURCE if name not in fields]
        selected = ", ".join(["*", *missing])
        points_with_source = f"FROM (SELECT {selected} FROM points)"
        columns |= {
            "source": f"CASE WHEN {is_referred} THEN {host} ELSE source END",
            "medium": f"CASE WHEN {is_referred} THEN 'referral' ELSE medium END",
            "referrer": "referrer",
        }
    else:
        points_with_source = "FROM points"
    create_table(connection, "visits", VISITS, columns, points_with_source)
    connection.unregister("points")


def create_conversions(
    connection: duckdb.DuckDBPyConnection, events: pa.Table, reference: str, *, is_end: bool
) -> None:
    """Create the table ``conversions``; days count until their end if ``is_end``."""
    connection.register("events", events)
    person = _person(events)
    order = f"row_number() OVER (PARTITION BY {person}, date ORDER BY row)"
    key = f"concat_ws(' ', {person}, strftime(date, '%Y-%m-%dT%H:%M:%S.%fZ'), nullif({order}, 1))"
    present = events.column_names
    columns: dict[str, str] = dict.fromkeys(CONVERSIONS, "NULL") | {
        "source_id": "conversion" if "conversion" in present else key,
        "kind": literal(reference),
        "device": "device" if "device" in present else "NULL",
        "account": '"user"',
        "occurred": "date + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND" if is_end else "date",
        "amount": "value" if "value" in present else "NULL",
        "currency": "currency" if "currency" in present else "NULL",
    }
    create_table(connection, "conversions", CONVERSIONS, columns, "FROM events")
    connection.unregister("events")


def _person(rows: pa.Table) -> str:
    """Return SQL for the user, or else the device."""
    return "coalesce(\"user\", 'device ' || device)" if "device" in rows.column_names else '"user"'
