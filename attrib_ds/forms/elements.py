"""Elements that forms show besides controls: messages, buttons, tables, images and download links."""

from __future__ import annotations

import base64
import io
import traceback
from html import escape
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.errors import AttribError, NotSupported
from attrib_ds.forms.pending_edits import AfterPendingEdits
from attrib_ds.records.spreadsheets import csv_text, write_excel

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from matplotlib.axes import Axes

#: Maximum number of rows in an HTML table; the downloaded file has all of them.
_MAX_ROWS: Final = 100
#: Maximum number of bytes of a file that is embedded in the page.
_MAX_BYTES: Final = 20_000_000
_CSV: Final = "text/csv"
_XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def status(message: str) -> str:
    """Return a message as HTML that screen readers announce without interrupting."""
    return f'<div role="status">{escape(message)}</div>' if message else ""


def alert(message: str) -> str:
    """Return an error message as HTML that screen readers announce at once."""
    lines = "<br>".join(escape(line) for line in message.splitlines())
    return f'<div role="alert" style="color: #B00020">{lines}</div>' if message else ""


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
    widget = ipywidgets.Button(
        description=label,
        button_style="primary" if is_main else "",
        layout={"width": "auto", "align_self": "flex-start"},
    )

    def call() -> None:
        try:
            on_click()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            problem.value = alert(error_message(error))

    handler = AfterPendingEdits(call) if is_main else call
    widget.on_click(lambda _: handler())
    return widget


def error_message(error: Exception) -> str:
    """Return an exception's message; with its type and function if it is not a user error."""
    if isinstance(error, AttribError | OSError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({frames[0].name})" if frames else ""
    return f"{type(error).__name__}{place}: {error}"


def table(frame: pd.DataFrame, caption: str) -> str:
    """Return the first rows of a frame as an HTML table with a caption."""
    html = frame.head(_MAX_ROWS).to_html(
        index=False,
        border=0,
        na_rep="",
        justify="left",
        float_format=lambda number: f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}",
    )
    note = f" (first {_MAX_ROWS:,} shown)" if len(frame) > _MAX_ROWS else ""
    heading = f"<caption>{escape(caption)}: {len(frame):,} rows{note}</caption>"
    tag, _, body = html.partition(">")
    return f'<div style="overflow: auto; max-height: 30em">{tag}>{heading}{body}</div>'


def image(axes: Axes, description: str) -> str:
    """Return a plot as an HTML image and close its figure."""
    from matplotlib import pyplot

    figure: Any = axes.get_figure(root=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(description)}" style="max-width: 100%" src="data:image/png;base64,{encoded}">'


def code_block(code: str) -> str:
    """Return Python as HTML."""
    return f'<pre aria-label="Python code" style="padding: 0.6em; background: #F6F6F6">{escape(code)}</pre>'


def download_link(name: str, content: bytes, media_type: str, label: str) -> str:
    """Return a link that downloads a file, or a note if the file is too large for the page."""
    if len(content) > _MAX_BYTES:
        return f"<span>{escape(name)} is too large to download from this page; run the code instead</span>"
    encoded = base64.b64encode(content).decode()
    return f'<a download="{escape(name)}" href="data:{media_type};base64,{encoded}">{escape(label)}</a>'


def download_links(frame: pd.DataFrame, stem: str, code: str) -> str:
    """Return links that download a frame as CSV and XLSX, and the code that computes it."""
    links = [download_link(f"{stem}.csv", csv_text(frame).encode(), _CSV, "Save as CSV")]
    workbook = _workbook(frame)
    if workbook is not None:
        links.append(download_link(f"{stem}.xlsx", workbook, _XLSX, "Save as Excel"))
    links.append(download_link(f"{stem}.py", code.encode(), "text/x-python", "Save the code"))
    return f"<p>{' · '.join(links)}</p>"


def _workbook(frame: pd.DataFrame) -> bytes | None:
    """Return a frame as XLSX, or None if XlsxWriter is not installed."""
    buffer = io.BytesIO()
    try:
        write_excel({"result": frame}, buffer)
    except NotSupported:
        return None
    return buffer.getvalue()
