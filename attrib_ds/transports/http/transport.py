"""The transport of a remote service, over HTTP."""

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from attrib_ds.attribution.paths.project_tables import Tables
from attrib_ds.contract import OPERATIONS, Answer, Operation, Request, to_wire
from attrib_ds.contract.operation import columns
from attrib_ds.errors import NotSupported, Unauthorized, Unavailable
from attrib_ds.keys import Secret
from attrib_ds.transports.http import answers
from attrib_ds.transports.http.configuration import Remote, is_here, read_addresses, read_routes
from attrib_ds.transports.http.credentials import Credentials, Tokens, protect_key, read_credentials
from attrib_ds.transports.http.paging import Search, rows_left
from attrib_ds.transports.http.record_streams import open_stream, read_all, warn_of_unknown_fields
from attrib_ds.transports.http.remote_errors import read_failure
from attrib_ds.transports.http.session import (
    AttemptFailed,
    Call,
    Clock,
    Response,
    RetryPolicy,
    Session,
    Timeouts,
)

T = TypeVar("T")
Read = Callable[[Response, Operation, Request], T]

#: A search whose limit is at most this many pages is one request.
_PAGES_OF_ONE_REQUEST: Final = 4


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
    addresses : mapping of str to str
        Base URLs of the service, from :func:`read_addresses`.
    credentials : Credentials, optional
        Key of a service account; a service may accept events without one.
    operations : mapping of str to Operation, optional
        Operations with the service's methods and paths.
    options : Options, optional
        Timeouts, retries and paging.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        credentials: Credentials | None = None,
        *,
        operations: Mapping[str, Operation] = OPERATIONS,
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        self._addresses = addresses
        self._operations = operations
        self._options = options
        self._session = Session(options.timeouts, options.retry_policy, options.clock)
        self._tokens = None
        if credentials is not None:
            url = addresses["auth"] + operations["exchange_token"].path
            self._tokens = Tokens(self._session, credentials, url, direct=is_here(url))
        #: Whether the service answers searches in Arrow; None until the first response.
        self._offers_arrow = None if answers.ARROW in options.accept else False
        self._is_closed = False

    @property
    def address(self) -> str:
        """Base URL of the service."""
        return self._addresses["v1"]

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
        answer = self._one_response(operation, request)
        if answer is None:
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
        answer = self._one_response(operation, request)
        if answer is None:
            return open_stream(self._search(operation), request, offers_arrow=self._offers_arrow)
        expected = columns(operation, request)
        warn_of_unknown_fields(operation, answer.columns.names[len(expected) :], are_kept=False)
        return replace(answer, columns=expected)

    def _one_response(self, operation: Operation, request: Any) -> Answer | None:
        """Carry out an operation in one HTTP request; None if its records are too many for that."""
        is_page = operation.answer.kind == "page"
        if is_page and (request.limit is None or request.limit > _PAGES_OF_ONE_REQUEST * self._options.page):
            return None
        answer = self._fetch(operation, request, answers.read_answer)
        # The service may have a smaller maximum page size.
        is_whole = answer.total is None or (answer.count or 0) >= rows_left(answer.total, request)
        return answer if is_whole else None

    def _search(self, operation: Operation) -> Search:
        stop, caller = threading.Event(), threading.current_thread()

        def fetch(operation: Operation, request: Any, read: Read[T], /) -> T:
            # The caller's thread can be interrupted; worker threads must poll whether to continue.
            is_wanted = None if threading.current_thread() is caller else (lambda: not stop.is_set())
            return self._fetch(operation, request, read, is_wanted=is_wanted)

        return Search(operation, fetch, self._options.page, self._options.workers, stop)

    def _fetch(
        self,
        operation: Operation,
        request: Request,
        read: Read[T],
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
        accept = "*/*" if routed.answer.kind == "file" else answers.JSON
        headers = {"Accept": accept if routed.answer.resource is None else self._options.accept}
        if wire.body is not None:
            headers["Content-Type"] = "application/octet-stream" if routed.upload else answers.JSON
        call = Call(
            method=routed.method,
            url=self._addresses[routed.base] + wire.path,
            query=wire.query,
            content=getattr(request, routed.upload) if routed.upload else wire.content(),
            headers=headers,
        )
        return self._session.retry(
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

    def _exchange_authorised(self, operation: Operation, request: Request, call: Call, read: Read[T]) -> T:
        """Send with an access token; if it is rejected, renew it and send once more."""
        if self._tokens is None:
            if operation.token:
                advice = "pass connect(…, key='key.json') or set ATTRIB_DS_KEY to its path"
                raise Unauthorized(f"{operation.name}: requires a service-account key; {advice}", field="key")
            return self._exchange(operation, request, call, None, read)
        token = self._tokens.get()
        try:
            return self._exchange(operation, request, call, token, read)
        except AttemptFailed as failure:
            if not isinstance(failure.error, Unauthorized):
                raise
        return self._exchange(operation, request, call, self._tokens.get(rejected=token), read)

    def _exchange(
        self,
        operation: Operation,
        request: Request,
        call: Call,
        token: Secret[str] | None,
        read_answer: Read[T],
    ) -> T:
        request_id = str(uuid.uuid4())

        def read(response: Response) -> T | AttemptFailed:
            if 200 <= response.status < 300:
                if operation.answer.kind == "page" and self._offers_arrow is not False:
                    self._offers_arrow = response.media == answers.ARROW
                return read_answer(response, operation, request)
            return read_failure(response, operation, url=call.url, request_id=request_id, token=token)

        identified = replace(call, headers={**call.headers, "X-Request-Id": request_id}, token=token)
        result = self._session.exchange(identified, read, direct=is_here(call.url))
        if isinstance(result, AttemptFailed):
            raise result
        return result


def open_http(remote: Remote, *, allow_insecure: bool = False, options: Options | None = None) -> Http:
    """Return the transport of a service, without connecting.

    Parameters
    ----------
    remote : Remote
        Addresses, key and routes.
    allow_insecure : bool, default False
        Whether to allow ``http://`` to other machines.
    options : Options, optional
        Timeouts, retries and paging.

    Returns
    -------
    Http
        To be closed by the caller.

    Raises
    ------
    InvalidRequest
        If an address, the key or the routes are invalid.
    """
    addresses = read_addresses(
        remote.url, url_v2=remote.url_v2, auth_url=remote.auth_url, allow_insecure=allow_insecure
    )
    credentials = None if remote.key is None else read_credentials(protect_key(remote.key))
    operations = OPERATIONS if remote.routes is None else read_routes(remote.routes)
    return Http(addresses, credentials, operations=operations, options=options)
