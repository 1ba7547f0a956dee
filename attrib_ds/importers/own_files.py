"""Read touchpoints and conversions from users' own files, whose columns are matched by common names.

Rows that cannot be read are listed with the reason; the others are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.dtypes import TEXT
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.importers.conversion_names import references
from attrib_ds.importers.journey_tables import CONVERSIONS, VIEWS, VISITS, assemble, create_table
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.sources import ROW, Source, instant, literal, open_source, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from attrib_ds.importers.journeys import Journeys
from attrib_ds.importers.column_options import OPTIONS

#: Common names of columns by role, in order of preference; case and punctuation do not matter.
COMMON_NAMES: dict[str, tuple[str, ...]] = {
    "user": (
        "user_id",
        "user",
        "customer_id",
        "customer",
        "client_id",
        "visitor_id",
        "cookie_id",
        "cookie",
        "person_id",
        "contact_id",
        "profile_id",
        "anonymous_id",
        "uid",
    ),
    "node": (
        "node_id",
        "node",
        "channel",
        "marketing_channel",
        "source_medium",
        "source",
        "campaign",
        "marketing_source",
        "utm_source",
        "touchpoint",
        "medium",
        "referer_url_host",
        "referrer",
    ),
    "date": (
        "date",
        "time",
        "timestamp",
        "datetime",
        "event_date",
        "event_time",
        "touch_date",
        "start_date",
        "order_date",
        "conversion_date",
        "created_at",
        "occurred_at",
        "ts",
    ),
    "touch": ("touch_id",),
    "conversion": ("event_id", "conversion_id", "transaction_id", "order_id"),
    "flag": ("conversion", "converted", "is_conversion", "conv_flag"),
    "value": (
        "value",
        "conversion_value",
        "revenue",
        "order_value",
        "amount",
        "turnover",
        "total",
        "price",
        "revenue_local_currency",
    ),
    "currency": ("currency", "currency_code", "local_currency"),
    "spend": ("spend", "cost", "amount"),
    "path": ("path", "paths", "journey"),
    "conversions": ("conversions", "total_conversions", "n"),
    "total_value": ("value", "total_conversion_value", "total_value", "conversion_value", "revenue"),
    "nulls": ("nulls", "total_null", "total_nulls", "non_conversions"),
}

_THOUSANDS = r"^-?\d{1,3}(,\d{3})+(\.\d+)?$"


@dataclass(frozen=True)
class FilePaths:
    """Paths read from files.

    Attributes
    ----------
    paths : Paths
        Paths to attribute.
    counts : dict of str to int
        Number of rows read, by kind.
    columns : dict of str to dict
        The columns used, by kind and role.
    rejected : DataFrame
        ``file`` (str), ``row`` (Int64, from 0, without the header), ``reason`` (str).
    """

    paths: Paths
    counts: dict[str, int]
    columns: dict[str, dict[str, str]]
    rejected: pd.DataFrame


class _Table:
    """A file or frame whose columns are selected by role."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, rows: object, argument: str) -> None:
        self.connection = connection
        self.argument = argument
        self.name = str(rows) if isinstance(rows, str | Path) else argument
        self.source: Source = open_source(connection, rows, argument=argument)
        self.columns: dict[str, str] = {}
        self._select: dict[str, str] = {}
        self._rules: list[tuple[str, str]] = []

    def find(self, role: str, named: Mapping[str, str], *, required: bool = True) -> str | None:
        """Return the column of a role: the one named, else the first with a common name."""
        name = named.get(role)
        if name is not None:
            if name not in self.source.columns:
                raise InvalidRequest(
                    f"{role}: {self.name} has no column {name!r}{closest(name, self.source.columns)}; "
                    f"columns: {', '.join(self.source.columns)}",
                    field=role,
                )
            return name
        folded = {_fold(column): column for column in self.source.columns}
        common = [folded[_fold(name)] for name in COMMON_NAMES[role] if _fold(name) in folded]
        # Empty columns, which exports often have, are used only if there is no other.
        column = next((column for column in common if self._is_filled(column)), next(iter(common), None))
        if column is None and required:
            raise InvalidRequest(
                f"{self.argument}: {self.name} has no column that looks like the {role}; columns: "
                f"{', '.join(self.source.columns)}; name it with columns={{{role!r}: COLUMN}}, or "
                f"{OPTIONS[role]} COLUMN in the command",
                field=role,
            )
        return column

    def _is_filled(self, column: str) -> bool:
        query = f"SELECT count({self.source.word(column)}) > 0 FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])

    def take(self, role: str, column: str | None, sql: str | None, complaint: str) -> None:
        """Select a column; rows where it is NULL are rejected."""
        if column is None or sql is None:
            return
        self.columns[role] = column
        self._select[role] = sql
        self._rules.append((f"{sql} IS NULL", f"{column} {complaint}"))

    def take_word(self, role: str, column: str | None) -> None:
        """Select a column of text, which is required in every row."""
        self.take(role, column, column and self.source.word(column), "is missing")

    def take_number(self, role: str, column: str | None, *, minimum: float | None = None) -> None:
        """Select a column of numbers, with or without thousands separators."""
        if column is None:
            return
        word = self.source.word(column)
        plain = (
            f"CASE WHEN regexp_matches({word}, '{_THOUSANDS}') THEN replace({word}, ',', '') ELSE {word} END"
        )
        number = f"TRY_CAST({plain} AS DOUBLE)"
        allowed = f"isfinite({number})" + ("" if minimum is None else f" AND {number} >= {minimum}")
        complaint = "is not a number" if minimum is None else f"is not a number of at least {minimum:g}"
        self.take(role, column, f"CASE WHEN {allowed} THEN {number} END", complaint)

    def take_instant(self, role: str, column: str | None) -> None:
        """Select a column of instants; the default offset is UTC, the default time midnight."""
        if column is None:
            return
        word = self.source.word(column)
        colon = rf"regexp_replace({word}, '\s*([+-]\d{{2}}):?(\d{{2}})$', '\1:\2')"
        clock = rf"regexp_replace({colon}, '^(\S{{10}}[Tt ]\d{{2}}:\d{{2}})([Zz+-]|$)', '\1:00\2')"
        is_date = rf"regexp_full_match({word}, '\d{{4}}-\d{{2}}-\d{{2}}')"
        whole = f"CASE WHEN {is_date} THEN {word} || 'T00:00:00' ELSE {clock} END"
        moment = f"coalesce({self.source.instant(column)}, {instant(whole)})"
        self.take(role, column, moment, "is not an instant")

    def read(self, *, where: str = "true") -> tuple[pa.Table, pd.DataFrame]:
        """Return the valid rows, and the rejected rows with the reason."""
        row = quoted(ROW)
        is_invalid = " OR ".join(f"({condition})" for condition, _ in self._rules)
        reasons = ", ".join(
            f"CASE WHEN {condition} THEN {literal(reason)} END" for condition, reason in self._rules
        )
        columns = ", ".join(f"{sql} AS {role}" for role, sql in self._select.items())
        relation = self.source.relation
        valid = self.connection.execute(
            f"SELECT {row} AS row, {columns} FROM {relation}"
            f" WHERE ({where}) AND NOT ({is_invalid}) ORDER BY {row}"
        ).to_arrow_table()
        invalid = self.connection.execute(
            f"SELECT {row} AS row, concat_ws('; ', {reasons}) AS reason FROM {relation}"
            f" WHERE ({where}) AND ({is_invalid}) ORDER BY {row}"
        ).to_arrow_table()
        rejected = to_pandas(
            pa.concat_tables([self.source.unreadable, invalid.cast(self.source.unreadable.schema)])
        )
        rejected.insert(0, "file", pd.Series(self.name, index=rejected.index, dtype=TEXT))
        if not valid.num_rows:
            problem = f"has no readable rows ({_first(rejected)})" if len(rejected) else "has no rows"
            raise InvalidRequest(f"{self.argument}: {self.name} {problem}", field=self.argument)
        return valid, rejected


