"""Counts interactions by group and interval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa
import pyarrow.compute

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.service.selection import answered, moment, select

if TYPE_CHECKING:
    from collections.abc import Callable

    import ibis.expr.types as ir

    from attrib_ds.contract.interactions import InteractionInsights
    from attrib_ds.service.store import Store

_MICROSECOND: Final = timedelta(microseconds=1)


def _semester(local: ir.TimestampValue) -> ir.IntegerValue:
    return (local.month() - 1) // 6 + 1


#: What each interval asks of a local time: a label (G-109), or the number that the label is.
LABELS: Final[dict[str, Callable[[Any], ir.Value]]] = {
    "year": lambda local: local.strftime("%Y"),
    "semester": lambda local: local.strftime("%Y-S") + _semester(local).cast("string"),
    "semesterOfYear": _semester,
    "quarter": lambda local: local.strftime("%Y-Q") + local.quarter().cast("string"),
    "quarterOfYear": lambda local: local.quarter(),
    "month": lambda local: local.strftime("%Y-%m"),
    "monthOfYear": lambda local: local.month(),
    "week": lambda local: local.strftime("%G-W%V"),
    "weekOfYear": lambda local: local.week_of_year(),
    "day": lambda local: local.strftime("%Y-%m-%d"),
    "dayOfYear": lambda local: local.day_of_year(),
    "dayOfMonth": lambda local: local.day(),
    "dayOfWeek": lambda local: local.day_of_week.index() + 1,
    "hourOfDay": lambda local: local.hour(),
}


def interaction_insights(store: Store, request: InteractionInsights) -> Answer:
    """Answer with counters, one record per group and interval that occur.

    Parameters
    ----------
    store : Store
        Where the interactions are.
    request : InteractionInsights
        What is asked for. By default records come by interval, then by group; nulls come last.

    Returns
    -------
    Answer
        ``group``, ``interval``, ``sessionCount``, ``hitCount`` and ``durationSum``. Without group and
        interval it is one record, of zeros where nothing was selected.
    """
    segments = _segments(request)
    with store.read() as backend:
        found = select(backend, request)
        keys = {}
        if request.group is not None:
            keys["group_key"] = found[request.group]
        if segments is not None:
            keys["interval_key"] = segments.position(found.startDate)
        elif request.interval is not None:
            keys["interval_key"] = LABELS[request.interval](local(found.startDate, request.timezone))
        counted = found.aggregate(
            by=keys,
            sessionCount=found.count(),
            hitCount=found.hitCount.sum().coalesce(0),
            # Whole microseconds add up to the same sum in any order; fractions of seconds do not.
            durationSum=(found.duration * 1e6).round().cast("int64").sum().coalesce(0) / 1e6,
        )
        table = answered(_labelled(counted, request.sort or {}), schema.INTERACTION_INSIGHT)
    return Answer(table=segments.label(table) if segments is not None else table)


def _labelled(counted: ir.Table, sort: dict[str, int]) -> ir.Table:
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
    labels = {name: keyed[key].cast("string") for name, key in columns.items()}
    return keyed.order_by(order).mutate(**labels).select(schema.INTERACTION_INSIGHT.names)


@ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
    name="timezone", signature=((dt.string, dt.Timestamp(timezone="UTC")), dt.timestamp)
)
def _in_zone(zone: Any, instant: Any) -> Any:
    """Return the local time of an instant; a function of DuckDB."""


@ibis.udf.scalar.builtin(name="divide", signature=((dt.int64, dt.int64), dt.int64))  # type: ignore[untyped-decorator]
def _whole_quotient(dividend: Any, divisor: Any) -> Any:
    """Return the whole part of a quotient, exactly; a function of DuckDB."""


def local(start: ir.TimestampValue, zone: str | None) -> Any:
    """Return an instant of the store as the clocks of a time zone show it; None is UTC."""
    return start if zone is None else _in_zone(zone, start.cast("timestamp('UTC')"))


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
        whole = passed if unit == 1 else _whole_quotient(passed, unit)
        return _whole_quotient(whole * self.count, self._span // unit).clip(upper=self.count - 1)

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
