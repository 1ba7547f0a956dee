"""Route a path and method to an operation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from attrib_ds.contract import BASES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attrib_ds.contract import Operation

_PLACEHOLDER: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Route:
    """Operations at a path.

    Parameters
    ----------
    operations : dict of str to Operation
        Operations by method; GET also serves HEAD.
    values : tuple of str
        Decoded values of the placeholders.
    """

    operations: dict[str, Operation]
    values: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Value of the Allow header."""
        return allowed(self.operations)

    def operation(self, method: str) -> Operation | None:
        """Return the operation of a method."""
        return self.operations.get("GET" if method == "HEAD" else method)

    def parameters(self, operation: Operation) -> dict[str, str]:
        """Return the values by the operation's placeholder names."""
        return dict(zip(_PLACEHOLDER.findall(operation.path), self.values, strict=True))


def allowed(methods: Iterable[str]) -> str:
    """Return the value of the Allow header, including implied methods (G-034).

    Examples
    --------
    >>> allowed(["GET"])
    'GET, HEAD, OPTIONS'
    """
    listed = sorted({*methods, "OPTIONS"})
    return ", ".join(sorted({*listed, "HEAD"}) if "GET" in listed else listed)


@dataclass
class _Branch:
    literals: dict[str, _Branch] = field(default_factory=dict)
    placeholder: _Branch | None = None
    operations: dict[str, Operation] = field(default_factory=dict)


class Routes:
    """The routing table; a literal segment takes precedence over a placeholder.

    Paths are split before decoding, so that an id may contain an encoded slash.

    Parameters
    ----------
    operations : iterable of Operation
        Operations without a path are ignored.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> routes = Routes(OPERATIONS.values())
    >>> route = routes.find(b"/api/v1/projects/shop/nodes/a%2Fb")
    >>> operation = route.operation("GET")
    >>> operation.name, route.parameters(operation)
    ('get_node', {'projectId': 'shop', 'id': 'a/b'})
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Branch()
        #: Routes of paths without placeholders, as clients write them.
        self._literal: dict[bytes, Route] = {}
        for operation in operations:
            if operation.base == "embedded":
                continue
            branch = self._root
            for part in f"{BASES[operation.base]}{operation.path}".split("/")[1:]:
                if not _PLACEHOLDER.fullmatch(part):
                    branch = branch.literals.setdefault(part, _Branch())
                else:
                    branch.placeholder = branch.placeholder or _Branch()
                    branch = branch.placeholder
            for method in (operation.method, *operation.synonyms):
                branch.operations[method] = operation
            path = f"{BASES[operation.base]}{operation.path}"
            if not _PLACEHOLDER.search(path):
                self._literal[path.encode()] = Route(branch.operations, ())

    def find(self, raw_path: bytes) -> Route | None:
        """Return the route of a percent-encoded path, if there is one."""
        if raw_path in self._literal:
            return self._literal[raw_path]
        # Bytes that are not UTF-8 become lone surrogates, which validation rejects.
        parts = [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in raw_path.split(b"/")]
        return _walk(self._root, parts[1:], ()) if parts[0] == "" else None


def _walk(branch: _Branch, parts: list[str], values: tuple[str, ...]) -> Route | None:
    if not parts:
        return Route(branch.operations, values) if branch.operations else None
    first, *rest = parts
    literal = branch.literals.get(first)
    found = _walk(literal, rest, values) if literal else None
    if found is None and branch.placeholder and first:
        found = _walk(branch.placeholder, rest, (*values, first))
    return found
