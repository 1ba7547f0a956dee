"""The transport over HTTP, which reads long searches in one Arrow response or in pages."""

import itertools
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import display, errors, schema
from attrib_ds.attribution.paths.project_tables import Tables
from attrib_ds.contract import OPERATIONS, Answer, Operation, Request, build, to_wire
from attrib_ds.contract.administration import LoadRecords
from attrib_ds.contract.interactions import SearchInteractions
from attrib_ds.contract.operation import columns, projected
from attrib_ds.contract.users import SearchUsers
from attrib_ds.keys import Secret
from attrib_ds.transports.http import answers, configuration, remote_errors, session, uploading
from attrib_ds.transports.http.credentials import Credentials, Tokens, protect_key, read_credentials
from attrib_ds.transports.http.paging import Pages, Paging, Search, is_by_time, rows_left
from attrib_ds.transports.http.session import AttemptFailed, Call, Response, Session, Wanted

T = TypeVar("T")
Read = Callable[[Response, Operation, Request], T]

#: A search whose limit is at most this many pages is one request.
_PAGES_OF_ONE_REQUEST: Final = 4
#: Tokens that a request is sent with.
_TOKENS: Final = 8
#: Orders that the functions promise; the specification guarantees none.
_PROMISED: Final[dict[str, dict[str, Any]]] = {
    "search_interactions": {"sort": {"startDate": -1}},
    "search_users": {"sort": "_id", "order": "ASC"},
    "list_user_events": {"sort": "eventDate", "order": "DESC"},
    "list_user_metrics": {"sort": "metricDate", "order": "DESC"},
    "list_event_types": {"sort": {"reference": 1}},
    "list_campaigns": {"sort": "name", "order": "ASC"},
    "list_outlays": {"sort": "startDate", "order": "ASC"},
}
#: Types whose values all services order alike.
_ORDERED: Final = (pa.types.is_timestamp, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
#: Columns that a sort order calls by another name.
_SORTED: Final = {"metricDate": "data.date", "amount": "amount.amount"}
#: Types of filters on users; the specification shows the second one only.
_COUNTERS: Final = b'"type":"counters"'
_FIELDS: Final = b'"type":"fields"'
_BY_TIME: Final = ["startDate", "_id"]
#: What it costs that a service lacks an operation that the specification has not.
_COSTS: Final = {
    "create_events": "events are sent one at a time",
    "search_events": "events are read with a request per user",
    "list_nodes": "traffic sources have no names and no tree",
}
#: Properties that a search returns by default, by name: the default set of another service may lack some.
_DEFAULT: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in projected(None)))
#: Fields that a warning names, and characters of each.
_MOST_NAMES: Final = 10
_LONGEST_NAME: Final = 40


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
    timeouts: session.Timeouts = field(default_factory=session.Timeouts)
    retry_policy: session.RetryPolicy = field(default_factory=session.RetryPolicy)
    clock: session.Clock = field(default_factory=session.Clock)
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
            self._tokens = Tokens(self._session, credentials, url, direct=configuration.is_here(url))
        #: Whether the service answers searches in Arrow; None until the first response.
        self._offers_arrow = None if answers.ARROW in options.accept else False
        self._is_closed = False
        #: Records per page of operations whose pages had to be smaller.
        self._page_sizes: dict[str, int] = {}
        #: Additions to the specification that the service lacks, with the status that says so.
        self._lacking: dict[str, int] = {}
        self._is_admitted = self._has_settings = False
        #: In what requests differ for this service, see :func:`_concession`.
        self._concessions: set[str] = set()
        #: Unknown fields of streams, of which a connection warns once.
        self._warned: set[str] = set()
        #: The last token that the service has accepted.
        self._accepted: Secret[str] | None = None
        self.address = addresses["v1"]
        #: Only the service has it.
        self.timezone: str | None = None

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
        if isinstance(request, LoadRecords) and request.resource == "hits":
            return uploading.load_hits(self, request)
        request = _in_promised_order(operation, request)
        answer = self._one_response(operation, request)
        if answer is None:
            return read_all(self._search(operation), request, offers_arrow=self._offers_arrow)
        if operation.answer.resource is not None:
            warn_of_unknown_fields(operation, answer.columns.names[len(columns(operation, request)) :])
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
        request = _in_promised_order(operation, request)
        answer = self._one_response(operation, request)
        if answer is None:
            return open_stream(self._search(operation), request, offers_arrow=self._offers_arrow)
        expected = columns(operation, request)
        warn_of_unknown_fields(operation, answer.columns.names[len(expected) :], self._warned)
        return replace(answer, columns=expected)

    def _one_response(self, operation: Operation, request: Any) -> Answer | None:
        """Carry out an operation in one HTTP request; None if its records are too many for that."""
        is_page = operation.answer.kind == "page"
        if is_page and (request.limit is None or request.limit > _PAGES_OF_ONE_REQUEST * self._options.page):
            return None
        try:
            answer = self._fetch(operation, request, answers.read_answer)
        except errors.AttribError as error:
            smaller = remote_errors.noted(error, remote_errors.PAGE_TOO_LARGE)
            if not is_page or smaller is None:
                raise
            self._page_sizes[operation.name] = smaller
            return None
        if not is_page:
            return answer
        # The service may have a smaller maximum page size.
        left = request.limit if answer.total is None else rows_left(answer.total, request)
        if answer.count and answer.count < left:
            return None
        if self._offers_arrow:
            return answer
        is_whole = not request.offset and answer.count == answer.total
        table = _sorted(answer.read(), operation, request, is_whole=is_whole)
        return replace(answer, tables=(table,))

    def _search(self, operation: Operation) -> Search:
        stop, caller = threading.Event(), threading.current_thread()

        def fetch(operation: Operation, request: Any, read: Read[T], /) -> T:
            # The caller's thread can be interrupted; worker threads must poll whether to continue.
            is_wanted = None if threading.current_thread() is caller else (lambda: not stop.is_set())
            return self._fetch(operation, request, read, is_wanted)

        self._page_sizes.setdefault(operation.name, self._options.page)
        return Search(operation, fetch, self._page_sizes, self._options.workers, stop, warned=self._warned)

    def _fetch(self, operation: Operation, request: Request, read: Read[T], is_wanted: Wanted = None) -> T:
        """Send one HTTP request for an operation, retrying if that is safe."""
        if operation.base in ("embedded", "auth"):
            advice = "not available for a remote project; connect(…, path=…) opens an embedded one"
            raise errors.NotSupported(f"{operation.name}: {advice}")
        if self._is_closed:
            raise errors.Unavailable("the project is closed; connect() opens it again")
        if operation.name in self._lacking:
            raise self._lack(operation, self._lacking[operation.name])
        request = self._as_taken(request)
        routed = self._operations[operation.name]
        wire = to_wire(routed, request)
        accept = "*/*" if routed.answer.kind == "file" else answers.JSON
        headers = {"Accept": accept if routed.answer.resource is None else self._options.accept}
        if wire.body is not None:
            headers["Content-Type"] = "application/octet-stream" if routed.upload else answers.JSON
        content = getattr(request, routed.upload) if routed.upload else wire.content()
        if "counters" in self._concessions and isinstance(content, bytes):
            content = content.replace(_COUNTERS, _FIELDS)
        url = self._addresses[routed.base] + wire.path
        call = Call(method=routed.method, url=url, query=wire.query, content=content, headers=headers)
        may_be_stored, is_event = False, hasattr(request, "nonce")

        def attempt() -> T:
            nonlocal may_be_stored
            try:
                return self._exchange_authorised(routed, request, call, read)
            except AttemptFailed as failure:
                if may_be_stored and isinstance(failure.error, errors.Conflict) and is_event:
                    # This very call has sent the event before.
                    ids = [entry["eventId"] for entry in failure.error.details if "eventId" in entry]
                    return Answer(value=next(iter(ids), None))  # type: ignore[return-value]
                may_be_stored |= failure.reached_service
                raise

        try:
            result = self._session.retry(attempt, is_safe=operation.idempotent, is_wanted=is_wanted)
        except errors.AttribError as caught:
            error = caught
        else:
            if operation.extension and routed is operation and self._is_dubious(result, request):
                raise self._lack(operation, 200)
            return result
        # Raised outside the handler, so that no error has another one as its context.
        concession = _concession(request, call, error)
        if concession is not None and concession not in self._concessions:
            self._concessions.add(concession)
            with suppress(errors.InvalidRequest):
                return self._fetch(operation, request, read, is_wanted)
            self._concessions.discard(concession)
        if isinstance(error, errors.Conflict) and is_event and not error.details:
            error.message += "; the service may have stored an event with this nonce before"
        status = self._status_of_lack(request, error)
        raise error if status is None else self._lack(operation, status)

    def _as_taken(self, request: Any) -> Any:
        """Name the properties to return, with the id, which not all services take for a key of users."""
        if isinstance(request, SearchInteractions):
            projection = tuple(dict.fromkeys(("_id", *(request.projection or _DEFAULT))))
            changes: dict[str, Any] = {"projection": projection}
            if "order" in self._concessions and list(request.sort or ()) == _BY_TIME:
                changes["sort"] = {_BY_TIME[0]: (request.sort or {})[_BY_TIME[0]]}
            return request.model_copy(update=changes)
        if isinstance(request, SearchUsers) and "id" in self._concessions and "_id" not in request.fields:
            return request.model_copy(update={"fields": ("_id", *request.fields)})
        return request

    def _status_of_lack(self, request: Request, error: errors.AttribError) -> int | None:
        """Return the status that says that the service lacks an addition to the specification, if it does."""
        status = remote_errors.noted(error, remote_errors.LACKS)
        is_doubtful = status not in remote_errors.LACKING or (status in (401, 403) and not self._is_admitted)
        if status is not None and is_doubtful and self._tokens is not None:
            # The token and the service are good if they are good for what the specification has.
            try:
                self._probe("list_event_types", request, limit=1)
            except errors.AttribError:
                return None
        return status

    def _probe(self, name: str, request: Any, **arguments: Any) -> None:
        """Try another operation in the project of a request."""
        project_id = getattr(request, "projectId", None) or request.project_ids[0]
        probed = OPERATIONS[name]
        self._fetch(probed, build(probed, project_id=project_id, **arguments), answers.read_answer)

    def _is_dubious(self, result: object, request: Any) -> bool:
        """Return whether a result is empty and from a service that answers any path: it has no settings."""
        if isinstance(result, Answer) and result.count == 0 and not (result.total or self._has_settings):
            try:
                self._probe("get_settings", request)
            except errors.NotSupported:
                return True
            except errors.AttribError:
                return False
            self._has_settings = True
        return False

    def _lack(self, operation: Operation, status: int) -> errors.NotSupported:
        """Remember that the service lacks an operation, and warn once of what it costs."""
        if operation.name not in self._lacking and operation.name in _COSTS:
            errors.warn(f"{self.address} has no {operation.name}: {_COSTS[operation.name]}")
        self._lacking[operation.name] = status
        advice = "; list_user_events reads the events of a user" if operation.name == "search_events" else ""
        lack = f"{operation.name}: {self.address} does not offer it (HTTP {status})"
        return errors.NotSupported(f"{lack}; services of attrib-ds add it to the specification{advice}")

    def tables(self) -> Tables:
        """Raise NotSupported: attribution needs local tables."""
        raise errors.NotSupported("the tables are on the remote service; sync(project, to=…) mirrors them")

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._is_closed = True
        self._session.close()

    def __repr__(self) -> str:
        return f"<Http {self.address}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be pickled; call connect() in the process that needs it")

    def _exchange_authorised(self, operation: Operation, request: Request, call: Call, read: Read[T]) -> T:
        """Send with an access token; if it is rejected, renew it and send once more."""
        if self._tokens is None:
            if operation.token:
                raise errors.Unauthorized(f"{operation.name}: {remote_errors.NO_KEY}", field="key")
            return self._exchange(operation, request, call, read)
        token, number = None, 0
        while True:
            token, number = self._tokens.get(rejected=token), number + 1
            try:
                return self._exchange(operation, request, replace(call, token=token), read)
            except AttemptFailed as failure:
                # A new token that other threads have used up is renewed once more.
                is_used_up = number == 1 or (self._accepted is token and number <= _TOKENS)
                if not isinstance(failure.error, errors.Unauthorized) or not is_used_up:
                    raise

    def _exchange(self, operation: Operation, request: Request, call: Call, read_answer: Read[T]) -> T:
        identified = replace(call, headers={**call.headers, "X-Request-Id": str(uuid.uuid4())})

        def read(response: Response) -> T | AttemptFailed:
            if 200 <= response.status < 300:
                self._is_admitted |= call.token is not None and not operation.extension
                self._accepted = call.token
                if operation.answer.kind == "page" and self._offers_arrow is not False:
                    self._offers_arrow = response.media == answers.ARROW
                return read_answer(response, operation, request)
            return remote_errors.read_failure(response, operation, request, identified)

        result = self._session.exchange(identified, read, direct=configuration.is_here(call.url))
        if isinstance(result, AttemptFailed):
            raise result
        return result


