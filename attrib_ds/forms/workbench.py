"""The workbench, and how Voilà serves it: a start page, then the forms of the project that was opened."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import anywidget
import ipywidgets
import traitlets

from attrib_ds.errors import AttribError, NotFound, NotSupported, Unavailable
from attrib_ds.forms import attribution_form, elements, record_forms
from attrib_ds.forms.form import Form, Step
from attrib_ds.forms.form_fields import TEXTS
from attrib_ds.forms.live_page import Live, live
from attrib_ds.forms.overview_page import OverviewPage, overview
from attrib_ds.project import Project, connect, home
from attrib_ds.sample.shop import sample_project

#: A page of a project: it shows something at once, or waits for its button.
Page = Form | Live | OverviewPage
#: Pages that look at a project, by title.
_READING: Final[dict[str, Callable[[Project], Page]]] = {
    "Overview": overview,
    "Credits": attribution_form.attribution,
    "Visits": record_forms.search,
    "Counts": record_forms.insights,
    "Users": record_forms.users,
    "Live": live,
}
#: Pages that change a project, or write files.
_WRITING: Final[dict[str, Callable[[Project], Page]]] = {
    "Send conversions": record_forms.conversions,
    "Send events": record_forms.send_events,
    "Set states": record_forms.states,
    "Campaigns": record_forms.campaigns,
    "New campaign": record_forms.create_campaign,
    "Record costs": record_forms.outlays,
    "Export users": record_forms.export,
}
_PAGES: Final = _READING | _WRITING
#: Names in the query of an address; what a page asks has names of its own.
_PROJECT, _SAMPLE, _PAGE = "in", "sample", "page"
_START: Final = TEXTS["start"]


class Workbench(elements.Displayed):
    """A start page, and a page for each form of the open project, from :func:`workbench`.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    project : Project or None
        The open project.
    forms : dict of str to Form, Live or OverviewPage
        Pages that were shown, by the title of their page.
    """

    def __init__(self, query: str = "") -> None:
        self.project: Project | None = None
        self.forms: dict[str, Page] = {}
        self._title = ""
        self._status = elements.html()
        self._tabs = [
            ipywidgets.ToggleButtons(options=list(pages), value=None, description=label)
            for label, pages in (("See", _READING), ("Change", _WRITING))
        ]
        for tabs in self._tabs:
            tabs.observe(self._choose, names="value")
        self._heading, self._form_area = elements.html(), elements.box("form-area")
        self._body, self._address = elements.box("body"), Address()
        self.widget = elements.page(self._body, self._address)
        self._connection, self._own_files = connection(), attribution_form.own_files()
        self._connection.on_result(self.open)
        self.start_page()
        if query:
            self._open_again(dict(parse_qsl(query)))

    def start_page(self) -> None:
        """Show the start page; the project stays open until another is opened."""
        self._status.value = self._address.query = ""
        choice = ipywidgets.Dropdown(options=_kept(), description="Project")
        opening = self._button("Open", lambda: self._open(connect, choice.value))
        kept = [elements.box("field", choice), opening] if choice.options else []
        sample = self._button("Open the sample", lambda: self._open(sample_project), is_main=True)
        files = self._button("Use my files", lambda: self._show_alone(self._own_files))
        service = self._button("Open or connect …", lambda: self._show_alone(self._connection))
        ways = ((sample,), (files,), (*kept, service))
        cards = [
            elements.box("card", elements.html(text), *way)
            for text, way in zip(_START["ways"], ways, strict=True)
        ]
        self._body.children = [elements.html(_START["title"]), elements.box("ways", *cards), self._status]

    def open(
        self, project: Project, *, page: str = "Overview", state: Mapping[str, str] | None = None
    ) -> None:
        """Show a page of a project, with its state from the address, and close the previous project."""
        if self.project is not None and self.project is not project:
            self.project.close()
        self.project, self.forms, self._title = project, {}, ""
        address = project.transport.address
        place = "kept in memory, and lost when the page is closed" if address == ":memory:" else address
        self._heading.value = f"<h1>{project.project_id}</h1>{elements.status(f'Project {place}')}"
        self._body.children = [self._bar(self._heading), elements.box("tabs", *self._tabs), self._form_area]
        self.show(page, state)

    def show(self, title: str, state: Mapping[str, str] | None = None) -> Page:
        """Show a page, and return it; setting its state before it gets its first results."""
        if self.project is None:
            raise NotFound("open a project first")
        is_new = title not in self.forms
        if is_new:
            self.forms[title] = page = _PAGES[title](self.project)
            if not isinstance(page, Live):
                page.on_result(lambda _: self._keep_address())
            if isinstance(page, OverviewPage):
                page.on_open(self._open_part)
            if state and not isinstance(page, Live):
                with suppress(AttribError, ValueError, TypeError):  # an address can be typed
                    page.state = state
        self._title = title
        for tabs in self._tabs:
            tabs.value = title if title in tabs.options else None
        self._form_area.children = [self.forms[title].widget]
        self._keep_address()
        self.forms[title].start()
        return self.forms[title]

    def _choose(self, change: Mapping[str, Any]) -> None:
        if change["new"] not in (None, self._title):
            try:
                self.show(change["new"])
            except AttribError as error:
                self._form_area.children = [elements.html(elements.alert(elements.error_message(error)))]

    def _open_part(self, value: Mapping[str, Any], note: str) -> None:
        """Show the credits of a part of the overview."""
        self.forms.pop("Credits", None)
        states = {name: json.dumps(each) for name, each in value.items()}
        self.show("Credits", states).widget.children[0].value = note

    def _keep_address(self) -> None:
        """Write what is shown into the address, for projects that can be opened by it."""
        if self.project is None:
            return
        page = self.forms.get(self._title)
        has_state = isinstance(page, OverviewPage) or (isinstance(page, Form) and not page.waits)
        state = page.state if has_state else {}  # type: ignore[union-attr]
        address = self.project.transport.address
        if address == ":memory:":
            project = {_SAMPLE: "1"} if self.project.project_id == "sample-shop" else {}
        else:
            is_kept = Path(address) == home() / f"{self.project.project_id}.duckdb"
            project = {_PROJECT: self.project.project_id} if is_kept else {}
        self._address.query = urlencode({**project, _PAGE: self._title, **state}) if project else ""

    def _open_again(self, asked: dict[str, str]) -> None:
        """Open what an address names: the sample, or a project that exists where projects are kept."""
        project, page = asked.pop(_PROJECT, ""), asked.pop(_PAGE, "Overview")
        is_sample = asked.pop(_SAMPLE, "") != ""
        if page not in _PAGES or not (is_sample or project in _kept()):
            return
        try:
            self.open(sample_project() if is_sample else connect(project), page=page, state=asked)
        except AttribError as error:
            self.start_page()
            self._status.value = elements.alert(elements.error_message(error))

    def _button(self, label: str, on_click: Callable[[], Any], *, is_main: bool = False) -> Any:
        return elements.button(label, on_click, problem=self._status, is_main=is_main)

    def _bar(self, *parts: Any) -> Any:
        back = self._button("← Start", self.start_page)
        return elements.row("bar", *parts, back)

    def _open(self, opening: Callable[..., Project], *arguments: str) -> None:
        self._status.value = elements.status("Opening …")
        self.open(opening(*arguments))

    def _show_alone(self, form: Form) -> None:
        """Show a form that needs no project."""
        self._body.children = [self._bar(elements.html("<h1>Attribution workbench</h1>")), form.widget]


class Address(anywidget.AnyWidget):  # type: ignore[misc]
    """Keeps the query of the app's address, so that a reload shows the same."""

    _esm = """export default { render({ model, el }) {
      el.style.display = "none";
      const keep = () => {
        const query = model.get("query");
        const address = location.pathname + (query ? "?" + query : "");
        if (document.body.dataset.voila) history.replaceState(null, "", address);
      };
      model.on("change:query", keep);
      keep();
    } };"""
    query = traitlets.Unicode().tag(sync=True)


