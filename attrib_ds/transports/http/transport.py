"""The transport of a remote service, over HTTP."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from attrib_ds.contract import OPERATIONS, to_wire
from attrib_ds.contract.accounts import JWT_BEARER
from attrib_ds.contract.columns import columns
from attrib_ds.errors import NotSupported, Unauthorized, Unavailable
from attrib_ds.transports.http import answers
from attrib_ds.transports.http.addresses import is_here
from attrib_ds.transports.http.assertions import make_assertion
from attrib_ds.transports.http.clock import Clock, ServiceTime
from attrib_ds.transports.http.pace import Pace
from attrib_ds.transports.http.paging.search import Search
from attrib_ds.transports.http.reading import announce, has_pages, open_stream, read_all
from attrib_ds.transports.http.refusals import failed
from attrib_ds.transports.http.retrying import Failed, Patience, Retrying
from attrib_ds.transports.http.session import Call, Session, Timeouts
from attrib_ds.transports.http.tokens import Grant, Tokens, is_about_time, read_grant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from attrib_ds.attribution.paths.tables import Tables
    from attrib_ds.contract import Answer, Operation, Request
    from attrib_ds.transports.http.addresses import Addresses
    from attrib_ds.transports.http.credentials import Credentials
    from attrib_ds.transports.http.secret import Secret
    from attrib_ds.transports.http.session import Response

T = TypeVar("T")

_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a transport requests; the defaults suit interactive use, others tests and mirrors.

    Parameters
    ----------
    accept : str
        Media types of records that are accepted: Arrow or JSON by default.
    timeouts : Timeouts
        How long the service may be silent.
    patience : Patience
        How long a request is tried.
    clock : Clock
        Where time comes from.
    page : int, default 10,000
        Records of a page.
    workers : int, default 4
        Number of pages of one search read concurrently.
    """

    accept: str = answers.EITHER
    timeouts: Timeouts = field(default_factory=Timeouts)
    patience: Patience = field(default_factory=Patience)
    clock: Clock = field(default_factory=Clock)
    page: int = 10_000
    workers: int = 4


