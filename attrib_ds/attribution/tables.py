"""The lazy tables that attribution reads, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Tables:
    """Interactions, events and what belongs to them, as lazy tables of one engine.

    Attributes
    ----------
    interactions, events, nodes, outlays : ibis.Table
        With the columns of :mod:`attrib_ds.schema`; instants are UTC.
    metrics : ibis.Table
        ``eventId``, ``key``, ``type``, ``date``, ``number``, ``amount``, ``currency``, ``deletedAt``.
    currency : str
        The project's currency.
    """

    interactions: ir.Table
    events: ir.Table
    metrics: ir.Table
    nodes: ir.Table
    outlays: ir.Table
    currency: str
