"""A read-only transport over tables of any engine, in place of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ibis

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import NotSupported
from attrib_ds.queries.event_sums import sum_events
from attrib_ds.queries.interaction_counts import count_interactions
from attrib_ds.queries.values import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.tables import Tables
    from attrib_ds.contract import Operation, Request


class OpenedTables:
    """Answer what needs no more than the tables; they are read only.

    Parameters
    ----------
    tables : Tables
        Of one engine.
    address : str
        Where they are, for people to read.
    """

    def __init__(self, tables: Tables, address: str) -> None:
        self._tables = tables
        self._address = address

    @property
    def address(self) -> str:
        """Where the tables are."""
        return self._address

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation.

        Raises
        ------
        NotSupported
            If it needs more than the tables.
        """
        answer = _ANSWERS.get(operation.name)
        if answer is None:
            raise self._refusal(operation.name)
        return answer(self._tables, request)

    def stream(self, operation: Operation, request: Request) -> Answer:  # noqa: ARG002
        """Refuse: records are for the engine to show."""
        raise self._refusal(operation.name)

    @property
    def timezone(self) -> str | None:
        """The project's time zone."""
        return self._tables.timezone

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        return self._tables

    def close(self) -> None:
        """Do nothing: the connection is the user's."""

    def _refusal(self, name: str) -> NotSupported:
        return NotSupported(
            f"{name}: a project over tables is read only, and answers {', '.join(_ANSWERS)} and "
            "conversion_paths; load(…) the tables into an embedded project for the rest"
        )


def _insights_of_interactions(tables: Tables, request: Any) -> Answer:
    if request.group is not None and request.group not in tables.interactions.columns:
        raise NotSupported(
            f"group_by: the table of interactions has no column {request.group!r}; it has: "
            f"{', '.join(tables.interactions.columns)}"
        )
    return count_interactions(tables.interactions, request, nodes=tables.nodes)


def _insights_of_events(tables: Tables, request: Any) -> Answer:
    def in_currency(metrics: ir.Table) -> ir.Table:
        unknown = ibis.null("decimal(24, 6)")
        return metrics.mutate(
            converted=ibis.ifelse(metrics.currency == tables.currency, metrics.amount, unknown)
        )

    types = tables.events.select("eventType").distinct()
    return sum_events(tables.events, tables.metrics, types, request, in_currency=in_currency)


def _nodes(tables: Tables, request: Any) -> Answer:
    nodes = tables.nodes
    if request.type is not None:
        nodes = nodes.filter(nodes.type == request.type)
    if request.search is not None:
        text = request.search.lower()
        nodes = nodes.filter(nodes.name.lower().contains(text) | nodes["_id"].lower().contains(text))
    ordered = nodes.order_by("_id")
    return Answer.of(fetch(ordered.limit(request.limit, offset=request.offset or 0), schema.NODE))


_ANSWERS: Final[dict[str, Callable[[Tables, Any], Answer]]] = {
    "event_insights": _insights_of_events,
    "interaction_insights": _insights_of_interactions,
    "list_nodes": _nodes,
}
