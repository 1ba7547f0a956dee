"""Writes how a project is opened, for code that somebody runs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrib_ds.project import Project


def reopening(project: Project) -> str:
    """Return the line that opens a project again; a comment where it has no address.

    Examples
    --------
    >>> from attrib_ds import sample_project
    >>> reopening(sample_project())
    "# project: the open project 'sample-shop'"
    """
    address = project.transport.address
    if address == ":memory:":
        return f"# project: the open project {project.project_id!r}"
    place = "url" if "://" in address else "path"
    return f"project = connect({project.project_id!r}, {place}={address!r})"
