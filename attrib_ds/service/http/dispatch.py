"""Dispatch requests to their projects after checking token, scope, rates and arguments, in this order."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from starlette.responses import Response

from attrib_ds.contract import Answer, Operation, administration, from_wire, interactions
from attrib_ds.contract.events import CreateEvent, CreateEvents, Misfit
from attrib_ds.errors import AttribError, InvalidRequest, NotFound
from attrib_ds.service.accounts import Access, Accounts
from attrib_ds.service.http import limits, responses
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.limits import (
    BodyBudget,
    BodyMemory,
    Buckets,
    Claim,
    ServerOptions,
    ServiceRequest,
)
from attrib_ds.service.http.projects import Projects, check_sender
from attrib_ds.service.http.reads import READS, Arrivals, Read, Reads, StreamedResponse, ThreadPool
from attrib_ds.service.service import Service
from attrib_ds.service.store.connections import BATCH_ROWS
from attrib_ds.service.store.tables import new_uuid

#: Operations by the scope that they require.
_BY_SCOPE: Final = {
    "interactions:read": "search_interactions get_interaction list_hits interaction_insights list_nodes "
    "get_node page_insights page_conversions funnel",
    "interactions:write": "create_offline_interaction",
    "hits:write": "get_collector send_hits",
    "events:read": "search_events get_event get_raw_event list_trashed_events event_insights",
    "events:write": "create_event create_event_sync create_events validate_event replay_event "
    "update_event_state update_event_statistic",
    "users:read": "search_users get_user list_user_events list_user_metrics list_audiences get_audience",
    "users:write": "create_audience delete_audience merge_users split_user",
    "users:export": "export_users",
    "event-types:read": "list_event_types get_event_type",
    "event-types:write": "create_event_type update_event_type archive_event_type restore_event_type",
    "campaigns:read": "list_integrations list_campaigns get_campaign list_outlays get_outlay",
    "campaigns:write": "create_integration create_campaign update_campaign create_outlay update_outlay "
    "delete_outlay",
    "privacy:write": "delete_user export_user_data",
    "admin": "get_settings update_settings list_holdouts create_holdout delete_holdout list_rates set_rates "
    "list_audit list_keys create_key revoke_key check_project repair_project back_up_project "
    "restore_project compact_project",
}
#: Scope by operation name, without the token route.
REQUIRED_SCOPES: Final = {name: scope for scope, names in _BY_SCOPE.items() for name in names.split()}
#: Required for searches by SQL, in addition to the scope of the operation.
_SQL_SCOPE: Final = "users:sql"
#: Operations that create one event.
_ONE_EVENT: Final = frozenset({"create_event", "create_event_sync"})
#: Operations whose body names the project.
EVENT_OPERATIONS: Final = _ONE_EVENT | {"create_events", "validate_event"}
#: Operations that always count as heavy, and those that do without a limit.
_HEAVY: Final = (
    *("back_up_project", "check_project", "compact_project", "repair_project"),
    *("interaction_insights", "event_insights", "export_users"),
    *("page_insights", "page_conversions", "funnel", "send_hits"),
)
_HEAVY_UNLIMITED: Final = ("search_events", "search_interactions", "search_users")
_MOST_BYTES: Final = 32 * limits.MEBIBYTE
_MOST_BYTES_OF_EVENT: Final = limits.MEBIBYTE
_MOST_BYTES_WITHOUT_TOKEN: Final = limits.MEBIBYTE // 4
#: Bodies of this size are parsed faster than a thread takes them over.
_MOST_BYTES_TO_PARSE: Final = 8_192


@dataclass
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
    buckets : Buckets
        Rate limits.
    options : ServerOptions
        Limits of the server.
    """

    projects: Projects
    accounts: Accounts
    pool: ThreadPool
    reads: Reads
    budget: BodyBudget
    buckets: Buckets
    options: ServerOptions

    def __post_init__(self) -> None:
        # Large bodies are parsed one at a time: each takes a multiple of its size and holds up the others.
        self._large_bodies = asyncio.Semaphore(1)
        self._arrivals = Arrivals()
        #: Room for long answers, by account.
        self._streams: dict[str, asyncio.Semaphore] = {}
        rates = [rate for name, rate in (self.options.rate_limits or {}).items() if name.startswith("events")]
        #: Maximum number of events in one request without a token.
        self._most_events = min((rate.amount for rate in rates), default=None)

    async def answer(
        self, request: ServiceRequest, operation: Operation, path: Mapping[str, str]
    ) -> Response:
        """Answer one request.

        Parameters
        ----------
        request : ServiceRequest
            Its body has not been read. Its ``rate_headers`` are set here.
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
            If a check or the operation fails; see :func:`attrib_ds.service.http.errors.to_http_error`.
        """
        access = self._authenticate(request, operation)
        _check_scope(access, REQUIRED_SCOPES[operation.name])
        if "projectId" in path:
            self._check_grant(access, path["projectId"])
        request.rate_headers = self.buckets.take(_claims(request, operation, access, path))
        with self.budget.request(has_token=access is not None) as memory:
            arguments = await self._read_arguments(request, operation, path, memory=memory)
            self._check_arguments(operation, access, arguments)
            claims = self._claims_of_arguments(request, operation, access, arguments)
            request.rate_headers = self.buckets.take(claims) or request.rate_headers
            if operation.name in _ONE_EVENT:
                response = await self._create_event(request, operation, arguments, access)
                if response is not None:
                    return response
            carry_out = partial(self._carry_out, request, operation, arguments, access)
            is_read = operation.name in READS
            try:
                if is_read:
                    async with self._stream(operation, arguments, access) as stream:
                        read = self.reads.begin(request.receive)
                        response = await self.reads.run(read, carry_out, read)
                        if isinstance(response, StreamedResponse):
                            response.resources = stream.pop_all()
                    return response
                read = self.reads.begin(request.receive, is_limited=False)
                return await self.pool.run_or_reject(carry_out, read)
            finally:
                if operation.upload:
                    await self.pool.run(getattr(arguments, operation.upload).unlink, missing_ok=True)

    @asynccontextmanager
    async def _stream(
        self, operation: Operation, arguments: Any, access: Access | None
    ) -> AsyncIterator[AsyncExitStack]:
        """Wait until the account has room for a long answer; yields what ends with the answer."""
        limit = vars(arguments).get("limit")
        is_long = operation.name == "export_users" or (
            operation.name in _HEAVY_UNLIMITED and (limit is None or limit > BATCH_ROWS)
        )
        async with AsyncExitStack() as stack:
            if is_long and access is not None:
                free = self._streams.setdefault(access.client_id, asyncio.Semaphore(self.options.streams))
                try:
                    async with asyncio.timeout(self.options.seconds_to_read):
                        await stack.enter_async_context(free)
                except TimeoutError:
                    raise HttpError(429, headers={"Retry-After": "5"}) from None
            yield stack

    # -- checks

    def _authenticate(self, request: ServiceRequest, operation: Operation) -> Access | None:
        fields = request.headers.getlist("authorization")
        if not fields and not operation.token:
            return None
        scheme, _, token = fields[0].partition(" ") if len(fields) == 1 else ("", "", "")
        access = self.accounts.find_access(token.strip()) if scheme.lower() == "bearer" else None
        if access is None:
            reason = ' error="invalid_token"' if fields else ""
            raise HttpError(401, headers={"WWW-Authenticate": f"Bearer{reason}"})
        return access

    def _check_grant(self, access: Access | None, project_id: str) -> None:
        if access is not None and not self.accounts.has_grant(access, project_id):
            raise HttpError(403)

    def _check_arguments(self, operation: Operation, access: Access | None, arguments: Any) -> None:
        if operation.name in EVENT_OPERATIONS:
            batch = isinstance(arguments, CreateEvents)
            for project_id in arguments.project_ids if batch else [arguments.projectId]:
                self._check_grant(access, project_id)
            if access is None:
                _check_event_types(_events(arguments))
        if isinstance(arguments, interactions.Funnel) and not all(map(interactions.is_page, arguments.steps)):
            _check_scope(access, REQUIRED_SCOPES["event_insights"])
        # Reading an attribute that a request lacks is slow.
        if vars(arguments).get("sqlQuery") is not None:
            _check_scope(access, _SQL_SCOPE)
            if not self.options.sql:
                raise HttpError(403, "searches by SQL are disabled on this server")

    def _check_granting(
        self, request: ServiceRequest, operation: Operation, arguments: administration.CreateKey
    ) -> None:
        """Refuse to create a key if this server creates none, or with more scopes than the token has."""
        if not self.options.new_keys:
            raise HttpError(403, "this server creates no keys; create them with 'attrib-ds keys create'")
        # Again: the key of the token may have been revoked while the body arrived.
        access = self._authenticate(request, operation)
        for scope in arguments.scopes:
            _check_scope(access, scope)

    def _claims_of_arguments(
        self, request: ServiceRequest, operation: Operation, access: Access | None, arguments: Any
    ) -> list[Claim]:
        """Return what is known only from the arguments: the number of events, and whether there is a limit.

        Each event counts once. An account has a bucket of its own in each project, and may borrow from it, so
        that it can send batches of any size and no other client waits for it. Clients without a token share
        the bucket of the project; each can take out only what its address has left, which is far less.

        Raises
        ------
        HttpError
            With 413 if there are more events than a bucket ever holds.
        """
        if operation.name in _HEAVY_UNLIMITED and arguments.limit is None and access is not None:
            caller = f"{access.client_id} {arguments.projectId}"
            return [Claim("requests", caller, 0), Claim("heavy", caller)]
        if operation.name not in EVENT_OPERATIONS:
            return []
        events = _events(arguments)
        counts = Counter(event.projectId for event in events if isinstance(event, CreateEvent))
        if access is not None:
            account = access.client_id
            return [
                Claim("events", f"{account} {id}", count, may_borrow=True) for id, count in counts.items()
            ]
        if self._most_events is not None and len(events) > self._most_events:
            raise HttpError(
                413,
                f"body: has {len(events):,} events; allowed without a token: {self._most_events:,} in one "
                "request",
            )
        # The first event was counted before the body was read.
        by_address = Claim("events-by-address", limits.network_of(request.address), max(len(events) - 1, 0))
        return [by_address, *(Claim("events", id, count) for id, count in counts.items())]

    # -- arguments

    async def _read_arguments(
        self, request: ServiceRequest, operation: Operation, path: Mapping[str, str], *, memory: BodyMemory
    ) -> Any:
        _check_path(operation, path)
        query = limits.parse_query(request.scope["query_string"])
        if not operation.has_body:
            return self._with_page_size(from_wire(operation, path=path, query=query))
        if operation.upload:
            return await self._receive_file(request, operation, path, memory=memory)
        has_one_event = operation.name in EVENT_OPERATIONS and not operation.body
        most_bytes = _MOST_BYTES_OF_EVENT if has_one_event else _MOST_BYTES
        if not memory.has_token:
            most_bytes = _MOST_BYTES_WITHOUT_TOKEN
        content = await limits.read(request, most_bytes=most_bytes, memory=memory)
        limits.check_values(content, memory=memory)

        def parse() -> Any:
            body = limits.parse(content, is_array=bool(operation.body))
            return self._with_page_size(from_wire(operation, path=path, query=query, body=body))

        if has_one_event and len(content) <= _MOST_BYTES_TO_PARSE:
            return parse()
        pool = self.reads.steps if operation.name in READS else self.pool
        async with self._large_bodies if len(content) > limits.MEBIBYTE else nullcontext():
            return await pool.run_or_reject(parse)

    async def _receive_file(
        self, request: ServiceRequest, operation: Operation, path: Mapping[str, str], *, memory: BodyMemory
    ) -> Any:
        """Write an uploaded file next to its project."""
        await self.pool.run_or_reject(self.projects.get, path["projectId"])
        is_portion = operation.name == "send_hits"
        # A portion is read by its ending.
        file = self.projects.home / f".{new_uuid()}.upload{'.parquet' if is_portion else ''}"
        try:
            most_bytes = _MOST_BYTES if is_portion else None
            await limits.receive(request, file, pool=self.pool, memory=memory, most_bytes=most_bytes)
            if is_portion:
                await self.pool.run_or_reject(_check_portion, file)
            query = limits.parse_query(request.scope["query_string"])
            return from_wire(operation, path=path, query=query, body={operation.upload: str(file)})
        except BaseException:
            await self.pool.run(file.unlink, missing_ok=True)
            raise

    def _with_page_size(self, arguments: Any) -> Any:
        """Cap the number of records of a page."""
        most = self.options.max_page_size
        if most is None or "limit" not in type(arguments).model_fields:
            return arguments
        limit = most if arguments.limit is None else min(arguments.limit, most)
        return arguments.model_copy(update={"limit": limit})

    # -- operations

    async def _create_event(
        self, request: ServiceRequest, operation: Operation, event: CreateEvent, access: Access | None
    ) -> Response | None:
        """Create an event of an open project without a thread.

        The event is queued for its project, and the response is sent once it is durable. None if the request
        may have to wait for something else, such as the project's file to be opened; a thread has to carry it
        out.
        """
        service = self.projects.find_open(event.projectId)
        if service is None:
            return None
        if access is None:
            settings = service.cached_settings()
            if settings is None:
                return None
            check_sender(request.headers, settings)
        with self.pool.admission():
            try:
                future = service.start(operation, event, access.client_id if access else None)
                if future is None:
                    return None
                answer = await self._arrivals.wait(future)
            except AttribError as error:
                raise responses.with_names_of_client(error, operation, request.headers) from error
        return None if answer is None else responses.with_value(operation, event, answer)

    def _carry_out(
        self, request: ServiceRequest, operation: Operation, arguments: Any, access: Access | None, read: Read
    ) -> Response:
        account = access.client_id if access else None
        if isinstance(arguments, administration.CreateKey):
            self._check_granting(request, operation, arguments)
        if isinstance(arguments, CreateEvents):
            outcomes = self._create_events(request, operation, arguments, access)
            return responses.with_value(operation, arguments, Answer(value=outcomes))
        service = self._service(request, operation, arguments.projectId, access)
        try:
            answer = service.stream(operation, arguments, account, cancellation=read.cancellation)
            has_value = operation.answer.resource is None
            if has_value:
                answer = answer.whole()
        except AttribError as error:
            raise responses.with_names_of_client(error, operation, request.headers) from error
        if responses.wants_text(request.headers):
            answer = responses.with_text_fields(operation, answer)
        if has_value:
            return responses.with_value(operation, arguments, answer, read=read)
        accept = request.headers.get("accept", "")
        return responses.with_records(operation, answer, accept=accept, read=read)

    def _create_events(
        self, request: ServiceRequest, operation: Operation, batch: CreateEvents, access: Access | None
    ) -> list[Any]:
        """Store the events of a batch, each in its project; return an id or an error for each, in order."""
        account = access.client_id if access else None
        outcomes: dict[str, Iterator[Any]] = {}
        for project_id in batch.project_ids:
            part = batch.of_project(project_id)
            try:
                service = self._service(request, operation, project_id, access)
                results = service.send(operation, part, account).value
            except (AttribError, HttpError) as error:
                # A missing project is an error of its events; any other error fails the whole request.
                if len(part.events) == len(batch.events) and not isinstance(error, InvalidRequest):
                    raise
                results = [error for _ in part.events]
            outcomes[project_id] = iter(results)
        return [
            event.error if isinstance(event, Misfit) else next(outcomes[event.projectId])
            for event in batch.events
            if isinstance(event, CreateEvent | Misfit)
        ]

    def _service(
        self, request: ServiceRequest, operation: Operation, project_id: str, access: Access | None
    ) -> Service:
        if operation.name not in EVENT_OPERATIONS:
            return self.projects.get(project_id)
        try:
            service = self.projects.get(project_id)
        except NotFound as error:
            # Without a project there is nowhere to store the envelope.
            problem = f"/projectId: there is no project {project_id!r}"
            raise InvalidRequest(problem, field="/projectId") from error
        if access is None:
            check_sender(request.headers, service.settings())
        return service