def _kept() -> list[str]:
    """Return the projects that are kept on this machine."""
    return sorted(file.stem for file in home().glob("*.duckdb")) if home().is_dir() else []


def workbench(query: str = "") -> Workbench:
    """Make the workbench that ``attrib-ds app`` shows.

    Parameters
    ----------
    query : str, default ""
        Query of the page's address, which names a project, a page and what it asks.

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
    return Workbench(query)


def connection() -> Form:
    """Make a form that opens an embedded or a remote project.

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
    return Form("connection", [step], None, _show_project, waits="The project opens when you press Open.")


def _show_project(project: Project, _form: Any) -> Sequence[Any]:
    return [elements.html(elements.status(f"Open: {project.project_id} at {project.transport.address}"))]


#: Bytes of the largest file that can be uploaded.
_MAX_UPLOAD: Final = 1 << 30
#: Release of ipywidgets whose widgets Voilà shows.
_WIDGETS: Final = (8, 1)


#: Runs Voilà until its standard input ends, as it does when the process ends that holds the other end, in any
#: way. Its kernels end with it, at the latest when they see that it is gone.
_VOILA: Final = """
import os, signal, sys, threading, time

def end_with_input():
    sys.stdin.buffer.read()
    signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
    os._exit(1)

threading.Thread(target=end_with_input, daemon=True).start()
from voila.app import main
main()
"""


