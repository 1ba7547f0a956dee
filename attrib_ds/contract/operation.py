"""One operation of the service, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from attrib_ds.contract.answer import Answering
    from attrib_ds.contract.request import Request

Base = Literal["v1", "v2", "auth", "embedded"]
Location = Literal["path", "query", "body"]

#: Where the paths of each base begin, under the origin of the service.
BASES: Final[dict[str, str]] = {"v1": "/api/v1", "v2": "/api/v2", "auth": "/auth"}

_PLACEHOLDER: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Operation:
    """Tell what one operation takes, where it is found and what it answers.

    Parameters
    ----------
    name : str
        Name of the public function, where one exists.
    title : str
        Name in the specification.
    method, path : str
        HTTP method and path under the base; empty for what only the embedded service does.
    request : type
        Its request.
    answer : Answering
        The shape of its answer.
    base : str, default "v1"
        ``v1``, ``v2``, ``auth`` or ``embedded``.
    success : int, default 200
        Status of success.
    statuses : tuple of int
        Statuses that the specification lists.
    also : tuple of int
        Statuses that only the decisions know.
    token : bool, default True
        Whether it needs an access token.
    idempotent : bool, default False
        Whether repeating it is safe.
    arguments : mapping of str to str
        Attribute of the request, with ``/`` before a nested one, to the argument of the public function.
        Attributes not given are called the same in snake_case.
    extension : bool, default False
        Whether the specification does not have it.
    synonyms : tuple of str
        Further methods accepted on the same path (G-033).
    body : str, default ""
        Attribute of the request that is the whole body, where that is an array; attributes beside it are
        in the query.
    upload : str, default ""
        Attribute of the request that is the path of a file whose bytes are the whole body.

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
        named = {each: _snake_case(each) for each in self.request.model_fields if each not in nested}
        object.__setattr__(self, "arguments", {**named, **self.arguments})

    @property
    def answered_statuses(self) -> tuple[int, ...]:
        """Every status it answers, in order.

        Whatever names its project in the path answers 400 to a malformed name, and 404 for a project that is
        not there, as far as the caller may know that (G-178, G-179).
        """
        of_project = (400, 404) if "{projectId}" in self.path else ()
        return tuple(sorted({*self.statuses, *self.also, *of_project}))

    def location(self, attribute: str) -> Location:
        """Say where an attribute of the request travels: in the path, the query or the body."""
        if attribute in _PLACEHOLDER.findall(self.path):
            return "path"
        return "body" if self.has_body and self.body in ("", attribute) else "query"

    @property
    def has_body(self) -> bool:
        """Whether requests of its method carry a body."""
        return self.method not in ("GET", "DELETE")

    def argument(self, attribute: str) -> str:
        """Return what a caller in Python calls an attribute, given with ``/`` before nested parts."""
        parts = attribute.split("/")
        for length in range(len(parts), 0, -1):
            known = self.arguments.get("/".join(parts[:length]))
            if known is not None:
                return "/".join([known, *parts[length:]])
        return "/".join([_snake_case(parts[0]), *parts[1:]])

    def pointer(self, attribute: str) -> str:
        """Return what a caller over HTTP calls an attribute: a JSON pointer if it is in the body."""
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
        If a name is there twice.
    """
    by_name: dict[str, Operation] = {}
    for operation in operations:
        if operation.name in by_name:
            raise ValueError(f"operations: {operation.name!r} is there twice")
        by_name[operation.name] = operation
    return by_name


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