def read_journeys(
    touchpoints: object,
    conversions: object = None,
    *,
    columns: Mapping[str, str] | None = None,
    event_type: str = "conversion",
) -> Journeys:
    """Read touchpoints and conversions from files or frames of any source.

    Parameters
    ----------
    touchpoints : str, Path, DataFrame or pyarrow.Table
        One row per touchpoint: a CSV, NDJSON or Parquet file, or a table.
    conversions : str, Path, DataFrame or pyarrow.Table, optional
        One row per conversion; without it, touchpoints whose flag column is 1 or true are conversions.
    columns : mapping of str to str, optional
        Column by role (``user``, ``node``, ``date``, ``touch``, ``conversion``, ``conversion_date``,
        ``flag``, ``value``, ``currency``), for columns without a common name. Times without an offset are
        UTC.
    event_type : str, default "conversion"
        Event type of the conversions in a project.

    Returns
    -------
    Journeys
        Each touchpoint as a session without hits, each conversion with the statistic ``revenue`` if it has a
        value, a node (of type ``channel``) for each name. ``journeys.paths()`` builds the paths,
        ``journeys.load(project)`` loads everything into a project.

    Raises
    ------
    InvalidRequest
        If a file, column or role does not exist, there are no readable rows, or identifiers of conversions
        are not unique.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import attribute, read_journeys
    >>> clicks = pd.DataFrame({"customer": ["u", "u"], "channel": ["search", "email"],
    ...                        "time": ["2025-01-01", "2025-01-02"]})
    >>> orders = pd.DataFrame({"order_id": [1001], "customer": ["u"], "order_date": ["2025-01-03"]})
    >>> attribute(read_journeys(clicks, orders).paths(), "linear")[["node_id", "conversions"]]
      node_id  conversions
    0   email          0.5
    1  search          0.5
    """
    (reference,) = references(event_type).values()
    named = dict(columns or {})
    for role in named:
        if role not in OPTIONS:
            raise InvalidRequest.choice("columns", role, OPTIONS)
    connection = duckdb.connect()
    touch_table = _Table(connection, touchpoints, "touchpoints")
    for role in ("user", "node"):
        touch_table.take_word(role, touch_table.find(role, named))
    touch_table.take_instant("date", touch_table.find("date", named))
    touch_table.take_word("touch", touch_table.find("touch", named, required=False))
    points, rejected = touch_table.read()
    has_own_table = conversions is not None
    conversion_table = _Table(connection, conversions if has_own_table else touchpoints, "conversions")
    where = "true"
    if not has_own_table:
        flag = conversion_table.find("flag", named)
        where = f"coalesce({conversion_table.source.flag(flag or '')}, false)"
    elif "conversion_date" in named:
        named["date"] = named["conversion_date"]
    events, rejected_conversions = _read_conversions(
        conversion_table, named, where, has_own_table=has_own_table
    )
    _create_visits(connection, points)
    _create_conversions(connection, events, reference)
    if has_own_table:
        # A single file for both has the same rejected rows.
        rejected = pd.concat([rejected, rejected_conversions], ignore_index=True)
    connection.register("rejected_rows", pa.Table.from_pandas(rejected, preserve_index=False))
    connection.execute("CREATE TABLE rejected AS SELECT file, row, reason FROM rejected_rows")
    create_table(connection, "views", VIEWS, dict.fromkeys(VIEWS, "NULL"), "WHERE false")
    journeys = assemble(connection, "journeys", stitch=False, currency=None, has_units=False)
    return replace(
        journeys, columns={"touchpoints": touch_table.columns, "conversions": conversion_table.columns}
    )


