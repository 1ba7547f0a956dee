"""Read successful responses as answers: records in Arrow or JSON, or a value such as an id or a file."""

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import errors, json_numbers, local_files, schema
from attrib_ds.contract import OPERATIONS, Answer, File, Operation, Request, json_values
from attrib_ds.contract.operation import columns
from attrib_ds.records.json_records import Unreadable, decode, read_page
from attrib_ds.transports.http import insights, remote_errors, session

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
#: Arrow if the service offers it, otherwise JSON.
EITHER: Final = f"{ARROW}, {JSON};q=0.9"
#: Maximum number of records of an answer that states no limit.
_MOST_RECORDS: Final = 2**20
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_AN_ID: Final = re.compile(r"(?=.*[0-9])[\w.~:-]{1,128}")
#: Header of our own service: the record that was to be created existed already.
_EXISTING: Final = "X-Existing"
#: Ids that a warning names.
_MOST_NAMED: Final = 5
#: Bytes within which a web page says that it is one.
_HEAD: Final = 1_024
_SHORT: Final = frozenset({"record", "id", "modified"})
#: Lists whose answers the specification does not show, so that they may have no body.
_NOT_SHOWN: Final = frozenset({"list_user_metrics"})
#: Operations that change something, whose answers the specification does not show or services change.
WRITES: Final = frozenset(
    operation.name
    for operation in OPERATIONS.values()
    if operation.answer.kind == "uuid"
    or not (operation.extension or operation.method == "GET" or operation.answer.kind not in _SHORT)
)


def read_answer(response: session.Response, operation: Operation, request: Request) -> Answer:
    """Read a successful response.

    Parameters
    ----------
    response : Response
        Its body has not been read.
    operation : Operation
        The operation.
    request : Request
        Request of the operation.

    Returns
    -------
    Answer
        The same as from an embedded project.

    Raises
    ------
    AttemptFailed
        If the body is not an answer of this operation.
    """
    with _readable(response, operation):
        if operation.name in WRITES and response.media != ARROW:
            return _written(response, operation, request)
        if operation.answer.resource is not None:
            return _records(response, operation, request)
        return Answer(value=_value(response, operation, request))


def read_first_page(response: session.Response, operation: Operation, request: Request) -> Answer | None:
    """Read the first page of a search, unless it is in Arrow and more records follow.

    In that case its rows stay unread, since all records are then requested in one Arrow response.

    Parameters
    ----------
    response, operation, request
        As for :func:`read_answer`, which raises the same errors.

    Returns
    -------
    Answer, optional
        None if more records follow in Arrow.
    """
    if response.media != ARROW:
        return read_answer(response, operation, request)
    page: Any = request
    with _readable(response, operation):
        stream = _ArrowStream(response.pieces(session.LARGE), columns(operation, request), most=page.limit)
        if stream.total is not None and stream.total - page.offset > page.limit:
            return None
        return Answer.of(stream.read(), total=stream.total, offset=page.offset, limit=page.limit)


def spool_answer(
    response: session.Response, operation: Operation, request: Request, *, advance: Callable[..., None]
) -> Answer | None:
    """Read a long Arrow response to disk, where it is complete before any of it is used.

    Parameters
    ----------
    response, operation, request
        As for :func:`read_answer`, which raises the same errors.
    advance : callable
        Called with the number of new rows and the total.

    Returns
    -------
    Answer, optional
        To be closed by the caller; its tables are on disk. None if the response is not Arrow.
    """
    if response.media != ARROW:
        return None
    page: Any = request
    expected = columns(operation, request)
    rows = 0
    with _readable(response, operation), local_files.spooling() as file:
        stream = _ArrowStream(response.pieces(None), expected, most=page.limit)
        with local_files.writing_temporarily():
            writer = pa.ipc.new_file(file, expected)
        # Tables come from the network, whose errors are an OSError too.
        for table in stream.tables():
            check_keys(table)
            with local_files.writing_temporarily():
                writer.write_table(table)
            rows += table.num_rows
            advance(table.num_rows, stream.total)
        with local_files.writing_temporarily():
            writer.close()
            file.flush()
    tables = _spooled(file, expected)
    return Answer(expected, tables, rows, stream.total, page.offset, page.limit, close=file.close)


def _spooled(file: BinaryIO, expected: pa.Schema) -> Iterator[pa.Table]:
    """Yield the tables of a file, then close it."""
    with file:
        file.seek(0)
        with pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)], expected)


