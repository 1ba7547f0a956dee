"""What forms show beside their controls: messages, buttons, tables, pictures and files to save."""

from __future__ import annotations

import base64
import io
import traceback
from html import escape
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from attrib_ds.errors import AttribError
from attrib_ds.forms.pressing import AfterThePage

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from matplotlib.axes import Axes

#: Rows of a table that are shown; the rest is in the file.
_MOST_ROWS: Final = 100
#: Bytes of a file that a page can carry.
_MOST_BYTES: Final = 20_000_000
_CSV: Final = "text/csv"


def said(message: str) -> str:
    """Return a message as HTML that a screen reader speaks when it is free."""
    return f'<div role="status">{escape(message)}</div>' if message else ""


def warned(message: str) -> str:
    """Return what went wrong as HTML that a screen reader speaks at once."""
    lines = "<br>".join(escape(line) for line in message.splitlines())
    return f'<div role="alert" style="color: #B00020">{lines}</div>' if message else ""


def button(label: str, pressed: Callable[[], Any], *, problem: Any, is_main: bool = False) -> Any:
    """Return a button that calls a function.

    Parameters
    ----------
    label : str
        What stands on it.
    pressed : callable
        Called without arguments.
    problem : ipywidgets.HTML
        Where an exception is shown; widgets themselves would only log it.
    is_main : bool, default False
        Whether it is the one that people look for, and acts on what stands in the page.
    """
    made = ipywidgets.Button(
        description=label,
        button_style="primary" if is_main else "",
        layout={"width": "auto", "align_self": "flex-start"},
    )

    def call() -> None:
        try:
            pressed()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            problem.value = warned(in_words(error))

    act = AfterThePage(call) if is_main else call
    made.on_click(lambda _: act())
    return made


def in_words(error: Exception) -> str:
    """Return what an exception says; of one that is not meant for users also what and where it was."""
    if isinstance(error, AttribError | OSError):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({where[0].name})" if where else ""
    return f"{type(error).__name__}{place}: {error}"


def table(frame: pd.DataFrame, caption: str) -> str:
    """Return the first rows of a frame as an HTML table with a caption."""
    shown = frame.head(_MOST_ROWS).to_html(
        index=False,
        border=0,
        na_rep="",
        justify="left",
        float_format=lambda number: f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}",
    )
    rest = f" (the first {_MOST_ROWS:,} of them)" if len(frame) > _MOST_ROWS else ""
    heading = f"<caption>{escape(caption)}: {len(frame):,} rows{rest}</caption>"
    opened, _, body = shown.partition(">")
    return f'<div style="overflow: auto; max-height: 30em">{opened}>{heading}{body}</div>'


def picture(axes: Axes, description: str) -> str:
    """Return a plot as an HTML image, and let go of its figure."""
    from matplotlib import pyplot

    figure: Any = axes.get_figure(root=True)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    encoded = base64.b64encode(written.getvalue()).decode()
    return f'<img alt="{escape(description)}" style="max-width: 100%" src="data:image/png;base64,{encoded}">'


def code_block(code: str) -> str:
    """Return Python as HTML."""
    return f'<pre aria-label="Python code" style="padding: 0.6em; background: #F6F6F6">{escape(code)}</pre>'


def link(name: str, content: bytes, kind: str, label: str) -> str:
    """Return a link that saves a file; words instead where a page could not carry it."""
    if len(content) > _MOST_BYTES:
        return f"<span>{escape(name)} is too large to save from here: run the code instead</span>"
    encoded = base64.b64encode(content).decode()
    return f'<a download="{escape(name)}" href="data:{kind};base64,{encoded}">{escape(label)}</a>'


def links(frame: pd.DataFrame, stem: str, code: str) -> str:
    """Return links that save a frame as CSV and XLSX, and the code that makes it."""
    found = [link(f"{stem}.csv", frame.to_csv(index=False).encode(), _CSV, "Save as CSV")]
    workbook = _workbook(frame)
    if workbook is not None:
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
        found.append(link(f"{stem}.xlsx", workbook, kind, "Save as Excel"))
    found.append(link(f"{stem}.py", code.encode(), "text/x-python", "Save the code"))
    return f"<p>{' · '.join(found)}</p>"


def _workbook(frame: pd.DataFrame) -> bytes | None:
    """Return a frame as XLSX; None without XlsxWriter."""
    try:
        import xlsxwriter  # noqa: F401
    except ImportError:
        return None
    import pandas as pd

    # Excel knows no time zones; what is written is UTC.
    plain = frame.copy()
    for name in plain.columns:
        if isinstance(plain[name].dtype, pd.DatetimeTZDtype):
            plain[name] = plain[name].dt.tz_localize(None)
    written = io.BytesIO()
    with pd.ExcelWriter(written, engine="xlsxwriter") as writer:
        plain.to_excel(writer, index=False, sheet_name="result")
    return written.getvalue()
