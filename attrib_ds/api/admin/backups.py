"""Consistency checks and backups of a whole project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.contract.answer import File
    from attrib_ds.project import Project


def check(project: Project) -> pd.DataFrame:
    """Check the consistency of a project.

    Ids are unique and references exist; each received event is pending, processed or trashed; users,
    locations and counts agree with the records they are computed from; JSON is valid; and every block of the
    file that is not in memory is readable.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    DataFrame
        One row per failed check, none for a consistent project: ``check`` (str), ``problem`` (str),
        ``records`` (Int64, number of records concerned) and ``examples`` (lists of up to five ids).

    Raises
    ------
    Forbidden
        If the account is not an administrator of the remote project.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.admin.check(shop).empty
    True
    """
    return to_pandas(project.send("check_project").read())


def back_up(project: Project, path: str | Path) -> Path:
    """Copy a snapshot of a project into a new file.

    Reads and writes continue meanwhile. The file appears once it is complete. It is a project file itself,
    for ``attrib-ds restore`` and :func:`attrib_ds.connect`.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    path : str or Path
        A new file in an existing folder.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidRequest
        If the file exists, or its folder does not.
    Unavailable
        If the file cannot be written.
    Forbidden
        If the account is not an administrator of the remote project.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with at.connect("my-shop", path=":memory:") as shop:
    ...         _ = at.create_event_type(shop, "order", name="Order")
    ...         copy = at.admin.back_up(shop, f"{folder}/copy.duckdb")
    ...     with at.connect("my-shop", path=copy) as shop:
    ...         at.list_event_types(shop)["reference"].tolist()
    ['order']
    """
    file = Path(path).expanduser()
    if file.exists():
        raise InvalidRequest(f"path: {str(file)!r} exists already; give the name of a new file", field="path")
    if not file.parent.is_dir():
        raise InvalidRequest(f"path: the folder {str(file.parent)!r} does not exist", field="path")
    cast("File", project.send("back_up_project").value).save(file, private=True)
    return file
