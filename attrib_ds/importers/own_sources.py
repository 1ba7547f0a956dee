"""Sources that orders carry themselves: a shop's order attribution, UTM parameters, a landing page."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import duckdb

from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.columns import folded, names_of
from attrib_ds.importers.content import evidence
from attrib_ds.importers.formats import known_formats
from attrib_ds.importers.reading import Reading
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.divided import Mark, mark_of_orders
from attrib_ds.importers.tables.nodes import LEVEL_NAMES, find_node, find_views, level_of
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import sums_of
from attrib_ds.records import export_tables, sources
from attrib_ds.traffic.channel_rules import COLUMN_NAMES
from attrib_ds.traffic.sources import CLICK_IDS

#: What shops and their plugins write before the name of a column, such as ``meta:_wc_order_attribution_``.
_BEFORE: Final = re.compile(
    r"^.*(attribution|lastvisit|utmparameters|browser)|^.*(?=utm(source|medium|campaign|content|term)$)"
    "|^utmcampaign(?=source|medium|content|term)"
)
_OF_FIRST: Final = re.compile("first|initial|original")
_LANDINGS: Final = ("landingsite", "landingpage", "landingurl", "landingpageurl", "sessionentry", "entrypage")
_REFERRERS: Final = ("referringsite", "referer", *COLUMN_NAMES["referrer"])
#: A source and a medium in one cell, and how WooCommerce shows the source of an order.
_SHOWN: Final = "^(?:(?:Source|Organic|Referral): .+|Direct|.+ / .+)$"
_HALF, _MOSTLY = 0.5, 0.7


class OwnSource:
    """The source that each order of a table carries: SQL by field of a visit, and the columns it is from.

    Parameters
    ----------
    table : OwnTable
        The orders.
    node : list of str, optional
        If orders are alone, the columns of their source; those of channels or partners if there are none.
    """

    def __init__(self, table: OwnTable, node: Sequence[str] | None = None) -> None:
        self.table = table
        self.sql = dict.fromkeys((*LEVEL_NAMES, "came_from"), "CAST(NULL AS VARCHAR)")
        self.columns: list[str] = []
        self._known: list[str] = []
        #: Columns that are not of a first touch: the last one is next to an order.
        self._later = [name for name in table.source.columns if not _OF_FIRST.search(folded(name))]
        if node:
            self._later = []
            self._take_node(node)
        self._take_words()
        self._take_addresses()
        self._clicked = self._take_click()
        if node is not None and not self._known:
            lone = find_node(table, {}, required=False) or self._called(LEVEL_NAMES["campaign"])[:1]
            self._take_node(list(filter(self._has_visits, lone)))
        is_known = f"coalesce({', '.join(self._known) or 'NULL'}) IS NOT NULL"
        #: SQL for whether an order has a source, and the number of those that have one.
        self.is_known, self.count = is_known, table.scalar(f"count(*) FILTER ({is_known})")

    def _take(self, field: str, column: str, sql: str = "") -> None:
        word = self.table.word(column)
        self.sql[field] = sql or word
        self._known.append(self.sql[field] if field == "source" else word)
        self.columns += [column] if column not in self.columns else []

    def _take_words(self) -> None:
        """Take the words of a campaign: UTM parameters, or at least a source and a medium."""
        found = {level: self._called(names) for level, names in LEVEL_NAMES.items()}
        words = {level: columns[0] for level, columns in found.items() if columns}
        is_marked = any(_bare(name) != folded(name) or "utm" in folded(name) for name in words.values())
        if is_marked or {"source", "medium"} <= {*words}:
            for level, column in words.items():
                self._take(level, column)
            return
        pairs = [name for name in self._later if self.table.profile[name].holds("pair")]
        for column in [*pairs, *self._called(("origin", "attribution"))][:1]:
            shown = f"nullif(regexp_extract({self.table.word(column)}, '{_SHOWN}'), '')"
            kind, medium = (
                f"regexp_extract({shown}, '{part}', 1)" for part in ("^(Org.*|Ref.*): ", " / (.*)")
            )
            self._take("source", column, f"regexp_extract({shown}, '^(?:[A-Z][a-z]+: )?(.*?)(?: / .*)?$', 1)")
            self.sql["medium"] = f"nullif(lower({kind} || {medium}), '')"

    def _take_node(self, columns: Sequence[str]) -> None:
        """Take a column of channels, partners or sources, or several levels of those."""
        for column in columns:
            level = self.table.levels.get(column) or level_of(column) or ""
            self._take("source" if len(columns) == 1 else level or [*LEVEL_NAMES][len(self._known)], column)

    def _has_visits(self, column: str) -> bool:
        """Return whether a column does not have points of sale only."""
        words = {"".join(evidence.words_of(value)) for value in self.table.profile[column].values if value}
        return not words <= {*evidence.WORDS["runtime"], *evidence.WORDS["shop"]}

    def _take_addresses(self) -> None:
        """Take the landing page, its referrer, and ids of clicks in columns of their own."""
        shares, word = ({name: each.shares for name, each in self.table.profile.items()}, self.table.word)
        pages = [
            name for name in self._called(_LANDINGS) if shares[name]["address"] + shares[name]["path"] > _HALF
        ]
        clicks = {name: column for name in CLICK_IDS for column in self._called([name])}
        page = f"coalesce({', '.join([*map(word, pages[:1]), sources.literal('')])})"
        ids = {name: word(column) for name, column in clicks.items()}
        for column in [*pages[:1], *clicks.values()]:
            self._take("landing", column)
        for column in self._called(_REFERRERS):
            if shares[column]["address"] > _HALF or folded(column).endswith("domain"):
                self._take("came_from", column)
        medium, campaign = self.sql["medium"], self.sql["campaign"]
        self.sql["landing"] = export_tables.with_parameters(page, ids)
        self.sql["is_derived"] = (
            f"coalesce(lower({campaign}), '(') LIKE '(%' AND "
            f"coalesce(lower({medium}) IN ('organic', 'referral', '(none)'), false)"
        )

    def _take_click(self) -> str:
        """Take what a click beside an order was on, such as a publisher; return SQL of its instant."""
        profile = self.table.profile
        times = [
            name
            for name in sorted(profile, key=lambda name: name not in self._later)
            if profile[name].holds("instant")
            or (profile[name].holds("count") and evidence.weight("date", name) > 0)
        ]
        clicks = [name for name in times if evidence.weight("click", name) > 0]
        later = [name for name in self._later if evidence.names_level("source", name)]
        may_be = not self.columns and (clicks or len(times) > 1)
        node = later or find_node(self.table, {}, required=False) if may_be else []
        if node and not clicks:
            # The instant of a source shares a word of its name that no other one has.
            words = {name: {*evidence.words_of(name)} for name in times}
            shared = [
                each for each in evidence.words_of(node[0]) if sum(each in of for of in words.values()) == 1
            ]
            clicks = [name for name in times if words[name] & {*shared}]
        node = node if clicks else []
        for column in node[:1]:
            self._take("source", column)
        return self.table.instants.moment(clicks[0]) if node else "CAST(NULL AS TIMESTAMP)"

    def _called(self, names: Iterable[str]) -> list[str]:
        """Return the columns with values and one of some names, in the order of the names."""
        wanted = {folded(name): place for place, name in enumerate(names)}
        found = [name for name in self._later if _bare(name) in wanted and self.table.is_filled(name)]
        # The source beside UTM parameters may be a point of sale.
        return sorted(found, key=lambda name: ("utm" not in folded(name), wanted[_bare(name)]))

    def say(self, fate: str) -> None:
        """Say how many orders have a source, and what becomes of it."""
        rows, listed = counted(self.table.source.rows, "rows"), ", ".join(self.columns)
        self.table.say(f"{self.count:,} of {rows} with a source of their own ({listed}), which is {fate}")

    def of_rows(self, occurred: str) -> str:
        """Return a query of the rows of the table ``orders`` that have a source, with its fields."""
        columns = ", ".join(f"{sql} AS own_{field}" for field, sql in self.sql.items())
        named = ", ".join(f"own_{field} AS {field}" for field in self.sql)
        row, rows = sources.quoted(sources.ROW), self.table.relation
        columns = f"{row} AS own_row, {self._clicked} AS clicked, {columns}"
        own = f"SELECT {columns} FROM {rows} WHERE {self.is_known}"
        orders = f"orders.* REPLACE (coalesce(clicked, {occurred}) AS date)"
        return f"SELECT {orders}, {named} FROM orders JOIN ({own}) ON own_row = row ORDER BY row"


def _bare(name: str) -> str:
    return _BEFORE.sub("", folded(name)) or folded(name)


def _has_views(table: OwnTable, reading: Reading) -> bool:
    """Return whether rows are page views, and not orders with the first page of their visit."""
    page, _ = find_views(table, reading.columns) or (None, None)
    if page is None or folded(page) not in _LANDINGS:
        return page is not None
    words = [table.word(name) for name in candidates(table, "value")]
    have_amounts = [f"avg(CAST(regexp_matches({word}, '[1-9]') AS INT)) > {_HALF}" for word in words]
    return not any(map(table.scalar, have_amounts))


def _has_leads(table: OwnTable) -> bool:
    """Return whether rows are leads, such as entries of a form: most are of another person."""
    names = [*table.source.columns, Path(table.name).stem]
    are_visits = any(evidence.weight("click", name) > 0 or "session" in folded(name) for name in names)
    phones = [each.name for each in table.profile.values() if each.holds("phone")]
    people = [table.profile[name] for name in (*table.emails(), *phones)]
    return (
        not are_visits
        and any(evidence.weight(role, name) > 0 for role in ("lead", "question") for name in names)
        and any(each.distinct >= _MOSTLY * each.filled for each in people)
    )


def alone(
    connection: duckdb.DuckDBPyConnection, rows: object, reading: Reading
) -> tuple[OwnTable | None, OwnSource | None, Mark | None]:
    """Return a single table as conversions, if it can be, and the source of its rows, if they are orders.

    If only some rows are orders, the last value tells which.
    """
    try:
        table = OwnTable(connection, rows, "conversions", reading.formats("touchpoints"))
    except InvalidRequest:
        return None, None, None
    if mark := mark_of_orders(table, reading.columns):
        return table, None, mark
    columns = table.source.columns
    has_orders = not any(each.fits(columns) for each in known_formats() if each.holds == "touchpoints")
    if table.format is None and has_orders:
        ids = [
            table.profile[name] for role in ("conversion", "value") for name in candidates(table, role)[:1]
        ]
        has_orders = any(each.filled > _HALF * each.rows for each in ids) or _has_leads(table)
        has_orders = has_orders and not candidates(table, "flag")
        has_orders = has_orders and not {"flag", "touch"} & {*reading.columns}
        has_orders = has_orders and not _has_views(table, reading) and not sums_of(table)
    node = names_of(reading.columns.get("node", ()))
    has_orders = has_orders and not (node and table.format)
    own = OwnSource(table, node if table.format is None else None) if has_orders else None
    return table, own if own is not None and own.count else None, None
