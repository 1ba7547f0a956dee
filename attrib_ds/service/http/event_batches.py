"""Takes many events of one request to the projects they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.contract import Answer
from attrib_ds.contract.events import CreateEvent, Misfit
from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.service.http.failures import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from attrib_ds.contract import Operation
    from attrib_ds.contract.events import CreateEvents
    from attrib_ds.service.service import Service


def create_events(
    asked: CreateEvents,
    operation: Operation,
    find: Callable[[str], Service],
    *,
    account: str | None = None,
) -> Answer:
    """Store the events of a request and answer what became of each.

    Parameters
    ----------
    asked : CreateEvents
        Events of any projects.
    operation : Operation
        What is asked.
    find : callable
        Takes a project id; returns the project, or raises.
    account : str, optional
        The client who sends them.

    Returns
    -------
    Answer
        Its value holds one id or error per event, in their order.

    Raises
    ------
    AttribError, Failed
        If all events are of one project and that cannot take any.
    """
    outcomes: dict[str, Iterator[Any]] = {}
    for project_id in asked.project_ids:
        part = asked.of_project(project_id)
        try:
            told: Any = find(project_id).send(operation, part, account).value
        except (AttribError, Failed) as error:
            # A project that is not there is the fault of these events; the rest is a fault of the whole.
            if len(part.events) == len(asked.events) and not isinstance(error, InvalidRequest):
                raise
            told = [error for _ in part.events]
        outcomes[project_id] = iter(told)
    return Answer(
        value=[
            each.error if isinstance(each, Misfit) else next(outcomes[each.projectId])
            for each in asked.events
            if isinstance(each, CreateEvent | Misfit)
        ]
    )
