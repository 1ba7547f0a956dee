"""What keeps a project as a whole: its soundness and its backups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.contract.answer import File
    from attrib_ds.project import Project


def check(project: Project) -> pd.DataFrame:
    """Find what in a project contradicts itself.

    Ids are unique and point to what is there; each event that was received is pending, processed or trashed;
    users, places and counts agree with the records they are made from; JSON is JSON; and every block of the
    file that is not in memory already can be read.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    DataFrame
        One row per check that fails, none for a sound project: ``check`` (str), ``problem`` (str, what is
        wrong), ``records`` (Int64, how many are concerned) and ``examples`` (lists of up to five ids).

    Raises
    ------
    Forbidden
        If the account of a remote project is no administrator of it.

    Examples
    --------
    >>> from attrib_ds import admin, connect
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     admin.check(shop).empty
    True
    """
    return to_pandas(project.send("check_project").read())


def back_up(project: Project, path: str | Path) -> Path:
    """Copy a project, as it is at one moment, into a new file.

    Others read and write meanwhile. The file appears when it is whole; it is itself the file of a project,
    which ``attrib-ds restore`` puts in place and :func:`attrib_ds.connect` opens.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    path : str or Path
        The file; none of the name may be there.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidRequest
        If there is such a file already, or no such folder.
    Unavailable
        If the file cannot be written.
    Forbidden
        If the account of a remote project is no administrator of it.

    Examples
    --------
    >>> import tempfile
    >>> from attrib_ds import admin, connect, create_event_type, list_event_types
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with connect("my-shop", path=":memory:") as shop:
    ...         _ = create_event_type(shop, reference="order", name="Order")
    ...         copy = admin.back_up(shop, f"{folder}/copy.duckdb")
    ...     with connect("my-shop", path=copy) as shop:
    ...         list_event_types(shop)["reference"].tolist()
    ['order']
    """
    file = Path(path).expanduser()
    if file.exists():
        raise InvalidRequest(
            f"path: {str(file)!r} is there already; give the name of a new file", field="path"
        )
    if not file.parent.is_dir():
        raise InvalidRequest(f"path: there is no folder {str(file.parent)!r}", field="path")
    content = cast("File", project.send("back_up_project").value)
    try:
        content.save(file)
    except OSError as error:
        raise Unavailable(f"path: {str(file)!r} cannot be written: {error}", field="path") from error
    return file
