"""Finds where a project's service is: in arguments, the environment or the user's configuration file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.transports.http.secret import Secret

#: What is told of a service, and where the environment tells it.
_VARIABLES: Final = {
    "url": "ATTRIB_DS_URL",
    "url_v2": "ATTRIB_DS_URL_V2",
    "auth_url": "ATTRIB_DS_AUTH_URL",
    "key": "ATTRIB_DS_KEY",
    "routes": "ATTRIB_DS_ROUTES",
}
_PATHS: Final = ("key", "routes")


@dataclass(frozen=True, kw_only=True)
class Remote:
    """Where a service is, and who asks.

    Parameters
    ----------
    url : str
        Its address.
    url_v2, auth_url : str, optional
        Further addresses.
    key : str, Path or Secret, optional
        A key file, or its content.
    routes : str or Path, optional
        A file of methods and paths that differ.
    """

    url: str
    url_v2: str | None = None
    auth_url: str | None = None
    key: str | Path | Secret[Any] | None = None
    routes: str | Path | None = None


def find_remote(arguments: Mapping[str, Any]) -> Remote | None:
    """Complete what was said about a service by what the environment and the configuration file say.

    Addresses belong together: the others are taken from where the ``url`` is from, so that a token of one
    service is never sent to another one.

    Parameters
    ----------
    arguments : mapping
        ``url``, ``url_v2``, ``auth_url``, ``key`` and ``routes``, None where nothing was said.

    Returns
    -------
    Remote, optional
        None if no address is known.

    Raises
    ------
    InvalidRequest
        If something is said of a service without an address, or the file cannot be read.
    """
    said = {name: value for name, value in arguments.items() if value is not None}
    environment = {
        name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)
    }
    # Asked for only where it is needed: a file that is not in order does not get in the way otherwise.
    file = {} if "url" in said or "url" in environment else _read_file(config_file())
    source = next((each for each in (said, environment, file) if "url" in each), None)
    if source is None:
        if said:
            name = next(iter(said))
            raise InvalidRequest(
                f"{name}: is for a remote service, and no address of one is known; give url= or set "
                "ATTRIB_DS_URL, or leave it out for an embedded project",
                field=name,
            )
        return None
    key = {name: each[name] for each in (file, environment) for name in ("key",) if name in each}
    return Remote(**{**key, **source, **said})


def config_file() -> Path:
    """Return the path of the user's configuration file, which need not be there."""
    return Path(platformdirs.user_config_dir("attrib-ds")) / "config.toml"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"configuration: {str(path)!r} cannot be read: {error}") from error
    for name, value in told.items():
        if name not in _VARIABLES:
            raise InvalidRequest.choice(f"configuration: {str(path)!r}", name, _VARIABLES)
        if not isinstance(value, str) or not value:
            raise InvalidRequest(f"configuration: {str(path)!r}: {name} is no text", field=name)
    # Beside the file, where they are not named from the root on.
    return told | {name: path.parent / Path(told[name]).expanduser() for name in _PATHS if name in told}
