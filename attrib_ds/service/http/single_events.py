"""Create single events in the event loop, without a thread for each."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrib_ds.errors import AttribError
from attrib_ds.service.http import responses
from attrib_ds.service.http.senders import check_sender
from attrib_ds.service.http.trashed_fields import with_names_of_client

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.requests import Request
    from starlette.responses import Response

    from attrib_ds.contract import Operation
    from attrib_ds.contract.events import CreateEvent
    from attrib_ds.service.accounts import Access
    from attrib_ds.service.http.projects import Projects
    from attrib_ds.service.http.thread_pool import ThreadPool

T = TypeVar("T")

#: Operations that create one event.
ONE_EVENT: Final = frozenset({"create_event", "create_event_sync"})


class SingleEvents:
    """Creates single events of open projects.

    A request takes no thread: it is queued for the writer of its project, and the response is sent once the
    transaction is durable.

    Parameters
    ----------
    projects : Projects
        Projects of the server.
    pool : ThreadPool
        Counts the requests.
    """

    def __init__(self, projects: Projects, *, pool: ThreadPool) -> None:
        self._projects = projects
        self._pool = pool
        self._arrivals = Arrivals()

    async def create(
        self, request: Request, operation: Operation, event: CreateEvent, access: Access | None
    ) -> Response | None:
        """Create an event.

        Parameters
        ----------
        request : starlette.requests.Request
            Its body has been read.
        operation : Operation
            One of :data:`ONE_EVENT`.
        event : CreateEvent
            Its checked arguments.
        access : Access or None
            Permissions of the token, if one was sent.

        Returns
        -------
        Response or None
            None if the request may have to wait for something other than its event, such as the project's
            file to be opened; a thread has to carry it out.
        """
        service = self._projects.find_open(event.projectId)
        if service is None:
            return None
        if access is None:
            settings = service.cached_settings()
            if settings is None:
                return None
            check_sender(request.headers, settings)
        with self._pool.admission():
            try:
                started = service.start(operation, event, access.client_id if access else None)
                if started is None:
                    return None
                answer = await self._arrivals.wait(started.future, started.patience, started.expire)
            except AttribError as error:
                raise with_names_of_client(error, operation, request.headers) from error
        return None if answer is None else responses.with_value(operation, event, answer)


class Arrivals:
    """Hands results of other threads to the event loop, all that have arrived at once."""

    def __init__(self) -> None:
        self._arrived: deque[asyncio.Future[None]] = deque()
        self._is_awake = False

    async def wait(self, future: Future[T], patience: float | None, expire: Any) -> T:
        """Return the result of a future; call ``expire``, which sets it, after some seconds."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        future.add_done_callback(lambda _: self._put(loop, waiter))
        timer = None if patience is None else loop.call_later(patience, expire)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
        return future.result()

    def _put(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
        self._arrived.append(waiter)
        if not self._is_awake:
            self._is_awake = True
            # The loop may have been closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Before the first is taken, so that a later one wakes the loop again.
        self._is_awake = False
        while self._arrived:
            waiter = self._arrived.popleft()
            if not waiter.done():
                waiter.set_result(None)
