"""Touchpoints and conversions in a user's own files, their columns found by common names.

Rows that cannot be read are counted and listed, never lost in silence; the rest goes on.
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
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.importers.assembling import CONVERSIONS, VIEWS, VISITS, assemble, create_table
from attrib_ds.importers.conversion_names import references
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.sources import ROW, Source, instant, literal, open_source, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from attrib_ds.importers.journeys import Journeys
from attrib_ds.importers.options import OPTIONS

#: Common names of columns by role, the most telling first; case and punctuation do not matter.
GUESSES: dict[str, tuple[str, ...]] = {
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
    """Paths that were read from files.

    Attributes
    ----------
    paths : Paths
        Ready for attribution.
    counts : dict of str to int
        Rows read, by kind.
    columns : dict of str to dict
        The columns taken, by kind and role.
    rejected : DataFrame
        ``file`` (str), ``row`` (Int64, from 0, the header not counted), ``reason`` (str).
    """

    paths: Paths
    counts: dict[str, int]
    columns: dict[str, dict[str, str]]
    rejected: pd.DataFrame


class _Table:
    """One file, read column by column into the roles it plays."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, given: object, argument: str) -> None:
        self.connection = connection
        self.argument = argument
        self.name = str(given) if isinstance(given, str | Path) else argument
        self.source: Source = open_source(connection, given, argument=argument)
        self.columns: dict[str, str] = {}
        self._select: dict[str, str] = {}
        self._wrong: list[tuple[str, str]] = []

    def find(self, role: str, named: Mapping[str, str], *, required: bool = True) -> str | None:
        """Return the column that plays a role: the one named, else the first common name there is."""
        given = named.get(role)
        if given is not None:
            if given not in self.source.columns:
                raise InvalidRequest(
                    f"{role}: {self.name} has no column {given!r}{closest(given, self.source.columns)}; "
                    f"columns: {', '.join(self.source.columns)}",
                    field=role,
                )
            return given
        folded = {_fold(column): column for column in self.source.columns}
        common = [folded[_fold(name)] for name in GUESSES[role] if _fold(name) in folded]
        # Exports carry columns that nothing fills; such a column plays no role.
        found = next((column for column in common if self._is_filled(column)), next(iter(common), None))
        if found is None and required:
            raise InvalidRequest(
                f"{self.argument}: {self.name} has no column that looks like the {role}; columns: "
                f"{', '.join(self.source.columns)}; name it with columns={{{role!r}: COLUMN}}, or "
                f"{OPTIONS[role]} COLUMN in the command",
                field=role,
            )
        return found

    def _is_filled(self, column: str) -> bool:
        query = f"SELECT count({self.source.word(column)}) > 0 FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])

    def take(self, role: str, column: str | None, sql: str | None, complaint: str) -> None:
        """Add a column to what is read; a row where it is NULL is unreadable."""
        if column is None or sql is None:
            return
        self.columns[role] = column
        self._select[role] = sql
        self._wrong.append((f"{sql} IS NULL", f"{column} {complaint}"))

    def take_word(self, role: str, column: str | None) -> None:
        """Read text that must be there."""
        self.take(role, column, column and self.source.word(column), "is missing")

    def take_number(self, role: str, column: str | None, *, minimum: float | None = None) -> None:
        """Read a number; a comma between thousands is no obstacle."""
        if column is None:
            return
        word = self.source.word(column)
        plain = (
            f"CASE WHEN regexp_matches({word}, '{_THOUSANDS}') THEN replace({word}, ',', '') ELSE {word} END"
        )
        number = f"TRY_CAST({plain} AS DOUBLE)"
        allowed = f"isfinite({number})" + ("" if minimum is None else f" AND {number} >= {minimum}")
        complaint = "is not a number" if minimum is None else f"is not a number from {minimum:g} up"
        self.take(role, column, f"CASE WHEN {allowed} THEN {number} END", complaint)

    def take_instant(self, role: str, column: str | None) -> None:
        """Read an instant; without an offset it is UTC, without a time it is midnight."""
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
        """Return the rows that can be read, and the others with the reason."""
        row = quoted(ROW)
        wrong = " OR ".join(f"({condition})" for condition, _ in self._wrong)
        reasons = ", ".join(
            f"CASE WHEN {condition} THEN {literal(why)} END" for condition, why in self._wrong
        )
        columns = ", ".join(f"{sql} AS {role}" for role, sql in self._select.items())
        relation = self.source.relation
        good = self.connection.execute(
            f"SELECT {row} AS row, {columns} FROM {relation} WHERE ({where}) AND NOT ({wrong}) ORDER BY {row}"
        ).to_arrow_table()
        bad = self.connection.execute(
            f"SELECT {row} AS row, concat_ws('; ', {reasons}) AS reason FROM {relation}"
            f" WHERE ({where}) AND ({wrong}) ORDER BY {row}"
        ).to_arrow_table()
        rejected = to_pandas(
            pa.concat_tables([self.source.unreadable, bad.cast(self.source.unreadable.schema)])
        )
        rejected.insert(0, "file", pd.Series(self.name, index=rejected.index, dtype="str"))
        if not good.num_rows:
            problem = (
                "holds no row" if not len(rejected) else f"holds no row that can be read ({_first(rejected)})"
            )
            raise InvalidRequest(f"{self.argument}: {self.name} {problem}", field=self.argument)
        return good, rejected


