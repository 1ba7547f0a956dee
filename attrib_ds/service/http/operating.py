"""Answers the operations, each request through the same checks in the same order (G-179)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import from_wire
from attrib_ds.contract.events import CreateEvent, CreateEvents
from attrib_ds.errors import AttribError, InvalidRequest, NotFound
from attrib_ds.service.http import bodies, permissions, rate_limits, responding
from attrib_ds.service.http.event_batches import create_events
from attrib_ds.service.http.failures import Failed, renamed
from attrib_ds.service.store.ids import new_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from attrib_ds.contract import Operation
    from attrib_ds.service.accounts import Access, Accounts
    from attrib_ds.service.http.projects import Projects
    from attrib_ds.service.http.rate_limits import Rate, Standing
    from attrib_ds.service.http.settings import Settings
    from attrib_ds.service.http.workers import Workers
    from attrib_ds.service.service import Service

_MOST_BYTES: Final = 32 * bodies.MEBIBYTE
_MOST_EVENT_BYTES: Final = bodies.MEBIBYTE


class Operating:
    """Takes requests for operations to the projects they are about.

    Parameters
    ----------
    projects : Projects
        What is served.
    accounts : Accounts
        Who may ask.
    workers : Workers
        Where the work is done.
    settings : Settings
        How often each may ask.
    """

    def __init__(
        self, projects: Projects, accounts: Accounts, *, workers: Workers, settings: Settings
    ) -> None:
        self._projects = projects
        self._accounts = accounts
        self._workers = workers
        self._rates = settings.rates
        self._has_sql = settings.sql
        self._buckets = rate_limits.Buckets()

    async def answer(self, request: Request, operation: Operation, path: Mapping[str, str]) -> Response:
        """Answer one request.

        Parameters
        ----------
        request : starlette.requests.Request
            Of which the body is not read yet. Its ``state.headers`` become those of the answer, whatever
            it is.
        operation : Operation
            What its path and method stand for.
        path : mapping of str to str
            Decoded values of the path.

        Returns
        -------
        Response
            To be sent.

        Raises
        ------
        Failed, AttribError
            If it is not carried out; :func:`attrib_ds.service.http.failures.failed` makes both one.
        """
        access = self._authenticated(request, operation)
        self._permit(access, permissions.NEEDED[operation.name])
        if "projectId" in path:
            self._permit_project(access, path["projectId"])
        standings = self._count(request, operation, access, path.get("projectId", ""))
        request.state.headers = rate_limits.headers(standings)
        asked = await self._asked(request, operation, path)
        self._permit_asked(operation, access, asked)
        standings += self._count_asked(operation, access, asked)
        request.state.headers = rate_limits.headers(standings)
        try:
            return await self._workers.begin(self._carry_out, request, operation, asked, access)
        finally:
            if operation.upload:
                await self._workers.run(getattr(asked, operation.upload).unlink, missing_ok=True)

    def _authenticated(self, request: Request, operation: Operation) -> Access | None:
        fields = request.headers.getlist("authorization")
        if not fields and not operation.token:
            return None
        scheme, _, token = fields[0].partition(" ") if len(fields) == 1 else ("", "", "")
        access = self._accounts.find_access(token.strip()) if scheme.lower() == "bearer" else None
        if access is None:
            told = ' error="invalid_token"' if fields else ""
            raise Failed(401, headers={"WWW-Authenticate": f"Bearer{told}"})
        return access

    def _permit(self, access: Access | None, scope: str) -> None:
        if access is not None and not access.allows(scope):
            told = f'Bearer error="insufficient_scope", scope="{scope}"'
            raise Failed(403, headers={"WWW-Authenticate": told})

    def _permit_project(self, access: Access | None, project_id: str) -> None:
        if access is not None and not self._accounts.has_grant(access, project_id):
            raise Failed(403)

    def _permit_asked(self, operation: Operation, access: Access | None, asked: Any) -> None:
        if operation.name in permissions.EVENTS:
            for project_id in _project_ids(asked):
                self._permit_project(access, project_id)
        if getattr(asked, "sqlQuery", None) is not None:
            self._permit(access, permissions.SQL)
            if not self._has_sql:
                raise Failed(403, "searches by SQL are switched off at this server")

    def _count(
        self, request: Request, operation: Operation, access: Access | None, project_id: str
    ) -> list[Standing]:
        if self._rates is None:
            return []
        if operation.name in permissions.EVENTS:
            address = request.client.host if request.client else ""
            return self._take(self._rates.events_by_address, address)
        client_id = access.client_id if access else ""
        standings = self._take(self._rates.requests, f"{client_id} {project_id}")
        if operation.name in permissions.HEAVY:
            standings += self._take(self._rates.heavy, f"{client_id} {project_id}")
        return standings

    def _count_asked(self, operation: Operation, access: Access | None, asked: Any) -> list[Standing]:
        """Count by what the body tells, which is not known before it is read."""
        if self._rates is None:
            return []
        if operation.name in permissions.EVENTS:
            events = asked.events if isinstance(asked, CreateEvents) else (asked,)
            sent = Counter(each.projectId for each in events if isinstance(each, CreateEvent))
            standings = [self._take(self._rates.events, each, sent[each]) for each in sent]
            return standings[0] if standings else []
        if operation.name in permissions.HEAVY_UNLIMITED and asked.limit is None and access is not None:
            return self._take(self._rates.heavy, f"{access.client_id} {asked.projectId}")
        return []

    def _take(self, rate: Rate, caller: str, amount: int = 1) -> list[Standing]:
        standing = self._buckets.take(rate, caller, amount=amount)
        if standing.seconds_to_wait:
            raise Failed(429, headers=rate_limits.headers([standing]))
        return [standing]

    async def _asked(self, request: Request, operation: Operation, path: Mapping[str, str]) -> Any:
        _check_path(operation, path)
        query = bodies.parse_query(request.scope["query_string"])
        if not operation.has_body:
            return from_wire(operation, path=path, query=query)
        if operation.upload:
            return await self._received(request, operation, path)
        is_event = operation.name in permissions.EVENTS and not operation.body
        content = await bodies.read(request, most_bytes=_MOST_EVENT_BYTES if is_event else _MOST_BYTES)
        return await self._workers.begin(_read_body, operation, path, query, content)

    async def _received(self, request: Request, operation: Operation, path: Mapping[str, str]) -> Any:
        """Write a body that is a file to the disk of the project it is for."""
        await self._workers.begin(self._projects.get, path["projectId"])
        file = self._projects.home / f".{new_uuid()}.upload"
        try:
            await bodies.receive(request, file, workers=self._workers)
            return from_wire(operation, path=path, body={operation.upload: str(file)})
        except BaseException:
            await self._workers.run(file.unlink, missing_ok=True)
            raise

    def _service(self, operation: Operation, project_id: str, access: Access | None) -> Service:
        is_event = operation.name in permissions.EVENTS
        try:
            service = self._projects.get(project_id)
        except NotFound as error:
            if is_event:
                # A project that does not exist cannot store the envelope (G-127).
                problem = f"/projectId: there is no project {project_id!r}"
                raise InvalidRequest(problem, field="/projectId") from error
            raise
        if is_event and access is None and service.settings().require_token_for_events:
            raise Failed(401)
        return service

    def _carry_out(
        self, request: Request, operation: Operation, asked: Any, access: Access | None
    ) -> Response:
        account = access.client_id if access else None
        if isinstance(asked, CreateEvents):
            find = partial(self._service, operation, access=access)
            created = create_events(asked, operation, find, account=account)
            return responding.with_value(operation, asked, created, workers=self._workers)
        service = self._service(operation, asked.projectId, access)
        try:
            if operation.answer.resource is None:
                answer = service.send(operation, asked, account)
                return responding.with_value(operation, asked, answer, workers=self._workers)
            answer = service.stream(operation, asked, account)
        except AttribError as error:
            raise renamed(error, operation) from error
        accept = request.headers.get("accept", "")
        response = responding.with_records(operation, answer, accept=accept, workers=self._workers)
        if answer.value is False:
            # It was there before: nothing was created (G-143).
            response.status_code = 200
        return response


def _check_path(operation: Operation, path: Mapping[str, str]) -> None:
    """Check the values of the path alone, before anything of the body is looked at."""
    if not path:
        return
    try:
        from_wire(operation, path=path)
    except InvalidRequest as error:
        violations = [each for each in error.details if operation.location(each["attribute"]) == "path"]
        if violations:
            message = "; ".join(f"{each['field']}: {each['problem']}" for each in violations)
            raise InvalidRequest(message, field=violations[0]["field"], details=violations) from None


def _read_body(
    operation: Operation, path: Mapping[str, str], query: Mapping[str, str], content: bytes
) -> Any:
    body = bodies.parse(content, is_array=bool(operation.body))
    return from_wire(operation, path=path, query=query, body=body)


def _project_ids(asked: Any) -> list[str]:
    return asked.project_ids if isinstance(asked, CreateEvents) else [asked.projectId]
