"""Insights on any engine: interactions counted, metrics of events summed; events that meet a predicate."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import add, methodcaller
from typing import Any, Final
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute

from attrib_ds import instants, schema
from attrib_ds.attribution.engines.engine import dialect_of
from attrib_ds.attribution.paths.project_tables import amounts_of
from attrib_ds.contract import Answer
from attrib_ds.contract.events import LINEAR, EventInsights
from attrib_ds.contract.interactions import InteractionInsights, Population
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest, NotSupported
from attrib_ds.filters import Predicate
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.filters.predicates import comparisons
from attrib_ds.filters.vocabulary import STATISTICS

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
        Maps the integer to the label.
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


def _part_of_year(
    part: Callable[[Any], Any], width: int, mark: str, *, year: Callable[[Any], Any] = methodcaller("year")
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
        lambda day: reduce(
            add, [_digits(day // 10_000, 4), "-", _digits(day // 100 % 100, 2), "-", _digits(day % 100, 2)]
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
    """A date range divided into segments of equal length.

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
        """Replace the index of each segment by its start."""
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


def within(date: Any, since: datetime | None, until: datetime | None) -> Any:
    """Return whether a date is within bounds, which may be missing."""
    is_late = ibis.literal(True) if since is None else date >= timestamp(since)
    return is_late if until is None else is_late & (date <= timestamp(until))


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
    """Return sort keys: nulls last in both directions, ties broken by ``_id`` if there is one."""
    keys = [
        table[name].asc() if direction == 1 else ibis.desc(table[name], nulls_first=False)
        for name, direction in sort.items()
    ]
    return [*keys, table["_id"]] if "_id" in table.columns and "_id" not in sort else keys


def count_interactions(
    interactions: ir.Table, request: InteractionInsights, *, nodes: ir.Table | None
) -> Answer:
    """Count interactions, one record per group and interval with interactions.

    Parameters
    ----------
    interactions : ibis.Table
        Flat, with dotted columns; instants are in UTC, without a time zone.
    request : InteractionInsights
        Filters, group, interval and sort order. Records are sorted by interval, then by group, by default;
        nulls come last.
    nodes : ibis.Table, optional
        The tree in the ``NODE`` schema, for predicates on nodes.

    Returns
    -------
    Answer
        ``group``, ``interval``, ``sessionCount``, ``hitCount`` and ``durationSum``. Without group and
        interval one record, of zeros when no interaction matches.
    """
    segments = None
    if request.interval == "custom" and request.since and request.until and request.segmentCount:
        segments = Segments(request.since, request.until, request.segmentCount)
    selected = filter_interactions(interactions, request, nodes=nodes)
    keys = {}
    if request.group is not None:
        keys["group_key"] = selected[request.group]
    if segments is not None:
        keys["interval_key"] = segments.position(selected.startDate)
    elif request.interval is not None:
        local = local_time(selected.startDate, request.timezone)
        keys["interval_key"] = INTERVALS[request.interval].number(local)
    counted = selected.aggregate(
        by=keys,
        sessionCount=selected.count(),
        hitCount=selected.hitCount.sum().coalesce(0),
        # Sums of integers do not depend on the order of rows; sums of fractions do.
        durationSum=(selected.duration * 1e6).round().cast("int64").sum().coalesce(0) / 1e6,
    )
    label = as_text if segments is not None or request.interval is None else INTERVALS[request.interval].label
    query = labelled(counted, request.sort or {}, label, order={"interval": 1, "group": 1})
    table = fetch(query.select(schema.INTERACTION_INSIGHT.names), schema.INTERACTION_INSIGHT)
    return Answer.of(segments.label(table) if segments is not None else table)


def labelled(
    counted: ir.Table, sort: Mapping[str, int], label: Callable[[Any], Any], *, order: Mapping[str, int]
) -> ir.Table:
    """Sort the records, intervals by time and not by text, and label the intervals.

    Parameters
    ----------
    counted : ibis.Table
        Counters, ``group_key`` if there are groups and ``interval_key`` if there are intervals.
    sort, order : mapping of str to int
        Columns to sort by with 1 or -1, and those that break ties.
    label : callable
        Maps the key of an interval to its label.

    Returns
    -------
    ibis.Table
        With the columns ``group`` and ``interval``, null where there are none.
    """
    columns = {"group": "group_key", "interval": "interval_key"}
    missing = {*columns.values()} - {*counted.columns}
    with_keys = counted.mutate(**dict.fromkeys(missing, ibis.null("string")))
    keys = []
    for name in dict.fromkeys([*sort, *order]):
        column = with_keys[columns.get(name, name)]
        is_ascending = (sort.get(name) or order[name]) == 1
        keys.append(column.asc(nulls_first=False) if is_ascending else column.desc(nulls_first=False))
    labels = {
        "group": with_keys.group_key.cast("string"),
        "interval": label(with_keys.interval_key).cast("string"),
    }
    return with_keys.order_by(keys).mutate(**labels)


