"""Sources that orders carry themselves: a shop's order attribution, UTM parameters, a landing page."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import duckdb

from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.columns import Named, folded
from attrib_ds.importers.formats import known_formats
from attrib_ds.importers.own_table import LEVEL_NAMES, OwnTable, level_of
from attrib_ds.importers.reading import Reading
from attrib_ds.records import export_tables, sources
from attrib_ds.traffic.channel_rules import COLUMN_NAMES
from attrib_ds.traffic.sources import CLICK_IDS

#: What shops and their plugins write before the name of a column, such as ``meta:_wc_order_attribution_``.
_BEFORE: Final = re.compile(
    r"^.*(attribution|lastvisit|utmparameters|browser)|^.*(?=utm(source|medium|campaign|content|term)$)"
)
_OF_FIRST: Final = re.compile("first|initial|original")
_LANDINGS: Final = ("landingsite", "landingpage", "landingurl", "landingpageurl", "sessionentry", "entrypage")
_REFERRERS: Final = ("referringsite", "referer", *map(folded, COLUMN_NAMES["referrer"]))
#: How WooCommerce shows the source of an order.
_SHOWN: Final = r"^(?:(Source|Organic|Referral): (.+)|Direct)$"
_HALF: Final = 0.5


class OwnSource:
    """The source that each order of a table carries: SQL by field of a visit, and the columns it is from.

    It has no columns if the orders carry none.

    Parameters
    ----------
    table : OwnTable
        The orders.
    named : mapping of str to str or list of str, optional
        Columns by role; those of a node, if the user names them.
    """

    def __init__(self, table: OwnTable, named: Mapping[str, Named] | None = None) -> None:
        self.table = table
        self.sql: dict[str, str] = {}
        self.columns: list[str] = []
        if "node" in (named or {}):
            self._take_named(table.find_node(named or {}))
        else:
            self._take_words()
            self._take_addresses()
        known = ", ".join(map(table.source.word, self.columns)) or "NULL"
        #: SQL for whether an order has one.
        self.is_known = f"coalesce({known}) IS NOT NULL"

    def _take(self, field: str, column: str, sql: str = "") -> None:
        self.sql[field] = sql or self.table.source.word(column)
        self.columns += [column] if column not in self.columns else []

    def _take_named(self, columns: list[str]) -> None:
        levels = ["node"] if len(columns) == 1 else [level_of(column) for column in columns]
        words = ", ".join(map(self.table.source.word, columns))
        for column, level in zip(columns, levels, strict=True):
            if None in levels:
                self._take("levels", column, f"CAST(to_json([{words}]) AS VARCHAR)")
            else:
                self._take(str(level), column)

    def _take_words(self) -> None:
        """Take the words of a campaign: UTM parameters, or at least a source and a medium."""
        found = {level: self._called(names) for level, names in LEVEL_NAMES.items()}
        words = {level: columns[0] for level, columns in found.items() if columns}
        is_marked = any(_bare(name) != folded(name) or "utm" in folded(name) for name in words.values())
        if is_marked or {"source", "medium"} <= {*words}:
            for level, column in words.items():
                self._take(level, column)
            return
        profile = self.table.profile.values()
        for column in [each.name for each in profile if each.holds("pair")][:1]:
            word = self.table.source.word(column)
            self._take("source", column, f"split_part({word}, ' / ', 1)")
            self._take("medium", column, f"split_part({word}, ' / ', 2)")
            return
        for column in self._called(("origin", "attribution"), is_bare=False):
            word = self.table.source.word(column)
            if self.table.scalar(f"avg(CAST(regexp_matches({word}, '{_SHOWN}') AS INTEGER)) > {_HALF}"):
                kind, name = (f"nullif(regexp_extract({word}, '{_SHOWN}', {part}), '')" for part in (1, 2))
                direct = f"CASE WHEN {word} = 'Direct' THEN '(direct)' END"
                self._take("source", column, f"coalesce({name}, {direct})")
                self._take("medium", column, f"nullif(lower({kind}), 'source')")
                return

    def _take_addresses(self) -> None:
        """Take the landing page, its referrer, and ids of clicks in columns of their own."""
        shares = {name: each.shares for name, each in self.table.profile.items()}
        pages = [
            name for name in self._called(_LANDINGS) if shares[name]["address"] + shares[name]["path"] > _HALF
        ]
        referrers = [
            name
            for name in self._called(_REFERRERS)
            if shares[name]["address"] > _HALF or folded(name).endswith("domain")
        ]
        clicks = {name: column for name in CLICK_IDS for column in self._called([name], is_bare=False)}
        if pages or clicks:
            page = f"coalesce({self.table.source.word(pages[0])}, '')" if pages else "''"
            ids = {name: self.table.source.word(column) for name, column in clicks.items()}
            for column in [*pages[:1], *clicks.values()]:
                self._take("landing", column, export_tables.with_parameters(page, ids))
        for column in referrers[:1]:
            self._take("came_from", column)
        if self.sql:
            self.sql.setdefault("landing", "''")
            medium, campaign = (f"lower({self.sql.get(name, 'NULL')})" for name in ("medium", "campaign"))
            self.sql["is_derived"] = (
                f"coalesce({campaign}, '(') LIKE '(%' AND "
                f"coalesce({medium} IN ('organic', 'referral', '(none)'), false)"
            )

    def _called(self, names: Iterable[str], *, is_bare: bool = True) -> list[str]:
        """Return the columns with values and one of some names, in the order of the names."""
        wanted = {folded(name): place for place, name in enumerate(names)}
        called = {name: _bare(name) if is_bare else folded(name) for name in self.table.source.columns}
        found = [name for name in called if called[name] in wanted and not _OF_FIRST.search(folded(name))]
        filled = filter(self.table.is_filled, found)
        # The source beside UTM parameters may be a point of sale.
        return sorted(filled, key=lambda name: ("utm" not in folded(name), wanted[called[name]]))

    def say(self, *, is_used: bool) -> None:
        """Say how many orders have a source, and what becomes of it."""
        count = self.table.scalar(f"count(*) FILTER ({self.is_known})")
        fate = (
            "which is the last touchpoint"
            if is_used
            else ("which is not used beside touchpoints; add it with reading=Reading(order_sources=True)")
        )
        rows, listed = counted(self.table.source.rows, "rows"), ", ".join(self.columns)
        self.table.say(f"{count:,} of {rows} with a source of their own ({listed}), {fate}")

    def of_rows(self, events: str) -> str:
        """Return a query of the rows of a table of orders that have a source, with its fields."""
        columns = ", ".join(f"{sql} AS own_{field}" for field, sql in self.sql.items())
        named = ", ".join(f"own_{field} AS {field}" for field in self.sql)
        row = sources.quoted(sources.ROW)
        own = f"SELECT {row} AS own_row, {columns} FROM {self.table.source.relation} WHERE {self.is_known}"
        return f"SELECT orders.*, {named} FROM {events} AS orders JOIN ({own}) ON own_row = row ORDER BY row"


def _bare(name: str) -> str:
    bare = _BEFORE.sub("", folded(name))
    return re.sub("^utmcampaign(?=source|medium|content|term)", "utm", bare) or folded(name)


def opened(connection: duckdb.DuckDBPyConnection, rows: object, reading: Reading) -> OwnTable | None:
    """Return a single table as one of conversions, None if it cannot be one."""
    with suppress(InvalidRequest):
        return OwnTable(connection, rows, "conversions", reading.formats("touchpoints"))
    return None


def of_orders(table: OwnTable, named: Mapping[str, Named]) -> OwnSource | None:
    """Return the source that orders carry, None if a table alone has touchpoints or no sources."""
    if table.format is not None:
        columns = table.source.columns
        has_orders = not any(each.fits(columns) for each in known_formats() if each.holds == "touchpoints")
    else:
        ids = [table.profile[name] for role in ("conversion", "value") for name in table.common(role)]
        has_orders = any(each.filled > _HALF * each.rows for each in ids)
        has_orders = has_orders and not ({"flag", "touch"} & {*named} or table.common("flag"))
        has_orders = has_orders and table.find_views(named) is None
    own = OwnSource(table, named) if has_orders else None
    return own if own is not None and own.columns else None
