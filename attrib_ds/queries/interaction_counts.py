"""Counts interactions by group and interval, on any engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa
import pyarrow.compute

from attrib_ds import instants, schema
from attrib_ds.attribution.engines.engine import dialect_of
from attrib_ds.contract import Answer
from attrib_ds.errors import NotSupported
from attrib_ds.filters.engine import to_ibis

if TYPE_CHECKING:
    from collections.abc import Callable

    import ibis.expr.types as ir

    from attrib_ds.contract.interactions import InteractionInsights, Population

_MICROSECOND: Final = timedelta(microseconds=1)


def _as_text(number: Any) -> Any:
    return number.cast("string")


@dataclass(frozen=True)
class Interval:
    """What an interval asks of a local time, as a number whose order is that of time, and how it is written.

    Attributes
    ----------
    number : callable
        From a local time to a whole number: the digits of the label.
    write : callable
        From the number to the label (G-109).
    """

    number: Callable[[Any], Any]
    write: Callable[[Any], Any] = _as_text


def _semester(local: Any) -> Any:
    return (local.month() + 5).cast("int64") // 6


def _iso_year(local: Any) -> Any:
    """Return the year that the ISO week of a day belongs to."""
    week, month = local.week_of_year(), local.month()
    before = ibis.ifelse((month == 1) & (week >= 52), 1, 0)
    after = ibis.ifelse((month == 12) & (week == 1), 1, 0)
    return local.year() - before + after


def _year(local: Any) -> Any:
    return local.year()


def _dated(
    part: Callable[[Any], Any], width: int, mark: str, *, year: Callable[[Any], Any] = _year
) -> Interval:
    """Return an interval whose label is a year, and a number of some digits in it."""
    scale = 10**width
    return Interval(
        lambda local: year(local).cast("int64") * scale + part(local),
        lambda number: _digits(number // scale, 4) + mark + _digits(number % scale, width),
    )


def _digits(number: Any, width: int) -> Any:
    return number.cast("int64").cast("string").lpad(width, "0")


INTERVALS: Final[dict[str, Interval]] = {
    "year": Interval(lambda local: local.year().cast("int64"), lambda number: _digits(number, 4)),
    "semester": _dated(_semester, 1, "-S"),
    "semesterOfYear": Interval(_semester),
    "quarter": _dated(lambda local: local.quarter(), 1, "-Q"),
    "quarterOfYear": Interval(lambda local: local.quarter()),
    "month": _dated(lambda local: local.month(), 2, "-"),
    "monthOfYear": Interval(lambda local: local.month()),
    "week": _dated(lambda local: local.week_of_year(), 2, "-W", year=_iso_year),
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


def count_interactions(
    interactions: ir.Table, request: InteractionInsights, *, nodes: ir.Table | None
) -> Answer:
    """Answer with counters, one record per group and interval that occur.

    Parameters
    ----------
    interactions : ibis.Table
        Flat, with dotted columns; instants are in UTC, without a zone.
    request : InteractionInsights
        What is asked for. By default records come by interval, then by group; nulls come last.
    nodes : ibis.Table, optional
        The tree in the ``NODE`` schema, for filters on nodes.

    Returns
    -------
    Answer
        ``group``, ``interval``, ``sessionCount``, ``hitCount`` and ``durationSum``. Without group and
        interval it is one record, of zeros where nothing was selected.
    """
    segments = _segments(request)
    found = select(interactions, request, nodes=nodes)
    keys = {}
    if request.group is not None:
        keys["group_key"] = found[request.group]
    if segments is not None:
        keys["interval_key"] = segments.position(found.startDate)
    elif request.interval is not None:
        keys["interval_key"] = INTERVALS[request.interval].number(local(found.startDate, request.timezone))
    counted = found.aggregate(
        by=keys,
        sessionCount=found.count(),
        hitCount=found.hitCount.sum().coalesce(0),
        # Whole microseconds add up to the same sum in any order; fractions of seconds do not.
        durationSum=(found.duration * 1e6).round().cast("int64").sum().coalesce(0) / 1e6,
    )
    write = (
        _as_text if segments is not None or request.interval is None else INTERVALS[request.interval].write
    )
    table = answered(_labelled(counted, request.sort or {}, write), schema.INTERACTION_INSIGHT)
    return Answer.of(segments.label(table) if segments is not None else table)


def select(interactions: ir.Table, request: Population, *, nodes: ir.Table | None) -> ir.Table:
    """Return the interactions of the populations and bounds of a request that match its filters.

    Parameters
    ----------
    interactions : ibis.Table
        Flat, with dotted columns; instants are in UTC, without a zone.
    request : Population
        What is asked for; bounds are inclusive and on ``startDate``.
    nodes : ibis.Table, optional
        The tree in the ``NODE`` schema, for filters on nodes.

    Returns
    -------
    ibis.Table
        With every column.
    """
    conditions = []
    if request.since is not None:
        conditions.append(interactions.startDate >= moment(request.since))
    if request.until is not None:
        conditions.append(interactions.startDate <= moment(request.until))
    if request.isBot is not None:
        conditions.append(interactions.isBot.fill_null(False) == request.isBot)
    if request.filtered is not None:
        is_captured = interactions.trafficFilterId.notnull()
        conditions.append(is_captured if request.filtered else ~is_captured)
    if request.interactionFilter is not None:
        conditions.append(to_ibis(request.interactionFilter, interactions))
    if request.nodeFilter is not None:
        conditions.append(to_ibis(request.nodeFilter, interactions, nodes=nodes))
    return interactions.filter(conditions) if conditions else interactions


def moment(instant: datetime) -> ir.TimestampScalar:
    """Return an aware instant as the store holds it: in UTC, without a zone."""
    return ibis.literal(instant.replace(tzinfo=None), type="timestamp(6)")


def answered(table: ir.Table, columns: pa.Schema) -> pa.Table:
    """Run a query and return its rows in the types of an Arrow schema.

    Parameters
    ----------
    table : ibis.Table
        The query.
    columns : pyarrow.Schema
        Types of its columns; it may have more.

    Returns
    -------
    pyarrow.Table
        In the order of the query's columns.
    """
    return table.to_pyarrow().cast(pa.schema([columns.field(name) for name in table.columns]))


def _labelled(counted: ir.Table, sort: dict[str, int], write: Callable[[Any], Any]) -> ir.Table:
    """Order the records, the numbers behind labels as numbers, and write the labels."""
    null = ibis.null("string")
    has = set(counted.columns)
    keyed = counted.mutate(
        **{key: null for key in ("group_key", "interval_key") if key not in has},
    )
    columns = {"group": "group_key", "interval": "interval_key"}
    order = []
    for name in dict.fromkeys([*sort, "interval", "group"]):
        column = keyed[columns.get(name, name)]
        is_ascending = sort.get(name, 1) == 1
        order.append(column.asc(nulls_first=False) if is_ascending else column.desc(nulls_first=False))
    labels = {"group": keyed.group_key.cast("string"), "interval": write(keyed.interval_key).cast("string")}
    return keyed.order_by(order).mutate(**labels).select(schema.INTERACTION_INSIGHT.names)


@ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
    name="timezone", signature=((dt.string, dt.Timestamp(timezone="UTC")), dt.timestamp)
)
def _in_zone(zone: Any, instant: Any) -> Any:
    """Return the local time of an instant; a function of DuckDB and PostgreSQL."""


@ibis.udf.scalar.builtin(name="from_utc_timestamp", signature=((dt.timestamp, dt.string), dt.timestamp))  # type: ignore[untyped-decorator]
def _from_utc(instant: Any, zone: Any) -> Any:
    """Return the local time of an instant; a function of Spark."""


def local(start: ir.TimestampValue, zone: str | None) -> Any:
    """Return an instant in UTC as the clocks of a time zone show it; None is UTC.

    Raises
    ------
    NotSupported
        If the engine is neither DuckDB nor PostgreSQL nor Spark.
    """
    if zone is None or zone == "UTC":
        return start
    engine = dialect_of(start)
    if engine == "pyspark":
        return _from_utc(start, zone)
    if engine not in ("duckdb", "postgres"):
        raise NotSupported(f"timezone: {engine} answers in UTC only; leave it out")
    return _in_zone(zone, start.cast("timestamp('UTC')"))


def _quotient(dividend: Any, divisor: int) -> Any:
    """Return the whole part of a quotient, exactly: what divides evenly is one rounding away from it."""
    return ((dividend - dividend % divisor) / ibis.literal(divisor).cast("float64")).round().cast("int64")


def _segments(request: InteractionInsights) -> Segments | None:
    if request.interval != "custom" or not (request.since and request.until and request.segmentCount):
        return None
    return Segments(request.since, request.until, request.segmentCount)


@dataclass(frozen=True)
class Segments:
    """Equal parts of a range of time (G-110).

    Part ``i`` is ``[start_i, start_i+1)``, the last one closed; ``start_i`` is the first microsecond at or
    after ``i`` parts of the range.

    Parameters
    ----------
    since, until : datetime
        Bounds, aware.
    count : int
        Number of parts.
    """

    since: datetime
    until: datetime
    count: int

    def position(self, start: ir.TimestampValue) -> Any:
        """Return which part an instant between the bounds lies in, from 0."""
        if self._span <= 0:
            return ibis.literal(self.count - 1)
        passed = start.delta(moment(self.since), unit="microsecond")
        # Three centuries times a thousand parts fill 64 bits; beyond, milliseconds must do.
        unit = 1 if self._span * self.count < 2**63 else 1_000
        whole = passed if unit == 1 else _quotient(passed, unit)
        return _quotient(whole * self.count, self._span // unit).clip(upper=self.count - 1)

    def label(self, records: pa.Table) -> pa.Table:
        """Return the records with the start of each part (G-036) in place of its position."""
        microseconds = (-(-each * self._span // self.count) for each in range(self.count))
        starts = [instants.format(self.since + each * _MICROSECOND) for each in microseconds]
        positions = records["interval"].cast(pa.int64())
        labels = pa.compute.take(pa.array(starts, pa.string()), positions)
        return records.set_column(records.schema.get_field_index("interval"), "interval", labels)

    @property
    def _span(self) -> int:
        return max((self.until - self.since) // _MICROSECOND, 0)
