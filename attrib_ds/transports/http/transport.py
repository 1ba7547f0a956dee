"""The transport of a remote service, over HTTP."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from attrib_ds.contract import OPERATIONS, to_wire
from attrib_ds.contract.administration import JWT_BEARER
from attrib_ds.contract.build import columns
from attrib_ds.contract.scopes import FULL_ACCESS
from attrib_ds.errors import NotSupported, Unauthorized, Unavailable
from attrib_ds.transports.http import answers
from attrib_ds.transports.http.addresses import is_here
from attrib_ds.transports.http.assertions import make_assertion
from attrib_ds.transports.http.clock import Clock, ServiceTime
from attrib_ds.transports.http.pace import Pace
from attrib_ds.transports.http.paging.search import Search
from attrib_ds.transports.http.record_streams import (
    has_pages,
    is_incomplete,
    open_stream,
    read_all,
    warn_of_unknown_fields,
)
from attrib_ds.transports.http.remote_errors import read_failure
from attrib_ds.transports.http.retrying import AttemptFailed, Retrying, RetryPolicy
from attrib_ds.transports.http.session import Call, Session, Timeouts
from attrib_ds.transports.http.tokens import Grant, Tokens, is_clock_error, is_scope_error, read_grant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from attrib_ds.attribution.paths.project_tables import Tables
    from attrib_ds.contract import Answer, Operation, Request
    from attrib_ds.keys.secret import Secret
    from attrib_ds.transports.http.addresses import Addresses
    from attrib_ds.transports.http.credentials import Credentials
    from attrib_ds.transports.http.session import Response

T = TypeVar("T")

_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a transport; the defaults suit interactive use.

    Parameters
    ----------
    accept : str
        ``Accept`` header for records: Arrow or JSON by default.
    timeouts : Timeouts
        Connect and read timeouts.
    retry_policy : RetryPolicy
        Number and duration of attempts.
    clock : Clock
        Source of time.
    page : int, default 10,000
        Records of a page.
    workers : int, default 4
        Number of pages of one search read concurrently.
    """

    accept: str = answers.EITHER
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Clock = field(default_factory=Clock)
    page: int = 10_000
    workers: int = 4


