"""Find and check the configuration of a remote service: its addresses, its key, and routes that differ."""

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import platformdirs

from attrib_ds import errors, keys
from attrib_ds.contract import BASES, OPERATIONS, Operation

#: Settings of a service and their environment variables.
_VARIABLES: Final = {
    "url": "ATTRIB_DS_URL",
    "url_v2": "ATTRIB_DS_URL_V2",
    "auth_url": "ATTRIB_DS_AUTH_URL",
    "key": "ATTRIB_DS_KEY",
    "routes": "ATTRIB_DS_ROUTES",
}
_PATHS: Final = ("key", "routes")
_QUOTES: Final = (
    r"in double quotes, a backslash begins an escape; write paths in single quotes, "
    r"such as key = 'C:\keys\key.json'"
)
_LONGEST_SHOWN: Final = 80
_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
_ROUTE_MEMBERS: Final = ("method", "path")
_ROUTE: Final = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|{\w+})+)+")
_PLACEHOLDER: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True, kw_only=True)
class Remote:
    """Address and key of a service.

    Parameters
    ----------
    url : str
        Address of the service.
    url_v2, auth_url : str, optional
        Addresses of version 2 and of the token route, if they differ.
    key : str, Path or Secret, optional
        Path or content of a key file.
    routes : str or Path, optional
        File of methods and paths that differ from the contract.
    """

    url: str
    url_v2: str | None = None
    auth_url: str | None = None
    key: str | Path | keys.Secret[Any] | None = None
    routes: str | Path | None = None


def find_remote(arguments: Mapping[str, Any]) -> Remote | None:
    """Find the service from arguments, then the environment, then the configuration file.

    All addresses come from the source of the ``url``, so that a token of one service is never sent to
    another.

    Parameters
    ----------
    arguments : mapping
        ``url``, ``url_v2``, ``auth_url``, ``key`` and ``routes``; None if not given.

    Returns
    -------
    Remote, optional
        None if there is no address.

    Raises
    ------
    InvalidRequest
        If a setting is given without an address, or the configuration file cannot be read.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    variables = {name: os.environ.get(variable) for name, variable in _VARIABLES.items()}
    environment = {name: value for name, value in variables.items() if value}
    # Read only if needed, so that an invalid file does no harm otherwise.
    file = {} if "url" in given or "url" in environment else _read_file(config_file())
    source = next((settings for settings in (given, environment, file) if "url" in settings), None)
    if source is None:
        if given:
            name = next(iter(given))
            advice = "pass url= or set ATTRIB_DS_URL, or omit it for an embedded project"
            raise errors.InvalidRequest(
                f"{name}: applies to a remote service, but no address is given; {advice}"
            )
        return None
    return Remote(**{"key": (file | environment).get("key"), **source, **given})


def config_file() -> Path:
    """Return the path of the user's configuration file, which may not exist."""
    return Path(platformdirs.user_config_dir("attrib-ds")) / "config.toml"


def _read_file(path: Path) -> dict[str, Any]:
    file = f"configuration: {str(path)!r}"
    try:
        settings = _read_toml(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise errors.InvalidRequest(f"{file} cannot be read: {error}") from error
    for name in settings.keys() - _VARIABLES.keys():
        raise errors.InvalidRequest.choice(file, name, _VARIABLES)
    for name, value in settings.items():
        if not isinstance(value, str) or not value:
            raise errors.InvalidRequest(f"{file}: {name} is not a string", field=name)
        if name in _PATHS and min(value) < " ":
            raise errors.InvalidRequest(f"{file}: {name} is {value!r}; {_QUOTES}", field=name)
    # Relative paths are relative to the file.
    paths = {name: path.parent / Path(settings[name]).expanduser() for name in _PATHS if name in settings}
    return settings | paths


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; editors on Windows begin it with a byte order mark."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{error}; {_QUOTES}" if "\\" in text else str(error)) from error


