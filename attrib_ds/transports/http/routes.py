"""Read a file of methods and paths that differ from those of the contract."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from attrib_ds.contract import Operation

_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
_MEMBERS: Final = ("method", "path")
_PATH: Final = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|{\w+})+)+")
_PLACEHOLDER: Final = re.compile(r"{(\w+)}")


def read_routes(path: str | Path) -> dict[str, Operation]:
    r"""Read the operations of a service whose methods or paths differ.

    Parameters
    ----------
    path : str or Path
        A TOML file with one table per operation that differs, with ``method``, ``path`` or both. Attributes
        of the request that the path names in braces are sent in the path, the others in the query of a GET
        or in the body.

    Returns
    -------
    dict of str to Operation
        All operations by name.

    Raises
    ------
    InvalidRequest
        If the file cannot be read or its content is invalid.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "routes.toml")
    ...     _ = file.write_text('[list_nodes]\npath = "/projects/{projectId}/sources"')
    ...     read_routes(file)["list_nodes"].path
    '/projects/{projectId}/sources'
    """
    try:
        tables = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise InvalidRequest(f"routes: {str(path)!r} {problem}", field="routes") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"routes: {str(path)!r} is not TOML: {error}", field="routes") from error
    names = [operation.name for operation in OPERATIONS.values() if operation.base != "embedded"]
    for name in tables:
        if name not in names:
            raise InvalidRequest.choice("routes", name, names)
    return OPERATIONS | {name: _routed(OPERATIONS[name], table) for name, table in tables.items()}


def _routed(operation: Operation, table: Any) -> Operation:
    name = operation.name
    if not isinstance(table, dict):
        raise InvalidRequest(f"routes: {name} is not a table; expected [{name}]", field="routes")
    for member in table:
        if member not in _MEMBERS:
            raise InvalidRequest.choice(f"routes/{name}", member, _MEMBERS)
    method, path = table.get("method", operation.method), table.get("path", operation.path)
    # A JSON body does not fit into a query.
    methods = ["POST"] if operation.base == "auth" else [*_METHODS, *{operation.method} - {*_METHODS}]
    if method not in methods:
        raise InvalidRequest.choice(f"routes/{name}/method", method, methods)
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise InvalidRequest(
            f"routes/{name}/path: {path!r} is not allowed; expected a path such as {operation.path!r}, "
            "without a trailing slash",
            field=f"routes/{name}/path",
        )
    placeholders = {
        *_PLACEHOLDER.findall(operation.path),
        *({"projectId"} & set(operation.request.model_fields)),
    }
    for attribute in _PLACEHOLDER.findall(path):
        if attribute not in placeholders:
            raise InvalidRequest.choice(f"routes/{name}/path", attribute, placeholders)
    return replace(operation, method=method, path=path)
