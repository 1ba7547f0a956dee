"""Sums the metrics of events in time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrib_ds.queries.event_sums import sum_events
from attrib_ds.service.campaigns.rates import in_project_currency

if TYPE_CHECKING:
    from attrib_ds.contract import Answer
    from attrib_ds.contract.events import EventInsights
    from attrib_ds.service.store.store import Store


def event_insights(store: Store, request: EventInsights) -> Answer:
    """Answer with the values of metrics, one record per interval and group, zeros where nothing happened.

    Parameters
    ----------
    store : Store
        Where the events are.
    request : EventInsights
        What is asked for.

    Returns
    -------
    Answer
        As of :func:`attrib_ds.queries.event_sums.sum_events`.

    Raises
    ------
    InvalidRequest
        If that would be more than 100,000 records.
    """
    with store.read() as backend:
        types = backend.table("event_types")
        current = types.filter(types.archivedAt.isnull()).select(eventType="reference")
        return sum_events(
            backend.table("events"),
            backend.table("metrics"),
            current,
            request,
            in_currency=partial(in_project_currency, backend, currency=store.meta.currency),
        )
