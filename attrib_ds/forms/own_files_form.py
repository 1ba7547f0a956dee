"""The form that credits the conversions in two files of the user."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import ipywidgets

from attrib_ds.errors import InvalidRequest
from attrib_ds.forms import elements, messages
from attrib_ds.forms.attribution_form import credits_step, show_credits
from attrib_ds.forms.controls import Control
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.table_upload import upload_button, uploads
from attrib_ds.importers.journeys import Journeys
from attrib_ds.importers.own_files import find_columns, read_journeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from attrib_ds.forms.form_fields import FormField

#: What a column can be, in words, by role.
_ROLES: Final = {
    "user": "Person",
    "device": "Device",
    "node": "Channel or campaign",
    "date": "Time",
    "conversion": "Conversion id",
    "value": "Value",
    "quantity": "Quantity",
    "currency": "Currency",
}
#: Roles that each file may have.
_OF_FILES: Final = {
    "touchpoints": ("user", "device", "node", "date"),
    "conversions": ("user", "device", "date", "conversion", "value", "quantity", "currency"),
}
_FOUND: Final = "(as found)"


def own_files() -> Form:
    """Make a form that credits the conversions of one file to the touchpoints of another.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.read_journeys`, of its method ``paths`` and of
        :func:`attrib_ds.attribute`), ``.code``, ``.run()``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from attrib_ds import forms
    >>> folder = Path(tempfile.mkdtemp())
    >>> clicks = pd.DataFrame({"user": ["u", "u"], "channel": ["search", "email"],
    ...                        "date": ["2025-01-01", "2025-01-02"]})
    >>> clicks.to_csv(folder / "clicks.csv", index=False)
    >>> pd.DataFrame({"user": ["u"], "date": ["2025-01-03"]}).to_csv(folder / "orders.csv", index=False)
    >>> form = forms.own_files()
    >>> form.value = {"touchpoints": folder / "clicks.csv", "conversions": folder / "orders.csv"}
    >>> form.value = {"models": ["linear"]}
    >>> form.run()["conversions"].tolist()
    [0.5, 0.5]
    """
    files: dict[str, FileInput] = {}

    def file(form_field: FormField) -> Control:
        files[form_field.name] = FileInput(form_field)
        return files[form_field.name]

    journeys = Step(
        read_journeys,
        "journeys",
        leave_out=("event_type",),
        first=("touchpoints", "conversions", "columns"),
        custom_controls={"touchpoints": file, "conversions": file, "columns": partial(ColumnChoice, files)},
        words={
            "touchpoints": ("Visits", "One row per visit or ad contact: who, which channel, when."),
            "conversions": ("Conversions", "One row per order or lead: who, when and, if known, its value."),
            "columns": ("Columns", "Found by their names. Choose another if one is wrong."),
        },
    )
    of_frames = ("adjustments", "in_currency", "rates", "later_rate")
    paths = Step(Journeys.paths, "paths", first=("lookback",), leave_out=("event_type", "level", *of_frames))
    return Form(
        "Which channels earned the conversions in my files?",
        [journeys, paths, credits_step()],
        subject=None,
        about="Two tables as they come out of your tools; columns with common names are found.",
        show=show_credits,
        action="Credit",
    )


class FileInput(Control):
    """An upload button for a file; its value is the path of a copy, or a path that was set."""

    def __init__(self, form_field: FormField) -> None:
        label = form_field.label.lower()
        self._upload = upload_button(f"Choose the file of {label}", ".csv,.tsv,.parquet,.ndjson,.json,.xlsx")
        self._folder = tempfile.TemporaryDirectory(prefix="attrib-ds-")
        self._chosen = elements.html()
        heading = elements.html(f'<div class="widget-label">{form_field.label}</div>')
        super().__init__(form_field, heading, self._upload, self._chosen)
        self._path: Path | None = None
        self._watchers: list[Callable[[], None]] = []
        self._upload.observe(lambda _: self._keep(), names="value")

    @property
    def value(self) -> Path | None:
        """Path of the file."""
        return self._path

    @value.setter
    def value(self, path: Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._chosen.value = "" if self._path is None else messages.status(self._path.name)
        for changed in self._watchers:
            changed()

    @property
    def source(self) -> str:
        """The file's name, for code that runs beside the file; the path if one was set."""
        is_copy = self._path is not None and self._path.parent == Path(self._folder.name)
        return repr(self._path.name if is_copy and self._path else str(self._path))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever another file is chosen."""
        self._watchers.append(changed)

    def _keep(self) -> None:
        for upload in uploads(self._upload):
            path = Path(self._folder.name) / Path(upload.name).name
            path.write_bytes(upload.content)
            self.value = path


class ColumnChoice(Control):
    """A menu for the column of each role; its value has the roles for which another column was chosen."""

    def __init__(self, files: Mapping[str, FileInput], form_field: FormField) -> None:
        self._files = files
        self._menus = {
            role: ipywidgets.Dropdown(options=[_FOUND], description=label) for role, label in _ROLES.items()
        }
        self._problem = elements.html()
        super().__init__(form_field, elements.box("columns-found", *self._menus.values(), self._problem))
        self.widget.layout.display = "none"
        for file in files.values():
            file.watch(self._find)

    @property
    def value(self) -> dict[str, str] | None:
        """The chosen columns, by role."""
        chosen = {role: menu.value for role, menu in self._menus.items() if not menu.value.endswith(_FOUND)}
        return chosen or None

    @value.setter
    def value(self, columns: Mapping[str, str] | None) -> None:
        for role in columns or {}:
            if role not in self._menus:
                raise InvalidRequest.choice("columns", role, self._menus)
        for role, menu in self._menus.items():
            column = (columns or {}).get(role)
            if column is not None and column not in menu.options:
                menu.options = [*menu.options, column]
            menu.value = column or menu.options[0]

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever another column is chosen."""
        for menu in self._menus.values():
            menu.observe(lambda _: changed(), names="value")

    def _find(self) -> None:
        """Show the columns found in the files."""
        columns: list[str] = []
        found: dict[str, dict[str, None]] = {}
        self._problem.value = ""
        for name, file in self._files.items():
            if file.value is None:
                continue
            try:
                names, by_role = find_columns(file.value, _OF_FILES[name])
            except Exception as error:  # noqa: BLE001  (shown in the form)
                self._problem.value = messages.alert(messages.error_message(error))
                continue
            columns += [column for column in names if column not in columns]
            for role, of_role in by_role.items():
                found.setdefault(role, {}).update(dict.fromkeys(of_role))
        for role, menu in self._menus.items():
            first = f"{' and '.join(found[role])} {_FOUND}" if role in found else f"none {_FOUND}"
            menu.options = [first, *columns]
            menu.value = first
        self.widget.layout.display = "" if columns or self._problem.value else "none"
