"""The columns of a user's file or frame, found by name or by role."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pandas as pd

from attrib_ds.contract.identifiers import SIGNS
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.importers.column_options import OPTIONS
from attrib_ds.queries.channel_rules import COLUMN_NAMES
from attrib_ds.records.sources import Source, open_source
from attrib_ds.records.tabular_files import (
    WORKBOOKS,
    checked_encoding,
    first_foreign_line,
    marked_encoding,
    read_sheet,
    sheet_columns,
)

if TYPE_CHECKING:
    import duckdb


#: One column, or the columns of several levels.
Named: TypeAlias = str | Sequence[str]

_DELIMITED: Final = (".csv", ".tsv")
#: Argument with the sheet of a workbook, and the roles of required columns, by the argument of its file.
_SHEETS: Final = {
    "touchpoints": ("sheet", "user", "node part_of_node", "date"),
    "conversions": ("conversion_sheet", "user", "date"),
    "paths": ("sheet", "path", "conversions"),
    "spend": ("spend_sheet", "node part_of_node", "spend"),
}
_CURRENCY: Final = "|".join(["[A-Za-z]{3}", *SIGNS])


@dataclass(frozen=True)
class Formats:
    """How a user's files are written, as far as their content does not tell.

    Attributes
    ----------
    dayfirst : bool, optional
        Whether 03/04/2025 is in April.
    decimal : {".", ","}, optional
        Decimal mark of numbers in text.
    encoding : str, optional
        Encoding of delimited text that is not UTF-8.
    sheet : str, optional
        Sheet of a workbook; by default the first.
    """

    dayfirst: bool | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None


class OwnColumns:
    """A file or frame, and its columns by role.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The rows are copied to it.
    rows : DataFrame, Arrow table or path
        The file or frame.
    argument : str
        Name of the argument in messages.
    formats : Formats
        How the file is written.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: object,
        argument: str,
        formats: Formats = Formats(),
    ) -> None:
        self.connection = connection
        self.formats = formats
        self.argument = argument
        self.name = str(rows) if isinstance(rows, str | Path) else argument
        encoding = _encoding(rows, argument, checked_encoding(formats.encoding))
        self._workbook = workbook_of(rows)
        if formats.sheet is not None:
            rows = self._read_sheet(formats.sheet)
        self.source: Source = open_source(connection, rows, argument=argument, encoding=encoding)

    def find(
        self, role: str, named: Mapping[str, Named], *, required: bool = True, called: str | None = None
    ) -> str | None:
        """Return the column of a role: the one named, else the first with a common name.

        Messages advise to name the column as the role ``called``, if another one is only for this table.
        """
        called = called or role
        name = named.get(role)
        if name is not None:
            if not isinstance(name, str):
                raise InvalidRequest(f"{role}: {name!r} is not allowed; allowed: one column", field=role)
            return self._checked(role, name, called)
        common = self.common(role)
        # Empty columns, which exports often have, are used only if there is no other.
        column = next((column for column in common if self.is_filled(column)), next(iter(common), None))
        if column is None and required:
            raise InvalidRequest(
                f"{self.argument}: {self.name} has no column that looks like the {role}; columns: "
                f"{', '.join(self.source.columns)}; {_how_to_name(called)}{self._other_sheets()}",
                field=role,
            )
        return column

    def _read_sheet(self, sheet: str) -> pd.DataFrame:
        called = _SHEETS[self.argument][0]
        if self._workbook is None:
            name = self.argument if self.name == self.argument else repr(Path(self.name).name)
            raise InvalidRequest(
                f"{called}: {name} is no workbook with sheets; allowed with the path of an .xlsx file",
                field=called,
            )
        return read_sheet(self._workbook, sheet, argument=self.argument, called=called)

    def _other_sheets(self) -> str:
        """Return advice that names the sheets of a workbook with columns for all required roles."""
        if self._workbook is None or self.formats.sheet is not None:
            return ""
        called, *roles = _SHEETS[self.argument]
        names = [{folded(name) for role in each.split() for name in COMMON_NAMES[role]} for each in roles]
        found = [
            sheet
            for sheet, columns in sheet_columns(self._workbook).items()
            if not any(of_role.isdisjoint(map(folded, columns)) for of_role in names)
        ]
        if not found:
            return ""
        listed = ", ".join(map(repr, found))
        sheets = f"the sheet {listed} has" if len(found) == 1 else f"the sheets {listed} have"
        chosen = f"{called}={found[0]!r}, or --{called.replace('_', '-')} {found[0]!r} in the command"
        return f"; {sheets} columns that fit: pass {chosen}"

    def common(self, role: str) -> list[str]:
        """Return the columns with a common name for a role, in order of preference."""
        return self._common(COMMON_NAMES[role])

    def find_node(
        self, named: Mapping[str, Named], *, required: bool = True, called: str = "node"
    ) -> list[str]:
        """Return the columns of a node: those named, one of nodes, those of a source, or one of its parts."""
        given = named.get("node")
        if given is not None:
            columns = [given] if isinstance(given, str) else list(given)
            if not 1 <= len(columns) <= len(LEVEL_NAMES) or len(set(columns)) < len(columns):
                raise InvalidRequest(
                    f"node: {given!r} is not allowed; allowed: one column, or up to {len(LEVEL_NAMES)} "
                    "different ones from the highest level down",
                    field="node",
                )
            return [self._checked("node", column, called) for column in columns]
        of_nodes = self._common(COMMON_NAMES["node"])
        if any(self.is_filled(column) for column in of_nodes):
            return [next(column for column in of_nodes if self.is_filled(column))]
        of_levels = {level: self._common(LEVEL_NAMES[level]) for level in ("source", "medium", "campaign")}
        filled = {
            level: next((column for column in columns if self.is_filled(column)), None)
            for level, columns in of_levels.items()
        }
        parts = [column for column in filled.values() if column is not None]
        if len(parts) > 1:
            return parts
        parts = [*self._common(COMMON_NAMES["part_of_node"]), *of_nodes]
        found = next((column for column in parts if self.is_filled(column)), next(iter(parts), None))
        found = found or self.find("node", named, required=required, called=called)
        return [] if found is None else [found]

    def has(self, columns: Named) -> bool:
        """Return whether all of some columns exist."""
        return {*([columns] if isinstance(columns, str) else columns)} <= {*self.source.columns}

    def find_node_like(self, other: Named | None, named: Mapping[str, Named]) -> list[str]:
        """Return the columns of a node, those that another table uses if this one has them too."""
        if "node" not in named and isinstance(other, str) and self._common([other]):
            return self._common([other])
        columns = self.find_node(named, called="spend_node")
        if "node" in named or other is None or isinstance(other, str):
            return columns
        levels = {level_of(column) for column in other}
        return [column for column in columns if level_of(column) in levels] or columns

    def _checked(self, role: str, name: str, called: str | None = None) -> str:
        if name not in self.source.columns:
            advice = "" if called in (None, role) else f"; {_how_to_name(str(called))}"
            raise InvalidRequest(
                f"{role}: {self.name} has no column {name!r}{closest(name, self.source.columns)}; "
                f"columns: {', '.join(self.source.columns)}{advice}",
                field=role,
            )
        return name

    def _common(self, names: Sequence[str]) -> list[str]:
        """Return the columns with one of some common names, in order of preference."""
        present = {folded(column): column for column in self.source.columns}
        return [present[folded(name)] for name in names if folded(name) in present]

    def is_filled(self, column: str) -> bool:
        """Return whether any row has a value."""
        query = f"SELECT count({self.source.word(column)}) > 0 FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])

    def find_steps(self, named: Mapping[str, Named]) -> list[str]:
        """Return the columns of the steps of wide journeys in order, or none if a column holds the path."""
        given = named.get("path")
        if given is not None and not isinstance(given, str):
            return [self._checked("path", column) for column in given]
        if given is not None or self._common(COMMON_NAMES["path"]):
            return []
        series: dict[str, dict[int, str]] = {}
        for column in self.source.columns:
            match = re.fullmatch(r"(.*?)[ _.-]?(\d+)", column)
            if match is not None:
                series.setdefault(match[1].casefold(), {})[int(match[2])] = column
        longest = max(series.values(), key=len, default={})
        return [longest[number] for number in sorted(longest)] if len(longest) > 1 else []

    def find_quantity(self, named: Mapping[str, Named], amount: str | None) -> str | None:
        """Return the column of the quantity that a price is to be multiplied with.

        A named column of values is not multiplied, unless a column of quantities is named too.
        """
        if "quantity" in named:
            return self.find("quantity", named)
        if amount is None or "value" in named or folded(amount) not in UNIT_PRICES:
            return None
        return self.find("quantity", named, required=False)

    def find_currency(self, named: Mapping[str, Named], amount: str | None) -> str | None:
        """Return the column of the currency of an amount: ``<amount>_currency`` before other names."""
        if "currency" in named:
            return self.find("currency", named)
        common = self.common("currency")
        others = [
            column
            for column in self.source.columns
            if folded(column).endswith(("currency", "currencycode")) and column not in common
        ]
        own = [column for column in others if amount and folded(column).startswith(folded(amount))]
        for column in [*own, *common, *others]:
            if self.is_filled(column) if column in common else self._has_codes(column):
                return column
        return next(iter(common), None)

    def _has_codes(self, column: str) -> bool:
        """Return whether all values look like codes or signs; columns of amounts have similar names."""
        word = self.source.word(column)
        query = f"SELECT bool_and(regexp_full_match({word}, '{_CURRENCY}')) FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])


