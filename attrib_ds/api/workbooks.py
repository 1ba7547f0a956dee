"""Write results to an Excel workbook."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from attrib_ds import local_files
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.input_frames import Frame, read_frame
from attrib_ds.records.spreadsheets import write_excel


def to_excel(frames: Frame | Mapping[str, Frame], path: str | Path) -> Path:
    """Write a result, or several, to an Excel workbook.

    Workbooks have no time zones: instants are written in UTC. Text stays text, and is never evaluated as a
    formula.

    Parameters
    ----------
    frames : DataFrame or mapping of str to DataFrame
        One frame, or frames by the name of their sheet (1 to 31 characters). An index is written as first
        columns, unless it only numbers the rows.
    path : str or Path
        File to write, with the suffix ``.xlsx``; an existing one is replaced.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidRequest
        If there is no frame, a sheet cannot have its name or is too large, or the path has another suffix.
    NotSupported
        If the extra ``[excel]`` is not installed.
    Unavailable
        If the file cannot be written.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["search > email"], "n": [4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, ["first_touch", "linear"])
    >>> sheets = {"Credits": credits, "Models": at.compare_models(credits)}
    >>> at.to_excel(sheets, "report.xlsx").name  # doctest: +SKIP
    'report.xlsx'
    """
    file = Path(path)
    if file.suffix.lower() != ".xlsx":
        raise InvalidRequest(f"path: {str(path)!r} must end in .xlsx", field="path")
    sheets = frames if isinstance(frames, Mapping) else {"Sheet1": frames}
    if not sheets:
        raise InvalidRequest("frames: is empty; allowed: one DataFrame or more", field="frames")
    tables = {
        name: read_frame(f"frames[{name!r}]" if sheets is frames else "frames", frame)
        for name, frame in sheets.items()
    }
    buffer = io.BytesIO()
    write_excel(tables, buffer)
    with local_files.writing(file, argument="path"):
        file.write_bytes(buffer.getvalue())
    return file
