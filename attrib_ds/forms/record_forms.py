"""The forms that search, count, export and send records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrib_ds import plots
from attrib_ds.api import campaigns as campaign_calls
from attrib_ds.api import events as event_calls
from attrib_ds.api import interactions, offline_conversions, results
from attrib_ds.api.users import search_users
from attrib_ds.filters.vocabulary import vocabulary
from attrib_ds.forms import controls, elements, form_fields
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Download, Downloads, Form, Inputs, Step, frame_downloads, show_frame
from attrib_ds.project import Project, takes_project

_WAITS: Final = "Nothing is sent before you press {}. To check the rows of the file alone, choose Dry run."
#: Maximum number of rows, to begin with.
_FIRST_ROWS: Final = 1000
#: Columns of a search, to begin with.
_VISIT_COLUMNS: Final = (
    *("startDate", "type", "nodeId", "userId", "hitCount", "duration", "geo.countryCode", "geo.city"),
)
#: Columns of a list of users, to begin with; those of fields are the project's own.
_USER_COLUMNS: Final = (
    *("_id", "eventCount", "interactionCount", "firstInteractionDate", "lastInteractionDate"),
)
# A project has field keys of its own, so these are examples, not a complete list.
_EXAMPLES: Final = ", ".join(name for name in vocabulary("user") if "." not in name)
_OF_USERS: Final[Inputs] = {
    "where": partial(Filter, kind="user"),
    "columns": partial(controls.TextLines, placeholder=f"one per line: fields.email, {_EXAMPLES} …"),
}
_USER_WORDS: Final = form_fields.words_of("users")


@takes_project
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
        interactions.search_interactions,
        "interactions",
        ("where", "since", "until", "limit"),
        filter_controls(project),
    )
    return Form(
        "search",
        [step],
        project,
        partial(show_frame, caption="Visits", stem="interactions"),
        {"columns": _VISIT_COLUMNS, "limit": _FIRST_ROWS},
    )


@takes_project
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
    first = ("group_by", "interval", "where", "since", "until")
    step = Step(interactions.interaction_insights, "counts", first, filter_controls(project))
    return Form("insights", [step], project, _show_counts)


@takes_project
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
        search_users, "users", ("where", "columns", "limit"), _OF_USERS, _USER_WORDS, leave_out=("sql",)
    )
    return Form(
        "users",
        [step],
        project,
        partial(show_frame, caption="Users", stem="users"),
        {"columns": _USER_COLUMNS, "limit": _FIRST_ROWS},
    )


@takes_project
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
    words = {"path": ("File", "Ends with .csv or .xlsx."), **_USER_WORDS}
    step = Step(results.export_users, "file", ("path", "columns", "where"), _OF_USERS, words)
    waits = "Nothing is written before you press Export."
    return Form("export", [step], project, _show_file, waits=waits)


@takes_project
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
    words = form_fields.words_of("send_events")
    inputs = {"events": controls.Table, **_event_type(project)}
    step = Step(event_calls.send_events, "sent", ("events", "event_type", "dry_run"), inputs, words)
    return _sending("events", step, project, "Events")


@takes_project
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
    step = Step(event_calls.update_states, "updated", ("updates", "dry_run"), {"updates": controls.Table})
    return _sending("states", step, project, "States")


@takes_project
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
    words = form_fields.words_of("conversions")
    inputs = {"conversions": controls.Table, **_event_type(project)}
    step = Step(
        offline_conversions.send_conversions,
        "sent",
        (*words, "dry_run"),
        inputs,
        words,
        leave_out=("fields",),
    )
    return _sending("conversions", step, project, "Conversions")


@takes_project
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
    first = ("vendor_id", "name_like")
    step = Step(campaign_calls.list_campaigns, "campaigns", first, _vendor(project))
    show = partial(show_frame, caption="Campaigns", stem="campaigns")
    first_vendor = {"vendor_id": next(iter(controls.vendors(project)), None)}
    return Form("campaigns", [step], project, show, first_vendor)


@takes_project
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
    words = {"name": ("Name", "As it appears in tables and plots.")}
    step = Step(campaign_calls.create_campaign, "campaign_id", custom_controls=_vendor(project), words=words)
    waits = "Nothing is created before you press Create."
    return Form("campaign", [step], project, _show_created, waits=waits)


@takes_project
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
    inputs = {**_vendor(project), "frame": controls.Table}
    step = Step(campaign_calls.create_outlays, "recorded", ("vendor_id", "frame", "dry_run"), inputs)
    return _sending("costs", step, project, "Costs")


def _sending(name: str, step: Step, project: Project, caption: str) -> Form:
    """Return a form that sends the rows of a file, when its button is pressed."""
    show = partial(_show_sent, caption=caption)
    return Form(name, [step], project, show, waits=_WAITS.format(form_fields.TEXTS["forms"][name][2]))


def filter_controls(project: Project) -> Inputs:
    """Return the controls for the arguments ``where`` and ``nodes``, with suggestions from the project."""
    return {
        "where": partial(
            Filter, kind="interaction", suggest=partial(controls.values, project, "interaction")
        ),
        "nodes": partial(Filter, kind="node", suggest=partial(controls.values, project, "node")),
    }


def _vendor(project: Project) -> Inputs:
    return {"vendor_id": partial(controls.TextInput, suggested=controls.vendors(project))}


def _event_type(project: Project) -> Inputs:
    return {"event_type": partial(controls.TextInput, suggested=controls.event_types(project))}


def _show_counts(counts: Any, form: Form) -> Sequence[Any]:
    asked = {"group": form.value.get("group_by"), "interval": form.value.get("interval")}
    words = {name: elements.title(value) for name, value in asked.items() if value}
    table = counts.drop(columns=[name for name in asked if name not in words]).rename(columns=words)
    files = Downloads(frame_downloads(counts, "insights", form.code))
    shown = [elements.table(table, "Visits"), files]
    if not len(counts) or counts["interval"].isna().all():
        return shown
    return [elements.image(plots.insights(counts), "Visits over time"), *shown]


def _show_file(file: Path, _form: Any) -> Sequence[Any]:
    written = f"Wrote {file} ({file.stat().st_size:,} bytes)"
    download = Download(file.name, "application/octet-stream", file.read_bytes)
    return [elements.html(elements.status(written)), Downloads({file.name: download})]


def _show_created(identifier: str, _form: Any) -> Sequence[Any]:
    return [elements.html(elements.status(f"Created the campaign {identifier}"))]


def _show_sent(sent: Any, form: Form, *, caption: str) -> Sequence[Any]:
    """Show what became of rows that were sent: the number by status, and the rows."""
    counts = ", ".join(f"{count:,} {status}" for status, count in sent["status"].value_counts().items())
    return [elements.html(elements.status(counts)), *show_frame(sent, form, caption=caption, stem="sent")]