def read_addresses(
    url: str, *, url_v2: str | None = None, auth_url: str | None = None, allow_insecure: bool = False
) -> dict[str, str]:
    """Check the addresses of a service and complete them.

    Parameters
    ----------
    url : str
        With or without ``/api/v1`` at the end.
    url_v2 : str, optional
        With or without ``/api/v2`` at the end; derived from ``url`` by default.
    auth_url : str, optional
        Parent of ``/oidc/token``; by default ``/auth`` at the origin of ``url``.
    allow_insecure : bool, default False
        Whether to allow ``http://`` to other machines.

    Returns
    -------
    dict of str to str
        Base URLs of "v1", "v2" and "auth", without a trailing slash.

    Raises
    ------
    InvalidRequest
        If one is not a URL, or would send secrets unencrypted.

    Examples
    --------
    >>> list(read_addresses("https://shop.example/api/v1/").values())
    ['https://shop.example/api/v1', 'https://shop.example/api/v2', 'https://shop.example/auth']
    """
    root = _checked("url", url, allow_insecure).removesuffix(BASES["v1"])
    root_v2 = _checked("url_v2", url_v2, allow_insecure).removesuffix(BASES["v2"]) if url_v2 else root
    origin = urlsplit(root)
    auth = f"{origin.scheme}://{origin.netloc}{BASES['auth']}"
    if auth_url:
        auth = _checked("auth_url", auth_url, allow_insecure)
    return {"v1": root + BASES["v1"], "v2": root_v2 + BASES["v2"], "auth": auth}


def is_here(url: str) -> bool:
    """Return whether an address is on this machine.

    Examples
    --------
    >>> [is_here(url) for url in ("http://localhost:8000", "http://[::1]:80", "http://10.0.0.1")]
    [True, True, False]
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _checked(argument: str, url: str, allow_insecure: bool) -> str:
    try:
        parts = urlsplit(url.strip())
        # Reading the port validates it.
        is_address = parts.port != 0 and parts.scheme in ("http", "https") and bool(parts.hostname)
    except (ValueError, AttributeError):
        is_address = False
    if not is_address:
        shown = "it" if "@" in str(url) else f"{str(url)[:_LONGEST_SHOWN]!r}"
        raise errors.InvalidRequest(
            f"{argument}: {shown} is not an address; expected one such as 'https://attribution.example'"
        )
    if parts.username is not None or parts.query or parts.fragment:
        # Not shown: it may contain a password.
        problem = "contains a user name, a query or a fragment; allowed: a host and a path"
        raise errors.InvalidRequest(f"{argument}: {problem}")
    if parts.scheme == "http" and not is_here(url) and not allow_insecure:
        advice = f"use 'https://{parts.netloc}', or allow_insecure=True on a trusted network"
        raise errors.InvalidRequest(f"{argument}: {url!r} would send tokens and data unencrypted; {advice}")
    return url.strip().rstrip("/")


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
        tables = _read_toml(Path(path).expanduser())
    except (OSError, UnicodeDecodeError) as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise errors.InvalidRequest(f"routes: {str(path)!r} {problem}") from error
    except ValueError as error:
        raise errors.InvalidRequest(f"routes: {str(path)!r} is not TOML: {error}") from error
    names = [name for name, operation in OPERATIONS.items() if operation.base != "embedded"]
    for name in tables.keys() - {*names}:
        raise errors.InvalidRequest.choice("routes", name, names)
    return OPERATIONS | {name: _routed(OPERATIONS[name], table) for name, table in tables.items()}


def _routed(operation: Operation, table: Any) -> Operation:
    name = operation.name
    if not isinstance(table, dict):
        raise errors.InvalidRequest(f"routes: {name} is not a table; expected [{name}]")
    for member in table.keys() - {*_ROUTE_MEMBERS}:
        raise errors.InvalidRequest.choice(f"routes/{name}", member, _ROUTE_MEMBERS)
    method, path = table.get("method", operation.method), table.get("path", operation.path)
    # A JSON body does not fit into a query.
    methods = ["POST"] if operation.base == "auth" else [*_METHODS, *{operation.method} - {*_METHODS}]
    errors.check_choice(f"routes/{name}/method", method, methods)
    if not isinstance(path, str) or not _ROUTE.fullmatch(path):
        raise errors.InvalidRequest(
            f"routes/{name}/path: {path!r} is not allowed; expected a path such as {operation.path!r}, "
            "without a trailing slash",
            field=f"routes/{name}/path",
        )
    placeholders = {*_PLACEHOLDER.findall(operation.path)}
    placeholders |= {"projectId"} & {*operation.request.model_fields}
    for attribute in {*_PLACEHOLDER.findall(path)} - placeholders:
        raise errors.InvalidRequest.choice(f"routes/{name}/path", attribute, placeholders)
    return replace(operation, method=method, path=path)
