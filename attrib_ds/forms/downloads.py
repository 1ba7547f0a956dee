"""Buttons that save files; each file is made when its button is pressed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from attrib_ds.forms import elements
from attrib_ds.forms.messages import error_message
from attrib_ds.records.spreadsheets import csv_text, write_excel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from attrib_ds.forms.form import Form


@dataclass(frozen=True)
class Download:
    """A file to save.

    Parameters
    ----------
    name : str
        Name that the browser saves the file under.
    media_type : str
        Its media type.
    content : callable
        Returns the bytes; called when the button is pressed.
    """

    name: str
    media_type: str
    content: Callable[[], bytes]


class Downloads(anywidget.AnyWidget):  # type: ignore[misc]
    """A row of buttons that save files.

    Parameters
    ----------
    files : mapping of str to Download
        By the text on the button.
    """

    _esm = (Path(__file__).parent / "downloads.js").read_text(encoding="utf-8")
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, files: Mapping[str, Download]) -> None:
        super().__init__(labels=list(files))
        self.files: Final = dict(files)
        self.on_msg(lambda _, message, __: self.save(message["label"]))

    def save(self, label: str) -> None:
        """Make the file of a button and send it to the page."""
        file = self.files[label]
        try:
            content = file.content()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            self.send({"problem": error_message(error)})
            return
        self.send({"name": file.name, "type": file.media_type}, buffers=[content])


def show_frame(frame: pd.DataFrame, caption: str, stem: str, form: Form) -> list[Any]:
    """Return a frame as a table, above buttons that save it and the code that computes it."""
    return [elements.table(frame, caption), Downloads(frame_downloads(frame, stem, form.code))]


def frame_downloads(frame: pd.DataFrame, stem: str, code: str) -> dict[str, Download]:
    """Return the downloads of a frame as CSV and as a workbook, and of the code that computes it."""
    return {
        "CSV": Download(f"{stem}.csv", "text/csv", lambda: csv_text(frame).encode()),
        "Excel": Download(
            f"{stem}.xlsx",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            lambda: _workbook(frame),
        ),
        "Python": Download(f"{stem}.py", "text/x-python", code.encode),
    }


def _workbook(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    write_excel({"result": frame}, buffer)
    return buffer.getvalue()
