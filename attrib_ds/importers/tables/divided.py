"""One table with a row per visit and per order: which of its rows are orders."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from attrib_ds import display
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.columns import Named
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.nodes import find_node, find_views, left_over
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.values import find_value

#: Share of the other rows that have a source at least, and of orders that have one at most.
_LEAST_SHARE, _MOST_SHARE = 0.3, 0.1


class Mark(NamedTuple):
    """The column that orders have and visits have not, an id or an amount, and those of the sources."""

    role: str
    column: str
    sources: Sequence[str]


def mark_of_orders(table: OwnTable, named: Mapping[str, Named]) -> Mark | None:
    """Return what tells orders from visits, whose rows have sources; None of another table."""
    if table.format is not None or {"flag", "touch"} & {*named} or candidates(table, "flag"):
        return None
    found = {
        "conversion": [str(named["conversion"])] if "conversion" in named else candidates(table, "conversion")
    }
    with suppress(InvalidRequest):
        found["value"] = [name for name in [find_value(table, named, has_own_table=True)] if name is not None]
    marks = [
        (role, name)
        for role, names in found.items()
        for name in names
        if 0 < table.profile[name].filled < table.profile[name].rows
    ]
    if not marks:
        return None
    views = find_views(table, named)
    columns = [views[0]] if views else find_node(table, named, required=False)
    columns = columns or [name for name in [left_over(table)] if name is not None]
    is_set = f"coalesce({', '.join(map(table.word, columns)) or 'NULL'}) IS NOT NULL"
    for role, name in marks:
        share = f"coalesce(avg(CAST({is_set} AS INT)) FILTER ({table.word(name)} IS {{}}NULL), 0)".format
        others, orders = table.scalar(f"[{share('')}, {share('NOT ')}]")
        if others >= _LEAST_SHARE and (views is not None or orders <= _MOST_SHARE):
            return Mark(role, name, columns)
    return None


def divide(touchpoints: OwnTable, conversions: OwnTable, mark: Mark) -> None:
    """Leave the visits in one copy of a table and the orders in the other one."""
    is_order = f"{conversions.word(mark.column)} IS NOT NULL"
    total = conversions.source.rows
    conversions.replace_rows(f"SELECT * FROM {conversions.relation} WHERE {is_order}")
    words = ", ".join(map(touchpoints.word, mark.sources))
    is_visit = f"NOT ({is_order}) AND coalesce({words}) IS NOT NULL"
    touchpoints.replace_rows(f"SELECT * FROM {touchpoints.relation} WHERE {is_visit}")
    kept, orders = touchpoints.source.rows, conversions.source.rows
    gone = total - kept - orders
    touchpoints.say(
        f"{display.counted(kept, 'rows')} are touchpoints, and {orders:,} with {mark.column} are orders"
        + (f"; {gone:,} without a source left out" if gone else "")
    )
