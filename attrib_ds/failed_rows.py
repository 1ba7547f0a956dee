"""Sends those rows of a frame again that failed, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from attrib_ds.api.campaigns import deliver_outlays
from attrib_ds.api.events import deliver_events, deliver_updates
from attrib_ds.api.interactions import deliver_offline_interactions
from attrib_ds.errors import InvalidRequest
from attrib_ds.sending.delivery import SENDING, Earlier

if TYPE_CHECKING:
    from attrib_ds.project import Project

_FUNCTIONS: Final = (
    "send_events",
    "create_offline_interactions",
    "create_outlays",
    "update_states",
    "update_statistics",
)


def retry_failed(project: Project, frame: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Send those rows again that failed, and no others.

    These are the rows that are ``failed`` or ``unsent``: the service could not be reached, was too slow or
    too busy, failed itself, or did not let the account in. What it said about a row itself stays. Nothing is
    stored twice: events keep their nonces, an outlay that is there by now is found, and an update sets the
    same value.

    Parameters
    ----------
    project : Project
        To which they were sent, connected again or not.
    frame : DataFrame
        That was sent, with all its rows as they were.
    results : DataFrame
        What :func:`send_events`, :func:`create_offline_interactions`, :func:`create_outlays`,
        :func:`update_states`, :func:`update_statistics` or this function returned, or the ``partial`` of
        their error; as a whole. Its ``attrs`` tell how the rows were sent, the journal too, which goes on.

    Returns
    -------
    DataFrame
        All rows of ``results``, those that were sent again with what became of them now. An offline
        interaction without ``externalId`` that may have been stored stays ``failed``, since the service could
        not know it again.

    Raises
    ------
    InvalidRequest
        If ``results`` is none of these frames, is of another project, or ``frame`` is another one; nothing is
        sent then.
    Unavailable
        If another run uses the journal.
    AttribError
        If the service fails again and nothing was ever stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, retry_failed, send_events
    >>> calls = pd.DataFrame({"nonce": ["call-1", "call-2"]})
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     sent = send_events(shop, calls, event_type="call", wait=False)
    ...     sent.loc[1, "status"] = "failed"
    ...     retry_failed(shop, calls, sent)["status"].tolist()
    ['accepted', 'accepted']
    """
    earlier = Earlier(results)
    sending = _sending(results)
    function, arguments, journal = sending["function"], sending["arguments"], sending["journal"]
    if function == "send_events":
        return deliver_events(project, frame, **arguments, journal=journal, earlier=earlier)
    if function == "create_offline_interactions":
        return deliver_offline_interactions(project, frame, journal=journal, earlier=earlier)
    if function == "create_outlays":
        return deliver_outlays(project, arguments["vendor_id"], frame, journal=journal, earlier=earlier)
    return deliver_updates(project, frame, function=function, journal=journal, earlier=earlier)


def _sending(results: object) -> dict[str, Any]:
    """Return how rows were sent, as their result tells."""
    if not isinstance(results, pd.DataFrame):
        raise InvalidRequest(f"results: must be a DataFrame, got {type(results).__name__}", field="results")
    sending = results.attrs.get(SENDING)
    if not isinstance(sending, dict) or sending.get("function") not in _FUNCTIONS:
        raise InvalidRequest(
            f"results: does not tell how its rows were sent (in attrs, which files of text and some joins of "
            f"frames lose); allowed: what {', '.join(_FUNCTIONS)} returned. The same call with the whole "
            "frame sends the rest too",
            field="results",
        )
    missing = [name for name in ("status", "id", "error") if name not in results.columns]
    if missing:
        raise InvalidRequest(f"results: has no column {missing[0]!r}", field="results")
    return sending
