"""Answers the operations, each request through the same checks in the same order (G-179)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import from_wire
from attrib_ds.errors import AttribError, InvalidRequest, NotFound
from attrib_ds.service.http import bodies, permissions, rates, responding
from attrib_ds.service.http.failures import Failed, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from attrib_ds.contract import Operation
    from attrib_ds.service.accounts import Access, Accounts
    from attrib_ds.service.http.projects import Projects
    from attrib_ds.service.http.rates import Rate, Standing
    from attrib_ds.service.http.settings import Settings
    from attrib_ds.service.http.workers import Workers

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
        self._buckets = rates.Buckets()

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
        request.state.headers = rates.headers(standings)
        asked = await self._asked(request, operation, path)
        self._permit_asked(operation, access, asked)
        standings += self._count_asked(operation, access, asked)
        request.state.headers = rates.headers(standings)
        return await self._workers.begin(self._carry_out, request, operation, asked)

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
            self._permit_project(access, asked.projectId)
        if getattr(asked, "sqlQuery", None) is not None:
            self._permit(access, permissions.SQL)

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
            return self._take(self._rates.events, asked.projectId)
        if operation.name in permissions.HEAVY_UNLIMITED and asked.limit is None and access is not None:
            return self._take(self._rates.heavy, f"{access.client_id} {asked.projectId}")
        return []

    def _take(self, rate: Rate, caller: str) -> list[Standing]:
        standing = self._buckets.take(rate, caller)
        if standing.seconds_to_wait:
            raise Failed(429, headers=rates.headers([standing]))
        return [standing]

    async def _asked(self, request: Request, operation: Operation, path: Mapping[str, str]) -> Any:
        _check_path(operation, path)
        if operation.method == "GET":
            query = bodies.parse_query(request.scope["query_string"])
            return from_wire(operation, path=path, query=query)
        is_event = operation.name in permissions.EVENTS
        content = await bodies.read(request, most_bytes=_MOST_EVENT_BYTES if is_event else _MOST_BYTES)
        return await self._workers.begin(_read_body, operation, path, content)

    def _carry_out(self, request: Request, operation: Operation, asked: Any) -> Response:
        try:
            service = self._projects.get(asked.projectId)
        except NotFound as error:
            if operation.name in permissions.EVENTS:
                # A project that does not exist cannot store the envelope (G-127).
                problem = f"/projectId: there is no project {asked.projectId!r}"
                raise InvalidRequest(problem, field="/projectId") from error
            raise
        try:
            if operation.answer.resource is None:
                return responding.with_value(operation, asked, service.answer(operation, asked))
            found = service.stream(operation, asked)
        except AttribError as error:
            raise renamed(error, operation) from error
        accept = request.headers.get("accept", "")
        response = responding.with_rows(operation, found, accept=accept, workers=self._workers)
        if found.value is False:
            # It was there before: nothing was created (G-143).
            response.status_code = 200
        return response


def _check_path(operation: Operation, path: Mapping[str, str]) -> None:
    """Check the values of the path alone, before anything of the body is looked at."""
    try:
        from_wire(operation, path=path)
    except InvalidRequest as error:
        violations = [each for each in error.details if operation.location(each["attribute"]) == "path"]
        if violations:
            message = "; ".join(f"{each['field']}: {each['problem']}" for each in violations)
            raise InvalidRequest(message, field=violations[0]["field"], details=violations) from None


def _read_body(operation: Operation, path: Mapping[str, str], content: bytes) -> Any:
    return from_wire(operation, path=path, body=bodies.parse(content))
