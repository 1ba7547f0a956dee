"""Store a batch of events that may belong to several projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.contract import Answer
from attrib_ds.contract.events import CreateEvent, Misfit
from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.service.http.error_responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from attrib_ds.contract import Operation
    from attrib_ds.contract.events import CreateEvents
    from attrib_ds.service.service import Service


def create_events(
    batch: CreateEvents,
    operation: Operation,
    find: Callable[[str], Service],
    *,
    account: str | None = None,
) -> Answer:
    """Store the events of a batch and return the outcome of each.

    Parameters
    ----------
    batch : CreateEvents
        Events of any projects.
    operation : Operation
        The batch operation.
    find : callable
        Takes a project id; returns its service, or raises.
    account : str, optional
        Client who sent the batch.

    Returns
    -------
    Answer
        Its value holds one id or error per event, in the order of the batch.

    Raises
    ------
    AttribError, HttpError
        If all events belong to one project that cannot accept any.
    """
    outcomes: dict[str, Iterator[Any]] = {}
    for project_id in batch.project_ids:
        part = batch.of_project(project_id)
        try:
            results: Any = find(project_id).send(operation, part, account).value
        except (AttribError, HttpError) as error:
            # A missing project is an error of its events; any other error fails the whole request.
            if len(part.events) == len(batch.events) and not isinstance(error, InvalidRequest):
                raise
            results = [error for _ in part.events]
        outcomes[project_id] = iter(results)
    return Answer(
        value=[
            event.error if isinstance(event, Misfit) else next(outcomes[event.projectId])
            for event in batch.events
            if isinstance(event, CreateEvent | Misfit)
        ]
    )