def filter_interactions(interactions: ir.Table, request: Population, *, nodes: ir.Table | None) -> ir.Table:
    """Filter interactions by the dates, populations and predicates of a request.

    Parameters
    ----------
    interactions : ibis.Table
        Flat, with dotted columns; instants are in UTC, without a time zone.
    request : Population
        Inclusive bounds on ``startDate``, whether to keep bots and filtered traffic, and predicates.
    nodes : ibis.Table, optional
        The tree in the ``NODE`` schema, for predicates on nodes.

    Returns
    -------
    ibis.Table
        Every column of the matching interactions.
    """
    conditions = [within(interactions.startDate, request.since, request.until)]
    if request.isBot is not None:
        conditions.append(interactions.isBot.fill_null(False) == request.isBot)
    if request.filtered is not None:
        is_captured = interactions.trafficFilterId.notnull()
        conditions.append(is_captured if request.filtered else ~is_captured)
    if request.interactionFilter is not None:
        conditions.append(to_ibis(request.interactionFilter, interactions))
    if request.nodeFilter is not None:
        conditions.append(to_ibis(request.nodeFilter, interactions, nodes=nodes))
    return interactions.filter(conditions)


MOST_RECORDS: Final = 100_000
#: Any twelve years contain every day of the year and every week number.
_DAYS_OF_ALL_SEASONS: Final = 12 * 366
_COUNT: Final = "event-count"
_DELAY: Final = "state-delay-"

#: Labels of the interval of a day, in Python: the same as :data:`INTERVALS` computes in the engine.
_DAY_LABELS: Final[dict[str, Callable[[date], str]]] = {
    "year": lambda day: f"{day.year:04}",
    "semester": lambda day: f"{day.year:04}-S{_part(day, 6)}",
    "quarter": lambda day: f"{day.year:04}-Q{_part(day, 3)}",
    "month": lambda day: f"{day.year:04}-{day.month:02}",
    "week": lambda day: "{:04}-W{:02}".format(*day.isocalendar()[:2]),
    "day": lambda day: day.isoformat(),
    "semesterOfYear": lambda day: str(_part(day, 6)),
    "quarterOfYear": lambda day: str(_part(day, 3)),
    "monthOfYear": lambda day: str(day.month),
    "weekOfYear": lambda day: str(day.isocalendar().week),
    "dayOfYear": lambda day: str(day.timetuple().tm_yday),
    "dayOfMonth": lambda day: str(day.day),
    "dayOfWeek": lambda day: str(day.isoweekday()),
}


def _part(day: date, months: int) -> int:
    return (day.month - 1) // months + 1


@dataclass
class _Sum:
    """Sums of the metrics of one key; amounts are in the project's currency."""

    states: int = 0
    amounts: Decimal = Decimal(0)
    numbers: float = 0.0
    count: int = 0

    def add(self, states: int, amounts: Decimal | None, numbers: float | None, count: int) -> None:
        self.states += states
        self.amounts += amounts or 0
        self.numbers += numbers or 0.0
        self.count += count

    def value(self, key: str) -> Any:
        """Return the value to report for the key."""
        if key.startswith(_DELAY):
            return self.numbers / self.count if self.count else 0
        return self.states + self.amounts + Decimal(repr(self.numbers))


#: Length of the shortest interval of each kind, in days.
_SHORTEST: Final = {"day": 1, "week": 7, "month": 28, "quarter": 90, "semester": 181, "year": 365}