class Http:
    """Send requests to a remote service.

    Any number of threads may share it: they share its connections, its token, and its pace.

    Parameters
    ----------
    addresses : Addresses
        Of the service.
    credentials : Credentials, optional
        Of a service account; sending events alone may need none.
    operations : mapping of str to Operation, optional
        With the methods and paths of the service.
    options : Options, optional
        How it requests.
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
        self._retrying = Retrying(clock=options.clock, pace=Pace(options.clock), patience=options.patience)
        self._tokens = Tokens(self._ask_token, options.clock)
        #: Whether the service answers searches in Arrow; None as long as that is not known.
        self._offers_arrow = None if answers.ARROW in options.accept else False
        self._is_closed = False

    @property
    def address(self) -> str:
        """The service's address."""
        return self._addresses.v1

    @property
    def timezone(self) -> str | None:
        """None: only the service's settings have it."""
        return None

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation and read its answer to the end, retrying where that is safe.

        Parameters
        ----------
        operation : Operation
            From ``OPERATIONS``.
        request : Request
            Of the operation.

        Returns
        -------
        Answer
            As an embedded project gives it.

        Raises
        ------
        NotSupported
            If only an embedded project can do it.
        Unauthorized
            If there is no key, or the service does not accept it.
        TooManyRequests, Unavailable
            If the service could not be reached in time; ``retry_after`` tells when it may.
        AttribError
            Whatever else the service refuses, as an embedded project does.
        """
        if has_pages(operation, request, page_size=self._page):
            return read_all(self._search(operation), request, offers_arrow=self._offers_arrow)
        answer = self._fetch(operation, request, answers.read_answer)
        if operation.answer.resource is not None:
            announce(operation, answer.columns.names[len(columns(operation, request)) :], are_kept=True)
        return answer

    def stream(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation whose records are read while they are consumed.

        Parameters
        ----------
        operation, request
            As for :meth:`send`, which raises the same errors.

        Returns
        -------
        Answer
            To be closed; pages are read ahead, a few of them concurrently, until then.
        """
        if has_pages(operation, request, page_size=self._page):
            return open_stream(self._search(operation), request, offers_arrow=self._offers_arrow)
        answer = self._fetch(operation, request, answers.read_answer)
        expected = columns(operation, request)
        announce(operation, answer.columns.names[len(expected) :], are_kept=False)
        return replace(answer, columns=expected)

    def _search(self, operation: Operation) -> Search:
        stop, caller = threading.Event(), threading.current_thread()

        def fetch(
            operation: Operation, request: Any, read: Callable[[Response, Operation, Request], T], /
        ) -> T:
            # The caller's thread can be interrupted; others have to check whether they are still wanted.
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
        """Carry out one operation with one request, retrying where that is safe."""
        if operation.base in ("embedded", "auth"):
            raise NotSupported(
                f"{operation.name}: a remote project cannot do it; connect(…, path=…) opens an "
                "embedded one, which can"
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
            partial(self._authorised, routed, request, call, read),
            is_safe=operation.idempotent,
            is_wanted=is_wanted,
        )

    def tables(self) -> Tables:
        """Refuse: attribution reads whole tables, which are not here."""
        raise NotSupported(
            "attribution reads the project's tables, which are at the remote service; mirror the project "
            "with sync(project, to=…) and use the embedded project that it returns"
        )

    def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
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

    def _authorised(
        self,
        operation: Operation,
        request: Request,
        call: Call,
        read: Callable[[Response, Operation, Request], T],
    ) -> T:
        """Send with a token; where it is refused, once more with another one."""
        token = self._token(operation)
        try:
            return self._answered(operation, request, call, token, read)
        except Failed as failure:
            if not isinstance(failure.error, Unauthorized) or token is None:
                raise
        return self._answered(operation, request, call, self._tokens.renewed(token), read)

    def _token(self, operation: Operation) -> Secret[str] | None:
        if self._credentials is not None:
            return self._tokens.current()
        if operation.token:
            raise Unauthorized(
                f"{operation.name}: needs the key of a service account; give connect(…, key='key.json') or "
                "name its file in ATTRIB_DS_KEY",
                field="key",
            )
        return None

    def _answered(
        self,
        operation: Operation,
        request: Request,
        call: Call,
        token: Secret[str] | None,
        read_answer: Callable[[Response, Operation, Request], T],
    ) -> T:
        request_id = str(uuid.uuid4())

        def read(response: Response) -> T | Failed:
            self._time.note(response.headers.get("Date"))
            if 200 <= response.status < 300:
                if operation.answer.kind == "page" and self._offers_arrow is not False:
                    self._offers_arrow = response.media == answers.ARROW
                return read_answer(response, operation, request)
            return failed(
                response,
                operation,
                url=call.url,
                request_id=request_id,
                now=self._time.now(),
                secrets=[] if token is None else [token],
            )

        identified = replace(call, headers={**call.headers, "X-Request-Id": request_id}, token=token)
        result = self._session.exchange(identified, read, direct=is_here(call.url))
        if isinstance(result, Failed):
            raise result
        return result

    def _ask_token(self) -> Grant:
        """Ask for a token; a second time where the first tells that this machine's clock is wrong."""
        operation = self._operations["exchange_token"]
        url = self._addresses.of(operation, operation.path)

        def attempt() -> Grant:
            result, has_learnt = self._exchanged(url)
            if has_learnt and is_about_time(result):
                result, _ = self._exchanged(url)
            if isinstance(result, Failed):
                raise result
            return result

        return self._retrying.run(attempt, is_safe=True)

    def _exchanged(self, url: str) -> tuple[Grant | Failed, bool]:
        assert self._credentials is not None  # noqa: S101  (asked before a token is)
        assertion = make_assertion(self._credentials, audience=url, now=self._time.now())
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

        def read(response: Response) -> tuple[Grant | Failed, bool]:
            has_learnt = self._time.note(response.headers.get("Date"))
            return read_grant(response, assertion=assertion, now=self._time.now()), has_learnt

        return self._session.exchange(call, read, direct=is_here(url))
