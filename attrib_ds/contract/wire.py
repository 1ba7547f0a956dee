"""Writes requests as the parts of an HTTP request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from attrib_ds.contract.json_text import encode

if TYPE_CHECKING:
    from attrib_ds.contract.operation import Operation
    from attrib_ds.contract.request import Request


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
