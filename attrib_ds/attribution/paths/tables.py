"""The lazy tables of a project that attribution reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Tables:
    """Interactions, events, metrics, nodes and spend as lazy tables of one engine.

    Attributes
    ----------
    interactions, events, nodes, outlays : ibis.Table
        With the columns of :mod:`attrib_ds.schema`; instants are UTC.
    metrics : ibis.Table
        ``eventId``, ``key``, ``type``, ``date``, ``number``, ``amount``, ``currency``, ``deletedAt``.
    currency : str
        The project's currency.
    metric_history : ibis.Table, optional
        As ``metrics``, with ``updatedAt``: values that updates have replaced.
    rates : ibis.Table, optional
        ``currency``, ``date``, ``rate``: worth of one unit in the project's currency, valid from the date.
    timezone : str
        The project's time zone.
    users : ibis.Table, optional
        ``_id`` and properties of users; None if a service selects them.
    """

    interactions: ir.Table
    events: ir.Table
    metrics: ir.Table
    nodes: ir.Table
    outlays: ir.Table
    currency: str
    metric_history: ir.Table | None = None
    rates: ir.Table | None = None
    timezone: str = "UTC"
    users: ir.Table | None = None
