"""Label and sort the intervals of insights as embedded projects do; the specification leaves both open."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
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
    labels = [label and _label(label, request.interval, zone) for label in table["interval"].to_pylist()]
    place = table.column_names.index("interval")
    table = table.set_column(place, "interval", pa.array(labels, table["interval"].type))
    if getattr(request, "sort", None):
        return table
    of_interval, of_group = (
        _rank(is_number=request.interval.find("Of") > 0),
        _rank(is_number=_counts(request)),
    )
    groups = table[group].to_pylist()
    return table.take(sorted(range(len(groups)), key=lambda n: (of_interval(labels[n]), of_group(groups[n]))))


def _label(text: str, interval: str, zone: ZoneInfo) -> str:
    """Return the label of an interval that a service may label by its start, in text or in seconds."""
    is_calendar = interval in calendar.INTERVALS
    try:
        if is_calendar and _DAY.fullmatch(text):
            local = datetime.fromisoformat(text)
        elif is_calendar and _SECONDS.fullmatch(text):
            local = datetime.fromtimestamp(int(text), UTC).astimezone(zone)
        else:
            local = instants.parse(text, argument="interval").astimezone(zone)
    except (InvalidRequest, ValueError):
        return text
    if interval == "custom":
        return instants.format(local)
    return str(calendar.labels(pd.Series([local.replace(tzinfo=None)]), interval)[0]) if is_calendar else text


def _counts(request: Any) -> bool:
    """Return whether the groups are numbers."""
    name = getattr(request, "group", None)
    kind = schema.INTERACTION.field(name).type if name in schema.INTERACTION.names else pa.string()
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _rank(*, is_number: bool) -> Callable[[str | None], tuple[bool, float, str]]:
    """Return a sort key for values as text; missing ones are last."""

    def rank(text: str | None) -> tuple[bool, float, str]:
        try:
            return text is None, float(text) if is_number and text is not None else 0.0, text or ""
        except ValueError:
            return False, float("inf"), text or ""

    return rank
