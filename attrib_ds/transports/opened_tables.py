"""A read-only transport over the user's own tables, in any engine, in place of a service."""

from collections.abc import Callable
from typing import Any, Final

import ibis
import ibis.expr.types as ir

from attrib_ds import schema
from attrib_ds.attribution.paths.project_tables import Tables
from attrib_ds.contract import Answer, Operation, Request
from attrib_ds.errors import NotSupported
from attrib_ds.queries.insights import count_interactions, fetch, sum_events


class OpenedTables:
    """Answer the operations that only read the tables.

    Parameters
    ----------
    tables : Tables
        All in the same engine.
    address : str
        Location of the tables, for display.
    """

    def __init__(self, tables: Tables, address: str) -> None:
        self._tables = tables
        self.address = address
        self.timezone: str | None = tables.timezone

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation.

        Raises
        ------
        NotSupported
            If the tables alone cannot answer it.
        """
        answer = _ANSWERS.get(operation.name)
        if answer is None:
            raise self._refusal(operation.name)
        return answer(self._tables, request)

    def stream(self, operation: Operation, request: Request) -> Answer:  # noqa: ARG002
        """Raise NotSupported: the user reads records directly from the engine."""
        raise self._refusal(operation.name)

    def tables(self) -> Tables:
        """Return the tables for attribution."""
        return self._tables

    def close(self) -> None:
        """Do nothing: the connection belongs to the user."""

    def _refusal(self, name: str) -> NotSupported:
        if name == "page_conversions":
            return NotSupported("conversion_page: needs hits that are loaded, by load(project, hits=…)")
        return NotSupported(
            f"{name}: a project over tables is read-only and answers only {', '.join(_ANSWERS)} and "
            "conversion_paths; load(…) the tables into an embedded project for everything else"
        )


def _interaction_insights(tables: Tables, request: Any) -> Answer:
    if request.group is not None and request.group not in tables.interactions.columns:
        raise NotSupported(
            f"group_by: the table of interactions has no column {request.group!r}; it has: "
            f"{', '.join(tables.interactions.columns)}"
        )
    return count_interactions(tables.interactions, request, nodes=tables.nodes)


def _event_insights(tables: Tables, request: Any) -> Answer:
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
    "event_insights": _event_insights,
    "interaction_insights": _interaction_insights,
    "list_nodes": _nodes,
}