@contextmanager
def _readable(response: session.Response, operation: Operation) -> Iterator[None]:
    """Raise :exc:`AttemptFailed` if the body is not a valid answer."""
    try:
        yield
        return
    except errors.ServiceFailure as failure:
        problem, is_transient = failure.message, False
    except (Unreadable, errors.InvalidRequest, pa.ArrowException) as error:
        # A truncated response may be complete the next time.
        is_transient = response.media == ARROW or "truncated" in str(error)
        text = str(error).rpartition(": is not JSON: ")[2]
        media = response.media or "a response without a content type"
        problem = f"the service sent {media} that cannot be read: {text[:200]}"
    unreadable = errors.ServiceFailure(response.redact(f"{operation.name}: {problem}"))
    if remote_errors.may_be_lacking(operation):
        unreadable.details.append({"type": remote_errors.LACKS, "value": response.status})
    # What is not safe to repeat may have been carried out.
    retry: session.Retry = "if safe" if is_transient or not operation.idempotent else "never"
    raise session.AttemptFailed(unreadable, retry)


def _written(response: session.Response, operation: Operation, request: Request) -> Answer:
    """Read what the service says of a write that it has carried out; what it does not say is missing."""
    kind = operation.answer.kind
    # An event may be sent again, which tells its id.
    content = response.content(session.SMALL) if kind == "uuid" else response.beginning()
    _refuse_web_page(content, response)
    try:
        body = decode(content)
    except errors.InvalidRequest:
        body = content.decode("utf-8", "replace").strip()
    if isinstance(body, dict) and isinstance(body.get("data"), dict) and not body.keys() & {"id", "_id"}:
        body = body["data"]
    if kind == "modified":
        count = body.get("modifiedCount") if isinstance(body, dict) else body
        return Answer(value=json_numbers.count(count))
    path = response.headers.get("Location", "").partition("?")[0]
    id = _id_of(body, operation) or _id_of(unquote(path.rstrip("/").rpartition("/")[2]), operation)
    if kind != "record":
        return Answer(value=id)
    expected = columns(operation, request)
    table = pa.table([pa.nulls(1, field.type) for field in expected], schema=expected)
    if isinstance(body, dict):
        with suppress(Unreadable, errors.ServiceFailure):
            known = schema.RESOURCES[str(operation.answer.resource)]
            table = read_page(json_values.encode(body).encode(), expected, known=known, is_record=True).table
            table = table.select(expected.names)
    if id is not None and table["_id"].null_count:
        table = table.set_column(0, "_id", pa.array([id]))
    return Answer.of(table, value=_EXISTING not in response.headers)


def _content(response: session.Response, operation: Operation, most: int) -> bytes:
    """Return a body of JSON; a service may answer an empty list without one."""
    content, kind = response.content(most), operation.answer.kind
    _refuse_web_page(content, response)
    is_empty, is_open = not content.strip(), operation.name in _NOT_SHOWN
    is_null = content == b"null" and (kind == "array" or is_open)
    if is_null or (is_empty and kind in ("array", "page") and (is_open or response.status == 204)):
        return b"[]"
    if is_empty:
        raise errors.ServiceFailure(f"the response (HTTP {response.status}) is empty; expected JSON")
    return content


def _refuse_web_page(content: bytes, response: session.Response) -> None:
    """Raise :exc:`ServiceFailure` for a web page, such as that of a login, which answers any request."""
    head = content[:_HEAD].lstrip().lower()
    if head[:1] == b"<" and any(tag in head for tag in (b"<html", b"<!doctype html", b"<head")):
        title = remote_errors.title(response.redact(content.decode("utf-8", "replace")))
        raise errors.ServiceFailure(f"the response is a web page{f' ({title})' if title else ''}; check url=")


def _id_of(body: object, operation: Operation) -> str | None:
    """Return the id in an answer: a member, or the answer itself if it has a digit, as words have not."""
    if isinstance(body, dict):
        names = ("id", "_id", f"{operation.name.removesuffix('_sync').rpartition('_')[2]}Id")
        body = next((body[name] for name in names if body.get(name) is not None), None)
    if isinstance(body, int) and not isinstance(body, bool):
        body = str(body)
    pattern = _UUID if operation.answer.kind == "uuid" else _AN_ID
    return body if isinstance(body, str) and pattern.fullmatch(body) else None


