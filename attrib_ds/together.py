"""Sends many rows of a frame at once and tells what became of each."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

#: A service writes what arrives together with one flush of its file.
_AT_ONCE: Final = 128
#: What the service says about one row, and not about itself or the account.
_ABOUT_ROW: Final = (InvalidRequest, NotFound, Conflict)


def send_together(
    index: pd.Index[Any],
    keys: Sequence[Hashable],
    send: Callable[[int], tuple[str, str, str | None]],
) -> pd.DataFrame:
    """Send rows from several threads and return what became of each.

    Parameters
    ----------
    index : Index
        Of the result, one entry per row.
    keys : sequence
        One per row; rows of one key are sent one after the other, in their order.
    send : callable
        Takes the position of a row; returns the status, the id and the error, or raises.

    Returns
    -------
    DataFrame
        One row per row, on ``index``: ``status``, ``id`` and ``error`` (str). A row that the service
        refuses is ``rejected``. What the service cannot do for any row is raised if nothing was sent
        before; afterwards that row is ``failed`` and those that were not sent are ``unsent``.

    Examples
    --------
    >>> send_together(pd.Index(["x", "y"]), [1, 1], lambda row: ("sent", f"id {row}", None))
      status    id error
    x   sent  id 0   NaN
    y   sent  id 1   NaN
    """
    outcomes: list[tuple[str, str | None, str | None]] = [("unsent", None, None)] * len(keys)
    failures: list[AttribError] = []
    is_over = threading.Event()

    def work(positions: Sequence[int]) -> None:
        for position in positions:
            if is_over.is_set():
                return
            try:
                outcomes[position] = send(position)
            except _ABOUT_ROW as error:
                outcomes[position] = ("rejected", None, str(error))
            except AttribError as error:
                outcomes[position] = ("failed", None, str(error))
                failures.append(error)
                is_over.set()
            except BaseException:
                is_over.set()
                raise

    by_key: defaultdict[Hashable, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        by_key[key].append(position)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(work, by_key.values()):
            pass
    if failures and all(status in {"unsent", "rejected", "failed"} for status, _, _ in outcomes):
        raise failures[0]
    return pd.DataFrame(outcomes, index=index, columns=["status", "id", "error"], dtype="str")