def sum_events(
    events: ir.Table,
    metrics: ir.Table,
    types: ir.Table,
    request: EventInsights,
    *,
    in_currency: Callable[[ir.Table], ir.Table],
) -> Answer:
    """Sum metrics, one record per interval and group; zeros for intervals without events.

    Parameters
    ----------
    events, metrics : ibis.Table
        As in :class:`attrib_ds.attribution.paths.project_tables.Tables`.
    types : ibis.Table
        ``eventType`` of the types that have records even without events.
    request : EventInsights
        Metrics, interval and filters; inclusive bounds on ``eventDate`` for every metric.
    in_currency : callable
        Adds a column ``converted``, the amounts in the project's currency, to a join with ``metrics``.

    Returns
    -------
    Answer
        ``identifier``, ``interval`` and ``values``, by interval, then by identifier.

    Raises
    ------
    InvalidRequest
        If the result would exceed 100,000 records.
    """
    by_type = request.groupBy == "event-type"
    events = events.filter(within(events.eventDate, request.since, request.until))
    if by_type and request.filter is not None:
        events = events.filter(matches_type(events, request.filter))
        types = types.filter(matches_type(types, request.filter))
    interval = INTERVALS[request.interval]
    number = interval.number(local_time(events.eventDate, request.timezone))
    labelled = events.select("_id", "eventType", part=number)
    counts: Any = labelled.group_by(["eventType", "part"]).agg(count=labelled.count())
    counts = counts.mutate(label=interval.label(counts.part)).to_pyarrow().to_pylist()
    sums: Any = _sums(metrics, labelled, request.metrics, in_currency)
    sums = sums.mutate(label=interval.label(sums.part)).to_pyarrow().to_pylist()
    references = types.to_pyarrow()["eventType"].to_pylist() if by_type else []
    totals: defaultdict[tuple[str, str, str], _Sum] = defaultdict(_Sum)
    for row in counts:
        identifier = row["eventType"] if by_type else request.projectId
        totals[identifier, row["label"], _COUNT].states += row["count"]
    for row in sums:
        identifier = row["eventType"] if by_type else request.projectId
        total = totals[identifier, row["label"], row["key"]]
        total.add(row["states"], row["amounts"], row["numbers"], row["count"])
    with_data = {row["eventType"] for row in counts}
    identifiers = sorted({*references, *with_data}) if by_type else [request.projectId]
    labels = _labels(request, len(identifiers))
    keys = list(dict.fromkeys(request.metrics))
    records = [
        (identifier, label, encode({key: totals[identifier, label, key].value(key) for key in keys}))
        for label in labels
        for identifier in identifiers
    ]
    rows = [dict(zip(schema.EVENT_INSIGHT.names, record, strict=True)) for record in records]
    return Answer.of(pa.Table.from_pylist(rows, schema.EVENT_INSIGHT))


def _sums(
    metrics: ir.Table, events: ir.Table, keys: tuple[str, ...], in_currency: Callable[[ir.Table], ir.Table]
) -> ir.Table:
    """Sum metrics by event type, interval and key; each event has at most one metric of each key.

    Amounts without a rate to the project's currency are left out.
    """
    selected = metrics.filter(
        metrics.deletedAt.isnull(), metrics.key != _COUNT, metrics.key.isin(list(keys) or [""])
    )
    of_events = in_currency(selected.inner_join(events, selected.eventId == events["_id"]))
    is_state = of_events.type == "state"
    grouped = of_events.group_by(["eventType", "part", "key"])
    return grouped.agg(
        states=(is_state & (of_events.number == 1)).fill_null(False).cast("int64").sum(),
        amounts=of_events.converted.sum(),
        numbers=of_events.number.sum(where=~is_state),
        count=of_events.number.count(where=~is_state),
    )


def matches_type(table: ir.Table, condition: tuple[str, ...] | Predicate) -> Any:
    """Return whether the column ``eventType`` is one of some references, or matches a predicate."""
    if isinstance(condition, Predicate):
        return to_ibis(condition, table)
    return table.eventType.isin(list(condition) or [""])


def _labels(request: EventInsights, groups: int) -> list[str]:
    """Return the labels of the intervals between the bounds, in order."""
    most = MOST_RECORDS // max(groups, 1)
    is_linear = request.interval in LINEAR
    write = _DAY_LABELS[request.interval]
    labels: dict[str, None] = {}
    for number, day in enumerate(_days(request)):
        if not is_linear and number >= _DAYS_OF_ALL_SEASONS:
            break
        labels[write(day)] = None
        if len(labels) > most:
            raise InvalidRequest(
                f"interval: {request.interval!r} makes more than {MOST_RECORDS:,} records; allowed: a "
                "longer interval, or a shorter date range"
            )
    return list(labels) if is_linear else sorted(labels, key=int)


def _days(request: EventInsights) -> Iterator[date]:
    zone = UTC if request.timezone is None else ZoneInfo(request.timezone)
    if request.since > request.until:
        return
    day, last = (_local_day(bound, zone) for bound in (request.since, request.until))
    # No interval is shorter than the step, so none is skipped.
    step = timedelta(days=_SHORTEST[request.interval] if request.interval in LINEAR else 1)
    while day < last:
        yield day
        day = day + step if last - day > step else last
    yield last


def _local_day(instant: datetime, zone: Any) -> date:
    try:
        return instant.astimezone(zone).date()
    except OverflowError:  # the first or last representable day
        return instant.date()


def filtered_events(events: ir.Table, metrics: ir.Table, where: Predicate) -> ir.Table:
    """Keep the events that meet a predicate.

    Parameters
    ----------
    events, metrics : ibis.Table
        Tables of a project.
    where : Predicate
        On events; statistics are compared by their present amounts.
    """
    measured = sorted({leaf.field for leaf in comparisons(where) if leaf.field.startswith(STATISTICS)})
    for name in measured:
        amounts = amounts_of(metrics, [name.removeprefix(STATISTICS)])
        amounts = amounts.select(measured_event="event_id", **{name: "value"})
        events = events.left_join(amounts, events["_id"] == amounts.measured_event).drop("measured_event")
    return events.filter(to_ibis(where, events)).drop(*measured)
