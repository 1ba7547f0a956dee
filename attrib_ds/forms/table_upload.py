"""The upload of a table from a CSV file, as a control of a form."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets
import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.forms.controls import Control

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from attrib_ds.forms.form_fields import FormField


class Upload(NamedTuple):
    """A file from the page."""

    name: str
    content: bytes


def upload_button(label: str, accept: str) -> Any:
    """Return a button that uploads one file with one of the extensions accepted."""
    button = ipywidgets.FileUpload(accept=accept, multiple=False, description=label)
    button.add_class("attrib-button")
    return button


def uploads(button: Any) -> Iterable[Upload]:
    """Return the files of an upload button; ipywidgets 7 gives them by name, ipywidgets 8 in a tuple."""
    value = button.value
    if isinstance(value, dict):
        return [Upload(name, bytes(file["content"])) for name, file in value.items()]
    return [Upload(str(file["name"]), bytes(file["content"])) for file in value]


class Table(Control):
    """An upload button for a CSV file; its value is the file's rows or a DataFrame that was set."""

    def __init__(self, form_field: FormField) -> None:
        self._upload = upload_button(f"{form_field.label}: choose a CSV file", ".csv")
        super().__init__(form_field, self._upload)
        self._frame: pd.DataFrame | None = None
        self._upload.observe(lambda _: self._read(), names="value")
        self._name = self._problem = ""
        self._watchers: list[Callable[[], None]] = []

    @property
    def value(self) -> pd.DataFrame | None:
        """The rows."""
        # Raised here and not on upload: ipywidgets only logs an exception of a callback.
        if self._problem:
            raise InvalidRequest(self._problem, field=self.form_field.name)
        return self._frame

    @value.setter
    def value(self, frame: pd.DataFrame | None) -> None:
        self._frame, self._name, self._problem = frame, "", ""
        self._notify()

    @property
    def source(self) -> str:
        """The call that reads the file; a variable named as the argument for a frame that was set."""
        return f"pd.read_csv({self._name!r})" if self._name else self.form_field.name

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the table changes."""
        self._watchers.append(changed)

    def _notify(self) -> None:
        for changed in self._watchers:
            changed()

    def _read(self) -> None:
        for file in uploads(self._upload):
            self._name = file.name
            try:
                self._frame = pd.read_csv(io.BytesIO(file.content))
                self._problem = ""
            except ValueError as error:
                self._frame = None
                self._problem = f"{self.form_field.name}: {file.name!r} is not a CSV file: {error}"
        self._notify()