def _records(response: session.Response, operation: Operation, request: Request) -> Answer:
    kind, expected = operation.answer.kind, columns(operation, request)
    page: Any = request if kind == "page" else None
    most = _MOST_RECORDS if page is None or page.limit is None else page.limit
    if response.media == ARROW:
        stream = _ArrowStream(response.pieces(session.LARGE), expected, most=most)
        table, total = stream.read(), stream.total
    else:
        content = _content(response, operation, session.MEDIUM if kind == "record" else session.LARGE)
        known = schema.RESOURCES[str(operation.answer.resource)]
        try:
            read = read_page(content, expected, known=known, most=most, is_record=kind == "record")
        except Unreadable as error:
            said = remote_errors.told(remote_errors.read_body(content, response.redact))
            raise Unreadable(f"{error}; it says: {said}" if said else str(error)) from None
        table = read.table
        total = None
        if page is not None and read.counters is not None:
            total = _total(read.counters, page.offset, table.num_rows)
            is_full = read.counters["limit"] == table.num_rows < most
            if is_full and total == page.offset + table.num_rows:
                # A full page of a smaller limit: the total may be that of the page.
                total = None
        check_keys(table)
        for name, repair in _REPAIRS.get(str(operation.answer.resource), {}).items():
            if name in table.column_names:
                texts = pa.array(map(repair, table[name].to_pylist()), pa.string())
                table = table.set_column(table.column_names.index(name), expected.field(name), texts)
        if operation.name in insights.GROUPS:
            table = insights.conform(table, insights.GROUPS[operation.name], request)
    if kind == "record":
        if table.num_rows != 1:
            raise errors.ServiceFailure(f"the response has {table.num_rows} records; expected one")
        if all(table[name].null_count for name in expected.names):
            raise Unreadable("it has nothing of the record")
        may_be_present = operation.success == 201 and 200 in operation.also
        return Answer.of(table, value=_EXISTING not in response.headers if may_be_present else None)
    if page is None:
        return Answer.of(without_repeats(table, operation, getattr(request, "projectId", "")))
    return Answer.of(table, total=total, offset=page.offset, limit=page.limit)


def _fields(text: str | None) -> str | None:
    """Return the fields of an event type as a list, which a service may have wrapped in an object."""
    fields = None if text is None else json_numbers.load_exact(text)
    if isinstance(fields, dict):
        fields = next((value for value in fields.values() if isinstance(value, list)), fields)
    if fields is None or (isinstance(fields, list) and all(isinstance(field, dict) for field in fields)):
        return None if fields is None else json_values.encode(fields)
    problem = f"the service answered {json_values.shown(fields)} for fields; expected a list of objects"
    raise errors.ServiceFailure(problem)


def _metrics(text: str | None) -> str | None:
    """Return the metrics of an event with states and amounts as the specification writes them."""
    if text is None or not (
        _ODD_METRIC.search(text) or len(_CURRENCY.findall(text)) > len(_OBJECT.findall(text))
    ):
        return text
    metrics = json_numbers.load_exact(text)
    metrics = [*metrics.values()] if isinstance(metrics, dict) else metrics
    for metric in metrics if isinstance(metrics, list) else ():
        data = metric.get("data") if isinstance(metric, dict) else None
        if not isinstance(data, dict) or isinstance(current := data.get("current"), dict | list | None):
            continue
        if metric.get("type") == "state" or data.get("type") == "state":
            data["current"] = _STATES.get(str(current).lower(), current)
        elif data.get("type") == "currency":
            data["current"] = {"amount": current}
    return json_values.encode(metrics)


_ODD_METRIC: Final = re.compile(r'^\s*\{|"current"\s*:\s*(?:true|false|")')
_CURRENCY: Final = re.compile(r'"type"\s*:\s*"currency"')
_OBJECT: Final = re.compile(r'"current"\s*:\s*\{')
_STATES: Final = {"true": 1, "1": 1, "false": 0, "0": 0}
_REPAIRS: Final = {
    "EventType": {"fields": _fields},
    # Some services write an empty object as a list.
    "Event": {
        "metrics": _metrics,
        **dict.fromkeys(("event", "user"), lambda text: text if text != "[]" else None),
    },
}


def check_keys(table: pa.Table) -> None:
    """Raise :exc:`ServiceFailure` if records lack their id.

    Examples
    --------
    >>> check_keys(pa.table({"_id": ["a", "b"]}))
    """
    name = _key_of(table)
    if name is not None and (keys := table[name]).null_count:
        problem = f"the response has {keys.null_count} of {len(keys)} records without {name}"
        raise errors.ServiceFailure(problem)