def read_journeys(
    touchpoints: object,
    conversions: object = None,
    *,
    columns: Mapping[str, str] | None = None,
    event_type: str = "conversion",
) -> Journeys:
    """Read touchpoints and conversions of any origin by the common names of columns.

    Parameters
    ----------
    touchpoints : str, Path, DataFrame or pyarrow.Table
        One row per touchpoint: a CSV, NDJSON or Parquet file, or a table.
    conversions : str, Path, DataFrame or pyarrow.Table, optional
        The same of conversions; without it, touchpoints whose flag column is 1 or true are conversions.
    columns : mapping of str to str, optional
        Role (``user``, ``node``, ``date``, ``touch``, ``conversion``, ``conversion_date``, ``flag``,
        ``value``, ``currency``) to the column that plays it, where its name is not a common one. Times
        without an offset are UTC.
    event_type : str, default "conversion"
        What the conversions are called in a project.

    Returns
    -------
    Journeys
        Each touchpoint as a session without hits, each conversion with the statistic ``revenue`` where there
        is a value, a node (of the type ``channel``) for each name. ``journeys.paths()`` makes paths,
        ``journeys.load(project)`` loads everything into a project.

    Raises
    ------
    InvalidRequest
        If a file, a column or a role is not there, nothing can be read, or an identifier of conversions is
        there twice.

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
    touched = _Table(connection, touchpoints, "touchpoints")
    for role in ("user", "node"):
        touched.take_word(role, touched.find(role, named))
    touched.take_instant("date", touched.find("date", named))
    touched.take_word("touch", touched.find("touch", named, required=False))
    points, rejected = touched.read()
    is_own = conversions is not None
    converted = _Table(connection, conversions if is_own else touchpoints, "conversions")
    where = "true"
    if not is_own:
        flag = converted.find("flag", named)
        where = f"coalesce({converted.source.flag(flag or '')}, false)"
    elif "conversion_date" in named:
        named["date"] = named["conversion_date"]
    events, others = _read_conversions(converted, named, where, own_file=is_own)
    _visits(connection, points)
    _conversions(connection, events, reference)
    if is_own:
        # One file for both is read twice, and what cannot be read in it is the same.
        rejected = pd.concat([rejected, others], ignore_index=True)
    connection.register("told", pa.Table.from_pandas(rejected, preserve_index=False))
    connection.execute("CREATE TABLE rejected AS SELECT file, row, reason FROM told")
    create_table(connection, "views", VIEWS, dict.fromkeys(VIEWS, "NULL"), "WHERE false")
    journeys = assemble(connection, "journeys", stitch=False, currency=None, has_units=False)
    return replace(journeys, columns={"touchpoints": touched.columns, "conversions": converted.columns})


def read_paths(
    touchpoints: Path,
    conversions: Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    lookback: str | timedelta = "30D",
) -> FilePaths:
    """Read touchpoints and conversions from files, as :func:`read_journeys` does, and make paths of them."""
    journeys = read_journeys(touchpoints, conversions, columns=columns)
    counts = {"touchpoints": len(journeys.interactions), "conversions": len(journeys.events)}
    return FilePaths(journeys.paths(lookback=lookback), counts, journeys.columns, journeys.rejected)


def _visits(connection: duckdb.DuckDBPyConnection, points: pa.Table) -> None:
    connection.register("points", points)
    # Touchpoints that are alike in everything are several all the same.
    order = 'row_number() OVER (PARTITION BY "user", node, date ORDER BY row)'
    key = f'concat_ws(chr(31), "user", node, epoch_us(date), {order})'
    columns: dict[str, str] = dict.fromkeys(VISITS, "NULL") | {
        "visit_key": "'id ' || touch" if "touch" in points.column_names else f"'as ' || {key}",
        "account": '"user"',
        "began": "date",
        "ended": "date",
        "node": "node",
        "is_bot": "false",
    }
    create_table(connection, "visits", VISITS, columns, "FROM points")
    connection.unregister("points")


def _conversions(connection: duckdb.DuckDBPyConnection, events: pa.Table, reference: str) -> None:
    connection.register("events", events)
    order = 'row_number() OVER (PARTITION BY "user", date ORDER BY row)'
    key = f"concat_ws(' ', \"user\", strftime(date, '%Y-%m-%dT%H:%M:%S.%fZ'), nullif({order}, 1))"
    known = events.column_names
    columns: dict[str, str] = dict.fromkeys(CONVERSIONS, "NULL") | {
        "source_id": "conversion" if "conversion" in known else key,
        "kind": literal(reference),
        "account": '"user"',
        "happened": "date",
        "amount": "value" if "value" in known else "NULL",
        "currency": "currency" if "currency" in known else "NULL",
    }
    create_table(connection, "conversions", CONVERSIONS, columns, "FROM events")
    connection.unregister("events")


def _read_conversions(
    converted: _Table, named: Mapping[str, str], where: str, *, own_file: bool
) -> tuple[pa.Table, pd.DataFrame]:
    converted.take_word("user", converted.find("user", named))
    converted.take_instant("date", converted.find("date", named))
    if own_file or "conversion" in named:
        converted.take_word("conversion", converted.find("conversion", named, required=False))
    converted.take_number("value", converted.find("value", named, required=False))
    converted.take_word("currency", converted.find("currency", named, required=False))
    events, rejected = converted.read(where=where)
    if "conversion" in events.column_names:
        doubled = events.num_rows - pc.count_distinct(events["conversion"]).as_py()
        if doubled:
            raise InvalidRequest(
                f"conversion: {converted.name} has {doubled:,} rows more than distinct values of "
                f"{converted.columns['conversion']!r}; add up the rows of a conversion first, or name the "
                "column that tells conversions apart with columns={'conversion': COLUMN}, or "
                "--conversion COLUMN in the command",
                field="conversion",
            )
    return events, rejected


def read_sequences(
    file: Path, *, columns: Mapping[str, str] | None = None, separator: str = " > "
) -> FilePaths:
    """Read already aggregated paths from a file.

    Parameters
    ----------
    file : Path
        CSV, NDJSON or Parquet file, one row per distinct path.
    columns : mapping of str to str, optional
        Role (``path``, ``conversions``, ``total_value``, ``nulls``) to the column that plays it.
    separator : str, default " > "
        What stands between two nodes.

    Returns
    -------
    FilePaths
        Paths, counts, the columns taken and the rows that could not be read.

    Raises
    ------
    InvalidRequest
        If the file or a column is missing, or nothing can be read.
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
    """Read the spend of nodes from a file: ``node_id``, ``spend``, ``currency``, and the unreadable rows."""
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
