"""The forms that list users and export them to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.api.exports import export_users
from attrib_ds.api.users import search_users
from attrib_ds.filters.vocabulary import vocabulary
from attrib_ds.forms import elements, messages
from attrib_ds.forms.controls import Control, TextLines
from attrib_ds.forms.downloads import Download, Downloads, show_frame
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from attrib_ds.forms.form_fields import FormField
    from attrib_ds.project import Project


#: Columns of a list of users, to begin with; those of fields are the project's own.
_COLUMNS: Final = ("_id", "eventCount", "interactionCount", "firstInteractionDate", "lastInteractionDate")
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
        leave_out=("chunks", "to", "sql"),
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
        custom_controls={"where": _users, "columns": _columns},
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


def _columns(form_field: FormField) -> Control:
    # A project has field keys of its own, so these are examples, not a complete list.
    names = [name for name in vocabulary("user") if "." not in name]
    return TextLines(form_field, placeholder=f"one per line: fields.email, {', '.join(names)} …")


def _first_columns(form_field: FormField) -> Control:
    control = _columns(form_field)
    control.value = _COLUMNS
    return control


def _show_file(file: Path, _form: Any) -> Sequence[Any]:
    written = f"Wrote {file} ({file.stat().st_size:,} bytes)"
    download = Download(file.name, "application/octet-stream", file.read_bytes)
    return [elements.html(messages.status(written)), Downloads({file.name: download})]
