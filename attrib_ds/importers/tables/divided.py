"""One table with a row per visit and per order: which of its rows are orders."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from attrib_ds import display
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.columns import Named
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.nodes import find_node, find_views, left_over
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.values import find_value

#: Share of the other rows that have a source at least, and of orders that have one at most.
_LEAST_SHARE, _MOST_SHARE = 0.3, 0.1


def mark_of_orders(table: OwnTable, named: Mapping[str, Named]) -> dict[str, Named]:
    """Return the column that orders have and visits have not, by its role; none of another table.

    It is an id of orders or an amount. The sources are in the rows without it.
    """
    if table.format is not None or {"flag", "touch"} & {*named} or candidates(table, "flag"):
        return {}
    found = {
        "conversion": [str(named["conversion"])] if "conversion" in named else candidates(table, "conversion")
    }
    with suppress(InvalidRequest):
        found["value"] = [name for name in [find_value(table, named, has_own_table=True)] if name is not None]
    for role, names in found.items():
        for name in names:
            if 0 < table.profile[name].filled < table.profile[name].rows and _has_sources(table, name, named):
                return {role: name}
    return {}


def _has_sources(table: OwnTable, mark: str, named: Mapping[str, Named]) -> bool:
    """Return whether rows without a mark of orders have a source, and orders have none."""
    views = find_views(table, named)
    columns = _sources(table, views, named)
    if not columns:
        return False
    is_set = f"coalesce({', '.join(map(table.word, columns))}) IS NOT NULL"
    share = f"coalesce(avg(CAST({is_set} AS INT)) FILTER ({table.word(mark)} IS {{}}NULL), 0)".format
    others, orders = table.scalar(f"[{share('')}, {share('NOT ')}]")
    return others >= _LEAST_SHARE and (views is not None or orders <= _MOST_SHARE)


def _sources(
    table: OwnTable, views: tuple[str, str | None] | None, named: Mapping[str, Named]
) -> Sequence[str]:
    if views is not None:
        return views[:1]
    found = find_node(table, named, required=False)
    return found or [name for name in [left_over(table)] if name is not None]


def divide(touchpoints: OwnTable, conversions: OwnTable, mark: str, named: Mapping[str, Named]) -> None:
    """Leave the visits in one copy of a table and the orders in the other one."""
    is_order = f"{conversions.word(mark)} IS NOT NULL"
    total = conversions.source.rows
    conversions.replace_rows(f"SELECT * FROM {conversions.relation} WHERE {is_order}")
    touchpoints.replace_rows(f"SELECT * FROM {touchpoints.relation} WHERE NOT ({is_order})")
    views = find_views(touchpoints, named)
    words = ", ".join(map(touchpoints.word, _sources(touchpoints, views, named)))
    touchpoints.replace_rows(f"SELECT * FROM {touchpoints.relation} WHERE coalesce({words}) IS NOT NULL")
    kept, orders = touchpoints.source.rows, conversions.source.rows
    gone = total - kept - orders
    touchpoints.say(
        f"{display.counted(kept, 'rows')} are touchpoints, and {orders:,} with {mark} are orders"
        + (f"; {gone:,} without a source left out" if gone else "")
    )
