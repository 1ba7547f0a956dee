"""Exports of users to CSV and XLSX files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.contract import File
    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project

_FORMATS = ("csv", "xlsx")


def export_users(
    project: Project,
    path: str | Path,
    *,
    columns: Sequence[str],
    where: Predicate | None = None,
    audience: str | Predicate | Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002  (the field's word)
    delimiter: str = ",",
    encoding: str = "utf-8",
    sanitize_formulas: bool = True,
    transformers: Sequence[Mapping[str, Any]] = (),
) -> Path:
    r"""Write users of a project to a CSV or XLSX file.

    The file appears once it is complete, and then replaces one of the same name.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    path : str or Path
        The file; its folder must exist.
    columns : sequence of str
        Keys as in :func:`attrib_ds.search_users`, in this order. The cell of a field has its latest value.
    where : Predicate, optional
        On users; all by default.
    audience : str, mapping or Predicate, optional
        The id of an audience, or a condition as in :func:`attrib_ds.search_users`.
    format : {"csv", "xlsx"}, optional
        By default the ending of the file's name. XLSX needs the extra ``[excel]`` where the service runs, and
        has room for 1,048,575 users.
    delimiter : {",", ";", "\\t", "|"}, default ","
        Separator of the cells in CSV.
    encoding : {"utf-8", "utf-8-bom"}, default "utf-8"
        Encoding of CSV; Excel detects the latter.
    sanitize_formulas : bool, default True
        Write an apostrophe before text in CSV that a spreadsheet would evaluate: text that begins with ``=``,
        ``+``, ``-``, ``@``, a tab or a carriage return. Numbers and phone numbers are unchanged. XLSX needs
        none.
    transformers : sequence of mapping, default ()
        Changes of columns in order, each with ``type``, ``key`` and ``level``: ``date`` (truncate to the
        year, semester, quarter, month, week, day, hour, minute or second in UTC), ``number`` (number of
        decimals), ``case`` (upper or lower), ``hash`` (sha256), ``join`` (separator of the values of a list,
        by default ``|``). Values of another kind are unchanged.

    Returns
    -------
    Path
        The file: a header with the keys, then one row per user, ordered by id. Instants are RFC 3339 text in
        UTC (dates in XLSX), missing values are empty cells, objects are JSON.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, the folder does not exist, or there are too many users for an XLSX
        file.
    NotFound
        If there is no such audience.
    NotSupported
        If the service cannot write XLSX.
    Unavailable
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import attrib_ds as at
    >>> day = "2025-01-31T12:00:00Z"
    >>> visits = {"userId": ["5f0c0ffee0ddba11ad0be123"], "nodeId": ["ads"], "startDate": [day]}
    >>> with at.connect("my-shop", path=":memory:") as shop, tempfile.TemporaryDirectory() as folder:
    ...     loaded = at.load(shop, interactions=pa.table(visits))
    ...     file = at.export_users(shop, f"{folder}/users.csv", columns=["_id", "interactionCount"])
    ...     print(file.read_text())
    _id,interactionCount
    5f0c0ffee0ddba11ad0be123,1
    <BLANKLINE>
    """
    file = Path(path).expanduser()
    if not file.name:
        raise InvalidRequest(f"path: {str(path)!r} is not the name of a file", field="path")
    if not file.parent.is_dir():
        raise InvalidRequest(f"path: the folder {str(file.parent)!r} does not exist", field="path")
    answer = project.send(
        "export_users",
        path=file.stem,
        columns=list(columns),
        where=where,
        audience=audience,
        format=_format(file) if format is None else format,
        delimiter=delimiter,
        encoding=encoding,
        sanitize_formulas=sanitize_formulas,
        transformers=list(transformers),
    )
    cast("File", answer.value).save(file)
    return file


def _format(file: Path) -> str:
    ending = file.suffix.removeprefix(".").lower()
    if ending not in _FORMATS:
        raise InvalidRequest(
            f"format: the name {file.name!r} does not end with .csv or .xlsx; give format='csv' or 'xlsx'",
            field="format",
        )
    return ending
