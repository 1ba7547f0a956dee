"""The WHERE of a search for interactions, on any engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.queries.expressions import timestamp

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.contract.interactions import Population


def filter_interactions(interactions: ir.Table, request: Population, *, nodes: ir.Table | None) -> ir.Table:
    """Filter interactions by the dates, populations and predicates of a request.

    Parameters
    ----------
    interactions : ibis.Table
        Flat, with dotted columns; instants are in UTC, without a time zone.
    request : Population
        Inclusive bounds on ``startDate``, whether to keep bots and filtered traffic, and predicates.
    nodes : ibis.Table, optional
        The tree in the ``NODE`` schema, for predicates on nodes.

    Returns
    -------
    ibis.Table
        Every column of the matching interactions.
    """
    conditions = []
    if request.since is not None:
        conditions.append(interactions.startDate >= timestamp(request.since))
    if request.until is not None:
        conditions.append(interactions.startDate <= timestamp(request.until))
    if request.isBot is not None:
        conditions.append(interactions.isBot.fill_null(False) == request.isBot)
    if request.filtered is not None:
        is_captured = interactions.trafficFilterId.notnull()
        conditions.append(is_captured if request.filtered else ~is_captured)
    if request.interactionFilter is not None:
        conditions.append(to_ibis(request.interactionFilter, interactions))
    if request.nodeFilter is not None:
        conditions.append(to_ibis(request.nodeFilter, interactions, nodes=nodes))
    return interactions.filter(conditions) if conditions else interactions
