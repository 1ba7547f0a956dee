"""Find the service of a project: from arguments, the environment or the user's configuration file."""

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

    from attrib_ds.keys.secret import Secret

#: Settings of a service and their environment variables.
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
    key: str | Path | Secret[Any] | None = None
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
    environment = {
        name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)
    }
    # Read only if needed, so that an invalid file does no harm otherwise.
    file = {} if "url" in given or "url" in environment else _read_file(config_file())
    source = next((settings for settings in (given, environment, file) if "url" in settings), None)
    if source is None:
        if given:
            name = next(iter(given))
            raise InvalidRequest(
                f"{name}: applies to a remote service, but no address is given; pass url= or set "
                "ATTRIB_DS_URL, or omit it for an embedded project",
                field=name,
            )
        return None
    key = {name: value for name, value in (file | environment).items() if name == "key"}
    return Remote(**{**key, **source, **given})


def config_file() -> Path:
    """Return the path of the user's configuration file, which may not exist."""
    return Path(platformdirs.user_config_dir("attrib-ds")) / "config.toml"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"configuration: {str(path)!r} cannot be read: {error}") from error
    for name, value in settings.items():
        if name not in _VARIABLES:
            raise InvalidRequest.choice(f"configuration: {str(path)!r}", name, _VARIABLES)
        if not isinstance(value, str) or not value:
            raise InvalidRequest(f"configuration: {str(path)!r}: {name} is not a string", field=name)
    # Relative paths are relative to the file.
    paths = {name: path.parent / Path(settings[name]).expanduser() for name in _PATHS if name in settings}
    return settings | paths
