"""Builds requests from Python arguments or the parts of an HTTP request, and writes them as such parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pydantic import ValidationError

from attrib_ds import schema
from attrib_ds.contract.interactions import SearchInteractions
from attrib_ds.contract.json_values import DEEPEST, depth, encode
from attrib_ds.contract.operation import Location, Operation
from attrib_ds.contract.request import Request, translate
from attrib_ds.contract.users import SearchUsers
from attrib_ds.errors import InvalidRequest


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
        raise InvalidRequest(message, field="body")
    # The items of an array are checked one by one, so that one with too many levels is refused alone.
    if not operation.body and depth(body) > DEEPEST:
        raise InvalidRequest(f"body: is nested too deeply; expected at most {DEEPEST} levels", field="body")
    parts: dict[Location, Mapping[str, Any]] = {"path": path or {}, "query": query or {}, "body": body or {}}
    values = {}
    for attribute, location in operation.locations.items():
        if attribute in parts[location]:
            values[attribute] = parts[location][attribute]
    # Beside an array, attributes are query parameters, thus text.
    is_query = not operation.has_body or bool(operation.body)
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
        return None if self.body is None else encode(self.body).encode()


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
    if isinstance(request, SearchInteractions):
        return pa.schema([resource.field(name) for name in projected(request.projection)])
    if isinstance(request, SearchUsers):
        return schema.user_columns(request.fields)
    return resource


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
