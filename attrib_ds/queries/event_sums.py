"""Sums the metrics of events in time, on any engine."""

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
from attrib_ds.filters.engine import to_ibis
from attrib_ds.queries.interaction_counts import INTERVALS, local, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import ibis.expr.types as ir

    from attrib_ds.contract.events import EventInsights

_MOST_RECORDS: Final = 100_000
#: Every day of a year and every week number occurs in any twelve years.
_DAYS_OF_ALL_SEASONS: Final = 12 * 366
_COUNT: Final = "event-count"
_DELAY: Final = "state-delay-"

#: The label of the interval that a day lies in (G-109): the pair, in Python, of those that the engine writes.
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
    """What the metrics of one key add up to; amounts are in the currency of the project (G-116)."""

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
        """Return the number that stands for the key (G-116)."""
        if key.startswith(_DELAY):
            return self.numbers / self.count if self.count else 0
        return self.states + self.amounts + Decimal(repr(self.numbers))


#: Days of the shortest interval of each kind.
_SHORTEST: Final = {"day": 1, "week": 7, "month": 28, "quarter": 90, "semester": 181, "year": 365}


def sum_events(
    events: ir.Table,
    metrics: ir.Table,
    types: ir.Table,
    request: EventInsights,
    *,
    in_currency: Callable[[ir.Table], ir.Table],
) -> Answer:
    """Answer with the values of metrics, one record per interval and group, zeros where nothing happened.

    Parameters
    ----------
    events, metrics : ibis.Table
        As of :class:`attrib_ds.attribution.paths.tables.Tables`.
    types : ibis.Table
        ``eventType`` of the types that have records even without events (G-111).
    request : EventInsights
        What is asked for; bounds are inclusive, and on ``eventDate`` for every metric (G-115).
    in_currency : callable
        Adds ``converted``, the amounts in the project's currency, to a join with ``metrics``.

    Returns
    -------
    Answer
        ``identifier``, ``interval`` and ``values``, by interval, then by identifier.

    Raises
    ------
    InvalidRequest
        If that would be more than 100,000 records.
    """
    by_type = request.groupBy == "event-type"
    kept = [events.eventDate >= moment(request.since), events.eventDate <= moment(request.until)]
    events = events.filter(kept)
    if by_type and request.filter is not None:
        events = events.filter(_matches(events, request.filter))
        types = types.filter(_matches(types, request.filter))
    interval = INTERVALS[request.interval]
    number = interval.number(local(events.eventDate, request.timezone))
    labelled = events.select("_id", "eventType", part=number)
    counts = labelled.group_by(["eventType", "part"]).agg(count=labelled.count())
    counts = _written(counts.mutate(label=interval.write(counts.part)))
    sums = _sums(metrics, labelled, request.metrics, in_currency)
    sums = _written(sums.mutate(label=interval.write(sums.part)))
    references = types.to_pyarrow()["eventType"].to_pylist() if by_type else []
    found: defaultdict[tuple[str, str, str], _Sum] = defaultdict(_Sum)
    for each in counts:
        identifier = each["eventType"] if by_type else request.projectId
        found[identifier, each["label"], _COUNT].states += each["count"]
    for each in sums:
        identifier = each["eventType"] if by_type else request.projectId
        total = found[identifier, each["label"], each["key"]]
        total.add(each["states"], each["amounts"], each["numbers"], each["count"])
    with_data = {each["eventType"] for each in counts}
    identifiers = sorted({*references, *with_data}) if by_type else [request.projectId]
    labels = _labels(request, len(identifiers))
    keys = list(dict.fromkeys(request.metrics))
    records = [
        (identifier, label, encode({key: found[identifier, label, key].value(key) for key in keys}))
        for label in labels
        for identifier in identifiers
    ]
    columns = [pa.array(column, pa.string()) for column in zip(*records, strict=True)] if records else None
    return Answer.of(
        pa.table(columns, schema.EVENT_INSIGHT) if columns else schema.EVENT_INSIGHT.empty_table()
    )


def _written(rows: ir.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.to_pyarrow().to_pylist()
    return found


def _sums(
    metrics: ir.Table, events: ir.Table, keys: tuple[str, ...], in_currency: Callable[[ir.Table], ir.Table]
) -> ir.Table:
    """Sum the metrics of events by type, interval and key; each event has at most one of each key.

    Amounts that no rate converts to the currency of the project are left out (G-065).
    """
    wanted = metrics.filter(
        metrics.deletedAt.isnull(), metrics.key != _COUNT, metrics.key.isin(list(keys) or [""])
    )
    of_events = in_currency(wanted.inner_join(events, wanted.eventId == events["_id"]))
    is_state = of_events.type == "state"
    grouped = of_events.group_by(["eventType", "part", "key"])
    return grouped.agg(
        states=(is_state & (of_events.number == 1)).fill_null(False).cast("int64").sum(),
        amounts=of_events.converted.sum(),
        numbers=of_events.number.sum(where=~is_state),
        count=of_events.number.count(where=~is_state),
    )


def _matches(table: ir.Table, wanted: tuple[str, ...] | Predicate) -> Any:
    if isinstance(wanted, Predicate):
        return to_ibis(wanted, table)
    return table.eventType.isin(list(wanted) or [""])


def _labels(request: EventInsights, groups: int) -> list[str]:
    """Return the labels that touch the bounds, in order."""
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
                "longer interval, or bounds nearer to each other",
                field="interval",
            )
    return list(labels) if is_linear else sorted(labels, key=int)


def _days(request: EventInsights) -> Iterator[date]:
    zone = UTC if request.timezone is None else ZoneInfo(request.timezone)
    if request.since > request.until:
        return
    day, last = (_local_day(bound, zone) for bound in (request.since, request.until))
    # No interval is shorter than the step, so that none is passed over.
    step = timedelta(days=_SHORTEST[request.interval] if request.interval in LINEAR else 1)
    while day < last:
        yield day
        day = day + step if last - day > step else last
    yield last


def _local_day(instant: datetime, zone: Any) -> date:
    try:
        return instant.astimezone(zone).date()
    except OverflowError:  # the first or last day there is
        return instant.date()
