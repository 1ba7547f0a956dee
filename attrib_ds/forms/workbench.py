"""The workbench, and how Voilà serves it: a start page, then the forms of the project that was opened."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import ipywidgets

from attrib_ds.errors import AttribError, NotSupported
from attrib_ds.forms import elements, record_forms
from attrib_ds.forms.attribution_form import attribution, own_files
from attrib_ds.forms.elements import Displayed
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.live_page import Live, live
from attrib_ds.project import Project, connect, home
from attrib_ds.sample.shop import sample_project

#: Forms of a project by the title of their page.
_FORMS: Final[dict[str, Callable[[Project], Form | Live]]] = {
    "Credits": attribution,
    "Live": live,
    "Visits": record_forms.search,
    "Counts": record_forms.insights,
    "Users": record_forms.users,
    "Export users": record_forms.export,
    "Conversions": record_forms.conversions,
    "Events": record_forms.send_events,
    "States": record_forms.states,
    "Campaigns": record_forms.campaigns,
    "New campaign": record_forms.create_campaign,
    "Costs": record_forms.outlays,
}
_TITLE: Final = (
    "<h1>Which marketing led to your conversions?</h1>"
    "<p>Divide orders, leads and their value among the visits before them, by several models side by side. "
    "Look at plots and tables, and save them as a report, a workbook or code. Your data stays on this "
    "machine.</p>"
)
_WAYS: Final = (
    "<h2>Look around</h2><p>A made-up shop: half a year of visits, costs and orders.</p>",
    "<h2>Use two files of your own</h2><p>One with visits, one with conversions. CSV will do.</p>",
    "<h2>Open a project</h2><p>One that is kept on this machine, or at a service elsewhere.</p>",
)


class Workbench(Displayed):
    """A start page, and a page for each form of the open project, from :func:`workbench`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    project : Project or None
        The open project.
    forms : dict of str to Form or Live
        Forms that were shown, by the title of their page.
    """

    def __init__(self) -> None:
        self.project: Project | None = None
        self.forms: dict[str, Form | Live] = {}
        self._status = elements.html()
        self._tabs = ipywidgets.ToggleButtons(options=list(_FORMS), description="")
        self._tabs.observe(lambda _: self._show_form(), names="value")
        self._heading, self._form_area = elements.html(), elements.box("form-area")
        self._body = elements.box("body")
        self.widget = elements.page(self._body)
        self._connection, self._own_files = connection(), own_files()
        self._connection.on_result(self.open)
        self.start()

    def start(self) -> None:
        """Show the start page; the project stays open until another is opened."""
        self._status.value = ""
        projects = sorted(file.stem for file in home().glob("*.duckdb")) if home().is_dir() else []
        choice = ipywidgets.Dropdown(options=projects, description="Project")
        opening = self._button("Open", lambda: self._open(connect, choice.value))
        kept = [elements.box("field", choice), opening] if projects else []
        sample = self._button("Open the sample", lambda: self._open(sample_project), is_main=True)
        files = self._button("Use my files", lambda: self._show_alone(self._own_files))
        service = self._button("Open or connect …", lambda: self._show_alone(self._connection))
        ways = ((sample,), (files,), (*kept, service))
        cards = [
            elements.box("card", elements.html(text), *way) for text, way in zip(_WAYS, ways, strict=True)
        ]
        self._body.children = [elements.html(_TITLE), elements.box("ways", *cards), self._status]

    def open(self, project: Project) -> None:
        """Show the forms of a project and close the previous one."""
        if self.project is not None and self.project is not project:
            self.project.close()
        self.project, self.forms = project, {}
        address = project.transport.address
        place = "kept in memory, and lost when the page is closed" if address == ":memory:" else address
        self._heading.value = f"<h1>{project.project_id}</h1>{elements.status(f'Project {place}')}"
        tabs = elements.box("tabs", self._tabs)
        self._body.children = [self._bar(self._heading), tabs, self._form_area]
        first = next(iter(_FORMS))
        if self._tabs.value == first:
            self._show_form()
        self._tabs.value = first

    def show(self, title: str) -> Form | Live:
        """Show the form of a page, and return it."""
        self._tabs.value = title
        return self.forms[title]

    def _button(self, label: str, on_click: Callable[[], Any], *, is_main: bool = False) -> Any:
        return elements.button(label, on_click, problem=self._status, is_main=is_main)

    def _bar(self, *parts: Any) -> Any:
        back = self._button("← Start", self.start)
        return elements.row("bar", *parts, back)

    def _open(self, opening: Callable[..., Project], *arguments: str) -> None:
        self._status.value = elements.status("Opening …")
        self.open(opening(*arguments))

    def _show_alone(self, form: Form) -> None:
        """Show a form that needs no project."""
        self._body.children = [self._bar(elements.html("<h1>Attribution workbench</h1>")), form.widget]

    def _show_form(self) -> None:
        if self.project is None:
            return
        title = self._tabs.value
        try:
            if title not in self.forms:
                self.forms[title] = _FORMS[title](self.project)
        except AttribError as error:
            self._form_area.children = [elements.html(elements.alert(elements.error_message(error)))]
        else:
            self._form_area.children = [self.forms[title].widget]


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
    >>> bench.show("Users")
    <Form of search_users; .value, .code, .run()>
    """
    return Workbench()


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
    texts = (
        "Open a project or a service",
        "A project in a file of this machine, or one of an attribution service elsewhere.",
        "Open",
    )
    step = Step(connect, "project", first=("project_id", "path", "url", "key"))
    return Form(texts, [step], None, _show_project)


