"""Add up the rows of a conversion, such as the lines of an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import ROW, literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from attrib_ds.importers.own_table import OwnTable


def add_up(table: OwnTable, events: pa.Table, rejected: pd.DataFrame) -> tuple[pa.Table, pd.DataFrame]:
    """Return one row per conversion: the sum of the values of its rows, at the earliest date.

    A conversion of which a row was rejected is rejected as a whole, because its sum would be too small.
    """
    if "conversion" not in events.column_names:
        raise InvalidRequest(
            f"aggregate: {table.name} has no column that looks like the conversion; name the "
            "column with their ids with columns={'conversion': COLUMN}, or --conversion COLUMN in the "
            "command",
            field="conversion",
        )
    table.connection.register("lines", events)
    names = [name for name in ("currency", "user", "device") if name in events.column_names]
    mixed = " OR ".join(f'count(DISTINCT "{name}") > 1' for name in names)
    broken = table.connection.execute(
        f"SELECT conversion FROM lines GROUP BY conversion HAVING {mixed} ORDER BY conversion LIMIT 1"
    ).fetchall()
    if broken:
        raise InvalidRequest(
            f"aggregate: the rows of conversion {broken[0][0]!r} are of several users or in several "
            "currencies; allowed: one of each",
            field="conversion",
        )
    partial = _partial(table, rejected)
    columns = ['min(row) AS row, min("user") AS "user", min(date) AS date, conversion']
    columns += ["round(fsum(value), 6) AS value"] if "value" in events.column_names else []
    columns += ["min(device) AS device"] if "device" in events.column_names else []
    columns += ["min(currency) AS currency"] if "currency" in events.column_names else []
    of_partial = f"conversion IN ({', '.join(map(literal, partial)) or 'NULL'})"
    summed = table.connection.execute(
        f"SELECT {', '.join(columns)} FROM lines WHERE coalesce(NOT {of_partial}, true) "
        "GROUP BY conversion ORDER BY row"
    ).to_arrow_table()
    left_out = table.connection.execute(
        f"SELECT row, 'another row of the conversion ' || conversion || ' cannot be read' AS reason "
        f"FROM lines WHERE {of_partial} ORDER BY row"
    ).to_arrow_table()
    table.connection.unregister("lines")
    if not left_out.num_rows:
        return summed, rejected
    others = pd.DataFrame(
        {"file": table.name, "row": left_out["row"].to_pylist(), "reason": left_out["reason"].to_pylist()}
    ).astype(rejected.dtypes.to_dict())
    return summed, pd.concat([rejected, others], ignore_index=True)


def _partial(table: OwnTable, rejected: pd.DataFrame) -> list[str]:
    """Return the ids of the conversions of rejected rows."""
    rows = ", ".join(str(row) for row in rejected["row"].dropna())
    if not rows:
        return []
    word = table.source.word(str(table.columns["conversion"]))
    found = table.connection.execute(
        f"SELECT DISTINCT {word} AS id FROM {table.source.relation} "
        f"WHERE {quoted(ROW)} IN ({rows}) AND id IS NOT NULL ORDER BY id"
    ).fetchall()
    return [id for (id,) in found]
