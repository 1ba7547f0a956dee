"""Randomised experiments: plan, draw and measure holdouts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime
from typing import Final, TypeGuard

import pandas as pd

from attrib_ds import errors, instants
from attrib_ds.attribution.experiments.effects import Effects
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.experiments.plans import plan_holdout
from attrib_ds.contract.administration import Holdout, unknown_holdout
from attrib_ds.contract.interactions import OPPORTUNITY
from attrib_ds.project import Project, takes_project
from attrib_ds.records.frames import TEXT, Frame, read_frame, to_pandas

__all__ = [
    "Effects", "assign", "create_holdout", "delete_holdout", "holdout_effects", "list_holdouts",
    "list_opportunities", "plan_holdout",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_COLUMNS: Final = {"nodeId": "node_id", "firstDay": "since", "lastDay": "until", "nodeExists": "node_exists"}


@takes_project
def create_holdout(
    project: Project,
    holdout: str,
    *,
    node_id: str,
    share: float,
    since: date | str | None = None,
    until: date | str | None = None,
) -> str:
    """Withhold a node from a random share of visitors or users.

    Afterwards pages ask whether to show its placement, with ``attrib.show(holdout)`` of the tracking script,
    and :func:`attrib_ds.experiments.assign` draws for lists. If you create it again, a holdout can grow and
    change its period. It still withholds from the same users.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    holdout : str
        Its name: 1 to 64 lower-case letters, digits, ``-`` and ``_``, starting with a letter or digit.
        Holdouts of different names are independent of each other.
    node_id : str
        Id of the node that is withheld, as :func:`attrib_ds.list_nodes` has it. It need not exist yet: many
        nodes come with their first visit.
    share : float
        Share withheld, more than 0 and less than 1, to six decimals.
    since, until : date or str, optional
        First and last day in UTC, for the opportunities of pages; unbounded by default. Outside the period,
        pages show the placement and log nothing.

    Returns
    -------
    str
        The name.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    Conflict
        If the holdout exists and has another node or a larger share.

    Warns
    -----
    HoldoutWarning
        If the project has nodes, but not this one. The holdout is created; it has no effect to measure until
        the node exists.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1, since="2026-05-01")
    'banner'
    """
    # Not as since and until, whose days are in the project's time zone.
    period = {"firstDay": since, "lastDay": until}
    answer = project.send("create_holdout", holdout=holdout, node_id=node_id, share=share, **period)
    if not answer.read()["nodeExists"][0].as_py():
        _warn_of_unknown_node(project, node_id)
    return holdout


@takes_project
def list_holdouts(project: Project) -> pd.DataFrame:
    """List the holdouts of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    DataFrame
        One row per holdout, by name: ``holdout``, ``node_id`` (str), ``share`` (float64), ``since``,
        ``until`` (str, days in UTC such as ``2026-05-01``; missing if unbounded), ``node_exists`` (bool,
        whether the node is in the tree of :func:`attrib_ds.list_nodes` by now).

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    ...     at.experiments.list_holdouts(shop)[["holdout", "node_id", "share"]]
      holdout node_id  share
    0  banner  spring    0.1
    """
    listed = to_pandas(project.send("list_holdouts").read())
    return listed.rename(columns=_COLUMNS).astype({"node_exists": bool})


@takes_project
def delete_holdout(project: Project, holdout: str) -> int:
    """End a holdout: pages show the placement to everyone from now on.

    Its opportunities stay. Choose another name for the next holdout, so that both are drawn anew and kept
    apart.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    holdout : str
        Its name.

    Returns
    -------
    int
        1.

    Raises
    ------
    NotFound
        If there is no such holdout.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    ...     _ = at.experiments.delete_holdout(shop, "banner")
    ...     len(at.experiments.list_holdouts(shop))
    0
    """
    return int(project.send("delete_holdout", holdout=holdout).value)


@takes_project
def assign(
    project: Project, ids: Frame | Iterable[str], *, holdout: str, column: str = "user_id"
) -> pd.DataFrame:
    """Decide for each id of a list whether a holdout withholds its node.

    Use it for a list of emails or a retargeting audience. The draw depends on the project's key, the name of
    the holdout and the id alone, so it is the same each time and the same as that of a page. Nothing is
    stored.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    ids : DataFrame or iterable of str
        Ids of users, or of trackers, as in pages. A DataFrame has them in ``column``.
    holdout : str
        Name of the holdout, from :func:`attrib_ds.experiments.create_holdout`.
    column : str, default "user_id"
        Name of the column with the ids, such as ``"tracker_id"``.

    Returns
    -------
    DataFrame
        The rows of ``ids``, in their order: ``<column>`` and the other columns of a DataFrame, ``node_id``
        (str), ``withheld`` (bool). With ``user_id``, they are the ``participants`` of
        :func:`attrib_ds.experiments.holdout_effects`.

    Raises
    ------
    NotFound
        If there is no such holdout.
    InvalidRequest
        If the column is missing, or an id is missing or not text.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.experiments.create_holdout(shop, "letter", node_id="spring", share=0.5)
    ...     drawn = at.experiments.assign(shop, [f"u-{number}" for number in range(1000)], holdout="letter")
    >>> bool(400 < drawn["withheld"].sum() < 600)
    True
    """
    units = _units(ids, column)
    rows = {row["holdout"]: row for row in project.send("list_holdouts").read().to_pylist()}
    if holdout not in rows:
        raise unknown_holdout(holdout, rows, advice="; create it with experiments.create_holdout")
    found = Holdout(name=holdout, share=rows[holdout]["share"], node_id=rows[holdout]["nodeId"])
    key = project.send("get_settings").read()["holdoutKey"][0].as_py()
    withheld = [found.withholds(id, key=key) for id in units[column]]
    return units.assign(
        node_id=pd.Series([found.node_id] * len(units), index=units.index, dtype=TEXT),
        withheld=pd.Series(withheld, index=units.index, dtype=bool),
    )


def _warn_of_unknown_node(project: Project, node_id: str) -> None:
    """Warn of a node that may be misspelled; a project without nodes has no traffic yet."""
    hint = ""
    try:
        nodes = to_pandas(project.send("list_nodes").read())
    except errors.Forbidden:  # an account may create holdouts and not read nodes
        pass
    else:
        if nodes.empty:
            return
        namesakes = nodes[nodes["name"].fillna("").str.casefold() == node_id.casefold()]
        hint = errors.closest(node_id, nodes["_id"])
        for id, name in zip(namesakes["_id"][:1], namesakes["name"][:1], strict=True):
            hint = f" (did you mean {id!r}, the id of {name!r}?)"
    errors.warn(
        f"node_id: there is no node {node_id!r} yet{hint}; the effect of the holdout can be measured once it "
        "exists. at.list_nodes lists the nodes",
        errors.HoldoutWarning,
    )


def _units(ids: Frame | Iterable[str], column: str) -> pd.DataFrame:
    """Return ids as a column of text."""
    if _is_frame(ids):
        units = read_frame("ids", ids, [column])
    elif isinstance(ids, Iterable) and not isinstance(ids, str):
        units = pd.DataFrame({column: pd.Series(list(ids), dtype=object)})
    else:
        raise errors.InvalidRequest(f"ids: {ids!r} is not allowed; allowed: a DataFrame or a list")
    for id in units[column]:
        if not isinstance(id, str) or not id:
            raise errors.InvalidRequest(f"ids: {id!r} is not allowed; allowed: text that is not empty")
    return units.assign(**{column: units[column].astype(TEXT)})


def _is_frame(ids: object) -> TypeGuard[Frame]:
    # Series of some libraries are Arrow streams too; unlike frames, they have a dtype.
    return isinstance(ids, pd.DataFrame) or (hasattr(ids, "__arrow_c_stream__") and not hasattr(ids, "dtype"))


@takes_project
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
        chosen = chosen.filter(chosen.eventDate >= instants.naive(bound))
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
