"""Declares an operation of the service as data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from attrib_ds.contract.answer import Answering
    from attrib_ds.contract.request import Request

Base = Literal["v1", "v2", "auth", "embedded"]
Location = Literal["path", "query", "body"]

#: Where the paths of each base begin, under the origin of the service.
BASES: Final[dict[str, str]] = {"v1": "/api/v1", "v2": "/api/v2", "auth": "/auth"}

#: Type of the entry in the details of an error 503 that tells a deadline from an overload: the same request
#: would fail again (G-181, G-230).
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
        Other methods accepted on the same path (G-033).
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
        snake_case = {name: _snake_case(name) for name in self.request.model_fields if name not in nested}
        object.__setattr__(self, "arguments", {**snake_case, **self.arguments})

    @property
    def answered_statuses(self) -> tuple[int, ...]:
        """All statuses of its answers, sorted.

        With a project in the path these include 400 for a malformed project id and 404 for a project that
        does not exist or that the caller may not see (G-178, G-179).
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
        return "body" if self.has_body and self.body in ("", attribute) else "query"

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
        return "/".join([_snake_case(parts[0]), *parts[1:]])

    def pointer(self, attribute: str) -> str:
        """Return the HTTP name of an attribute: a JSON pointer if it is in the body."""
        first, slash, rest = attribute.partition("/")
        if self.location(first) != "body":
            return attribute
        return f"/{attribute}" if not self.body else slash + rest or "body"


def index_by_name(operations: Iterable[Operation]) -> dict[str, Operation]:
    """Return the operations by name.

    Parameters
    ----------
    operations : iterable of Operation
        In the order of the specification.

    Returns
    -------
    dict of str to Operation
        In the same order.

    Raises
    ------
    ValueError
        If two operations have the same name.
    """
    by_name: dict[str, Operation] = {}
    for operation in operations:
        if operation.name in by_name:
            raise ValueError(f"operations: {operation.name!r} is declared twice")
        by_name[operation.name] = operation
    return by_name


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
