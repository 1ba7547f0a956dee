"""Project: the handle that every function takes first."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import platformdirs

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import NotSupported
from attrib_ds.transports.embedded import Embedded

if TYPE_CHECKING:
    from types import TracebackType

    from attrib_ds.attribution.tables import Tables
    from attrib_ds.contract import Answer
    from attrib_ds.transports import Transport


@dataclass(frozen=True)
class Project:
    """A project of an attribution service, from :func:`connect`.

    Use it as a context manager, or :meth:`close` it, to let go of an embedded project's file.

    Attributes
    ----------
    project_id : str
        3 to 64 characters of ``a-z``, ``0-9`` and single hyphens.
    """

    project_id: str
    transport: Transport = field(repr=False)

    def send(self, operation: str, **arguments: Any) -> Answer:
        """Build the request of an operation, which checks it, and carry it out."""
        declared = OPERATIONS[operation]
        return self.transport.send(declared, build(declared, project_id=self.project_id, **arguments))

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        return self.transport.tables()

    def close(self) -> None:
        """Let go of the project; closing twice does nothing."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Project {self.project_id!r} at {self.transport.address}>"


def connect(
    project_id: str,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    url_v2: str | None = None,
    auth_url: str | None = None,
    key: str | Path | dict[str, str] | None = None,
    read_only: bool = False,
) -> Project:
    """Open a project.

    Parameters
    ----------
    project_id : str
        3 to 64 characters of ``a-z``, ``0-9`` and single hyphens.
    path : str or Path, optional
        File of an embedded project, or ``":memory:"`` for one that is gone when it is closed. By default
        ``<project_id>.duckdb`` in the folder that ``ATTRIB_DS_HOME`` names, or in the user's data folder.
        A file that is not there is made.
    url, url_v2, auth_url : str, optional
        Addresses of a remote service; by default ``ATTRIB_DS_URL``, ``ATTRIB_DS_URL_V2`` and
        ``ATTRIB_DS_AUTH_URL``. The project is embedded where no address is known.
    key : str, Path or dict, optional
        The service account's key file, or its content; by default ``ATTRIB_DS_KEY``.
    read_only : bool, default False
        Open the file of an embedded project without writing to it; several processes may do so at once.

    Returns
    -------
    Project
        The handle that every other function takes first.

    Raises
    ------
    InvalidRequest
        If the project id is not well-formed or belongs to another file.
    ProjectInUse
        If another process holds the file.
    NotSupported
        If an address is given: this version has no remote transport yet.

    Examples
    --------
    >>> from attrib_ds import connect
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     shop
    <Project 'my-shop' at :memory:>
    """
    build(OPERATIONS["list_nodes"], project_id=project_id)
    remote = {"url": url, "url_v2": url_v2, "auth_url": auth_url, "key": key}
    if path is None and url is None:
        remote["url"] = os.environ.get("ATTRIB_DS_URL")
    named = [argument for argument, value in remote.items() if value is not None]
    if named:
        raise NotSupported(
            f"{named[0]}: this version opens embedded projects only, none of a remote service; leave "
            f"{' and '.join(named)} (and ATTRIB_DS_URL) out",
            field=named[0],
        )
    # The only line of the client that knows the service, imported late so that a client never loads it.
    from attrib_ds.service import Service

    file = str(path) if path is not None else str(home() / f"{project_id}.duckdb")
    return Project(project_id, Embedded(Service.open(project_id, file, read_only=read_only)))


def home() -> Path:
    """Return the folder of embedded projects: ``ATTRIB_DS_HOME``, or one in the user's data folder."""
    named = os.environ.get("ATTRIB_DS_HOME")
    return Path(named) if named else Path(platformdirs.user_data_dir("attrib-ds"))