def read_paths(
    touchpoints: Path,
    conversions: Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    lookback: str | timedelta = "30D",
) -> FilePaths:
    """Read touchpoints and conversions from files as :func:`read_journeys` does, and build the paths."""
    journeys = read_journeys(touchpoints, conversions, columns=columns)
    counts = {"touchpoints": len(journeys.interactions), "conversions": len(journeys.events)}
    return FilePaths(journeys.paths(lookback=lookback), counts, journeys.columns, journeys.rejected)


def _create_visits(connection: duckdb.DuckDBPyConnection, points: pa.Table) -> None:
    connection.register("points", points)
    # Identical touchpoints are distinct visits.
    order = 'row_number() OVER (PARTITION BY "user", node, date ORDER BY row)'
    key = f'concat_ws(chr(31), "user", node, epoch_us(date), {order})'
    columns: dict[str, str] = dict.fromkeys(VISITS, "NULL") | {
        "visit_key": "'id ' || touch" if "touch" in points.column_names else f"'as ' || {key}",
        "account": '"user"',
        "started": "date",
        "ended": "date",
        "node": "node",
        "is_bot": "false",
    }
    create_table(connection, "visits", VISITS, columns, "FROM points")
    connection.unregister("points")


def _create_conversions(connection: duckdb.DuckDBPyConnection, events: pa.Table, reference: str) -> None:
    connection.register("events", events)
    order = 'row_number() OVER (PARTITION BY "user", date ORDER BY row)'
    key = f"concat_ws(' ', \"user\", strftime(date, '%Y-%m-%dT%H:%M:%S.%fZ'), nullif({order}, 1))"
    present = events.column_names
    columns: dict[str, str] = dict.fromkeys(CONVERSIONS, "NULL") | {
        "source_id": "conversion" if "conversion" in present else key,
        "kind": literal(reference),
        "account": '"user"',
        "occurred": "date",
        "amount": "value" if "value" in present else "NULL",
        "currency": "currency" if "currency" in present else "NULL",
    }
    create_table(connection, "conversions", CONVERSIONS, columns, "FROM events")
    connection.unregister("events")