def _how_to_name(role: str) -> str:
    return f"name it with columns={{{role!r}: COLUMN}}, or {OPTIONS[role]} COLUMN in the command"


def workbook_of(rows: object) -> Path | None:
    """Return the path of a workbook; None for everything else."""
    path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
    return path if path is not None and path.is_file() and path.suffix.casefold() in WORKBOOKS else None


def _encoding(rows: object, argument: str, encoding: str | None) -> str | None:
    """Return the encoding of delimited text that is not UTF-8; None for everything else."""
    path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
    if (
        path is None
        or not path.name.casefold().removesuffix(".gz").endswith(_DELIMITED)
        or not path.is_file()
    ):
        return None
    if marked_encoding(path) is not None:
        return None
    line = first_foreign_line(path)
    if line is None:
        return None
    if encoding is None:
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not UTF-8 text (line {line}), but perhaps cp1252, that of Windows "
            "in Western Europe; pass encoding='cp1252', or --encoding cp1252 in the command "
            "(encoding='utf-8' leaves out the rows that are not UTF-8)",
            field="encoding",
        )
    return encoding


#: Columns that make a node together, by the level that they name.
LEVEL_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "source": COLUMN_NAMES["source"],
    "medium": COLUMN_NAMES["medium"],
    "campaign": COLUMN_NAMES["campaign"],
    "adset": ("adset", "adset_name", "ad_group", "ad_group_name"),
    "ad": ("ad", "ad_name", "utm_content", "mkt_content", "marketing_content", "context_campaign_content"),
    "keyword": ("keyword", "utm_term", "mkt_term", "marketing_term", "context_campaign_term"),
}

