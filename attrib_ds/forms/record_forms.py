"""The forms that search, count, export and send records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrib_ds import plots
from attrib_ds.api.campaigns import create_campaign as create
from attrib_ds.api.campaigns import create_outlays, list_campaigns
from attrib_ds.api.events import send_events as send
from attrib_ds.api.events import update_states
from attrib_ds.api.interactions import interaction_insights, search_interactions
from attrib_ds.api.offline_conversions import send_conversions
from attrib_ds.api.results import export_users
from attrib_ds.api.users import search_users
from attrib_ds.filters.vocabulary import Kind, vocabulary
from attrib_ds.forms import controls, elements
from attrib_ds.forms.controls import Control, Table, TextInput, TextLines, control_for
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Download, Downloads, Form, Step, show_frame
from attrib_ds.forms.form_fields import FormField
from attrib_ds.project import Project

#: Columns of a search, to begin with.
_VISIT_COLUMNS: Final = (
    "startDate",
    "type",
    "nodeId",
    "userId",
    "hitCount",
    "duration",
    "geo.countryCode",
    "geo.city",
)


def search(project: Project) -> Form:
    """Make a form that searches interactions.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.search_interactions`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, interaction, sample_project
    >>> form = forms.search(sample_project())
    >>> form.value = {"where": interaction("geo.countryCode") == "FR", "limit": 3}
    >>> len(form.run())
    3
    """
    step = Step(
        search_interactions,
        "interactions",
        first=("where", "since", "until", "limit"),
        custom_controls={**filter_controls(project), "columns": _visit_columns},
    )
    return Form(
        "Search visits",
        [step],
        subject=project,
        about="Visits and other contacts, one row each.",
        show=lambda interactions, form: show_frame(interactions, "Visits", "interactions", form),
        action="Search",
    )


def insights(project: Project) -> Form:
    """Make a form that counts interactions by group and interval.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.interaction_insights`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.insights(sample_project())
    >>> form.value = {"interval": "quarter"}
    >>> form.run()["interval"].tolist()
    ['2025-Q1', '2025-Q2']
    """
    step = Step(
        interaction_insights,
        "counts",
        first=("group_by", "interval", "where", "since", "until"),
        custom_controls=filter_controls(project),
    )
    return Form(
        "Count visits",
        [step],
        subject=project,
        about="How many visits there were, by day, by country, by any property.",
        show=_show_counts,
        action="Count",
    )


def filter_controls(project: Project) -> dict[str, Callable[[FormField], Control]]:
    """Return the controls for the arguments ``where`` and ``nodes``, with suggestions from the project."""
    kinds: dict[str, Kind] = {"where": "interaction", "nodes": "node"}
    return {name: partial(_filter, project, kind) for name, kind in kinds.items()}


def _filter(project: Project, kind: Kind, form_field: FormField) -> Control:
    return Filter(form_field, kind, suggest=partial(controls.values, project, kind))


def _visit_columns(form_field: FormField) -> Control:
    control = control_for(form_field)
    control.value = list(_VISIT_COLUMNS)
    return control


def _show_counts(counts: Any, form: Form) -> Sequence[Any]:
    shown = show_frame(counts, "Visits", "insights", form)
    if not len(counts) or counts["interval"].isna().all():
        return shown
    return [elements.image(plots.insights(counts), "Interactions over time"), *shown]


#: Columns of a list of users, to begin with; those of fields are the project's own.
_USER_COLUMNS: Final = (
    "_id",
    "eventCount",
    "interactionCount",
    "firstInteractionDate",
    "lastInteractionDate",
)
_WHERE: Final = ("Only users", "Conditions on users; all users by default.")


def users(project: Project) -> Form:
    """Make a form that lists users.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.search_users`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project, user
    >>> form = forms.users(sample_project())
    >>> form.value = {"where": user("interactionCount") > 5, "limit": 3}
    >>> len(form.run())
    3
    """
    step = Step(
        search_users,
        "users",
        leave_out=("sql",),
        first=("where", "columns", "limit"),
        custom_controls={"where": _users, "columns": _first_columns},
        words={"where": _WHERE, "columns": ("Columns", "One per line; fields.email is a field of users.")},
    )
    return Form(
        "List users",
        [step],
        subject=project,
        about="The people behind the visits and conversions, one row each.",
        show=lambda users, form: show_frame(users, "Users", "users", form),
        action="List",
    )


def export(project: Project) -> Form:
    """Make a form that exports users to a CSV or XLSX file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.export_users`), ``.code``, ``.run()``, which returns the
        file.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.export(sample_project())
    >>> form.value = {"path": "users.csv", "columns": ["_id", "fields.email"]}
    >>> print(form.code.splitlines()[-1])
    file = at.export_users(project, path='users.csv', columns=['_id', 'fields.email'])
    """
    step = Step(
        export_users,
        "file",
        first=("path", "columns", "where"),
        custom_controls={"where": _users, "columns": _user_columns},
        words={
            "path": ("File", "Ends with .csv or .xlsx."),
            "where": _WHERE,
            "columns": ("Columns", "One per line; fields.email is a field of users."),
        },
    )
    return Form(
        "Export users",
        [step],
        subject=project,
        about="A list of users as a file, for a mailing or a spreadsheet.",
        show=_show_file,
        action="Export",
    )


def _users(form_field: FormField) -> Control:
    return Filter(form_field, "user")


def _user_columns(form_field: FormField) -> Control:
    # A project has field keys of its own, so these are examples, not a complete list.
    names = [name for name in vocabulary("user") if "." not in name]
    return TextLines(form_field, placeholder=f"one per line: fields.email, {', '.join(names)} …")


def _first_columns(form_field: FormField) -> Control:
    control = _user_columns(form_field)
    control.value = _USER_COLUMNS
    return control


def _show_file(file: Path, _form: Any) -> Sequence[Any]:
    written = f"Wrote {file} ({file.stat().st_size:,} bytes)"
    download = Download(file.name, "application/octet-stream", file.read_bytes)
    return [elements.html(elements.status(written)), Downloads({file.name: download})]


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
        first=("events", "event_type", "dry_run"),
        custom_controls={
            "events": Table,
            "event_type": partial(TextInput, suggested=controls.event_types(project)),
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
    return [elements.html(elements.status(counts)), *show_frame(sent, caption, "sent", form)]


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
            "event_type": partial(TextInput, suggested=controls.event_types(project)),
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


def campaigns(project: Project) -> Form:
    """Make a form that lists the custom campaigns of an integration.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.list_campaigns`), ``.code``, ``.run()``.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.campaigns(sample_project())
    >>> form.value = {"vendor_id": "newsletter"}
    >>> len(form.run()) > 0
    True
    """
    step = Step(
        list_campaigns,
        "campaigns",
        first=("vendor_id", "name_like"),
        custom_controls=_vendor(project),
        words={"name_like": ("Name contains", "Part of the name; all campaigns by default.")},
    )
    return Form(
        "List campaigns",
        [step],
        subject=project,
        about="The campaigns of an integration, with the ids that costs refer to.",
        show=lambda campaigns, form: show_frame(campaigns, "Campaigns", "campaigns", form),
        action="List",
    )


def create_campaign(project: Project) -> Form:
    """Make a form that creates a custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.create_campaign`), ``.code``, ``.run()``, which returns
        the campaign's id.

    Examples
    --------
    >>> from attrib_ds import forms, sample_project
    >>> form = forms.create_campaign(sample_project())
    >>> form.value = {"vendor_id": "newsletter", "campaign_slug": "spring", "name": "Spring sale"}
    >>> len(form.run())
    24
    """
    step = Step(
        create,
        "campaign_id",
        custom_controls=_vendor(project),
        words={"name": ("Name", "As it appears in tables and plots.")},
    )
    return Form(
        "Create a campaign",
        [step],
        subject=project,
        about="A campaign that no advertising service reports: a newsletter, a fair, a leaflet.",
        show=lambda identifier, _: [elements.html(elements.status(f"Created the campaign {identifier}"))],
        action="Create",
    )


def outlays(project: Project) -> Form:
    """Make a form that records the costs of custom campaigns from a CSV file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.create_outlays`), ``.code``, ``.run()``. Setting
        ``frame`` to a DataFrame replaces the file; the code then uses a variable ``frame``.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import create_campaign, forms, sample_project
    >>> shop = sample_project()
    >>> campaign = create_campaign(shop, "newsletter", "spring", name="Spring sale")
    >>> form = forms.outlays(shop)
    >>> form.value = {
    ...     "vendor_id": "newsletter",
    ...     "frame": pd.DataFrame({"campaignId": [campaign], "amount": [120.0],
    ...                            "startDate": ["2025-03-01T00:00:00Z"],
    ...                            "endDate": ["2025-03-31T00:00:00Z"]}),
    ... }
    >>> form.run()["status"].tolist()
    ['created']
    """
    step = Step(
        create_outlays,
        "recorded",
        first=("vendor_id", "frame", "dry_run"),
        custom_controls={**_vendor(project), "frame": Table},
        words={
            "frame": (
                "Costs",
                "Columns: campaignId, amount, startDate, endDate and, if known, country and region.",
            )
        },
    )
    return Form(
        "Record costs",
        [step],
        subject=project,
        about="What campaigns cost, for returns on spend. One row per campaign and period, from a CSV file.",
        show=partial(show_sent, caption="Costs"),
        action="Record",
    )


def _vendor(project: Project) -> dict[str, Callable[[FormField], Control]]:
    return {"vendor_id": partial(TextInput, suggested=controls.vendors(project))}
