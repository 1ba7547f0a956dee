"""A form that exports users to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.api.exports import export_users
from attrib_ds.filters.vocabulary import vocabulary
from attrib_ds.forms import look
from attrib_ds.forms.controls import Control, Lines
from attrib_ds.forms.filter_builder import Filter
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.reopening import reopening

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from attrib_ds.forms.questions import Question
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
        made={"where": _users, "columns": _columns},
    )
    return Form(
        "Export users", [step], subject=project, opening=reopening(project), show=_written, action="Export"
    )


def _users(question: Question) -> Control:
    return Filter(question, "user")


def _columns(question: Question) -> Control:
    # Keys of fields are the project's own, so these are examples and not all there is.
    known = [name for name in vocabulary("user") if "." not in name]
    return Lines(question, placeholder=f"one a line: fields.email, {', '.join(known)} …")


def _written(file: Path, _form: Any) -> Sequence[str]:
    content = file.read_bytes()
    return [
        look.said(f"Written: {file} ({len(content):,} bytes)"),
        look.link(file.name, content, "application/octet-stream", "Save it"),
    ]
