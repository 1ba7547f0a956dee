"""The workbench: opens a project and shows its forms in tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.forms import elements
from attrib_ds.forms.attribution_form import attribution
from attrib_ds.forms.connection_form import connection
from attrib_ds.forms.event_form import send_events
from attrib_ds.forms.export_form import export
from attrib_ds.forms.interaction_forms import insights, search
from attrib_ds.project import connect, home
from attrib_ds.sample.shop import sample_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.forms.form import Form
    from attrib_ds.project import Project

_SAMPLE: Final = "The sample shop"
_ANOTHER: Final = "Another project …"
#: Forms of a project by tab title.
_FORMS: Final[dict[str, Callable[[Project], Form]]] = {
    "Attribution": attribution,
    "Interactions": search,
    "Counts": insights,
    "Users": export,
    "Events": send_events,
}


class Workbench:
    """A menu of projects and a tab for each form of the open one, from :func:`workbench`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    project : Project or None
        The open project.
    forms : dict of str to Form
        Forms of the open project by tab title.
    """

    def __init__(self) -> None:
        self.project: Project | None = None
        self.forms: dict[str, Form] = {}
        projects = sorted(file.stem for file in home().glob("*.duckdb")) if home().is_dir() else []
        self._choice = ipywidgets.Dropdown(
            options=[_SAMPLE, *projects, _ANOTHER], description="Project", style={"description_width": "auto"}
        )
        self._connection = connection()
        self._status = ipywidgets.HTML()
        self._tabs = ipywidgets.Tab()
        self._connection_area = ipywidgets.VBox()
        button = elements.button("Open", self._open, problem=self._status, is_main=True)
        menu = ipywidgets.HBox([self._choice, button])
        title = ipywidgets.HTML("<h2>Attribution workbench</h2>")
        self.widget = ipywidgets.VBox([title, menu, self._connection_area, self._status, self._tabs])
        self._choice.observe(lambda _: self._toggle_connection(), names="value")
        self._connection.on_result(self._open_connected)

    def open(self, project: Project) -> None:
        """Show the forms of a project and close the previous one."""
        if self.project is not None and self.project is not project:
            self.project.close()
        self.project = project
        self.forms = {title: form(project) for title, form in _FORMS.items()}
        self._tabs.children = [form.widget for form in self.forms.values()]
        self._tabs.titles = tuple(self.forms)
        self._status.value = elements.status(f"Open: {project.project_id} at {project.transport.address}")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    def _toggle_connection(self) -> None:
        """Show the connection form if the project is not in the menu."""
        is_another = self._choice.value == _ANOTHER
        self._connection_area.children = [self._connection.widget] if is_another else []

    def _open_connected(self, project: Project) -> None:
        self._connection_area.children = []
        self.open(project)

    def _open(self) -> None:
        if self._choice.value == _ANOTHER:
            return
        self._status.value = elements.status("Opening …")
        chosen = self._choice.value
        self.open(sample_project() if chosen == _SAMPLE else connect(chosen))


def workbench() -> Workbench:
    """Make the workbench that ``attrib-ds app`` shows.

    Returns
    -------
    Workbench
        Displays itself in a notebook.

    Examples
    --------
    >>> from attrib_ds import sample_project
    >>> from attrib_ds.forms.workbench import workbench
    >>> bench = workbench()
    >>> bench.open(sample_project())
    >>> list(bench.forms)
    ['Attribution', 'Interactions', 'Counts', 'Users', 'Events']
    """
    return Workbench()
