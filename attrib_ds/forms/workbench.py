"""The workbench: a project, and the forms that ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.forms import look
from attrib_ds.forms.connecting import connection
from attrib_ds.forms.crediting import attribution
from attrib_ds.forms.interactions import insights, search
from attrib_ds.forms.sending import send_events
from attrib_ds.forms.users import export
from attrib_ds.project import connect, home
from attrib_ds.sample.shop import sample_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.forms.form import Form
    from attrib_ds.project import Project

_SAMPLE: Final = "The sample shop"
_ANOTHER: Final = "Another project …"
#: The forms of a project by the title of their tab.
_FORMS: Final[dict[str, Callable[[Project], Form]]] = {
    "Attribution": attribution,
    "Interactions": search,
    "Counts": insights,
    "Users": export,
    "Events": send_events,
}


class Workbench:
    """A project to choose, and a tab for each of its forms, from :func:`workbench`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        What is shown.
    project : Project or None
        The one that is open.
    forms : dict of str to Form
        Its forms by the title of their tab.
    """

    def __init__(self) -> None:
        self.project: Project | None = None
        self.forms: dict[str, Form] = {}
        known = sorted(each.stem for each in home().glob("*.duckdb")) if home().is_dir() else []
        self._choice = ipywidgets.Dropdown(
            options=[_SAMPLE, *known, _ANOTHER], description="Project", style={"description_width": "auto"}
        )
        self._connection = connection()
        self._status = ipywidgets.HTML()
        self._tabs = ipywidgets.Tab()
        self._place = ipywidgets.VBox()
        pressed = look.button("Open", self._open, problem=self._status, is_main=True)
        opening = ipywidgets.HBox([self._choice, pressed])
        title = ipywidgets.HTML("<h2>Attribution workbench</h2>")
        self.widget = ipywidgets.VBox([title, opening, self._place, self._status, self._tabs])
        self._choice.observe(lambda _: self._ask(), names="value")
        self._connection.on_result(self._take)

    def open(self, project: Project) -> None:
        """Show the forms of a project, in place of those of the one before, which is closed."""
        if self.project is not None and self.project is not project:
            self.project.close()
        self.project = project
        self.forms = {title: form(project) for title, form in _FORMS.items()}
        self._tabs.children = [each.widget for each in self.forms.values()]
        self._tabs.titles = tuple(self.forms)
        self._status.value = look.said(f"Open: {project.project_id} at {project.transport.address}")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    def _ask(self) -> None:
        """Show the form of connections where the project is none of the list."""
        is_another = self._choice.value == _ANOTHER
        self._place.children = [self._connection.widget] if is_another else []

    def _take(self, project: Project) -> None:
        self._place.children = []
        self.open(project)

    def _open(self) -> None:
        if self._choice.value == _ANOTHER:
            return
        self._status.value = look.said("Opening …")
        chosen = self._choice.value
        self.open(sample_project() if chosen == _SAMPLE else connect(chosen))


def workbench() -> Workbench:
    """Make the workbench that ``attrib-ds app`` shows.

    Returns
    -------
    Workbench
        It displays itself in a notebook.

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
