"""An operation of the service: its declaration, its requests and its answers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Self
from urllib.parse import quote

import pyarrow as pa
from pydantic import ValidationError

from attrib_ds import errors, local_files, schema
from attrib_ds.contract import interactions, json_values, users
from attrib_ds.contract.request import Request, translate

_PIECE: Final = 1 << 16
_NO_COLUMNS: Final = pa.schema([])


def _do_nothing() -> None:
    """Release nothing: data in memory has no reader."""


@dataclass(frozen=True)
class File:
    """A file of an answer, read in pieces because it may be larger than memory.

    Parameters
    ----------
    pieces : iterator of bytes
        Iterable once, by one thread at a time. If it raises, the file is incomplete.
    close : callable
        Releases the source of the pieces. Closing twice does nothing.
    """

    pieces: Iterator[bytes]
    close: Callable[[], None] = field(default=_do_nothing)

    @classmethod
    def of(cls, stream: BinaryIO) -> Self:
        """Return the rest of a binary stream as a file.

        Examples
        --------
        >>> import io
        >>> list(File.of(io.BytesIO(b"_id")).pieces)
        [b'_id']
        """
        return cls(iter(partial(stream.read, _PIECE), b""), stream.close)

    def save(self, path: Path, *, private: bool = False) -> None:
        """Save to a path and close; on failure the path stays as it was.

        A private file can be read by its owner only; any other has the usual permissions of new files.

        Raises
        ------
        Unavailable
            If the file cannot be written, such as on a full disk.

        Examples
        --------
        >>> import io, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     File.of(io.BytesIO(b"_id")).save(Path(folder, "users.csv"))
        ...     [(path.name, path.read_bytes()) for path in Path(folder).iterdir()]
        [('users.csv', b'_id')]
        """
        with (
            closing(self),
            local_files.writing(path, argument="path"),
            local_files.replacing(path, private=private) as sink,
        ):
            sink.writelines(self.pieces)


@dataclass(frozen=True)
class Answering:
    """The declared shape of an operation's answer.

    Parameters
    ----------
    kind : str
        ``page`` of records with counts, ``array`` of records, one ``record``, the ``id`` of the new record,
        the number of records ``modified``, a ``uuid``, a ``file``, a ``token``, ``counts`` of loaded
        records, ``outcomes`` (an id or :class:`~attrib_ds.errors.AttribError` per event of a batch), the
        ``errors`` of a validation, or an open ``object``.
    resource : str, optional
        Name of the records in :data:`attrib_ds.schema.RESOURCES`.
    echo : bool, default True
        Whether a page repeats the offset and limit of the request.
    """

    kind: str
    resource: str | None = None
    echo: bool = True


@dataclass(frozen=True)
class Answer:
    """The answer to one request, the same from every transport: a stream of tables, or a plain value.

    Iterating yields the tables as they arrive; :meth:`read` joins them. A stream is iterable once, by one
    thread at a time; if that raises, records are missing. An answer from :meth:`of` or :meth:`whole` is in
    memory and can be read any number of times.

    Parameters
    ----------
    columns : pyarrow.Schema
        Of the records; empty if the answer is a plain value.
    tables : iterable of pyarrow.Table
        The records. Iterating drops extra columns, which only serve to write JSON.
    count : int, optional
        Rows in all tables together, if known in advance.
    total : int, optional
        Number of matching records; pages only.
    offset, limit : int
        Of the request; pages only.
    value : object, optional
        A plain value: an id, a number of modified records, a :class:`File`, a token, counts.
    close : callable
        Releases the source of the tables. Closing twice does nothing.

    Examples
    --------
    >>> answer = Answer.of(pa.table({"_id": ["a", "b"]}), total=7)
    >>> answer.read()["_id"].to_pylist(), answer.count, answer.total
    (['a', 'b'], 2, 7)
    """

    columns: pa.Schema = _NO_COLUMNS
    tables: Iterable[pa.Table] = ()
    count: int | None = None
    total: int | None = None
    offset: int = 0
    limit: int | None = None
    #: It may have secrets.
    value: Any = field(default=None, repr=False)
    close: Callable[[], None] = field(default=_do_nothing, repr=False)

    @classmethod
    def of(
        cls,
        table: pa.Table,
        *,
        total: int | None = None,
        offset: int = 0,
        limit: int | None = None,
        value: Any = None,
    ) -> Self:
        """Return an answer of one table in memory."""
        return cls(table.schema, (table,), table.num_rows, total, offset, limit, value)

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield the tables, then close."""
        try:
            for table in self.tables:
                is_exact = table.num_columns == len(self.columns)
                yield table if is_exact else table.select(self.columns.names)
        finally:
            self.close()

    def read(self) -> pa.Table:
        """Return all records as one table, then close."""
        tables = list(self)
        return pa.concat_tables(tables) if tables else self.columns.empty_table()

    def whole(self) -> Self:
        """Return the same answer with all records in memory."""
        table = self.read()
        return replace(self, tables=(table,), count=table.num_rows, close=_do_nothing)


