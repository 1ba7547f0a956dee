"""Counts interactions by group and interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.queries.interaction_counts import count_interactions
from attrib_ds.service.interactions.selection import nodes_of

if TYPE_CHECKING:
    from attrib_ds.contract import Answer
    from attrib_ds.contract.interactions import InteractionInsights
    from attrib_ds.service.store.store import Store


def interaction_insights(store: Store, request: InteractionInsights) -> Answer:
    """Answer with counters, one record per group and interval that occur.

    Parameters
    ----------
    store : Store
        Where the interactions are.
    request : InteractionInsights
        What is asked for.

    Returns
    -------
    Answer
        As of :func:`attrib_ds.queries.interaction_counts.count_interactions`.
    """
    with store.read() as backend:
        return count_interactions(backend.table("interactions"), request, nodes=nodes_of(backend))
