"""The form that sends the conversions of a CRM from a CSV file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrib_ds.api.offline_conversions import send_conversions
from attrib_ds.forms import suggestions
from attrib_ds.forms.controls import TextInput
from attrib_ds.forms.event_forms import show_sent
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.table_upload import Table

if TYPE_CHECKING:
    from attrib_ds.project import Project


def conversions(project: Project) -> Form:
    """Make a form that sends the deals of a CRM, or the orders of a shop, from the columns of a CSV file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.send_conversions`), ``.code``, ``.run()``. Setting
        ``conversions`` to a DataFrame replaces the file; the code then uses a variable ``conversions``.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, forms
    >>> deals = pd.DataFrame({"Deal": [17], "Contact": ["anna@example.com"], "Closed": ["2025-01-31"]})
    >>> form = forms.conversions(connect("my-shop", path=":memory:"))
    >>> form.value = {"conversions": deals, "email": "Contact", "date": "Closed", "id": "Deal"}
    >>> form.run()["status"].tolist()
    ['processed']
    """
    step = Step(
        send_conversions,
        "sent",
        leave_out=("fields",),
        first=("conversions", "email", "date", "id", "value", "currency", "event_type", "dry_run"),
        custom_controls={
            "conversions": Table,
            "event_type": partial(TextInput, suggested=suggestions.event_types(project)),
        },
        words={
            "conversions": ("Conversions", "One row per deal or order, with any columns."),
            "email": ("Email", "The column with the email address of the person."),
            "date": ("Date", "The column with the day or time of the conversion."),
            "id": ("Id", "The column with the id. A file that is sent again stores each id once."),
            "value": ("Value", "The column with the amount."),
            "currency": ("Currency", "A column, or one currency for all, such as EUR."),
            "event_type": ("Event type", "What the rows are: orders, deals. It is created if it is missing."),
        },
    )
    return Form(
        "Send conversions",
        [step],
        subject=project,
        about="Deals of a CRM or orders of a shop, from the columns of its own CSV file.",
        show=partial(show_sent, caption="Conversions"),
        action="Send",
    )
