"""The form that sends events from a CSV file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd

from attrib_ds.api.events import send_events as send
from attrib_ds.errors import InvalidRequest
from attrib_ds.forms import elements, suggestions
from attrib_ds.forms.controls import Control, TextInput
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.generated_code import write_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from attrib_ds.forms.form_fields import FormField
    from attrib_ds.project import Project


def send_events(project: Project) -> Form:
    """Make a form that sends the rows of a CSV file as events.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.send_events`), ``.code``, ``.run()``. Setting ``events``
        to a DataFrame replaces the file; the code then uses a variable ``events``.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, forms
    >>> shop = connect("my-shop", path=":memory:")
    >>> _ = create_event_type(shop, reference="order", name="Order")
    >>> orders = pd.DataFrame({"data.user.email": ["ann@example.com"], "eventDate": ["2025-01-31T12:00:00Z"]})
    >>> form = forms.send_events(shop)
    >>> form.value = {"events": orders, "event_type": "order"}
    >>> form.run()["status"].tolist()
    ['processed']
    """

    def event_type(form_field: FormField) -> Control:
        return TextInput(form_field, suggested=suggestions.event_types(project))

    step = Step(
        send,
        "sent",
        leave_out=("journal",),
        first=("events", "event_type", "dry_run"),
        custom_controls={"events": Table, "event_type": event_type},
    )
    return Form(
        "Send events", [step], subject=project, opening=write_connect(project), show=show_sent, action="Send"
    )


class Table(Control):
    """An upload button for a CSV file; its value is the file's rows or a DataFrame that was set."""

    def __init__(self, form_field: FormField) -> None:
        self._upload = ipywidgets.FileUpload(accept=".csv", description=f"{form_field.label} (CSV file)")
        self._upload.layout.width = "auto"
        self._frame: pd.DataFrame | None = None
        super().__init__(form_field, self._upload)
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
        """The call that reads the file; the variable ``events`` for a frame that was set."""
        return f"pd.read_csv({self._name!r})" if self._name else self.form_field.name

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the table changes."""
        self._watchers.append(changed)

    def _notify(self) -> None:
        for changed in self._watchers:
            changed()

    def _read(self) -> None:
        for file in self._upload.value:
            try:
                self._frame = pd.read_csv(io.BytesIO(bytes(file["content"])))
                self._problem = ""
            except ValueError as error:
                self._frame = None
                self._problem = f"{self.form_field.name}: {file['name']!r} is not a CSV file: {error}"
            self._name = str(file["name"])
        self._notify()


def show_sent(sent: Any, form: Form) -> Sequence[str]:
    """Return the outcome of each row, and how many had each."""
    counts = ", ".join(f"{count:,} {status}" for status, count in sent["status"].value_counts().items())
    return [
        elements.status(counts),
        elements.table(sent, "Events"),
        elements.download_links(sent, "sent", form.code),
    ]
