"""The forms that search, count and export interactions and users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrib_ds import plots
from attrib_ds.api.insights import interaction_insights
from attrib_ds.api.interactions import search_interactions
from attrib_ds.api.results import export_users
from attrib_ds.api.users import search_users
from attrib_ds.filters.vocabulary import Kind, vocabulary
from attrib_ds.forms import controls, elements
from attrib_ds.forms.controls import Control, TextLines, control_for
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