def _show_project(project: Project, _form: Any) -> Sequence[Any]:
    return [elements.html(elements.status(f"Open: {project.project_id} at {project.transport.address}"))]


#: Bytes of the largest file that can be uploaded.
_MAX_UPLOAD: Final = 1 << 30
#: Release of ipywidgets whose widgets Voilà shows.
_WIDGETS: Final = (8, 1)


def run_app(*, port: int, opens_browser: bool) -> int:
    """Serve the workbench on this machine until it is interrupted.

    Parameters
    ----------
    port : int
        TCP port, on the loopback address only.
    opens_browser : bool
        Whether to open the page in a browser.

    Returns
    -------
    int
        Exit code of Voilà.

    Raises
    ------
    NotSupported
        If Voilà is not installed, or ipywidgets is too old for it.
    """
    _check_packages({name: _installed(name) for name in ("voila", "ipywidgets")})
    folder = Path(__file__).parent
    command = [
        *(sys.executable, "-m", "voila", str(folder / "workbench.ipynb")),
        *(f"--port={port}", "--Voila.ip=127.0.0.1", "--template=attrib_ds"),
        # An uploaded file is one message; the default allows 10 MiB.
        f"--Voila.tornado_settings={{'websocket_max_message_size': {_MAX_UPLOAD}}}",
    ]
    if not opens_browser:
        command.append("--no-browser")
    # Voilà looks for the template there.
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("JUPYTER_PATH"))))
    environment = {**os.environ, "JUPYTER_PATH": paths}
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603  (no user input but the port)


def _installed(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def _check_packages(installed: Mapping[str, str | None]) -> None:
    """Refuse packages with which the page would stay empty."""
    if installed["voila"] is None:
        raise NotSupported("the app needs Voilà: pip install 'attrib-ds[app]'")
    found = installed["ipywidgets"] or "none"
    if [int(part) for part in re.findall(r"\d+", found)[:2]] < [*_WIDGETS]:
        needed = ".".join(map(str, _WIDGETS))
        raise NotSupported(
            f"the app needs ipywidgets {needed} or later, because Voilà shows no widgets of older ones; "
            f"installed: {found}. Upgrade with pip install 'attrib-ds[app]', or use the forms in a notebook: "
            "attrib_ds.forms works with ipywidgets 7.7.1 too"
        )