def _concession(request: Any, call: Call, error: errors.AttribError) -> str | None:
    """Return in what a request may differ for a service that refuses it: an order, filters or the id."""
    if isinstance(request, SearchUsers) and "without _id" in error.message:
        return "id"
    if not isinstance(error, errors.InvalidRequest) or error.details:
        return None
    if isinstance(request, SearchInteractions) and list(request.sort or ()) == _BY_TIME:
        return "order"
    return "counters" if isinstance(call.content, bytes) and _COUNTERS in call.content else None


def _in_promised_order(operation: Operation, request: Any) -> Any:
    promised = _PROMISED.get(operation.name)
    return request if promised is None or request.sort is not None else request.model_copy(update=promised)


def open_http(
    remote: configuration.Remote,
    *,
    allow_insecure: bool = False,
    page_size: int | None = None,
    options: Options | None = None,
) -> Http:
    """Return the transport of a service, without connecting.

    Parameters
    ----------
    remote : Remote
        Addresses, key and routes.
    allow_insecure : bool, default False
        Whether to allow ``http://`` to other machines.
    page_size : int, optional
        Records of a page, instead of those of the options.
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
    addresses = configuration.read_addresses(
        remote.url, url_v2=remote.url_v2, auth_url=remote.auth_url, allow_insecure=allow_insecure
    )
    credentials = None if remote.key is None else read_credentials(protect_key(remote.key))
    if page_size is not None:
        options = replace(options or Options(), page=page_size)
    operations = OPERATIONS if remote.routes is None else configuration.read_routes(remote.routes)
    return Http(addresses, credentials, operations=operations, options=options)


def read_all(search: Search, request: Any, *, offers_arrow: bool | None) -> Answer:
    """Read all records of a search into memory.

    Parameters
    ----------
    search : Search
        The search.
    request : Request
        Its offset and limit apply.
    offers_arrow : bool, optional
        Whether the service answers in Arrow; None if unknown.

    Returns
    -------
    Answer
        The same as from a single response; fields missing in the schema are the last columns.
    """
    paged = request
    is_sorted_locally = search.operation.name == "search_interactions" and not is_by_time(request.sort)
    if is_sorted_locally:
        # Paging by time needs no offsets. The projection may lack the columns to sort by.
        projection = request.projection and tuple(dict.fromkeys([*request.projection, *request.sort]))
        changes = {"sort": None, "projection": projection, "offset": 0, "limit": None}
        paged = request.model_copy(update=changes)
    with _opened(search, request, paged, is_whole=True, offers_arrow=offers_arrow) as pages:
        tables, are_pages = list(pages), not isinstance(pages, Answer)
    empty = [] if tables else [columns(search.operation, request).empty_table()]
    table = pa.concat_tables([*tables, *empty], promote_options="default").combine_chunks()
    # Each page was read alone.
    table = answers.without_repeats(table, search.operation, request.projectId)
    if is_sorted_locally and are_pages:
        table = table.take(_sort_indices(table, request.sort)).slice(request.offset, request.limit)
    if not offers_arrow:
        is_whole = not request.offset and (request.limit is None or table.num_rows < request.limit)
        table = _sorted(table, search.operation, request, is_whole=is_whole)
    unknown = sorted(set(table.column_names) - set(_expected_names(search.operation, request)))
    warn_of_unknown_fields(search.operation, unknown)
    names = [*columns(search.operation, request).names, *unknown]
    total = search.total
    if (table.num_rows or not request.offset) and (total is not None or request.limit is None):
        # Some services state no total, or one that is smaller than what they return.
        total = max(total or 0, request.offset + table.num_rows)
    return Answer.of(table.select(names), total=total, offset=request.offset, limit=request.limit)


def open_stream(search: Search, request: Any, *, offers_arrow: bool | None) -> Answer:
    """Read all records of a search as a stream.

    Parameters
    ----------
    search, request, offers_arrow
        As for :func:`read_all`.

    Returns
    -------
    Answer
        To be closed by the caller. The first page is already loaded, so that errors of the request raise
        here; further pages are prefetched. Fields missing in the schema are left out.
    """
    expected = columns(search.operation, request)
    tables = _tables(search, request, expected, offers_arrow=offers_arrow)
    first = next(tables, expected.empty_table())

    def close() -> None:
        search.stop.set()
        tables.close()

    whole, total = itertools.chain([first], tables), search.total
    left = None if total is None else rows_left(total, request)
    return Answer(expected, whole, left, total, request.offset, request.limit, close=close)


def warn_of_unknown_fields(
    operation: Operation, unknown: Iterable[str], warned: set[str] | None = None
) -> None:
    """Warn of fields that are missing in the schema: of each once where streams leave them out."""
    new = [name for name in unknown if f"{operation.name} {name}" not in (warned or ())]
    if warned is not None:
        warned.update(f"{operation.name} {name}" for name in new)
    if new:
        names = ", ".join(display.printable(name)[:_LONGEST_NAME] for name in new[:_MOST_NAMES])
        more = ", …" if len(new) > _MOST_NAMES else ""
        effect = "they are the last columns, as JSON text" if warned is None else "they are left out"
        problem = f"the response has fields that this version does not support: {names}{more}; {effect}"
        warnings.warn(f"{operation.name}: {problem}", errors.UnknownFields, stacklevel=2)


@contextmanager
def _opened(
    search: Search, request: Any, paged: Any, *, is_whole: bool, offers_arrow: bool | None
) -> Iterator[Pages | Answer]:
    """Show the progress of a request, and close at the end what it reads: one Arrow answer, or its pages."""

    def expected() -> int | None:
        return None if search.total is None else rows_left(search.total, request)

    paging = Paging.of(search.operation, paged)
    with display.progress("records", expected, name=search.operation.name) as advance:
        whole = _read_at_once(search, request, paging, advance, offers_arrow=offers_arrow)
        pages = paging.pages(search, paged, is_whole=is_whole, advance=advance) if whole is None else whole
        with closing(pages):
            yield pages


def _read_at_once(
    search: Search, request: Any, paging: Paging, advance: Callable[[int], None], *, offers_arrow: bool | None
) -> Answer | None:
    """Return all records of a request as one Arrow answer; None if they have to be read in pages.

    An Arrow response is one snapshot and several times as fast as pages. It is spooled to disk completely
    before use, so that it can be requested again. If it is unknown whether the service offers Arrow, the
    first page decides: it is used, unless it is in Arrow and more records follow.
    """
    if offers_arrow is False:
        return None
    if offers_arrow is None:
        search.first = search.fetch_page(paging.ordered, answers.read_first_page)
        if search.first is not None:
            return None

    def count(rows: int, total: int | None) -> None:
        search.total = total
        advance(rows)

    read = partial(answers.spool_answer, advance=count)
    answer: Answer | None = search.fetch(search.operation, request, read)
    if answer is not None:
        search.total = answer.total
    return answer


def _tables(search: Search, request: Any, expected: pa.Schema, *, offers_arrow: bool | None) -> Pages:
    names = set(_expected_names(search.operation, request))
    with _opened(search, request, request, is_whole=False, offers_arrow=offers_arrow) as pages:
        for table in pages:
            # All tables of a stream have the same columns, so unknown ones are left out.
            unknown = sorted(set(table.column_names) - names)
            warn_of_unknown_fields(search.operation, unknown, search.warned)
            table = answers.without_repeats(table, search.operation, request.projectId)
            yield table.select(expected.names)


def _sorted(table: pa.Table, operation: Operation, request: Any, *, is_whole: bool) -> pa.Table:
    """Return records in the requested order by the first key, if it is a number, an instant or the id.

    Services have orders of their own for text, so a part of the records by id stays as it is.
    """
    sort = getattr(request, "sort", None) or {}
    if isinstance(sort, str):
        sort = {sort: -1 if getattr(request, "order", None) == "DESC" else 1}
    name, direction = next(iter(sort.items()), ("", 1))
    name = _SORTED.get(name, name)
    kind = table[name].type if name in table.column_names else pa.null()
    if name != "_id" and not any(is_kind(kind) for is_kind in _ORDERED):
        return table
    values = table[name].combine_chunks().drop_null()
    if pa.types.is_timestamp(values.type):
        # Services may order by milliseconds.
        values = pc.floor_temporal(values, unit="millisecond")
    follows = (pc.greater_equal if direction == 1 else pc.less_equal)(values[1:], values[:-1])
    if pc.all(follows).as_py() is not False:
        return table
    if is_whole:
        return table.take(_sort_indices(table, {name: direction}))
    if name == "_id":
        return table
    raise errors.ServiceFailure(f"{operation.name}: the service ignores the requested order")


def _sort_indices(table: pa.Table, sort: Mapping[str, int]) -> pa.Array:
    """Return the row numbers in the service's order: nulls last, ties by id."""
    keys = [(name, "ascending" if direction == 1 else "descending") for name, direction in sort.items()]
    keys += [] if "_id" in sort else [("_id", "ascending")]
    return pc.sort_indices(table, sort_keys=keys)  # nulls are last by default


def _expected_names(operation: Operation, request: Any) -> list[str]:
    """Return the names of all columns that an answer may have according to the schema."""
    return [*columns(operation, request).names, *schema.RESOURCES[str(operation.answer.resource)].names]
