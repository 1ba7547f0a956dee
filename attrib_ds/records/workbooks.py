"""Reads sheets of Excel files (``.xlsx``)."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile

import pandas as pd

from attrib_ds.errors import InvalidRequest, closest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKBOOKS: Final = (".xlsx",)
#: Errors of damaged files, whose parts are read one by one; those of XML parsers are syntax errors.
_DAMAGES: Final = (ValueError, TypeError, KeyError, SyntaxError, EOFError, BadZipFile, zlib.error)


def read_sheet(path: Path, sheet: str | None = None, *, argument: str, called: str = "sheet") -> pd.DataFrame:
    """Return a sheet of a workbook, by default the first.

    Raises
    ------
    InvalidRequest
        If the file is no workbook, or has no such sheet, or the sheet is empty; the message names the
        ``argument`` of the file, or that of the sheet (``called``).
    """
    with _opened(path, argument) as book:
        names = list(map(str, book.sheet_names))
        sheet = None if sheet is None else str(sheet)
        if sheet is not None and sheet not in names:
            raise InvalidRequest(
                f"{called}: {path.name!r} has no sheet {sheet!r}{closest(sheet, names)}; "
                f"sheets: {', '.join(names)}",
                field=called,
            )
        rows = pd.read_excel(book, sheet_name=sheet or 0, keep_default_na=False, na_values=[""])
    if not len(rows.columns):
        others = f"; sheets: {', '.join(names)}" if len(names) > 1 else ""
        raise InvalidRequest(
            f"{argument}: the sheet {sheet or names[0]!r} of {path.name!r} is empty{others}", field=argument
        )
    return rows


def sheet_columns(path: Path) -> dict[str, list[str]]:
    """Return the names of the columns of each sheet, in order."""
    with _opened(path, "path") as book:
        return {
            str(name): list(map(str, pd.read_excel(book, sheet_name=name, nrows=0).columns))
            for name in book.sheet_names
        }


def sheet_names(path: Path, argument: str) -> list[str]:
    """Return the names of the sheets, in order."""
    with _opened(path, argument) as book:
        return list(map(str, book.sheet_names))


@contextmanager
def _opened(path: Path, argument: str) -> Iterator[pd.ExcelFile]:
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            yield book
    except ImportError as error:
        raise InvalidRequest(
            f"{argument}: {path.name!r} needs the package openpyxl; install attrib-ds[excel], or save the "
            "sheet as CSV",
            field=argument,
        ) from error
    except InvalidRequest:
        raise
    except _DAMAGES as error:
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not a workbook: {error}", field=argument
        ) from error