Base = Literal["v1", "v2", "auth", "embedded"]
Location = Literal["path", "query", "body"]

#: Where the paths of each base begin, under the origin of the service.
BASES: Final[dict[str, str]] = {"v1": "/api/v1", "v2": "/api/v2", "auth": "/auth"}

#: Type of the entry in the details of an error 503 that tells a deadline from an overload: the same request
#: would fail again.
DEADLINE_EXCEEDED: Final = "deadline-exceeded"

_PLACEHOLDER: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Operation:
    """Declare an operation: its request, its HTTP method and path, and its answer.

    Parameters
    ----------
    name : str
        Name of the public function, if there is one.
    title : str
        Name in the specification.
    method, path : str
        HTTP method and path under the base; empty if only the embedded service has it.
    request : type
        Request model.
    answer : Answering
        Shape of the answer.
    base : str, default "v1"
        ``v1``, ``v2``, ``auth`` or ``embedded``.
    success : int, default 200
        Status of success.
    statuses : tuple of int
        Statuses listed by the specification.
    also : tuple of int
        Statuses added by the decisions.
    token : bool, default True
        Whether an access token is required.
    idempotent : bool, default False
        Whether it is safe to repeat.
    arguments : mapping of str to str
        Maps attributes of the request, with ``/`` before a nested one, to arguments of the public function;
        the attribute in snake_case by default.
    extension : bool, default False
        Whether it is not part of the specification.
    synonyms : tuple of str
        Other methods accepted on the same path.
    body : str, default ""
        Attribute of the request that is the whole body, an array; the other attributes are in the query.
    upload : str, default ""
        Attribute of the request with the path of a file to send as the body.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> operation = OPERATIONS["list_hits"]
    >>> operation.location("firstHitId"), operation.arguments["firstHitId"]
    ('path', 'first_hit_id')
    """

    name: str
    title: str
    method: str
    path: str
    request: type[Request]
    answer: Answering
    base: Base = field(default="v1", kw_only=True)
    success: int = field(default=200, kw_only=True)
    statuses: tuple[int, ...] = field(default=(), kw_only=True)
    also: tuple[int, ...] = field(default=(), kw_only=True)
    token: bool = field(default=True, kw_only=True)
    idempotent: bool = field(default=False, kw_only=True)
    arguments: Mapping[str, str] = field(default_factory=dict, kw_only=True, hash=False)
    extension: bool = field(default=False, kw_only=True)
    synonyms: tuple[str, ...] = field(default=(), kw_only=True)
    body: str = field(default="", kw_only=True)
    upload: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        nested = {attribute.partition("/")[0] for attribute in self.arguments if "/" in attribute}
        usual = {name: snake_case(name) for name in self.request.model_fields if name not in nested}
        object.__setattr__(self, "arguments", {**usual, **self.arguments})

    @property
    def answered_statuses(self) -> tuple[int, ...]:
        """All statuses of its answers, sorted.

        With a project in the path these include 400 for a malformed project id and 404 for a project that
        does not exist or that the caller may not see.
        """
        of_project = (400, 404) if "{projectId}" in self.path else ()
        return tuple(sorted({*self.statuses, *self.also, *of_project}))

    @cached_property
    def locations(self) -> dict[str, Location]:
        """The part of the HTTP request that carries each attribute."""
        return {attribute: self.location(attribute) for attribute in self.request.model_fields}

    def location(self, attribute: str) -> Location:
        """Return the part of the HTTP request that carries an attribute: path, query or body."""
        if attribute in _PLACEHOLDER.findall(self.path):
            return "path"
        return "body" if self.has_body and (self.body or self.upload or attribute) == attribute else "query"

    @property
    def has_body(self) -> bool:
        """Whether its HTTP method has a body."""
        return self.method not in ("GET", "DELETE")

    def argument(self, attribute: str) -> str:
        """Return the Python argument for an attribute, with ``/`` before nested parts."""
        parts = attribute.split("/")
        for length in range(len(parts), 0, -1):
            argument = self.arguments.get("/".join(parts[:length]))
            if argument is not None:
                return "/".join([argument, *parts[length:]])
        return "/".join([snake_case(parts[0]), *parts[1:]])

    def pointer(self, attribute: str) -> str:
        """Return the HTTP name of an attribute: a JSON pointer if it is in the body."""
        first, slash, rest = attribute.partition("/")
        if self.location(first) != "body":
            return attribute
        return f"/{attribute}" if not self.body else slash + rest or "body"


