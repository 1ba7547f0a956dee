"""Label and sort the intervals of insights as embedded projects do; the specification leaves both open."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa

from attrib_ds import instants, schema
from attrib_ds.attribution import calendar
from attrib_ds.errors import InvalidRequest

#: Operations with intervals, and what they group by.
GROUPS: Final = {"interaction_insights": "group", "event_insights": "identifier"}
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_SECONDS: Final = re.compile(r"\d{9,10}")
_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)$")


def conform(table: pa.Table, group: str, request: Any) -> pa.Table:
    """Return insights with the labels and, unless a sort is requested, the order of an embedded project.

    Parameters
    ----------
    table : pyarrow.Table
        Insights as a service sent them.
    group : str
        Column of the groups.
    request : InteractionInsights or EventInsights
        Tells the interval, its time zone and the sort order.
    """
    if request.interval is None:
        return table
    zone = ZoneInfo(request.timezone or "UTC")
    sent = table["interval"].to_pylist()
    found = {text: text and _label(text, request.interval, zone) for text in {*sent}}
    labels = [found[text] for text in sent]
    place = table.column_names.index("interval")
    table = table.set_column(place, "interval", pa.array(labels, table["interval"].type))
    if getattr(request, "sort", None):
        return table
    name = getattr(request, "group", None)
    kind = schema.INTERACTION.field(name).type if name in schema.INTERACTION.names else pa.string()
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    of_interval, of_group = _rank(is_number="Of" in request.interval), _rank(is_number=is_number)
    pairs = zip(labels, table[group].to_pylist(), strict=True)
    keys = [(of_interval(label), of_group(value)) for label, value in pairs]
    return table.take(pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64()))


def _label(text: str, interval: str, zone: ZoneInfo) -> str:
    """Return the label of an interval that a service may label by its start, in text or in seconds."""
    is_custom = interval == "custom"
    if _DAY.fullmatch(text) and interval in calendar.INTERVALS:
        return text if interval == "day" else _label_of(datetime.fromisoformat(text), interval)
    if not (is_custom or interval in calendar.INTERVALS) or (start := _instant(text)) is None:
        return text
    return instants.format(start) if is_custom else _label_of(_local(start, text, interval, zone), interval)


def _local(start: datetime, text: str, interval: str, zone: ZoneInfo) -> datetime:
    """Return the local time of a start: as written or in the zone, whichever is a midnight.

    Otherwise a start in UTC is a midnight of a zone that is not named, of the day that begins an interval.
    """
    offset = _OFFSET.search(text)
    written = start
    if offset:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        written = start.astimezone(timezone(-ahead if offset[1] == "-" else ahead))
    for local in (written, start.astimezone(zone)):
        if local.time() == time.min:
            return local
    if written.utcoffset():
        return written
    if start.minute % 15 == 0 and start.time() == time(start.hour, start.minute):
        before = datetime.combine(start, time.min, UTC)
        for day in sorted((before, before + timedelta(days=1)), key=lambda day: abs(day - start)):
            days = pd.Series([day.replace(tzinfo=None)])
            if calendar.first_days(days, interval)[0] == days[0]:
                return day
    return start.astimezone(zone)


def _label_of(local: datetime, interval: str) -> str:
    return str(calendar.labels(pd.Series([local.replace(tzinfo=None)]), interval)[0])


def _instant(text: str) -> datetime | None:
    """Return the instant that a text tells, if it tells one."""
    try:
        if _SECONDS.fullmatch(text):
            return datetime.fromtimestamp(int(text), UTC)
        return instants.parse(text, argument="interval")
    except (InvalidRequest, ValueError):
        return None


def _rank(*, is_number: bool) -> Callable[[str | None], tuple[bool, float, str]]:
    """Return a sort key for values as text; missing ones are last."""

    def rank(text: str | None) -> tuple[bool, float, str]:
        try:
            return text is None, float(text) if is_number and text is not None else 0.0, text or ""
        except ValueError:
            return False, float("inf"), text or ""

    return rank