def _check_scope(access: Access | None, scope: str) -> None:
    if access is not None and not access.allows(scope):
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        raise HttpError(403, headers={"WWW-Authenticate": challenge})


def _check_event_types(events: tuple[Any, ...]) -> None:
    """Raise 403 if there are opportunities: results of experiments rest on what the service itself logged."""
    if any(
        isinstance(event, CreateEvent) and event.eventType == interactions.OPPORTUNITY for event in events
    ):
        raise HttpError(
            403,
            f"the event type {interactions.OPPORTUNITY!r} is reserved: the service logs opportunities "
            "itself; sending "
            "them needs a token",
        )


def _claims(
    request: ServiceRequest, operation: Operation, access: Access | None, path: Mapping[str, str]
) -> list[Claim]:
    """Return what a request counts before its body is read."""
    if operation.name in EVENT_OPERATIONS:
        return [] if access else [Claim("events-by-address", limits.network_of(request.address))]
    caller = f"{access.client_id if access else ''} {path.get('projectId', '')}"
    claims = [Claim("requests", caller)]
    return [*claims, Claim("heavy", caller)] if operation.name in _HEAVY else claims


def _check_portion(file: Path) -> None:
    """Raise 413 if a Parquet file says that it has more than a portion may have."""
    rows, most_bytes = administration.MOST_HITS, administration.MOST_BYTES_OF_HITS
    # A file that cannot be read passes here and fails when it is loaded, with the reason.
    with suppress(pa.ArrowException, OSError):
        meta = pq.read_metadata(file)
        size = sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
        if meta.num_rows > rows or size > most_bytes:
            has = f"{meta.num_rows:,} rows and {size:,} bytes before compression"
            raise HttpError(413, f"body: has {has}; allowed: {rows:,} and {most_bytes:,}")


def _check_path(operation: Operation, path: Mapping[str, str]) -> None:
    """Check the path parameters alone, before the body is read."""
    try:
        if path:
            from_wire(operation, path=path)
    except InvalidRequest as error:
        violations = [entry for entry in error.details if operation.location(entry["attribute"]) == "path"]
        if violations:
            message = "; ".join(f"{entry['field']}: {entry['problem']}" for entry in violations)
            raise InvalidRequest(message, field=violations[0]["field"], details=violations) from None


def _events(arguments: Any) -> tuple[Any, ...]:
    """Return the events of a request, with invalid items of a batch."""
    return arguments.events if isinstance(arguments, CreateEvents) else (arguments,)