#: Common names by role, in order of preference.
COMMON_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "user": (
        "user_id", "user", "customer_id", "customer", "client_id", "visitor_id", "cookie_id", "cookie",
        "person_id", "contact_id", "profile_id", "stitched_user_id", "user_identifier", "anonymous_id",
        "user_pseudo_id", "domain_userid", "network_userid", "full_visitor_id", "device_id", "uid",
        "session_id",
    ),
    # Names of users that identify a device or browser if there is a user too.
    "device": (
        "anonymous_id", "user_pseudo_id", "domain_userid", "network_userid", "full_visitor_id", "client_id",
        "visitor_id", "cookie_id", "cookie", "device_id",
    ),
    "node": (
        "node_id", "node", "channel", "marketing_channel", "channel_name", "channel_grouping",
        "source_medium", "session_source_medium", "touchpoint",
    ),
    # Used if there is no better one, and no two columns of a source and its campaign.
    "part_of_node": (
        "source", "campaign", "marketing_source", "utm_source", "utm_campaign", "mkt_source",
        "session_source", "medium", "default_channel_group", "session_default_channel_group",
        "default_channel_grouping", "referrer_name", "referrer_type", "referer_url_host", "refr_urlhost",
        "referrer", "context_page_referrer",
    ),
    "date": (
        "date", "time", "timestamp", "datetime", "event_date", "event_time", "event_timestamp",
        "touch_date", "touchpoint_date", "start_date", "visit_start_tstamp", "start_tstamp",
        "derived_tstamp", "collector_tstamp", "original_timestamp", "order_date", "conversion_date",
        "purchase_date", "cv_tstamp", "created_at", "occurred_at", "server_time", "visit_first_action_time",
        "received_at", "sent_at", "ts",
    ),
    # Times of day, beside a column of days.
    "time": (
        "time", "time_of_day", "event_time", "order_time", "purchase_time", "conversion_time", "visit_time",
        "session_time", "touch_time", "touchpoint_time", "click_time",
    ),
    "touch": ("touch_id", "touchpoint_id", "view_id"),
    "conversion": (
        "event_id", "conversion_id", "cv_id", "transaction_id", "order_id", "order_number", "id_order",
    ),
    "flag": ("conversion", "converted", "is_conversion", "conv_flag"),
    "value": (
        "value", "conversion_value", "revenue", "order_value", "amount", "turnover", "total", "total_price",
        "price", "purchase_revenue", "ecommerce_purchase_revenue", "cv_value", "tr_total",
        "revenue_local_currency", "unit_price", "item_price", "product_price", "lineitem_price",
    ),
    "quantity": (
        "quantity", "qty", "item_quantity", "product_quantity", "lineitem_quantity", "units",
    ),
    "currency": ("currency", "currency_code", "tr_currency", "local_currency", "site_currency"),
    "spend": ("spend", "cost", "amount"),
    "path": ("path", "paths", "journey", "transformed_path", "channel_transformed_path"),
    "conversions": ("conversions", "total_conversions", "n"),
    "total_value": ("value", "total_conversion_value", "total_value", "conversion_value", "revenue"),
    "nulls": ("nulls", "total_null", "total_nulls", "non_conversions"),
}  # fmt: skip