def run_app(*, port: int, opens_browser: bool, seconds_unattended: int = 600) -> int:
    """Serve the workbench on this machine until the process ends, however it ends.

    Parameters
    ----------
    port : int
        TCP port, on the loopback address only; 0 for a free one.
    opens_browser : bool
        Whether to open the page in a browser.
    seconds_unattended : int, default 600
        Seconds after which what a page computes with ends, once no browser shows the page.

    Returns
    -------
    int
        Exit code of Voilà.

    Raises
    ------
    NotSupported
        If Voilà or ipykernel is not installed, or ipywidgets is too old for Voilà.
    Unavailable
        If the port is in use.
    """
    _check_packages({name: _installed(name) for name in ("voila", "ipykernel", "ipywidgets")})
    port = _usable_port(port)
    folder = Path(__file__).parent
    command = [
        *(sys.executable, "-c", _VOILA, str(folder / "workbench.ipynb")),
        *(f"--port={port}", "--Voila.ip=127.0.0.1", "--template=attrib_ds"),
        # An uploaded file is one message; the default allows 10 MiB.
        f"--Voila.tornado_settings={{'websocket_max_message_size': {_MAX_UPLOAD}}}",
        # Voilà refuses the request by which a page that is left ends its kernel of 400 MB.
        f"--MappingKernelManager.cull_idle_timeout={seconds_unattended}",
        f"--MappingKernelManager.cull_interval={seconds_unattended // 10}",
    ]
    if not opens_browser:
        command.append("--no-browser")
    # Voilà looks for the template there.
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("JUPYTER_PATH"))))
    environment = {**os.environ, "JUPYTER_PATH": paths}
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as voila:  # noqa: S603  (no user input but the port)
        try:
            return voila.wait()
        finally:
            voila.communicate()  # closes its standard input, which ends it


def _usable_port(port: int) -> int:
    """Return a port, a free one for 0; refuse one that is in use, for which Voilà would take another one."""
    with socket.socket() as tried:
        if os.name == "posix":  # elsewhere it would allow to share a port
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
            return int(tried.getsockname()[1])
        except OSError as error:
            raise Unavailable(
                f"--port: {port} cannot be used ({error.strerror}); an app may still be open there: open "
                f"http://127.0.0.1:{port}/, end it, or pass another --port"
            ) from error


def _installed(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def _check_packages(installed: Mapping[str, str | None]) -> None:
    """Refuse packages with which the page would stay empty."""
    if installed["voila"] is None:
        raise NotSupported("the app needs Voilà: pip install 'attrib-ds[app]'")
    if installed["ipykernel"] is None:
        raise NotSupported("the app needs ipykernel, which runs its page: pip install 'attrib-ds[app]'")
    found = installed["ipywidgets"] or "none"
    if [int(part) for part in re.findall(r"\d+", found)[:2]] < [*_WIDGETS]:
        needed = ".".join(map(str, _WIDGETS))
        raise NotSupported(
            f"the app needs ipywidgets {needed} or later, because Voilà shows no widgets of older ones; "
            f"installed: {found}. Upgrade with pip install 'attrib-ds[app]', or use the forms in a notebook: "
            "attrib_ds.forms works with ipywidgets 7.7.1 too"
        )
