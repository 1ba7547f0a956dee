"""Elements that forms show besides controls: buttons, messages, tables, plots and code."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import ipywidgets
import pandas as pd
from itables import JavascriptFunction
from itables.widget import ITable

from attrib_ds import display, errors
from attrib_ds.forms.form_fields import TEXTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Maximum number of cells in a table of the page; the downloaded file has all of them.
_MAX_CELLS: Final = 100_000
_STYLE: Final = (Path(__file__).parent / "forms.css").read_text(encoding="utf-8")
#: Shows a number, and nothing for a missing one; tables are sorted by the number itself.
_NUMBER: Final = (Path(__file__).parent / "number.js").read_text(encoding="utf-8")


def box(name: str, *children: Any) -> Any:
    """Return widgets one below the other, as the part of a form that the style sheet knows by a name."""
    widget = ipywidgets.VBox(children)
    widget.add_class(f"attrib-{name}")
    return widget


def row(name: str, *children: Any) -> Any:
    """Return widgets side by side, as the part of a form that the style sheet knows by a name."""
    widget = ipywidgets.HBox(children)
    widget.add_class(f"attrib-{name}")
    return widget


def page(*children: Any) -> Any:
    """Return widgets one below the other, with the style sheet."""
    return box("page", html(f"<style>{_STYLE}</style>"), *children)


def html(content: str = "") -> Any:
    """Return a widget that shows HTML."""
    return ipywidgets.HTML(content)


def fill(widget: Any, content: str) -> None:
    """Show HTML in a widget; without content, hide the widget."""
    widget.value = content
    widget.layout.display = "" if content else "none"


def output() -> Any:
    """Return a widget that shows what code prints while it is its context."""
    return ipywidgets.Output()


def button(label: str, on_click: Callable[[], Any], *, problem: Any, is_main: bool = False) -> Any:
    """Return a button that calls a function.

    Parameters
    ----------
    label : str
        Text on the button.
    on_click : callable
        Takes no arguments.
    problem : ipywidgets.HTML
        Shows an exception of ``on_click``; ipywidgets would only log it.
    is_main : bool, default False
        Whether this is the form's main button: highlighted, and run after pending edits of the page.
    """
    widget = ipywidgets.Button(description=label, button_style="primary" if is_main else "")
    widget.add_class("attrib-button")

    def call() -> None:
        try:
            on_click()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            problem.value = alert(error_message(error))

    handler = AfterPendingEdits(call) if is_main else call
    widget.on_click(lambda _: handler())
    return widget


def disclosure(label: str, *children: Any) -> Any:
    """Return widgets that a button shows and hides; they are hidden at first."""
    toggle = ipywidgets.ToggleButton(False, description=f"▸ {label}")
    toggle.add_class("attrib-toggle")
    content = box("disclosed", *children)
    content.layout.display = "none"

    def show(change: Mapping[str, Any]) -> None:
        content.layout.display = "" if change["new"] else "none"
        toggle.description = f"{'▾' if change['new'] else '▸'} {label}"

    toggle.observe(show, names="value")
    return box("disclosure", toggle, content)


#: Titles of columns, if their names do not tell the unit or are not words.
_TITLES: Final[dict[str, str]] = TEXTS["titles"]["frames"]


def title(column: str, dtype: Any = None) -> str:
    """Return the title of a column in words, with the time zone of instants.

    Examples
    --------
    >>> title("geo.countryCode"), title("durationSum"), title("CPA (EUR)"), title("share_low")
    ('Country code', 'Duration (seconds)', 'CPA (EUR)', 'Share low')
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[._]", " ", column.removeprefix("geo.")).strip()
    words = words if words == column and words[:1].isupper() else words[:1].upper() + words[1:].lower()
    zone = " (UTC)" if isinstance(dtype, pd.DatetimeTZDtype) else ""
    return _TITLES.get(column, words) + zone


