"""Sums metrics of events by interval, on any engine."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.events import LINEAR
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Predicate
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.queries.expressions import timestamp
from attrib_ds.queries.intervals import INTERVALS, local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import ibis.expr.types as ir

    from attrib_ds.contract.events import EventInsights

_MOST_RECORDS: Final = 100_000
#: Any twelve years contain every day of the year and every week number.
_DAYS_OF_ALL_SEASONS: Final = 12 * 366
_COUNT: Final = "event-count"
_DELAY: Final = "state-delay-"

#: Labels of the interval of a day (G-109), in Python: the same as :data:`INTERVALS` computes in the engine.
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
    """Sums of the metrics of one key; amounts are in the project's currency (G-116)."""

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
        """Return the value to report for the key (G-116)."""
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
        As in :class:`attrib_ds.attribution.paths.tables.Tables`.
    types : ibis.Table
        ``eventType`` of the types that have records even without events (G-111).
    request : EventInsights
        Metrics, interval and filters; inclusive bounds on ``eventDate`` for every metric (G-115).
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
    within = [events.eventDate >= timestamp(request.since), events.eventDate <= timestamp(request.until)]
    events = events.filter(within)
    if by_type and request.filter is not None:
        events = events.filter(_matches(events, request.filter))
        types = types.filter(_matches(types, request.filter))
    interval = INTERVALS[request.interval]
    number = interval.number(local_time(events.eventDate, request.timezone))
    labelled = events.select("_id", "eventType", part=number)
    counts = labelled.group_by(["eventType", "part"]).agg(count=labelled.count())
    counts = _fetch_rows(counts.mutate(label=interval.label(counts.part)))
    sums = _sums(metrics, labelled, request.metrics, in_currency)
    sums = _fetch_rows(sums.mutate(label=interval.label(sums.part)))
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
    columns = [pa.array(column, pa.string()) for column in zip(*records, strict=True)] if records else None
    return Answer.of(
        pa.table(columns, schema.EVENT_INSIGHT) if columns else schema.EVENT_INSIGHT.empty_table()
    )


def _fetch_rows(rows: ir.Table) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = rows.to_pyarrow().to_pylist()
    return records


def _sums(
    metrics: ir.Table, events: ir.Table, keys: tuple[str, ...], in_currency: Callable[[ir.Table], ir.Table]
) -> ir.Table:
    """Sum metrics by event type, interval and key; each event has at most one metric of each key.

    Amounts without a rate to the project's currency are left out (G-065).
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


def _matches(table: ir.Table, condition: tuple[str, ...] | Predicate) -> Any:
    if isinstance(condition, Predicate):
        return to_ibis(condition, table)
    return table.eventType.isin(list(condition) or [""])


def _labels(request: EventInsights, groups: int) -> list[str]:
    """Return the labels of the intervals between the bounds, in order."""
    most = _MOST_RECORDS // max(groups, 1)
    is_linear = request.interval in LINEAR
    write = _DAY_LABELS[request.interval]
    labels: dict[str, None] = {}
    for number, day in enumerate(_days(request)):
        if not is_linear and number >= _DAYS_OF_ALL_SEASONS:
            break
        labels[write(day)] = None
        if len(labels) > most:
            raise InvalidRequest(
                f"interval: {request.interval!r} makes more than {_MOST_RECORDS:,} records; allowed: a "
                "longer interval, or a shorter date range",
                field="interval",
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
