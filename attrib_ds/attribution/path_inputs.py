"""Reads touchpoints, conversions and users of any origin by the columns that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

    from attrib_ds.attribution.inputs import Input

#: Prefix of the conversion columns that hold milestone dates.
MILESTONE = "milestone."


def read_touchpoints(given: Input, *, user: str, node: str, date: str, touch: str | None) -> ir.Table:
    """Return ``user_id``, ``node_id``, ``date``, ``touch_id``, ``type`` of every touchpoint."""
    columns = {
        "user_id": given.keys(user, role="user"),
        "node_id": given.keys(node, role="node"),
        "date": given.instants(date, role="date"),
    }
    columns["touch_id"] = (
        columns["node_id"] if touch is None else given.keys(touch, role="touch", unique=True)
    )
    given.check()
    return given.table.select(**columns, type=ibis.null("string"))


def read_observed(given: Input, *, user: str) -> ir.Table:
    """Return ``user_id``, ``since``, ``until`` of every user who was observed, and what else is known."""
    columns = {
        "user_id": given.keys(user, role="user", unique=True),
        "since": given.instants("since", role="since"),
        "until": given.instants("until", role="until"),
    }
    given.check()
    others = [name for name in given.table.columns if name not in (user, "since", "until")]
    return given.table.select(**columns, **{name: given.table[name] for name in others})


def read_conversions(
    given: Input,
    *,
    user: str,
    date: str,
    conversion: str,
    value: str | None,
    currency: str | None,
    milestones: Mapping[str, str],
) -> ir.Table:
    """Return the conversions with their value, currency and milestones, each a conversion of one."""
    columns: dict[str, Any] = {
        "event_id": given.keys(conversion, role="conversion", unique=True),
        "user_id": given.keys(user, role="user"),
        "event_date": given.instants(date, role="date"),
        "conversions": ibis.literal(1.0),
        "value": ibis.null("float64"),
        "currency": ibis.null("string"),
    }
    if value is not None or given.has("value"):
        columns["value"] = given.numbers(value or "value", role="value")
    if currency is not None or given.has("currency"):
        columns["currency"] = given.texts(currency or "currency", role="currency")
    for name, source in milestones.items():
        columns[f"{MILESTONE}{name}"] = given.instants(source, role="milestones", optional=True)
    given.check()
    return given.table.select(**columns)
