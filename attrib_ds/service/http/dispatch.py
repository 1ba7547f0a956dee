"""Dispatch requests to projects after checking token, scope, limits and arguments, in order (G-179)."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import from_wire
from attrib_ds.contract.administration import CreateKey
from attrib_ds.contract.events import CreateEvent, CreateEvents
from attrib_ds.errors import AttribError, InvalidRequest, NotFound
from attrib_ds.service.http import bodies, rate_limits, responses
from attrib_ds.service.http.client_addresses import network_of_client
from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.http.event_batches import create_events
from attrib_ds.service.http.rate_limits import Claim
from attrib_ds.service.http.reads import READS
from attrib_ds.service.http.required_scopes import REQUIRED_SCOPES, SQL_SCOPE
from attrib_ds.service.http.senders import check_event_types, check_sender
from attrib_ds.service.http.single_events import ONE_EVENT, SingleEvents
from attrib_ds.service.http.trashed_fields import wants_text, with_names_of_client, with_text_fields
from attrib_ds.service.store.ids import new_uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.responses import Response

    from attrib_ds.contract import Answer, Operation
    from attrib_ds.service.accounts import Access, Accounts
    from attrib_ds.service.http.body_memory import BodyBudget, BodyMemory
    from attrib_ds.service.http.projects import Projects
    from attrib_ds.service.http.rate_limits import Quota
    from attrib_ds.service.http.reads import Read, Reads
    from attrib_ds.service.http.server_options import RateLimits, ServerOptions
    from attrib_ds.service.http.service_request import ServiceRequest
    from attrib_ds.service.http.thread_pool import ThreadPool
    from attrib_ds.service.service import Service

#: Operations whose body names the project.
EVENT_OPERATIONS: Final = ONE_EVENT | {"create_events", "validate_event"}
_MOST_BYTES: Final = 32 * bodies.MEBIBYTE
_MOST_EVENT_BYTES: Final = bodies.MEBIBYTE
_MOST_BYTES_WITHOUT_TOKEN: Final = bodies.MEBIBYTE // 4
#: Bodies of this size are parsed faster than a thread takes them over.
_MOST_BYTES_TO_PARSE: Final = 8_192


class Dispatcher:
    """Check requests and dispatch them to their projects.

    Parameters
    ----------
    projects : Projects
        Projects of the server.
    accounts : Accounts
        Service accounts.
    pool : ThreadPool
        Threads that carry out the operations that are not reads.
    reads : Reads
        Threads that carry out reads.
    budget : BodyBudget
        Memory for request bodies.
    options : ServerOptions
        Rate limits, and whether SQL searches are enabled.
    """

    def __init__(
        self,
        projects: Projects,
        accounts: Accounts,
        *,
        pool: ThreadPool,
        reads: Reads,
        budget: BodyBudget,
        options: ServerOptions,
    ) -> None:
        self._projects = projects
        self._accounts = accounts
        self._pool = pool
        self._reads = reads
        self._limits = options.rate_limits
        self._trusted_proxies = options.trusted_proxies
        self._has_sql = options.sql
        self._has_new_keys = options.new_keys
        self._max_page_size = options.max_page_size
        self._buckets = rate_limits.Buckets()
        self._budget = budget
        # Large bodies are parsed one at a time: each takes a multiple of its size and holds up the others.
        self._large_bodies = asyncio.Semaphore(1)
        self._events = SingleEvents(projects, pool=pool)

    async def answer(
        self, request: ServiceRequest, operation: Operation, path: Mapping[str, str]
    ) -> Response:
        """Answer one request.

        Parameters
        ----------
        request : ServiceRequest
            Its body has not been read. Its ``quotas`` are set here.
        operation : Operation
            Operation of its path and method.
        path : mapping of str to str
            Decoded path parameters.

        Returns
        -------
        Response
            Of a successful operation.

        Raises
        ------
        HttpError, AttribError
            If a check or the operation fails; see
            :func:`attrib_ds.service.http.error_responses.to_http_error`.
        """
        access = self._authenticate(request, operation)
        self._check_scope(access, REQUIRED_SCOPES[operation.name])
        if "projectId" in path:
            self._check_grant(access, path["projectId"])
        request.quotas = self._take(self._claims(request, operation, access, path.get("projectId", "")))
        with self._budget.request(has_token=access is not None) as memory:
            arguments = await self._read_arguments(request, operation, path, memory=memory)
            self._check_arguments(operation, access, arguments)
            arguments = self._with_page_size(arguments)
            counted = self._count_arguments(request, operation, access, arguments)
            request.quotas = counted or request.quotas
            if operation.name in ONE_EVENT:
                response = await self._events.create(request, operation, arguments, access)
                if response is not None:
                    return response
            carry_out = partial(self._carry_out, request, operation, arguments, access)
            read = self._reads.begin(request.receive, is_limited=operation.name in READS)
            try:
                if operation.name in READS:
                    return await self._reads.run(read, carry_out, read)
                return await self._pool.run_or_reject(carry_out, read)
            finally:
                if operation.upload:
                    await self._pool.run(getattr(arguments, operation.upload).unlink, missing_ok=True)

    def _authenticate(self, request: ServiceRequest, operation: Operation) -> Access | None:
        fields = request.headers.getlist("authorization")
        if not fields and not operation.token:
            return None
        scheme, _, token = fields[0].partition(" ") if len(fields) == 1 else ("", "", "")
        access = self._accounts.find_access(token.strip()) if scheme.lower() == "bearer" else None
        if access is None:
            reason = ' error="invalid_token"' if fields else ""
            raise HttpError(401, headers={"WWW-Authenticate": f"Bearer{reason}"})
        return access

    def _check_scope(self, access: Access | None, scope: str) -> None:
        if access is not None and not access.allows(scope):
            challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
            raise HttpError(403, headers={"WWW-Authenticate": challenge})

    def _check_grant(self, access: Access | None, project_id: str) -> None:
        if access is not None and not self._accounts.has_grant(access, project_id):
            raise HttpError(403)

    def _check_arguments(self, operation: Operation, access: Access | None, arguments: Any) -> None:
        if operation.name in EVENT_OPERATIONS:
            for project_id in _project_ids(arguments):
                self._check_grant(access, project_id)
            if access is None:
                check_event_types(_events(arguments))
        # Reading an attribute that a request lacks is slow.
        if vars(arguments).get("sqlQuery") is not None:
            self._check_scope(access, SQL_SCOPE)
            if not self._has_sql:
                raise HttpError(403, "searches by SQL are disabled on this server")

    def _check_granting(self, request: ServiceRequest, operation: Operation, arguments: CreateKey) -> None:
        """Refuse to create a key if this server creates none, or with more scopes than the token has."""
        if not self._has_new_keys:
            raise HttpError(403, "this server creates no keys; create them with 'attrib-ds keys create'")
        # Again: the key of the token may have been revoked while the body arrived.
        access = self._authenticate(request, operation)
        for scope in arguments.scopes:
            self._check_scope(access, scope)

    def _claims(
        self, request: ServiceRequest, operation: Operation, access: Access | None, project_id: str
    ) -> list[Claim]:
        """Return what a request counts before its body is read."""
        if self._limits is None:
            return []
        if operation.name in EVENT_OPERATIONS:
            return [] if access else [Claim(self._limits.events_by_address, self._address(request))]
        caller = f"{access.client_id if access else ''} {project_id}"
        claims = [Claim(self._limits.requests, caller)]
        return [*claims, Claim(self._limits.heavy, caller)] if operation.name in rate_limits.HEAVY else claims

    def _count_arguments(
        self, request: ServiceRequest, operation: Operation, access: Access | None, arguments: Any
    ) -> list[Quota]:
        """Count events and unlimited searches, which are known only from the arguments."""
        if self._limits is None:
            return []
        if operation.name in EVENT_OPERATIONS:
            claims = _event_claims(self._limits, _events(arguments), access, self._address(request))
            return self._take(claims)
        if operation.name in rate_limits.HEAVY_UNLIMITED and arguments.limit is None and access is not None:
            caller = f"{access.client_id} {arguments.projectId}"
            return self._take([Claim(self._limits.requests, caller, 0), Claim(self._limits.heavy, caller)])
        return []

    def _address(self, request: ServiceRequest) -> str:
        return network_of_client(request, self._trusted_proxies)

    def _with_page_size(self, arguments: Any) -> Any:
        """Cap the number of records of a page (G-101)."""
        most = self._max_page_size
        if most is None or "limit" not in type(arguments).model_fields:
            return arguments
        limit = most if arguments.limit is None else min(arguments.limit, most)
        return arguments.model_copy(update={"limit": limit})

    def _take(self, claims: list[Claim]) -> list[Quota]:
        quotas = self._buckets.take(claims) if claims else []
        if any(quota.seconds_to_wait for quota in quotas):
            raise HttpError(429, headers=rate_limits.headers(quotas))
        return quotas

    async def _read_arguments(
        self, request: ServiceRequest, operation: Operation, path: Mapping[str, str], *, memory: BodyMemory
    ) -> Any:
        _check_path(operation, path)
        query = bodies.parse_query(request.scope["query_string"])
        if not operation.has_body:
            return from_wire(operation, path=path, query=query)
        if operation.upload:
            return await self._receive_file(request, operation, path, memory=memory)
        has_one_event = operation.name in EVENT_OPERATIONS and not operation.body
        most_bytes = _MOST_EVENT_BYTES if has_one_event else _MOST_BYTES
        if not memory.has_token:
            most_bytes = _MOST_BYTES_WITHOUT_TOKEN
        content = await bodies.read(request, most_bytes=most_bytes, memory=memory)
        bodies.check_values(content, memory=memory)
        if has_one_event and len(content) <= _MOST_BYTES_TO_PARSE:
            return _read_body(operation, path, query, content)
        pool = self._reads.steps if operation.name in READS else self._pool
        if len(content) <= bodies.MEBIBYTE:
            return await pool.run_or_reject(_read_body, operation, path, query, content)
        async with self._large_bodies:
            return await pool.run_or_reject(_read_body, operation, path, query, content)

    async def _receive_file(
        self, request: ServiceRequest, operation: Operation, path: Mapping[str, str], *, memory: BodyMemory
    ) -> Any:
        """Write an uploaded file next to its project."""
        await self._pool.run_or_reject(self._projects.get, path["projectId"])
        file = self._projects.home / f".{new_uuid()}.upload"
        try:
            await bodies.receive(request, file, pool=self._pool, memory=memory)
            return from_wire(operation, path=path, body={operation.upload: str(file)})
        except BaseException:
            await self._pool.run(file.unlink, missing_ok=True)
            raise

    def _service(
        self, request: ServiceRequest, operation: Operation, project_id: str, access: Access | None
    ) -> Service:
        is_event = operation.name in EVENT_OPERATIONS
        try:
            service = self._projects.get(project_id)
        except NotFound as error:
            if is_event:
                # Without a project there is nowhere to store the envelope (G-127).
                problem = f"/projectId: there is no project {project_id!r}"
                raise InvalidRequest(problem, field="/projectId") from error
            raise
        if is_event and access is None:
            check_sender(request.headers, service.settings())
        return service

    def _carry_out(
        self, request: ServiceRequest, operation: Operation, arguments: Any, access: Access | None, read: Read
    ) -> Response:
        account = access.client_id if access else None
        if isinstance(arguments, CreateKey):
            self._check_granting(request, operation, arguments)
        if isinstance(arguments, CreateEvents):
            find = partial(self._service, request, operation, access=access)
            created = create_events(arguments, operation, find, account=account)
            return responses.with_value(operation, arguments, created)
        service = self._service(request, operation, arguments.projectId, access)
        shorten = partial(with_text_fields, operation) if wants_text(request.headers) else _unchanged
        try:
            answer = service.stream(operation, arguments, account, cancellation=read.cancellation)
            if operation.answer.resource is None:
                return responses.with_value(operation, arguments, shorten(answer.whole()), read=read)
            answer = shorten(answer)
        except AttribError as error:
            raise with_names_of_client(error, operation, request.headers) from error
        accept = request.headers.get("accept", "")
        response = responses.with_records(operation, answer, accept=accept, read=read)
        if answer.value is False:
            # The record existed already (G-143).
            response.status_code = 200
        return response


def _event_claims(
    limits: RateLimits, events: Iterable[Any], access: Access | None, address: str
) -> list[Claim]:
    """Return what events count: each of them once.

    An account has a bucket of its own in each project, and may borrow from it, so that it can send batches
    of any size and no other client waits for it. Clients without a token share the bucket of the project.
    Each of them can take out only what its address has left, which is far less.

    Raises
    ------
    HttpError
        With 413 if there are more than a bucket ever holds.
    """
    events = list(events)
    counts = Counter(event.projectId for event in events if isinstance(event, CreateEvent))
    if access is not None:
        return [
            Claim(limits.events, f"{access.client_id} {project_id}", count, may_borrow=True)
            for project_id, count in counts.items()
        ]
    most = min(limits.events_by_address.amount, limits.events.amount)
    if len(events) > most:
        raise HttpError(
            413, f"body: has {len(events):,} events; allowed without a token: {most:,} in one request"
        )
    # The first event was counted before the body was read.
    by_address = Claim(limits.events_by_address, address, max(len(events) - 1, 0))
    return [by_address, *(Claim(limits.events, project_id, count) for project_id, count in counts.items())]


def _unchanged(answer: Answer) -> Answer:
    return answer


def _check_path(operation: Operation, path: Mapping[str, str]) -> None:
    """Check the path parameters alone, before the body is read."""
    if not path:
        return
    try:
        from_wire(operation, path=path)
    except InvalidRequest as error:
        violations = [entry for entry in error.details if operation.location(entry["attribute"]) == "path"]
        if violations:
            message = "; ".join(f"{entry['field']}: {entry['problem']}" for entry in violations)
            raise InvalidRequest(message, field=violations[0]["field"], details=violations) from None


def _read_body(
    operation: Operation, path: Mapping[str, str], query: Mapping[str, str], content: bytes
) -> Any:
    body = bodies.parse(content, is_array=bool(operation.body))
    return from_wire(operation, path=path, query=query, body=body)


def _events(arguments: Any) -> tuple[Any, ...]:
    """Return the events of a request, with invalid items of a batch."""
    return arguments.events if isinstance(arguments, CreateEvents) else (arguments,)


def _project_ids(arguments: Any) -> list[str]:
    return arguments.project_ids if isinstance(arguments, CreateEvents) else [arguments.projectId]
