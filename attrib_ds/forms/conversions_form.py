"""The form that sends the conversions of a CRM from a CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.api.offline_conversions import send_conversions
from attrib_ds.forms import suggestions
from attrib_ds.forms.controls import Control, TextInput
from attrib_ds.forms.event_form import Table, show_sent
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.generated_code import write_connect

if TYPE_CHECKING:
    from attrib_ds.forms.form_fields import FormField
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

    def event_type(form_field: FormField) -> Control:
        return TextInput(form_field, suggested=suggestions.event_types(project))

    step = Step(
        send_conversions,
        "sent",
        leave_out=("fields",),
        first=("conversions", "email", "date", "id", "value", "currency", "event_type", "dry_run"),
        custom_controls={"conversions": Table, "event_type": event_type},
    )
    return Form(
        "Send conversions",
        [step],
        subject=project,
        opening=write_connect(project),
        show=show_sent,
        action="Send",
    )