def without_repeats(table: pa.Table, operation: Operation, project_id: str) -> pa.Table:
    """Return the records with each id once, the first one; warn if the service has repeated some."""
    name = _key_of(table)
    if name is None or pc.count_distinct(table[name]).as_py() == table.num_rows:
        return table
    places = pa.table({"key": table[name], "place": pa.array(range(table.num_rows))})
    found = places.group_by("key").aggregate([("place", "min"), ("place", "count")])
    repeated = found.filter(pc.greater(found["place_count"], 1))["key"].to_pylist()
    ids = ", ".join(map(json_values.shown, repeated[:_MOST_NAMED]))
    ids += f", … ({len(repeated):,} in all)" if len(repeated) > _MOST_NAMED else ""
    errors.warn(
        f"{operation.name}: the response repeats records; each is returned once: {name} {ids}. "
        f"On the machine of the service, `attrib-ds check {project_id} --repair` repairs the project"
    )
    return table.take(found["place_min"].sort())


def _key_of(table: pa.Table) -> str | None:
    # Columns outside of the schema, such as another id, come last.
    return next((name for name in table.column_names if name in ("_id", "id")), None)


def _total(counters: Mapping[str, int | None], asked: int, rows: int) -> int | None:
    """Return the total of a page, None if it is not stated or less than what has come."""
    count, offset, total = (counters[name] for name in ("count", "offset", "total"))
    if count not in (None, rows) or (rows > 0 and offset not in (None, asked)):
        # A walk would skip some records.
        stated = f"its count is {count}, its offset {offset} and its total {total}"
        raise errors.ServiceFailure(
            f"the response has {rows} records from {asked} on, but says that {stated}"
        )
    return None if total is not None and (total < 0 or (rows and total < asked + rows)) else total


class _ArrowStream:
    """Tables of an Arrow stream as they arrive, in the expected columns.

    Parameters
    ----------
    pieces : iterable of bytes
        The stream, in pieces of any size.
    expected : pyarrow.Schema
        Columns of the tables.
    most : int, optional
        Maximum number of rows.

    Attributes
    ----------
    total : int, optional
        Number of matching records, in the metadata of the stream's schema.
    """

    def __init__(self, pieces: Iterable[bytes], expected: pa.Schema, *, most: int | None) -> None:
        self._reader = _attempt(pa.ipc.open_stream, pa.PythonFile(_Source(pieces), mode="r"))
        self._expected = expected
        metadata = self._reader.schema.metadata or {}
        # Counters are 64-bit integers, which have at most 18 digits.
        counters = {name: int(text) for name, text in metadata.items() if text.isdigit() and len(text) <= 18}
        self.total = counters.get(b"total")
        self._promised = None
        if self.total is not None:
            left = max(self.total - counters.get(b"offset", 0), 0)
            self._promised = min(left, counters.get(b"limit", left))
        self._most = min((rows for rows in (most, self._promised) if rows is not None), default=None)

    def read(self) -> pa.Table:
        """Return all rows, whose keys are checked."""
        table = pa.concat_tables([self._expected.empty_table(), *self.tables()])
        check_keys(table)
        return table

    def tables(self) -> Iterator[pa.Table]:
        """Yield the tables; raise :exc:`Unreadable` if the stream is truncated or malformed."""
        rows = 0
        while (batch := _attempt(next, self._reader, None)) is not None:
            # Using a wrong offset would crash the process.
            _attempt(batch.validate, full=True)
            rows += batch.num_rows
            if self._most is not None and rows > self._most:
                problem = f"the response has more than the {self._most} records that were requested"
                raise errors.ServiceFailure(problem)
            yield _as_expected(batch, self._expected)
        if self._promised is not None and rows != self._promised:
            # A stream truncated between two batches looks complete.
            raise Unreadable("it is truncated")