def snake_case(name: str) -> str:
    """Return a name of the specification as Python writes it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def wire_order(operation: Operation, sort: object) -> dict[str, Any]:
    """Return the attributes of a request that stand for ``sort``.

    Parameters
    ----------
    operation : Operation
        With an attribute ``sort``.
    sort : str, list of str or None
        Names in the order of their weight, with ``-`` in front for descending; None for the default order.

    Returns
    -------
    dict
        ``sort`` as names with 1 or -1; or one name as ``sort``, and ``order``, where the request has one.

    Raises
    ------
    InvalidRequest
        If it has another form, names a column twice, or names several where one is allowed.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> wire_order(OPERATIONS["search_interactions"], ["geo.city", "-startDate"])
    {'sort': {'geo.city': 1, 'startDate': -1}}
    >>> wire_order(OPERATIONS["list_outlays"], "-amount")
    {'sort': 'amount', 'order': 'DESC'}
    """
    if sort is None or sort in ([], ()):
        return {"sort": None}
    names = [sort] if isinstance(sort, str) else sort
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _refusal(sort, "a column name or a list of names, with '-' in front for descending")
    directions = {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in names}
    if len(directions) < len(names):
        raise _refusal(sort, "each column once")
    if "order" not in operation.request.model_fields:
        return {"sort": directions}
    if len(directions) > 1:
        raise _refusal(sort, "one column name, with '-' in front for descending")
    [(name, direction)] = directions.items()
    return {"sort": name, "order": "ASC" if direction > 0 else "DESC"}


def _refusal(sort: object, allowed: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"sort: {json_values.shown(sort)} is not allowed; allowed: {allowed}")


def build(operation: Operation, /, **arguments: Any) -> Request:
    """Build the request of an operation from Python arguments.

    Parameters
    ----------
    operation : Operation
        From ``OPERATIONS``.
    **arguments
        By the name of the public function's argument (``columns``) or of the request's attribute
        (``projection``). None means "not given", except where it is a value (``filtered``, ``isBot``).

    Returns
    -------
    Request
        Frozen; an instance of ``operation.request``.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; one error lists all of them, by their Python names.
    TypeError
        If the operation has no such argument.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> build(OPERATIONS["get_interaction"], projectId="shop", id="5f0c0ffee0ddba11ad0be123")
    GetInteraction(projectId='shop', id='5f0c0ffee0ddba11ad0be123')
    >>> build(OPERATIONS["search_interactions"], project_id="shop", columns=["geo.cty"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: columns/0: 'geo.cty' is not allowed (did you mean 'geo.city'?); ...
    """
    values: dict[str, Any] = {}
    attributes = {argument: attribute for attribute, argument in operation.arguments.items()}
    for name, value in arguments.items():
        attribute = name if name in operation.request.model_fields else attributes.get(name)
        if attribute is None:
            raise TypeError(f"{operation.name}: there is no argument {name!r}")
        outer, _, inner = attribute.partition("/")
        if not inner:
            values[outer] = value
        elif value is not None:
            values[outer] = {**values.get(outer, {}), inner: value}
    return _validated(operation, values, is_query=False, call=operation.argument)


def from_wire(
    operation: Operation,
    *,
    path: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    body: object = None,
) -> Request:
    """Build the request of an operation from the parts of an HTTP request.

    Parameters
    ----------
    operation : Operation
        From ``OPERATIONS``.
    path, query : mapping of str to str, optional
        Decoded parameters.
    body : object, optional
        Parsed JSON (an object, or an array if the operation takes one) or the parameters of a form; None for
        an empty body.

    Returns
    -------
    Request
        Equal to the one that was sent.

    Raises
    ------
    InvalidRequest
        If a value is not allowed; members of the body are named by JSON pointers.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> search = OPERATIONS["search_interactions"]
    >>> from_wire(search, path={"projectId": "shop"}, body={"limit": -1})
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: /limit: -1 is not allowed; expected a whole number, 0 or more ...
    """
    if operation.body and isinstance(body, Sequence) and not isinstance(body, str | bytes):
        body = {operation.body: body}
    elif body is not None and (operation.body or not isinstance(body, Mapping)):
        expected = "an array" if operation.body else "an object"
        message = f"body: {type(body).__name__} is not allowed; expected {expected}"
        raise errors.InvalidRequest(message, field="body")
    # The items of an array are checked one by one, so that one with too many levels is refused alone.
    if not operation.body and json_values.depth(body) > json_values.DEEPEST:
        raise errors.InvalidRequest(
            f"body: is nested too deeply; expected at most {json_values.DEEPEST} levels"
        )
    parts: dict[Location, Mapping[str, Any]] = {"path": path or {}, "query": query or {}, "body": body or {}}
    values = {}
    for attribute, location in operation.locations.items():
        if attribute in parts[location]:
            values[attribute] = parts[location][attribute]
    # Beside an array or a file, attributes are query parameters, thus text.
    is_query = not operation.has_body or bool(operation.body or operation.upload)
    return _validated(operation, values, is_query=is_query, call=operation.pointer)


def _validated(
    operation: Operation, values: Mapping[str, Any], *, is_query: bool, call: Callable[[str], str]
) -> Request:
    request = operation.request
    given = {
        name: value for name, value in values.items() if value is not None or name in request.null_counts
    }
    try:
        return request.model_validate(given, context={"query": is_query})
    except ValidationError as error:
        # Not chained: the pydantic error contains every value, secrets included.
        raise translate(error, request, call=call) from None


@dataclass(frozen=True)
class Wire:
    """Hold the parts of an HTTP request.

    Parameters
    ----------
    path : str
        Path under the base of the operation, quoted.
    query : dict of str to str
        Query parameters, unquoted.
    body : dict or tuple, optional
        JSON members or items, decimals as Decimal; None if the method has no body.
    """

    path: str
    query: dict[str, str]
    body: dict[str, Any] | tuple[Any, ...] | None

    def content(self) -> bytes | None:
        """Return the body as JSON text in UTF-8, decimals exact; None without a body."""
        return None if self.body is None else json_values.encode(self.body).encode()


def to_wire(operation: Operation, request: Request) -> Wire:
    """Write a request as the parts of an HTTP request, without attributes that were not given.

    Parameters
    ----------
    operation : Operation
        From ``OPERATIONS``; its path may be replaced.
    request : Request
        From :func:`build`.

    Returns
    -------
    Wire
        The parts; :func:`from_wire` reads them back.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> operation = OPERATIONS["list_user_events"]
    >>> request = build(operation, projectId="shop", id="5f0c0ffee0ddba11ad0be123", attributable=True)
    >>> to_wire(operation, request)  # doctest: +NORMALIZE_WHITESPACE
    Wire(path='/projects/shop/users/5f0c0ffee0ddba11ad0be123/events', query={'attributable': 'true'},
         body=None)
    """
    members = request.model_dump(exclude_unset=True)
    if operation.answer.kind == "page":
        # A bound that is null is none; in these, null means both.
        members = {
            name: value
            for name, value in members.items()
            if value is not None or name in ("filtered", "isBot")
        }
    by_location: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}}
    for attribute, value in members.items():
        by_location[operation.location(attribute)][attribute] = value
    quoted = {name: quote(value, safe="") for name, value in by_location["path"].items()}
    return Wire(
        path=operation.path.format_map(quoted),
        query={name: _query_text(value) for name, value in by_location["query"].items()},
        body=_body(operation, by_location["body"]) if operation.has_body else None,
    )


def _body(operation: Operation, members: dict[str, Any]) -> dict[str, Any] | tuple[Any, ...]:
    return members[operation.body] if operation.body else members


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def columns(operation: Operation, request: Request) -> pa.Schema:
    """Return the columns of the records in an answer.

    Parameters
    ----------
    operation : Operation
        With a resource as its answer.
    request : Request
        The request.

    Returns
    -------
    pyarrow.Schema
        Flat; a search returns the requested columns (interactions) or keys (users), in the order of the
        request with ``_id`` first.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> search = OPERATIONS["search_interactions"]
    >>> columns(search, build(search, project_id="shop", columns=["asn"])).names
    ['_id', 'asn.asnId', 'asn.asnName']
    """
    resource = schema.RESOURCES[str(operation.answer.resource)]
    if isinstance(request, interactions.SearchInteractions):
        return pa.schema([resource.field(name) for name in projected(request.projection)])
    return schema.user_columns(request.fields) if isinstance(request, users.SearchUsers) else resource


def projected(projection: tuple[str, ...] | None) -> list[str]:
    """Return the columns of interactions that a projection selects.

    Parameters
    ----------
    projection : tuple of str, optional
        Properties; an object selects all its members. All but the personal ones by default.

    Returns
    -------
    list of str
        In the order of the projection, ``_id`` first.
    """
    if projection is None:
        return [name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST]
    selected = [column for name in projection for column in schema.leaves(schema.INTERACTION, name)]
    return list(dict.fromkeys(["_id", *selected]))