class Http:
    """Send requests to a remote service.

    Thread-safe: all threads share its connections, its access token and its rate limiting.

    Parameters
    ----------
    addresses : Addresses
        Base URLs of the service.
    credentials : Credentials, optional
        Key of a service account; a service may accept events without one.
    operations : mapping of str to Operation, optional
        Operations with the service's methods and paths.
    options : Options, optional
        Timeouts, retries and paging.
    """

    def __init__(
        self,
        addresses: Addresses,
        credentials: Credentials | None = None,
        *,
        operations: Mapping[str, Operation] = OPERATIONS,
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        self._addresses = addresses
        self._credentials = credentials
        self._operations = operations
        self._accept = options.accept
        self._page = options.page
        self._workers = options.workers
        self._time = ServiceTime(options.clock)
        self._session = Session(options.timeouts)
        self._retrying = Retrying(
            clock=options.clock, pace=Pace(options.clock), retry_policy=options.retry_policy
        )
        self._tokens = Tokens(self._request_token, options.clock)
        #: Whether the service answers searches in Arrow; None until the first response.
        #: Requested for every token, until the service says that the key has fewer.
        self._scope: str | None = FULL_ACCESS
        self._offers_arrow = None if answers.ARROW in options.accept else False
        self._is_closed = False

    @property
    def address(self) -> str:
        """Base URL of the service."""
        return self._addresses.v1

    @property
    def timezone(self) -> str | None:
        """None: only the service's settings have it."""
        return None

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation and read the whole answer, retrying if that is safe.

        Parameters
        ----------
        operation : Operation
            From ``OPERATIONS``.
        request : Request
            Request of the operation.

        Returns
        -------
        Answer
            The same as from an embedded project.

        Raises
        ------
        NotSupported
            If only an embedded project supports the operation.
        Unauthorized
            If there is no key, or the service rejects it.
        TooManyRequests, Unavailable
            If the service could not be reached in time; ``retry_after`` is the wait in seconds, if known.
        AttribError
            If the service rejects the request; the class is that of an embedded project.
        """
        if has_pages(operation, request, page_size=self._page):
            return read_all(self._search(operation), request, offers_arrow=self._offers_arrow)
        answer = self._fetch(operation, request, answers.read_answer)
        if is_incomplete(answer):
            # The service has a smaller maximum page size.
            return read_all(self._search(operation), request, offers_arrow=self._offers_arrow)
        if operation.answer.resource is not None:
            warn_of_unknown_fields(
                operation, answer.columns.names[len(columns(operation, request)) :], are_kept=True
            )
        return answer

    def stream(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation and stream its records.

        Parameters
        ----------
        operation, request
            As for :meth:`send`, which raises the same errors.

        Returns
        -------
        Answer
            To be closed by the caller; until then a few pages are prefetched concurrently.
        """
        if has_pages(operation, request, page_size=self._page):
            return open_stream(self._search(operation), request, offers_arrow=self._offers_arrow)
        answer = self._fetch(operation, request, answers.read_answer)
        if is_incomplete(answer):
            return open_stream(self._search(operation), request, offers_arrow=self._offers_arrow)
        expected = columns(operation, request)
        warn_of_unknown_fields(operation, answer.columns.names[len(expected) :], are_kept=False)
        return replace(answer, columns=expected)

    def _search(self, operation: Operation) -> Search:
        stop, caller = threading.Event(), threading.current_thread()

        def fetch(
            operation: Operation, request: Any, read: Callable[[Response, Operation, Request], T], /
        ) -> T:
            # The caller's thread can be interrupted; worker threads must poll whether to continue.
            is_caller = threading.current_thread() is caller
            is_wanted = None if is_caller else (lambda: not stop.is_set())
            return self._fetch(operation, request, read, is_wanted=is_wanted)

        return Search(operation, fetch, self._page, self._workers, stop)

    def _fetch(
        self,
        operation: Operation,
        request: Request,
        read: Callable[[Response, Operation, Request], T],
        *,
        is_wanted: Callable[[], bool] | None = None,
    ) -> T:
        """Send one HTTP request for an operation, retrying if that is safe."""
        if operation.base in ("embedded", "auth"):
            raise NotSupported(
                f"{operation.name}: not available for a remote project; connect(…, path=…) opens an "
                "embedded project, which supports it"
            )
        if self._is_closed:
            raise Unavailable("the project is closed; connect() opens it again")
        routed = self._operations[operation.name]
        wire = to_wire(routed, request)
        call = Call(
            method=routed.method,
            url=self._addresses.of(routed, wire.path),
            query=wire.query,
            content=getattr(request, routed.upload) if routed.upload else wire.content(),
            headers=self._headers(routed, has_body=wire.body is not None),
        )
        return self._retrying.run(
            partial(self._exchange_authorised, routed, request, call, read),
            is_safe=operation.idempotent,
            is_wanted=is_wanted,
        )

    def tables(self) -> Tables:
        """Raise NotSupported: attribution needs local tables."""
        raise NotSupported(
            "attribution needs the project's tables, which are on the remote service; mirror the project "
            "with sync(project, to=…) and use the embedded project that it returns"
        )

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._is_closed = True
        self._session.close()

    def __repr__(self) -> str:
        return f"<Http {self.address}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a connection cannot be pickled; call connect() in the process that needs the project"
        )

    def _headers(self, operation: Operation, *, has_body: bool) -> dict[str, str]:
        has_records = operation.answer.resource is not None
        accept = "*/*" if operation.answer.kind == "file" else answers.JSON
        headers = {"Accept": self._accept if has_records else accept}
        media = "application/octet-stream" if operation.upload else answers.JSON
        return headers | ({"Content-Type": media} if has_body else {})

    def _exchange_authorised(
        self,
        operation: Operation,
        request: Request,
        call: Call,
        read: Callable[[Response, Operation, Request], T],
    ) -> T:
        """Send with an access token; if it is rejected, renew it and send once more."""
        token = self._token(operation)
        try:
            return self._exchange(operation, request, call, token, read)
        except AttemptFailed as failure:
            if not isinstance(failure.error, Unauthorized) or token is None:
                raise
        return self._exchange(operation, request, call, self._tokens.renewed(token), read)

    def _token(self, operation: Operation) -> Secret[str] | None:
        if self._credentials is not None:
            return self._tokens.current()
        if operation.token:
            raise Unauthorized(
                f"{operation.name}: requires a service-account key; pass connect(…, key='key.json') or "
                "set ATTRIB_DS_KEY to its path",
                field="key",
            )
        return None

    def _exchange(
        self,
        operation: Operation,
        request: Request,
        call: Call,
        token: Secret[str] | None,
        read_answer: Callable[[Response, Operation, Request], T],
    ) -> T:
        request_id = str(uuid.uuid4())

        def read(response: Response) -> T | AttemptFailed:
            self._time.note(response.headers.get("Date"))
            if 200 <= response.status < 300:
                if operation.answer.kind == "page" and self._offers_arrow is not False:
                    self._offers_arrow = response.media == answers.ARROW
                return read_answer(response, operation, request)
            return read_failure(
                response,
                operation,
                url=call.url,
                request_id=request_id,
                now=self._time.now(),
                secrets=[] if token is None else [token],
            )

        identified = replace(call, headers={**call.headers, "X-Request-Id": request_id}, token=token)
        result = self._session.exchange(identified, read, direct=is_here(call.url))
        if isinstance(result, AttemptFailed):
            raise result
        return result

    def _request_token(self) -> Grant:
        """Request an access token; retry once if the response shows that the local clock is wrong."""
        operation = self._operations["exchange_token"]
        url = self._addresses.of(operation, operation.path)

        def attempt() -> Grant:
            result, has_clock_changed = self._exchange_assertion(url)
            if self._scope is not None and is_scope_error(result):
                # A key with fewer scopes is used with those that it has.
                self._scope = None
                result, has_clock_changed = self._exchange_assertion(url)
            if has_clock_changed and is_clock_error(result):
                result, _ = self._exchange_assertion(url)
            if isinstance(result, AttemptFailed):
                raise result
            return result

        return self._retrying.run(attempt, is_safe=True)

    def _exchange_assertion(self, url: str) -> tuple[Grant | AttemptFailed, bool]:
        assert self._credentials is not None  # noqa: S101  (_token checks it first)
        assertion = make_assertion(self._credentials, audience=url, now=self._time.now(), scope=self._scope)
        call = Call(
            method="POST",
            url=url,
            headers={"Accept": answers.JSON, "Content-Type": _FORM},
            form={
                "grant_type": JWT_BEARER,
                "client_id": self._credentials.client_id,
                "assertion": assertion,
            },
        )

        def read(response: Response) -> tuple[Grant | AttemptFailed, bool]:
            has_clock_changed = self._time.note(response.headers.get("Date"))
            return read_grant(response, assertion=assertion, now=self._time.now()), has_clock_changed

        return self._session.exchange(call, read, direct=is_here(url))