def _attempt(step: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of Arrow; raise :exc:`Unreadable` if it refuses the stream."""
    try:
        return step(*arguments, **options)
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        # Arrow raises OSError itself; errors of the connection are subclasses.
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise Unreadable(str(error).partition("\n")[0] or type(error).__name__) from None


class _Source(io.RawIOBase):
    """A body as the file object that Arrow reads."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._buffered = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read exactly this many bytes, fewer at the end."""
        while len(self._buffered) < size and (piece := next(self._pieces, None)) is not None:
            self._buffered += piece
        part = bytes(self._buffered[:size])
        del self._buffered[:size]
        return part


def _as_expected(batch: pa.RecordBatch, expected: pa.Schema) -> pa.Table:
    names = _attempt(getattr, batch.schema, "names")  # a damaged one is not text
    present = dict(zip(names, batch.columns, strict=True))
    arrays = []
    for field in expected:
        array = present.get(field.name, pa.nulls(batch.num_rows, field.type))
        try:
            # Arrow would make text of numbers, and instants of text.
            if not pa.types.is_null(array.type) and _family(array.type) != _family(field.type):
                raise pa.ArrowInvalid
            arrays.append(array.cast(field.type))
        except pa.ArrowException:
            problem = f"the response has {field.name} as {array.type}; expected {field.type}"
            raise errors.ServiceFailure(problem) from None
    return pa.table(arrays, schema=expected)


def _family(kind: pa.DataType) -> str:
    """Return what values of an Arrow type are, whatever their width."""
    if pa.types.is_list(kind):
        return f"list of {_family(kind.value_type)}"
    return next((name for name, tests in _FAMILIES.items() if any(test(kind) for test in tests)), str(kind))


_FAMILIES: Final = {
    "text": (pa.types.is_string, pa.types.is_large_string),
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "instant": (pa.types.is_timestamp,),
}


def _value(response: session.Response, operation: Operation, request: Any) -> object:
    """Return a plain value; raise :exc:`Unreadable` or InvalidRequest if the body is not one of this kind."""
    kind = operation.answer.kind
    if kind == "file":
        return _file(response, request)
    most = session.MEDIUM if kind in ("object", "outcomes") else session.SMALL
    body = decode(_content(response, operation, most))
    if kind == "outcomes":
        if not isinstance(body, list):
            raise Unreadable("it is not an array")
        if len(body) != (count := len(request.events)):
            raise errors.ServiceFailure(f"the response has {len(body)} outcomes of {count} events")
        return [_outcome(item) for item in body]
    if not isinstance(body, dict):
        raise Unreadable("it is not an object")
    if kind == "object":
        return body
    if kind == "counts":
        return {name: kept for name, value in body.items() if (kept := json_numbers.whole(value)) is not None}
    name, convert, described = _MEMBERS[kind]
    value = convert(body.get(name))
    if value is None:
        raise Unreadable(f"it has no {described}")
    return value


_MEMBERS: Final[dict[str, tuple[str, Callable[[Any], Any], str]]] = {
    "id": ("id", lambda value: value if isinstance(value, str) else None, "id"),
    "modified": ("modifiedCount", json_numbers.count, "whole number in modifiedCount"),
    "errors": ("errors", lambda value: value if isinstance(value, list) else None, "errors"),
}


def _outcome(item: Any) -> str | errors.AttribError:
    if isinstance(item, dict) and isinstance(item.get("id"), str):
        return str(item["id"])
    if isinstance(item, dict) and isinstance(item.get("error"), dict):
        return remote_errors.item_error(item["error"], OPERATIONS["create_event"])
    raise Unreadable("an item is not an id or an error")


def _file(response: session.Response, request: Any) -> File:
    """Spool a file to disk, so that a truncated download can be retried; refuse any other content."""
    with local_files.spooling() as spool:
        for piece in response.pieces(None):
            with local_files.writing_temporarily():
                spool.write(piece)
        with local_files.writing_temporarily():
            spool.seek(0)
            beginning = spool.read(session.SMALL)
            spool.seek(0)
        exported = getattr(request, "exporterDataConfig", None)
        form = request.outputFormatConfig.type if exported else ""
        problem = _problem_of_file(beginning, form, exported.columns if exported else ())
        if problem:
            media = response.media or "no content type"
            raise errors.ServiceFailure(f"the service sent no file but {problem} ({media}); nothing is saved")
    return File.of(spool)


def _problem_of_file(beginning: bytes, form: str, keys: Sequence[str]) -> str | None:
    """Return what a response has in place of a file, if it is none."""
    text = beginning.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text:
        return "an empty response"
    if text[:1] == b"<":
        return "a web page; check url="
    if text[:1] in (b"{", b"["):
        return f"JSON, {json_values.shown(text[:200].decode('utf-8', 'replace'))}"
    is_workbook = text.startswith(b"PK\x03\x04")
    if form and is_workbook != (form == "xlsx"):
        return "a workbook" if is_workbook else f"something that is not {form.upper()}"
    if form == "csv":
        header = text.splitlines()[0].decode("utf-8", "replace")
        lacking = [key for key in keys if key not in header]
        if lacking:
            return f"columns without {lacking[0]}: {json_values.shown(header)}"
    return None
