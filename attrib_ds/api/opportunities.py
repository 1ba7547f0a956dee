"""Opportunities to show what a holdout withholds from some, as pages report them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd

from attrib_ds import instants
from attrib_ds.contract.opportunities import OPPORTUNITY
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from datetime import date, datetime

    from attrib_ds.project import Project


def list_opportunities(
    project: Project, *, holdout: str, since: datetime | date | str | None = None
) -> pd.DataFrame:
    """List the opportunities of a holdout that pages have reported.

    Those that were shown and those that were withheld are logged alike.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`; an embedded one, or a mirror of a remote one.
    holdout : str
        Name of the holdout; it may have ended.
    since : datetime, date or str, optional
        Only opportunities from this instant on, such as the change of the share; a day starts in the
        project's time zone.

    Returns
    -------
    DataFrame
        One row per opportunity, by date: ``user_id``, ``node_id`` (str), ``date`` (timestamp, UTC),
        ``withheld`` (bool, whether the first of the user's opportunities that are returned was withheld). A
        user with several browsers can have seen the placement in another one; comparing users by their first
        draw stays fair.

    Raises
    ------
    InvalidRequest
        If ``since`` is not an instant.
    NotSupported
        If the project is remote: its service has no tables that attribution could read.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    ...     opportunities = at.experiments.list_opportunities(shop, holdout="banner")
    >>> opportunities.columns.tolist(), len(opportunities)
    (['user_id', 'node_id', 'date', 'withheld'], 0)

    The effect, from paths whose ``nodes`` contain the node::

        log = at.experiments.list_opportunities(shop, holdout="banner")
        at.experiments.holdout_effects(paths, opportunities=log)
    """
    events = project.tables().events
    chosen = events.filter(events.eventType == OPPORTUNITY)
    if since is not None:
        bound = instants.parse_exact(project.bound(since, argument="since"), argument="since")
        # The service keeps milliseconds (G-224).
        chosen = chosen.filter(chosen.eventDate >= instants.naive(instants.truncate(bound)))
    ordered = chosen.order_by("eventDate", "_id").select("userId", "eventDate", "event")
    rows = to_pandas(ordered.to_pyarrow())
    fields = [{name: field["current"] for name, field in json.loads(text).items()} for text in rows["event"]]
    is_of_holdout = pd.Series([each.get("holdout") == holdout for each in fields], dtype=bool)
    logged = pd.DataFrame(
        {
            "user_id": rows["userId"].astype(TEXT),
            "node_id": pd.Series([each.get("node") for each in fields], dtype=TEXT),
            "date": rows["eventDate"],
            "withheld": pd.Series([bool(each.get("withheld")) for each in fields], dtype=bool),
        }
    )[is_of_holdout].reset_index(drop=True)
    first = logged.groupby(["user_id", "node_id"], sort=False)["withheld"].transform("first")
    return logged.assign(withheld=first.astype(bool))
