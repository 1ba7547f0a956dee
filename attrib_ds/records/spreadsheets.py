"""Writes frames for spreadsheets, as text that is never evaluated as a formula (G-122)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from attrib_ds.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import ModuleType
    from typing import BinaryIO

#: Prefixes that make spreadsheets evaluate a cell as a formula.
_FORMULA_PREFIXES: Final = (
    *("=", "+", "-", "@", "\t", "\r", "\n"),
    # The full-width forms of =, +, - and @, which some spreadsheets take for the same.
    *("\uff1d", "\uff0b", "\uff0d", "\uff20"),
)
_BYTE_ORDER_MARK: Final = "\ufeff"
#: Cells with such a prefix that are no formulas: numbers, and phone numbers in E.164 format.
_HARMLESS: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|\+[1-9][0-9]{1,14}")
#: Text stays text: XlsxWriter would make formulas, links and numbers of some.
_TEXT_ONLY: Final = {
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}


def escaped(text: str) -> str:
    """Return the text of a CSV cell, prefixed by an apostrophe if a spreadsheet would evaluate it.

    Examples
    --------
    >>> [escaped(text) for text in ("=1+1", "-3.5", "+4915112345678", "email")]
    ["'=1+1", '-3.5', '+4915112345678', 'email']
    """
    # Spreadsheets drop the mark.
    content = text.lstrip(_BYTE_ORDER_MARK)
    is_formula = content.startswith(_FORMULA_PREFIXES) and not _HARMLESS.fullmatch(content)
    return f"'{text}" if is_formula else text


def csv_text(frame: pd.DataFrame) -> str:
    """Return a frame as CSV, without its index.

    Parameters
    ----------
    frame : DataFrame
        With one row per line.

    Returns
    -------
    str
        A header and the rows; missing values are empty.

    Examples
    --------
    >>> print(csv_text(pd.DataFrame({"name": ["=1+1", None], "share": [0.5, -0.5]})), end="")
    name,share
    '=1+1,0.5
    ,-0.5
    """
    safe = frame.copy(deep=False)
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        if not pd.api.types.is_numeric_dtype(column.dtype):
            text = column.astype(object).map(_escaped_value, na_action="ignore")
            safe.isetitem(position, text.array)
    safe.columns = [escaped(str(name)) for name in frame.columns]
    return safe.to_csv(index=False)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame to a CSV file, as :func:`csv_text` does."""
    path.write_text(csv_text(frame), encoding="utf-8", newline="")


def write_excel(frames: Mapping[str, pd.DataFrame], file: BinaryIO) -> None:
    """Write frames to a workbook: a sheet each, text as text, and instants in UTC.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        By the name of the sheet.
    file : binary file
        Open for writing.

    Raises
    ------
    NotSupported
        If the extra ``[excel]`` is not installed.
    """
    xlsxwriter()
    with pd.ExcelWriter(file, engine="xlsxwriter", engine_kwargs={"options": _TEXT_ONLY}) as writer:
        for sheet, frame in frames.items():
            _without_zones(frame).to_excel(writer, index=False, sheet_name=sheet)


def xlsxwriter() -> ModuleType:
    """Return the library that writes workbooks.

    Raises
    ------
    NotSupported
        If the extra ``[excel]`` is not installed.
    """
    try:
        import xlsxwriter as library
    except ModuleNotFoundError as error:
        raise NotSupported(
            "format: xlsx needs XlsxWriter, which is not installed; it comes with the extra: "
            "pip install 'attrib-ds[excel]'",
            field="format",
        ) from error
    module: ModuleType = library
    return module


def _escaped_value(value: Any) -> Any:
    return escaped(value) if isinstance(value, str) else value


def _without_zones(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose instants are in UTC without a zone, since workbooks have none."""
    zoned = {
        name: frame[name].dt.tz_convert("UTC").dt.tz_localize(None)
        for name in frame.columns
        if isinstance(frame[name].dtype, pd.DatetimeTZDtype)
    }
    return frame.assign(**zoned)