def _read_conversions(
    table: _Table, named: Mapping[str, str], where: str, *, has_own_table: bool
) -> tuple[pa.Table, pd.DataFrame]:
    table.take_word("user", table.find("user", named))
    table.take_instant("date", table.find("date", named))
    if has_own_table or "conversion" in named:
        table.take_word("conversion", table.find("conversion", named, required=False))
    table.take_number("value", table.find("value", named, required=False))
    table.take_word("currency", table.find("currency", named, required=False))
    events, rejected = table.read(where=where)
    if "conversion" in events.column_names:
        duplicates = events.num_rows - pc.count_distinct(events["conversion"]).as_py()
        if duplicates:
            raise InvalidRequest(
                f"conversion: {table.name} has {duplicates:,} rows more than distinct values of "
                f"{table.columns['conversion']!r}; aggregate the rows of a conversion first, or name the "
                "column with unique ids of conversions with columns={'conversion': COLUMN}, or "
                "--conversion COLUMN in the command",
                field="conversion",
            )
    return events, rejected


def read_sequences(
    file: Path, *, columns: Mapping[str, str] | None = None, separator: str = " > "
) -> FilePaths:
    """Read aggregated paths from a file.

    Parameters
    ----------
    file : Path
        CSV, NDJSON or Parquet file, one row per distinct path.
    columns : mapping of str to str, optional
        Column by role (``path``, ``conversions``, ``total_value``, ``nulls``).
    separator : str, default " > "
        Separator between nodes.

    Returns
    -------
    FilePaths
        Paths, counts, the columns used and the rejected rows.

    Raises
    ------
    InvalidRequest
        If the file or a column is missing, or there are no readable rows.
    """
    named = dict(columns or {})
    table = _Table(duckdb.connect(), file, "paths")
    table.take_word("path", table.find("path", named))
    table.take_number("conversions", table.find("conversions", named), minimum=0)
    table.take_number("value", table.find("total_value", named, required=False))
    table.take_number("nulls", table.find("nulls", named, required=False), minimum=0)
    rows, rejected = table.read()
    paths = Paths.from_sequences(
        to_pandas(rows),
        path="path",
        conversions="conversions",
        value="value" if "value" in rows.column_names else None,
        nulls="nulls" if "nulls" in rows.column_names else None,
        separator=separator,
    )
    return FilePaths(paths, {"paths": rows.num_rows}, {"paths": table.columns}, rejected)


def read_spend(file: Path, *, columns: Mapping[str, str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend of nodes from a file; return ``node_id``, ``spend``, ``currency``, and rejected rows."""
    named = dict(columns or {})
    table = _Table(duckdb.connect(), file, "spend")
    table.take_word("node_id", table.find("node", named))
    table.take_number("spend", table.find("spend", named), minimum=0)
    table.take_word("currency", table.find("currency", named, required=False))
    rows, rejected = table.read()
    return to_pandas(rows.drop_columns(["row"])), rejected


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _first(rejected: pd.DataFrame) -> str:
    return f"row {rejected['row'].iloc[0]}: {rejected['reason'].iloc[0]}"
