"""A form that sends the events of a table."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd

from attrib_ds.api.events import send_events as send
from attrib_ds.errors import InvalidRequest
from attrib_ds.forms import look, suggestions
from attrib_ds.forms.controls import Control, Written
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.reopening import reopening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from attrib_ds.forms.questions import Question
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
        ``.value`` (the arguments of :func:`attrib_ds.send_events`; ``events`` may be set to a DataFrame,
        which the code calls ``events``), ``.code``, ``.run()``.


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

    def event_type(question: Question) -> Control:
        return Written(question, offered=suggestions.event_types(project))

    step = Step(
        send,
        "sent",
        leave_out=("journal",),
        first=("events", "event_type", "dry_run"),
        made={"events": Table, "event_type": event_type},
    )
    return Form("Send events", [step], subject=project, opening=reopening(project), show=_sent, action="Send")


class Table(Control):
    """A table: the rows of a CSV file, or a frame that was set."""

    def __init__(self, question: Question) -> None:
        self._upload = ipywidgets.FileUpload(accept=".csv", description=f"{question.label} (CSV file)")
        self._upload.layout.width = "auto"
        self._frame: pd.DataFrame | None = None
        super().__init__(question, self._upload)
        self._upload.observe(lambda _: self._read(), names="value")
        self._name = self._problem = ""
        self._watchers: list[Callable[[], None]] = []

    @property
    def value(self) -> pd.DataFrame | None:
        """The rows."""
        # Told here and not where the file was read: an error in a widget's callback reaches nobody.
        if self._problem:
            raise InvalidRequest(self._problem, field=self.question.name)
        return self._frame

    @value.setter
    def value(self, frame: pd.DataFrame | None) -> None:
        self._frame, self._name, self._problem = frame, "", ""
        for each in self._watchers:
            each()

    @property
    def source(self) -> str:
        """The file as Python reads it; a frame that was set is called ``events``."""
        return f"pd.read_csv({self._name!r})" if self._name else self.question.name

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever there is another table."""
        self._watchers.append(changed)

    def _read(self) -> None:
        for file in self._upload.value:
            try:
                self._frame = pd.read_csv(io.BytesIO(bytes(file["content"])))
                self._problem = ""
            except ValueError as error:
                self._frame = None
                self._problem = f"{self.question.name}: {file['name']!r} is not a CSV file: {error}"
            self._name = str(file["name"])
        for each in self._watchers:
            each()


def _sent(sent: Any, form: Form) -> Sequence[str]:
    counted = ", ".join(f"{count:,} {status}" for status, count in sent["status"].value_counts().items())
    return [look.said(counted), look.table(sent, "Events"), look.links(sent, "sent", form.code)]
