"""Builds requests from Python arguments or from the parts of an HTTP request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from attrib_ds.contract.json_text import DEEPEST, depth
from attrib_ds.contract.violations import translate
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from attrib_ds.contract.operation import Location, Operation
    from attrib_ds.contract.request import Request


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
        If a value is not allowed; members of the body are named by JSON pointers (G-181).

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
