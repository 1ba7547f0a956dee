"""What people see: text that is safe to print, HTML of values in a notebook, progress bars of long runs."""

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Context, Decimal
from html import escape
from typing import Final

#: Runs that end sooner show no bar.
_DELAY_SECONDS: Final = 1.0
#: Digits of the largest double, with decimals.
_DIGITS: Final = Context(prec=400)
#: Control characters (C0 without tab and line feed, DEL, C1), line separators, unpaired surrogates, and the
#: characters that reorder text (UAX #9), which can disguise what a line says.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def is_watched() -> bool:
    """Return whether standard error is a terminal or a notebook."""
    stream = sys.stderr
    if stream is None:
        return False
    return stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"


@contextmanager
def progress(
    what: str, total: int | Callable[[], int | None], *, name: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error on a terminal and in a notebook, after a second.

    Parameters
    ----------
    what : str
        Unit of the bar, such as ``"rows"``.
    total : int or callable
        Total number; a callable if it is unknown at the start, or changes.
    name : str, optional
        Description of the run.

    Yields
    ------
    callable
        Takes the number of further units done; any thread may call it.

    Examples
    --------
    >>> with progress("rows", 2) as advance:
    ...     advance(2)
    """
    if not is_watched():
        yield lambda _: None
        return
    from tqdm.std import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs alone
        monitor_interval = 0  # no thread that outlives the bar

    lock = threading.Lock()
    count = total if callable(total) else lambda: total
    with Bar(desc=name, total=count(), unit=f" {what}", file=sys.stderr, delay=_DELAY_SECONDS) as bar:

        def advance(more: int) -> None:
            with lock:
                bar.total = count()
                bar.update(more)

        yield advance


def half_up(amount: float, decimals: int) -> Decimal:
    """Return a number with some decimals; halves are rounded away from zero, as browsers do.

    Examples
    --------
    >>> str(half_up(0.25, 1)), str(half_up(-2.5, 0)), str(half_up(1.005, 2)), str(half_up(-0.04, 1))
    ('0.3', '-3', '1.01', '0.0')
    """
    # The digits that JavaScript shows of a number, too, which is not exactly that in binary.
    rounded = Decimal(f"{amount:.15g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, _DIGITS)
    return rounded if rounded else abs(rounded)


def number(amount: float, decimals: int = 1) -> str:
    """Return a number as pages, plots and messages show it: with its decimals, or without if it is whole.

    Examples
    --------
    >>> number(5.9999999), number(1214), number(51.45), number(51.5, 2)
    ('6', '1,214', '51.5', '51.50')
    """
    rounded = half_up(amount, decimals)
    shown = rounded if rounded != rounded.to_integral_value() else half_up(amount, 0)
    return f"{shown:,}".replace("-", "\N{MINUS SIGN}")


def cents(amount: float) -> str:
    """Return an amount of money with two decimals, as messages show it.

    Examples
    --------
    >>> cents(1234.005), cents(-0.001)
    ('1,234.01', '0.00')
    """
    return f"{half_up(amount, 2):,}"


def counted(count: float, plural: str) -> str:
    """Return a number with its noun, which is given in the plural.

    Examples
    --------
    >>> counted(1, "rows"), counted(1200, "rows"), counted(1, "identities")
    ('1 row', '1,200 rows', '1 identity')
    """
    shown = number(count)
    return f"{shown} {re.sub('s$', '', re.sub('ies$', 'ys', plural)) if shown == '1' else plural}"


def worth(amounts: Iterable[tuple[str | None, float | None]]) -> str:
    """Return the sum of conversions in each currency, to be put behind their number.

    Examples
    --------
    >>> worth([("USD", 1050.0), ("EUR", 60.0), ("EUR", 40.0)]), worth([(None, 150.0)]), worth([("EUR", None)])
    (', worth 100.00 EUR and 1,050.00 USD,', ', worth 150.00,', '')
    """
    totals: dict[str, float] = {}
    for code, amount in amounts:
        if amount is not None:
            totals[code or ""] = totals.get(code or "", 0) + amount
    said = [f"{cents(total)} {code}".strip() for code, total in sorted(totals.items())]
    return f", worth {' and '.join(said)}," if said else ""


def and_others(count: int, most: int) -> str:
    """Return how many of ``count`` names are left after the first ``most``, to be put behind those.

    Examples
    --------
    >>> and_others(11, 10), and_others(10, 10)
    (' and 1 other', '')
    """
    return f" and {counted(count - most, 'others')}" if count > most else ""


def card(title: str, properties: Mapping[str, str], *, note: str = "") -> str:
    """Return a title, properties and a note as HTML in the colours and fonts of the page.

    Examples
    --------
    >>> card("Project", {"id": "my-shop"})
    '<div><b>Project</b><table><tr><th style="text-align: left">id</th><td>my-shop</td></tr></table></div>'
    """
    rows = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in properties.items()
    )
    table = f"<table>{rows}</table>" if rows else ""
    ending = f"<div>{escape(note)}</div>" if note else ""
    return f"<div><b>{escape(title)}</b>{table}{ending}</div>"


def printable(text: str) -> str:
    r"""Escape the characters of a text that could steer a terminal or disguise what it says.

    Parameters
    ----------
    text : str
        From a service or a file.

    Returns
    -------
    str
        The same text; control characters other than tab and line feed, bidirectional overrides and unpaired
        surrogates are written as in Python literals.

    Examples
    --------
    >>> printable("no \x1b[2Jtoken")
    'no \\x1b[2Jtoken'
    """
    return _UNPRINTABLE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")
