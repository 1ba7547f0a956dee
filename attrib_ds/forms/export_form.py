"""The form that exports users to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.api.exports import export_users
from attrib_ds.filters.vocabulary import vocabulary
from attrib_ds.forms import elements
from attrib_ds.forms.controls import Control, TextLines
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.generated_code import write_connect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from attrib_ds.forms.form_fields import FormField
    from attrib_ds.project import Project


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
    file = export_users(project, path='users.csv', columns=['_id', 'fields.email'])
    """
    step = Step(
        export_users,
        "file",
        first=("path", "columns", "where"),
        custom_controls={"where": _users, "columns": _columns},
    )
    return Form(
        "Export users",
        [step],
        subject=project,
        opening=write_connect(project),
        show=_show_file,
        action="Export",
    )


def _users(form_field: FormField) -> Control:
    return Filter(form_field, "user")


def _columns(form_field: FormField) -> Control:
    # A project has field keys of its own, so these are examples, not a complete list.
    names = [name for name in vocabulary("user") if "." not in name]
    return TextLines(form_field, placeholder=f"one per line: fields.email, {', '.join(names)} …")


def _show_file(file: Path, _form: Any) -> Sequence[str]:
    content = file.read_bytes()
    return [
        elements.status(f"Wrote {file} ({len(content):,} bytes)"),
        elements.download_link(file.name, content, "application/octet-stream", "Save the file"),
    ]
