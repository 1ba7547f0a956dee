"""Reads the touchpoints, conversions, users and adjustments that a user passes, with checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.paths.money import OCCURRED
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.input_tables import Input

#: Prefix of the conversion columns that hold milestone dates.
MILESTONE = "milestone."
#: Column of conversions: the date of their state.
STATE = "state_date"


def read_touchpoints(
    source: Input,
    *,
    user: str,
    node: str,
    date: str,
    touch: str | None,
    type: str | None = None,  # noqa: A002
) -> ir.Table:
    """Return ``user_id``, ``node_id``, ``date``, ``touch_id``, ``type`` of every touchpoint."""
    columns = {
        "user_id": source.keys(user, role="user"),
        "node_id": source.keys(node, role="node"),
        "date": source.instants(date, role="date"),
    }
    columns["touch_id"] = (
        columns["node_id"] if touch is None else source.keys(touch, role="touch", unique=True)
    )
    columns["type"] = ibis.null("string")
    if type is not None or source.has("type"):
        columns["type"] = source.texts(type or "type", role="type")
    source.check()
    return source.table.select(**columns)


def touch_types(touchpoints: ir.Table) -> list[str | None]:
    """Return the types of touchpoints; None stands for touchpoints without one."""
    return list(touchpoints.select("type").distinct().to_pyarrow()["type"].to_pylist())


def read_adjustments(source: Input, *, conversion: str, date: str) -> ir.Table:
    """Return ``event_id``, ``date``, ``value``, ``currency`` of amounts later than their conversion."""
    columns: dict[str, Any] = {
        "event_id": source.keys(conversion, role="conversion"),
        "date": source.instants(date, role="date"),
        "value": source.numbers("value", role=None),
        "currency": ibis.null("string"),
    }
    if source.has("currency"):
        columns["currency"] = source.texts("currency", role="currency")
    source.check()
    return source.table.select(**columns)


def read_observed(source: Input, *, user: str) -> ir.Table:
    """Return ``user_id``, ``since``, ``until`` and the covariates of every observed user."""
    columns = {
        "user_id": source.keys(user, role="user", unique=True),
        "since": source.instants("since", role=None),
        "until": source.instants("until", role=None),
    }
    source.check()
    others = [name for name in source.table.columns if name not in (user, "since", "until")]
    return source.table.select(**columns, **{name: source.table[name] for name in others})


def read_conversions(
    source: Input,
    *,
    user: str,
    date: str,
    conversion: str,
    value: str | None,
    currency: str | None,
    milestones: Mapping[str, str],
    kind: str | None = None,
    state: str | None = None,
    anchor: str = "event",
) -> ir.Table:
    """Return one row per conversion with its value, currency and milestones."""
    columns: dict[str, Any] = {
        "event_id": source.keys(conversion, role="conversion", unique=True),
        "user_id": source.keys(user, role="user"),
        "event_date": source.instants(date, role="date"),
        "conversions": double(1.0),
        "value": ibis.null("float64"),
        "currency": ibis.null("string"),
    }
    if value is not None or source.has("value"):
        columns["value"] = source.numbers(value or "value", role="value")
    if currency is not None or source.has("currency"):
        own = "currency" if source.has("currency") else None
        columns["currency"] = source.currencies(currency, default=own)
    for name, column in milestones.items():
        columns[f"{MILESTONE}{name}"] = source.instants(column, role="milestones", optional=True)
    if kind is not None:
        columns["kind"] = source.texts(kind, role="kind")
    if state is not None:
        columns |= {
            OCCURRED: columns["event_date"],
            STATE: source.instants(state, role="state", optional=True),
        }
    source.check()
    return anchored(source.table.select(**columns), anchor)


def anchored(conversions: ir.Table, anchor: str) -> ir.Table:
    """Keep conversions whose state has a date, and set ``event_date`` to the end of their windows."""
    if STATE not in conversions.columns:
        if anchor == "state":
            raise InvalidRequest(
                "anchor: 'state' requires a column with dates of the state; name it with state=",
                field="anchor",
            )
        return conversions
    reached = conversions.filter(conversions[STATE].notnull())
    return reached.mutate(event_date=reached[STATE]) if anchor == "state" else reached
