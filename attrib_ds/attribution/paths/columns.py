"""Touchpoints and conversions of any origin as lazy tables, each column checked by the engine.

Checks run on whole columns where the rows are; no Python object is made per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa
from pyarrow.parquet import read_schema

from attrib_ds.attribution.engines.engine import moved
from attrib_ds.errors import InvalidRequest, closest

_INSTANTS = "allowed: timestamps, dates or RFC 3339 text such as '2025-01-31T12:00:00Z'"
_DATE_FIRST = r"^\d{4}-\d{2}-\d{2}"
_READABLE = "text, integers of 64 bits, other numbers, flags, dates and timestamps"
#: Up to here doubles tell every whole number from the next.
_EXACT: Final = 2.0**53


# A cast between instants with and without a zone goes through the calendar of the session's time zone, row by
# row; these two functions of DuckDB do the same in a tenth of the time.
@ibis.udf.scalar.builtin(signature=((dt.Timestamp(timezone="UTC"),), dt.int64))  # type: ignore[untyped-decorator]
def epoch_us(instant: Any) -> Any:
    """Return the microseconds since 1970 of an instant."""


@ibis.udf.scalar.builtin(signature=((dt.int64,), dt.Timestamp(scale=6)))  # type: ignore[untyped-decorator]
def make_timestamp(microseconds: Any) -> Any:
    """Return the instant in UTC, without a zone, so many microseconds after 1970."""


@dataclass
class Input:
    """One table a user handed over, and what was found wrong with it.

    Columns are taken out by role (:meth:`keys`, :meth:`instants`, :meth:`numbers`), each of which notes what
    would be wrong with a row; :meth:`check` then looks at all of them in one pass. A role is named as the
    argument that names its column; it is None where no argument does.
    """

    table: ir.Table
    argument: str
    untyped: frozenset[str] = frozenset()
    is_lent: bool = False
    dialect: str = "duckdb"
    _suspects: list[tuple[str, str, Any]] = field(default_factory=list)
    _unique: list[tuple[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, backend: Any, frame: object, *, argument: str) -> Input:
        """Open a DataFrame, an Arrow table, a Parquet file or a table of the engine itself on an engine.

        Raises
        ------
        InvalidRequest
            If the value is none of these, names a column twice, or mixes types within a column.
        """
        if isinstance(frame, ir.Table):
            return cls(moved(frame, backend), argument, is_lent=True, dialect=backend.name)
        if isinstance(frame, str | Path):
            return cls(_parquet(backend, Path(frame), argument), argument)
        table: Any = _arrow(frame, argument) if isinstance(frame, pd.DataFrame) else frame
        if not isinstance(table, pa.Table):
            raise InvalidRequest(
                f"{argument}: {type(frame).__name__} is not a table; allowed: a pandas DataFrame, a pyarrow "
                "Table, the path of a Parquet file or a table of Ibis",
                field=argument,
            )
        _distinct_names(table.column_names, argument)
        if not table.num_columns:
            raise InvalidRequest(f"{argument}: the table has no column", field=argument)
        # A column without a single value has no type of its own, and engines guess one; text takes any role.
        untyped = [column.name for column in table.schema if pa.types.is_null(column.type)]
        for name in untyped:
            index = table.column_names.index(name)
            table = table.set_column(index, name, table[name].cast(pa.string()))
        if backend.name != "duckdb":
            return cls(ibis.memtable(table), argument, frozenset(untyped), True, backend.name)
        backend.con.register(argument, table)
        return cls(backend.table(argument), argument, frozenset(untyped))

    def keys(self, name: str, *, role: str | None, unique: bool = False) -> Any:
        """Return identifiers as text; whole numbers stored as floats lose their ``.0``."""
        values = self._complete(name, role)
        kind = values.type()
        if kind.is_floating():
            # Not by floor(), which makes an integer of what none can hold.
            self.suspect(name, "is not a whole number", (values.abs() <= _EXACT) & (values % 1 != 0))
            too_large = "is a float too large to be exact; read identifiers as text or as integers"
            self.suspect(name, too_large, (values.abs() > _EXACT) | values.isnan())
            values = values.cast("int64")
        elif not (kind.is_string() or kind.is_integer() or kind.is_uuid()):
            self._refuse(name, kind, "text or whole numbers")
        texts = values.cast("string")
        if unique:
            self._unique.append((name, texts))
        return texts

    def instants(self, name: str, *, role: str | None, optional: bool = False) -> Any:
        """Return instants in UTC without a zone; those that carry none are UTC already."""
        values = self._column(name, role) if optional else self._complete(name, role)
        kind = values.type()
        if kind.is_timestamp() and kind.timezone is not None and self.dialect == "duckdb":
            return make_timestamp(epoch_us(values))
        if kind.is_timestamp() or kind.is_date():
            return values.cast("timestamp(6)")
        if self.is_lent:
            self._refuse(name, kind, "timestamps or dates, in a session whose time zone is UTC")
        if not kind.is_string():
            self._refuse(name, kind, "timestamps, dates or RFC 3339 text (numbers: pandas.to_datetime first)")
        parsed = make_timestamp(epoch_us(values.try_cast("timestamp('UTC')")))
        readable = parsed.notnull() & values.re_search(_DATE_FIRST)
        self.suspect(name, f"is not an instant; {_INSTANTS}", values.notnull() & ~readable)
        return parsed

    def numbers(self, name: str, *, role: str | None, minimum: float | None = None) -> Any:
        """Return finite numbers as doubles."""
        values = self._complete(name, role)
        kind = values.type()
        if not (kind.is_numeric() or kind.is_boolean() or name in self.untyped):
            self._refuse(name, kind, "numbers")
        doubles = values.cast("float64")
        if kind.is_floating():
            self.suspect(
                name, "is not finite; drop those rows or fill them", doubles.isnan() | doubles.isinf()
            )
        if minimum is not None:
            self.suspect(name, f"is below {minimum:g}", doubles < minimum)
        return doubles

    def texts(self, name: str, *, role: str) -> Any:
        """Return text, missing values included."""
        return self._column(name, role).cast("string")

    def has(self, name: str) -> bool:
        """Say whether a column is there."""
        return name in self.table.columns

    def suspect(self, name: str, complaint: str, found: Any) -> None:
        """Note what would be wrong with a row, for :meth:`check` to look at."""
        self._suspects.append((name, complaint, found))

    def check(self) -> None:
        """Look at every row once, and refuse the table for the first thing that is wrong with it."""
        flags = {f"wrong{index}": found for index, (_, _, found) in enumerate(self._suspects)}
        flagged = self.table.mutate(**flags)
        if flags:
            sums = {name: flagged[name].cast("int64").sum().fill_null(0) for name in flags}
            counts = flagged.agg(**sums).to_pyarrow()
            for index, (name, complaint, _) in enumerate(self._suspects):
                count = counts[f"wrong{index}"][0].as_py()
                if count:
                    raise self._refused(self._suspects[index][2], count, name, complaint)
        for name, texts in self._unique:
            # Grouped, which engines spill; a window over the whole table would be sorted.
            keyed = self.table.select(text=texts)
            often = keyed.group_by("text").agg(times=keyed.count())
            often = often.filter(often.times > 1)
            count = often.agg(rows=often.times.sum().fill_null(0)).to_pyarrow()["rows"][0].as_py()
            if count:
                raise self._refused(texts.isin(often["text"]), count, name, "is there more than once")

    def _refused(self, found: Any, count: int, name: str, complaint: str) -> InvalidRequest:
        """Say how many rows are wrong, and show the first one; tables of other engines have no order."""
        if self.is_lent:
            value = self.table.filter(found).limit(1).select(name).to_pyarrow()[name][0].as_py()
            shown = f"for example {value!r}"
        else:
            numbered = self.table.mutate(row_of_input=ibis.row_number())
            first = numbered.filter(found).order_by("row_of_input").limit(1)
            row = first.select("row_of_input", name).to_pyarrow().to_pylist()[0]
            shown = f"first in row {row['row_of_input']} ({row[name]!r})"
        told = "1 row is not allowed: its" if count == 1 else f"{count:,} rows are not allowed: their"
        return InvalidRequest(f"{self.argument}: {told} {name!r} {complaint}, {shown}", field=self.argument)

    def _column(self, name: str, role: str | None) -> Any:
        if name not in self.table.columns:
            wanted = f"{name!r}" if role is None else f"{name!r} for the {role}"
            remedy = "" if role is None else f"; name another with {role}='…'"
            raise InvalidRequest(
                f"{self.argument}: there is no column {wanted}{closest(name, self.table.columns)}; "
                f"columns: {', '.join(self.table.columns)}{remedy}",
                field=self.argument,
            )
        return self.table[name]

    def _complete(self, name: str, role: str | None) -> Any:
        values = self._column(name, role)
        self.suspect(name, "is missing; drop those rows or fill them", values.isnull())
        return values

    def _refuse(self, name: str, kind: Any, allowed: str) -> None:
        raise InvalidRequest(
            f"{self.argument}: the column {name!r} holds {kind}; allowed: {allowed}", field=self.argument
        )


def _parquet(backend: Any, path: Path, argument: str) -> ir.Table:
    if not path.exists():
        raise InvalidRequest(f"{argument}: there is no file {str(path)!r}", field=argument)
    if path.is_file() and path.suffix not in (".parquet", ".pq"):
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not a Parquet file by its name; read others with pandas first",
            field=argument,
        )
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    if not files:
        raise InvalidRequest(f"{argument}: there is no Parquet file in {str(path)!r}", field=argument)
    for each in files:
        try:
            read_schema(each)
        except (pa.ArrowException, OSError) as error:
            message = f"{argument}: {each.name!r} cannot be read: {error}"
            raise InvalidRequest(message, field=argument) from error
    # By the names of the files, where the engine takes several: a pattern reads brackets in them its own way.
    given = path if path.is_file() else path / "*.parquet"
    return backend.read_parquet(files if backend.name == "duckdb" else given, table_name=argument)


def _arrow(frame: pd.DataFrame, argument: str) -> pa.Table:
    names = [str(name) for name in frame.columns]
    _distinct_names(names, argument)
    return pa.table(
        {name: _arrow_column(frame.iloc[:, index], name, argument) for index, name in enumerate(names)}
    )


def _arrow_column(values: pd.Series[Any], name: str, argument: str) -> Any:
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in values.dropna()})
        message = f"{argument}: the column {name!r} mixes {', '.join(kinds)}; allowed: values of one type"
        if len(kinds) < 2:
            message = (
                f"{argument}: the column {name!r} cannot be read: {error} (its type is {values.dtype}); "
                f"allowed: {_READABLE}"
            )
        raise InvalidRequest(message, field=argument) from error


def _distinct_names(names: list[str], argument: str) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidRequest(
            f"{argument}: the columns {', '.join(doubled)} are there more than once", field=argument
        )