def table(frame: pd.DataFrame, caption: str, decimals: Mapping[str, int] | None = None) -> Any:
    """Return a frame as a table that can be searched and sorted, in pages; the first rows of a large one.

    Numbers of a column have the given decimals, by default as many as one of them needs.
    """
    shown = frame.head(max(_MAX_CELLS // max(frame.shape[1], 1), 1))
    titles = [title(str(name), dtype) for name, dtype in frame.dtypes.items()]
    shown = shown.set_axis(titles, axis=1) if len({*titles}) == len(titles) else shown
    note = f"; the first {len(shown):,} are shown, the files have all" if len(shown) < len(frame) else ""
    heading = html(f"<h3>{escape(caption)}: {display.counted(len(frame), 'rows')}{note}</h3>")
    if not len(frame):
        return box("table", heading)
    widget = ITable(
        shown.apply(_as_text),
        showIndex=False,
        maxBytes=0,
        maxRows=0,
        maxColumns=0,
        classes="display nowrap compact",
        style="width:100%",
        columnDefs=[
            {
                "targets": [place],
                "render": JavascriptFunction(_NUMBER.replace("DIGITS", str(digits))),
            }
            for place, (name, dtype) in enumerate(frame.dtypes.items())
            if _is_number(dtype)
            for digits in [(decimals or {}).get(str(name), _digits(shown.iloc[:, place]))]
        ],
    )
    return box("table", heading, widget)


def image(axes: Axes, description: str) -> Any:
    """Return a plot as an image and close its figure."""
    from matplotlib import pyplot

    figure: Any = axes.get_figure(root=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    source = f"data:image/png;base64,{encoded}"
    # Whoever uses the keyboard can scroll what has the focus.
    return html(
        f'<div class="attrib-plot" tabindex="0"><img alt="{escape(description)}" src="{source}"></div>'
    )


def figures(values: Mapping[str, str]) -> str:
    """Return a few numbers with their names, in large type, as HTML."""
    parts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values.items()
    )
    return f'<dl class="attrib-figures">{parts}</dl>'


def code_block(code: str, *, label: str = "Python code") -> str:
    """Return code as HTML, with a label for screen readers."""
    return f'<pre class="attrib-code" aria-label="{escape(label)}">{escape(code)}</pre>'


def _is_number(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _digits(column: pd.Series[Any]) -> int:
    """Return how many decimals a column is shown with."""
    numbers = column.dropna().astype(float)
    most = 3 if numbers.abs().max() < 10 else 2
    return next((digits for digits in range(most) if (numbers == numbers.round(digits)).all()), most)


def _as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as a table shows it: numbers as they are, yes or no, missing values as empty text."""
    if _is_number(column.dtype):
        return column
    if pd.api.types.is_bool_dtype(column.dtype):
        column = column.map({True: "yes", False: "no"})
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.strftime("%Y-%m-%d %H:%M:%S")
    text: pd.Series[Any] = column.astype(object).map(str, na_action="ignore")
    return text.where(text.notna(), "")


def status(message: str) -> str:
    """Return a message as HTML that screen readers announce without interrupting."""
    return f'<div role="status" class="attrib-status">{escape(message)}</div>' if message else ""


def alert(message: str) -> str:
    """Return an error message as HTML that screen readers announce at once."""
    lines = "<br>".join(escape(line) for line in message.splitlines())
    return f'<div role="alert" class="attrib-alert">{lines}</div>' if message else ""


def error_message(error: Exception) -> str:
    """Return an exception's message; with its type and function if it is not a user error."""
    if isinstance(error, errors.AttribError | OSError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({frames[0].name})" if frames else ""
    return f"{type(error).__name__}{place}: {error}"


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings of a block, since nobody sees the log of a page."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    own = (str(each.message) for each in caught if each.category.__module__ == errors.__name__)
    messages += dict.fromkeys(own)


def notes(messages: Iterable[str]) -> Any:
    """Return sentences about a result, one below the other; nothing is shown if there are none."""
    widget = html()
    lines = "".join(f"<p>{escape(message)}</p>" for message in messages)
    fill(widget, f'<div role="note" class="attrib-notes">{lines}</div>' if lines else "")
    return widget


def preview(frame: pd.DataFrame, caption: str) -> str:
    """Return a few rows as an HTML table."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in frame.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
        for cells in frame.apply(_as_text).itertuples(index=False)
    )
    return (
        '<div class="attrib-preview" tabindex="0"><table class="attrib-list">'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


#: Seconds to wait for the page's echo; without a page none ever comes.
_TIMEOUT: Final = 10.0


class AfterPendingEdits:
    """Call a function after all pending edits of the page have arrived.

    The page sends the first change of a control at once, but holds further changes back until the kernel has
    processed it. A button click overtakes them, so that its handler would see the old value. Therefore the
    page is asked to echo a number: the echo arrives after the changes that were held back.

    Parameters
    ----------
    call : callable
        Takes no arguments.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._ping, self._echo = ipywidgets.IntText(), ipywidgets.IntText()
        self._link = ipywidgets.jslink((self._ping, "value"), (self._echo, "value"))
        self._echo.observe(lambda _: self._finish(), names="value")
        self._timeout: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Call the function after the page's echo; at once if no event loop runs, and thus no page exists."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._call()
            return
        if self._timeout is None:
            self._timeout = loop.call_later(_TIMEOUT, self._finish)
            self._ping.value += 1

    def _finish(self) -> None:
        if self._timeout is None:
            return
        self._timeout.cancel()
        self._timeout = None
        self._call()


class Displayed:
    """Shows its attribute ``widget`` in a notebook, and says what to do where widgets cannot be shown.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    instead : str
        What to do without widgets, as HTML.
    """

    widget: Any
    instead: ClassVar[str] = (
        "set <code>form.value</code>, call <code>form.run()</code> and read <code>form.code</code>"
    )

    def start(self) -> None:
        """Get the first results, when the widget is about to be shown."""

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        self.start()
        texts = {"text/html": self._without_widgets(), "text/plain": repr(self)}
        if hasattr(self.widget, "_repr_mimebundle_"):
            return {**self.widget._repr_mimebundle_(**options), **texts}
        # ipywidgets 7 displays a widget itself, and has no bundle.
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {"application/vnd.jupyter.widget-view+json": view, **texts}

    def _mime_(self) -> tuple[str, str]:
        """Return what marimo shows, which has no Jupyter widgets."""
        return "text/html", self._without_widgets()

    def _without_widgets(self) -> str:
        return str(TEXTS["without_widgets"]).format(instead=self.instead)
