"""The forms that send events and states from CSV files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrib_ds.api.events import send_events as send
from attrib_ds.api.events import update_states
from attrib_ds.forms import elements, messages, suggestions
from attrib_ds.forms.controls import TextInput
from attrib_ds.forms.downloads import show_frame
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.table_upload import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    step = Step(
        send,
        "sent",
        leave_out=("journal",),
        first=("events", "event_type", "dry_run"),
        custom_controls={
            "events": Table,
            "event_type": partial(TextInput, suggested=suggestions.event_types(project)),
        },
        words={
            "events": ("Events", "One row per event, with the columns eventDate and data.user.email, say."),
            "event_type": ("Event type", "What the rows are: orders, leads."),
        },
    )
    return Form(
        "Send events",
        [step],
        subject=project,
        about="Orders, leads and other events from a CSV file, one row each.",
        show=partial(show_sent, caption="Events"),
        action="Send",
    )


def states(project: Project) -> Form:
    """Make a form that sets states of events, such as confirmed or refunded, from a CSV file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.update_states`), ``.code``, ``.run()``. Setting
        ``updates`` to a DataFrame replaces the file; the code then uses a variable ``updates``.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.states(sample_project())
    >>> changes = {"id": ["6774887f3fd0b1876c000000"], "storageKey": ["confirmed"], "value": [1]}
    >>> form.value = {"updates": pd.DataFrame(changes), "dry_run": True}
    >>> form.run()["status"].tolist()
    ['valid']
    """
    step = Step(
        update_states,
        "updated",
        leave_out=("journal",),
        first=("updates", "dry_run"),
        custom_controls={"updates": Table},
        words={
            "updates": (
                "States",
                "Columns: id of the event, storageKey (the state), value (1 or 0) and, if known, date.",
            )
        },
    )
    return Form(
        "Set states of events",
        [step],
        subject=project,
        about="What became of orders and leads: confirmed, refunded, won. A CSV file, one row per change.",
        show=partial(show_sent, caption="States"),
        action="Set states",
    )


def show_sent(sent: Any, form: Form, *, caption: str) -> Sequence[Any]:
    """Show what became of rows that were sent: the number by status, and the rows."""
    counts = ", ".join(f"{count:,} {status}" for status, count in sent["status"].value_counts().items())
    return [elements.html(messages.status(counts)), *show_frame(sent, caption, "sent", form)]
