"""Reads touchpoints, conversions and users of any origin by the columns that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.paths.money import OCCURRED
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.columns import Input

#: Prefix of the conversion columns that hold milestone dates.
MILESTONE = "milestone."
#: Column of conversions: the date of the state that was asked for.
STATE = "state_date"


def read_touchpoints(
    given: Input,
    *,
    user: str,
    node: str,
    date: str,
    touch: str | None,
    type: str | None = None,  # noqa: A002
) -> ir.Table:
    """Return ``user_id``, ``node_id``, ``date``, ``touch_id``, ``type`` of every touchpoint."""
    columns = {
        "user_id": given.keys(user, role="user"),
        "node_id": given.keys(node, role="node"),
        "date": given.instants(date, role="date"),
    }
    columns["touch_id"] = (
        columns["node_id"] if touch is None else given.keys(touch, role="touch", unique=True)
    )
    columns["type"] = ibis.null("string")
    if type is not None or given.has("type"):
        columns["type"] = given.texts(type or "type", role="type")
    given.check()
    return given.table.select(**columns)


def touch_types(touchpoints: ir.Table) -> list[str | None]:
    """Return the types that touchpoints have; None is among them where one has no type."""
    types = touchpoints.select("type").distinct().to_pyarrow()["type"].to_pylist()
    return list(types)


def read_adjustments(given: Input, *, conversion: str, date: str) -> ir.Table:
    """Return ``event_id``, ``date``, ``value``, ``currency`` of amounts that came after a conversion."""
    columns: dict[str, Any] = {
        "event_id": given.keys(conversion, role="conversion"),
        "date": given.instants(date, role="date"),
        "value": given.numbers("value", role=None),
        "currency": ibis.null("string"),
    }
    if given.has("currency"):
        columns["currency"] = given.texts("currency", role="currency")
    given.check()
    return given.table.select(**columns)


def read_observed(given: Input, *, user: str) -> ir.Table:
    """Return ``user_id``, ``since``, ``until`` of every user who was observed, and what else is known."""
    columns = {
        "user_id": given.keys(user, role="user", unique=True),
        "since": given.instants("since", role=None),
        "until": given.instants("until", role=None),
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
    kind: str | None = None,
    state: str | None = None,
    anchor: str = "event",
) -> ir.Table:
    """Return the conversions with their value, currency and milestones, each a conversion of one."""
    columns: dict[str, Any] = {
        "event_id": given.keys(conversion, role="conversion", unique=True),
        "user_id": given.keys(user, role="user"),
        "event_date": given.instants(date, role="date"),
        "conversions": double(1.0),
        "value": ibis.null("float64"),
        "currency": ibis.null("string"),
    }
    if value is not None or given.has("value"):
        columns["value"] = given.numbers(value or "value", role="value")
    if currency is not None or given.has("currency"):
        columns["currency"] = given.texts(currency or "currency", role="currency")
    for name, source in milestones.items():
        columns[f"{MILESTONE}{name}"] = given.instants(source, role="milestones", optional=True)
    if kind is not None:
        columns["kind"] = given.texts(kind, role="kind")
    if state is not None:
        columns |= {
            OCCURRED: columns["event_date"],
            STATE: given.instants(state, role="state", optional=True),
        }
    given.check()
    return anchored(given.table.select(**columns), anchor)


def anchored(conversions: ir.Table, anchor: str) -> ir.Table:
    """Keep conversions whose state has a date, and let ``event_date`` be what their windows end at."""
    if STATE not in conversions.columns:
        if anchor == "state":
            raise InvalidRequest(
                "anchor: there is no state to end windows at; name it with state=", field="anchor"
            )
        return conversions
    reached = conversions.filter(conversions[STATE].notnull())
    return reached.mutate(event_date=reached[STATE]) if anchor == "state" else reached
