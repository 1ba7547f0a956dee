"""Groups instants into calendar intervals or equal segments of a date range, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa
import pyarrow.compute

from attrib_ds import instants
from attrib_ds.attribution.engines.engine import dialect_of
from attrib_ds.errors import NotSupported

if TYPE_CHECKING:
    import ibis.expr.types as ir


#: Microseconds of a millisecond.
_PER_MILLISECOND: Final = 1_000


def as_text(number: Any) -> Any:
    """Return a number as its decimal digits."""
    return number.cast("string")


@dataclass(frozen=True)
class Interval:
    """A calendar interval: groups local times under an integer that sorts by time, and labels it.

    Attributes
    ----------
    number : callable
        Maps a local time to an integer, the digits of the label.
    label : callable
        Maps the integer to the label (G-109).
    """

    number: Callable[[Any], Any]
    label: Callable[[Any], Any] = as_text


def _semester(local: Any) -> Any:
    return (local.month() + 5).cast("int64") // 6


def _iso_year(local: Any) -> Any:
    """Return the ISO year, to which the ISO week of a day belongs."""
    week, month = local.week_of_year(), local.month()
    before = ibis.ifelse((month == 1) & (week >= 52), 1, 0)
    after = ibis.ifelse((month == 12) & (week == 1), 1, 0)
    return local.year() - before + after


def _year(local: Any) -> Any:
    return local.year()


def _part_of_year(
    part: Callable[[Any], Any], width: int, mark: str, *, year: Callable[[Any], Any] = _year
) -> Interval:
    """Return an interval labelled by a year and a zero-padded part of it, such as ``2025-W05``."""
    scale = 10**width
    return Interval(
        lambda local: year(local).cast("int64") * scale + part(local),
        lambda number: _digits(number // scale, 4) + mark + _digits(number % scale, width),
    )


def _digits(number: Any, width: int) -> Any:
    return number.cast("int64").cast("string").lpad(width, "0")


INTERVALS: Final[dict[str, Interval]] = {
    "year": Interval(lambda local: local.year().cast("int64"), lambda number: _digits(number, 4)),
    "semester": _part_of_year(_semester, 1, "-S"),
    "semesterOfYear": Interval(_semester),
    "quarter": _part_of_year(lambda local: local.quarter(), 1, "-Q"),
    "quarterOfYear": Interval(lambda local: local.quarter()),
    "month": _part_of_year(lambda local: local.month(), 2, "-"),
    "monthOfYear": Interval(lambda local: local.month()),
    "week": _part_of_year(lambda local: local.week_of_year(), 2, "-W", year=_iso_year),
    "weekOfYear": Interval(lambda local: local.week_of_year()),
    "day": Interval(
        lambda local: local.year().cast("int64") * 10_000 + local.month() * 100 + local.day(),
        lambda number: (
            _digits(number // 10_000, 4)
            + "-"
            + _digits(number // 100 % 100, 2)
            + "-"
            + _digits(number % 100, 2)
        ),
    ),
    "dayOfYear": Interval(lambda local: local.day_of_year()),
    "dayOfMonth": Interval(lambda local: local.day()),
    "dayOfWeek": Interval(lambda local: local.day_of_week.index() + 1),
    "hourOfDay": Interval(lambda local: local.hour()),
}


@ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
    name="timezone", signature=((dt.string, dt.Timestamp(timezone="UTC")), dt.timestamp)
)
def _in_zone(zone: Any, instant: Any) -> Any:
    """Convert an instant to local time: a built-in function of DuckDB and PostgreSQL."""


@ibis.udf.scalar.builtin(name="from_utc_timestamp", signature=((dt.timestamp, dt.string), dt.timestamp))  # type: ignore[untyped-decorator]
def _from_utc(instant: Any, zone: Any) -> Any:
    """Convert an instant to local time: a built-in function of Spark."""


@ibis.udf.scalar.builtin(name="toTimeZone", signature=((dt.timestamp, dt.string), dt.timestamp))  # type: ignore[untyped-decorator]
def _shown_in(instant: Any, zone: Any) -> Any:
    """Show an instant in local time: a built-in function of ClickHouse."""


def local_time(start: ir.TimestampValue, zone: str | None) -> Any:
    """Convert an instant in UTC to the local time of a time zone; None is UTC.

    Raises
    ------
    NotSupported
        If it is unknown how the engine converts them.
    """
    if zone is None or zone == "UTC":
        return start
    engine = dialect_of(start)
    if engine == "pyspark":
        return _from_utc(start, zone)
    if engine == "clickhouse":
        return _shown_in(start, zone)
    if engine not in ("duckdb", "postgres"):
        raise NotSupported(f"timezone: {engine} answers in UTC only; leave it out")
    return _in_zone(zone, start.cast("timestamp('UTC')"))


def _quotient(dividend: Any, divisor: int) -> Any:
    """Divide integers, rounding down, without losing digits to binary fractions."""
    return ((dividend - dividend % divisor) / ibis.literal(divisor).cast("float64")).round().cast("int64")


@dataclass(frozen=True)
class Segments:
    """A date range divided into segments of equal length (G-110).

    Segment ``i`` is ``[start_i, start_i+1)``, the last one closed; ``start_i`` is the first millisecond at
    or after ``i / count`` of the range.

    Parameters
    ----------
    since, until : datetime
        Bounds, aware.
    count : int
        Number of segments.
    """

    since: datetime
    until: datetime
    count: int

    def position(self, start: ir.TimestampValue) -> Any:
        """Return the index, from 0, of the segment that contains an instant between the bounds."""
        if self._span <= 0:
            return ibis.literal(self.count - 1)
        elapsed = _quotient(start.delta(timestamp(self.since), unit="microsecond"), _PER_MILLISECOND)
        return _quotient(elapsed * self.count, self._span).clip(upper=self.count - 1)

    def label(self, records: pa.Table) -> pa.Table:
        """Replace the index of each segment by its start (G-036)."""
        offsets = (-(-index * self._span // self.count) for index in range(self.count))
        starts = [instants.format(self.since + offset * instants.KEPT_RESOLUTION) for offset in offsets]
        positions = records["interval"].cast(pa.int64())
        labels = pa.compute.take(pa.array(starts, pa.string()), positions)
        return records.set_column(records.schema.get_field_index("interval"), "interval", labels)

    @property
    def _span(self) -> int:
        return max((self.until - self.since) // instants.KEPT_RESOLUTION, 0)


def timestamp(instant: datetime) -> ir.TimestampScalar:
    """Return an aware instant as a literal, in UTC without a time zone, as tables store it."""
    return ibis.literal(instant.replace(tzinfo=None), type="timestamp(6)")


def fetch(query: ir.Table, columns: pa.Schema) -> pa.Table:
    """Run a query and cast its result to an Arrow schema.

    Parameters
    ----------
    query : ibis.Table
        The query.
    columns : pyarrow.Schema
        Types of the query's columns; further columns are ignored.

    Returns
    -------
    pyarrow.Table
        Columns in the order of the query.
    """
    return query.to_pyarrow().cast(pa.schema([columns.field(name) for name in query.columns]))


def ordering(table: ir.Table, sort: Mapping[str, int]) -> list[Any]:
    """Return sort keys: nulls last in both directions, ties broken by ``_id`` if there is one (G-099)."""
    keys = [
        table[name].asc() if direction == 1 else ibis.desc(table[name], nulls_first=False)
        for name, direction in sort.items()
    ]
    return [*keys, table["_id"]] if "_id" in table.columns and "_id" not in sort else keys