def folded(name: str) -> str:
    """Return a name without case and punctuation, which do not matter."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


#: Names, folded, of columns with the price of one piece.
UNIT_PRICES: Final = frozenset(
    map(folded, ("price", "unit_price", "item_price", "product_price", "lineitem_price"))
)


def level_of(column: str) -> str | None:
    """Return the level of a node that a column names, or None."""
    for level, names in LEVEL_NAMES.items():
        if folded(column) in map(folded, names):
            return level
    return None


_DEVICES = frozenset(map(folded, COMMON_NAMES["device"]))
#: A session is a user only if nothing else is known.
_SESSION = "sessionid"


@dataclass(frozen=True)
class UserColumns:
    """Columns of one table: of the user, of the device, or of both."""

    user: str | None
    device: str | None = None


def user_columns(
    touchpoints: OwnColumns, conversions: OwnColumns, named: Mapping[str, Named]
) -> tuple[UserColumns, UserColumns]:
    """Return the columns of users of both tables, preferring names that the tables share.

    The id of a device stands beside that of a user in at least one of the tables; otherwise it is the user.
    """
    tables = (touchpoints, conversions)
    if {"user", "conversion_user", "device"} & set(named):
        return _named(tables, named)
    users = [_filled(table, is_device=False) for table in tables]
    devices = [_filled(table, is_device=True) for table in tables]
    if not any(user and device for user, device in zip(users, devices, strict=True)):
        both = [_filled(table) for table in tables]
        chosen = [UserColumns(column) for column in _preferred(both)]
    else:
        shared = bool({*map(folded, devices[0])} & {*map(folded, devices[1])})
        chosen = [
            UserColumns(device) if user is None and not shared else UserColumns(user, device)
            for user, device in zip(_preferred(users), _preferred(devices), strict=True)
        ]
    first, second = (
        columns if columns.user or columns.device else UserColumns(table.find("user", named, called=called))
        for table, columns, called in zip(tables, chosen, ("user", "conversion_user"), strict=True)
    )
    return first, second


def _named(
    tables: tuple[OwnColumns, OwnColumns], named: Mapping[str, Named]
) -> tuple[UserColumns, UserColumns]:
    device = named.get("device")
    if device is not None and not any(device in table.source.columns for table in tables):
        tables[0].find("device", named)
    if "conversion_user" in named:
        of_conversions = {"user": named["conversion_user"]}
    else:
        of_conversions = {role: name for role, name in named.items() if role == "user"}
    chosen = []
    for table, names, called in zip(
        tables, (named, of_conversions), ("user", "conversion_user"), strict=True
    ):
        has_device = isinstance(device, str) and device in table.source.columns
        user = table.find("user", names, required=not has_device, called=called)
        chosen.append(UserColumns(None if user == device else user, str(device) if has_device else None))
    first, second = chosen
    return first, second


def _filled(table: OwnColumns, *, is_device: bool | None = None) -> list[str]:
    """Return the columns with values whose names are common for users, for devices, or for both."""
    columns = [
        column
        for column in table.common("user")
        if is_device is None or (folded(column) != _SESSION and (folded(column) in _DEVICES) == is_device)
    ]
    return [column for column in columns if table.is_filled(column)]


def _preferred(columns: list[list[str]]) -> list[str | None]:
    """Return a column for each table: the first name that both have, else the first of each."""
    first, second = ({folded(column): column for column in of_table} for of_table in columns)
    for name, column in first.items():
        if name in second:
            return [column, second[name]]
    return [next(iter(of_table), None) for of_table in columns]
