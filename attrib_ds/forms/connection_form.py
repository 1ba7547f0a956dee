"""The form that opens a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.forms import elements, messages
from attrib_ds.forms.form import Form, Step
from attrib_ds.project import connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.project import Project


def connection() -> Form:
    """Make a form that opens an embedded project or one of a remote service.

    Returns
    -------
    Form
        ``.value`` (the arguments of :func:`attrib_ds.connect`), ``.code``, ``.run()``, which returns the
        project and keeps it in ``.result``. A key is entered as the path of its file, never as its content.

    Examples
    --------
    >>> from attrib_ds import forms
    >>> form = forms.connection()
    >>> form.value = {"project_id": "my-shop", "path": ":memory:"}
    >>> form.run()
    <Project 'my-shop' at :memory:>
    """
    step = Step(connect, "project", first=("project_id", "path", "url", "key"))
    return Form(
        "Open a project or a service",
        [step],
        subject=None,
        about="A project in a file of this machine, or one of an attribution service elsewhere.",
        show=_show_project,
        action="Open",
    )


def _show_project(project: Project, _form: Any) -> Sequence[Any]:
    return [elements.html(messages.status(f"Open: {project.project_id} at {project.transport.address}"))]
