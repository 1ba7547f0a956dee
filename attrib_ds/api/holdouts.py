"""Holdouts that the service draws."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeGuard

import pandas as pd

from attrib_ds import instants
from attrib_ds.contract.holdouts import NAME, Holdout, find_holdout
from attrib_ds.contract.rule import Refused
from attrib_ds.errors import Conflict, InvalidRequest, NotFound, closest
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from datetime import date

    from attrib_ds.project import Project
    from attrib_ds.records.input_frames import Frame


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
    and :func:`attrib_ds.experiments.assign` draws for lists. Created again, a holdout can grow and change its
    period: from whom it withheld so far, it still withholds.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    holdout : str
        Its name: 1 to 64 lower-case letters, digits, ``-`` and ``_``, starting with a letter or digit.
        Holdouts of different names are independent of each other.
    node_id : str
        The node that is withheld. It need not exist yet: many nodes come with their first visit.
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

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1, since="2026-05-01")
    'banner'
    """
    created = Holdout(
        name=_name(holdout),
        share=_share(share),
        node_id=node_id,
        since=_day(since, "since"),
        until=_day(until, "until"),
    )
    if created.since and created.until and created.since > created.until:
        raise InvalidRequest(f"until: {until!r} is before since, {since!r}", field="until")
    settings = _settings(project)
    stored = find_holdout(tuple(settings["holdouts"]), holdout)
    if stored is not None and (stored.node_id != node_id or stored.share > created.share):
        raise Conflict(
            f"holdout {holdout!r} withholds node {stored.node_id!r} from {stored.share:.6g}; allowed: the "
            "same node and a share that is not smaller, or another name"
        )
    project.send("update_settings", holdouts=[*_without(settings, holdout), str(created)])
    return holdout


def list_holdouts(project: Project) -> pd.DataFrame:
    """List the holdouts that the service draws.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    DataFrame
        One row per holdout, by name: ``holdout``, ``node_id`` (str), ``share`` (float64), ``since``,
        ``until`` (str, days in UTC such as ``2026-05-01``; missing if unbounded).

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    ...     at.experiments.list_holdouts(shop)[["holdout", "node_id", "share"]]
      holdout node_id  share
    0  banner  spring    0.1
    """
    holdouts = sorted(map(Holdout.parse, _settings(project)["holdouts"]), key=lambda holdout: holdout.name)
    days = {
        name: [None if day is None else str(day) for day in (getattr(each, name) for each in holdouts)]
        for name in ("since", "until")
    }
    return pd.DataFrame(
        {
            "holdout": pd.Series([each.name for each in holdouts], dtype=TEXT),
            "node_id": pd.Series([each.node_id for each in holdouts], dtype=TEXT),
            "share": pd.Series([each.share for each in holdouts], dtype=float),
            "since": pd.Series(days["since"], dtype=TEXT),
            "until": pd.Series(days["until"], dtype=TEXT),
        }
    )


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
    settings = _settings(project)
    _find(settings, holdout)
    project.send("update_settings", holdouts=_without(settings, holdout))
    return 1


def assign(
    project: Project, ids: Frame | Iterable[str], *, holdout: str, column: str = "user_id"
) -> pd.DataFrame:
    """Draw from whom a holdout withholds its node, for a list of ids.

    Use it for a list of e-mails or a retargeting audience. The draw depends on the project's key, the name of
    the holdout and the id alone, so it is the same each time and the same as that of a page. Nothing is
    stored.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    ids : DataFrame or iterable of str
        Ids of users; or of trackers, as pages have them. A DataFrame has them in ``column``.
    holdout : str
        Name of the holdout, from :func:`attrib_ds.experiments.create_holdout`.
    column : str, default "user_id"
        Name of the column with the ids, such as ``"tracker_id"``.

    Returns
    -------
    DataFrame
        The rows of ``ids``, in their order: ``<column>`` and the other columns of a DataFrame, ``node_id``
        (str), ``withheld`` (bool). With ``user_id``, all rows are the ``participants`` of
        :func:`attrib_ds.experiments.holdout_effects`, and those with ``withheld`` are the withheld users.

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
    settings = _settings(project)
    found = _find(settings, holdout)
    withheld = [found.withholds(id, key=settings["holdoutKey"]) for id in units[column]]
    return units.assign(
        node_id=pd.Series([found.node_id] * len(units), index=units.index, dtype=TEXT),
        withheld=pd.Series(withheld, index=units.index, dtype=bool),
    )


def _name(value: str) -> str:
    try:
        return str(NAME.check(value))
    except Refused:
        raise InvalidRequest(
            f"holdout: {value!r} is not allowed; expected {NAME.expected}", field="holdout"
        ) from None


def _share(value: float) -> float:
    share = round(value, 6) if isinstance(value, Real) else 0.0
    if not 0 < share < 1:
        raise InvalidRequest(
            f"share: {value!r} is not allowed; allowed: more than 0 and less than 1, to six decimals",
            field="share",
        )
    return float(share)


def _day(value: date | str | None, argument: str) -> date | None:
    day = instants.parse_day(value, argument=argument)
    if value is not None and day is None:
        raise InvalidRequest(
            f"{argument}: {value!r} is not allowed; allowed: a day, such as '2026-05-01'", field=argument
        )
    return day


def _settings(project: Project) -> dict[str, Any]:
    settings: dict[str, Any] = project.send("get_settings").read().to_pylist()[0]
    return settings


def _without(settings: dict[str, Any], name: str) -> list[str]:
    return [text for text in settings["holdouts"] if Holdout.parse(text).name != name]


def _find(settings: dict[str, Any], name: str) -> Holdout:
    found = find_holdout(tuple(settings["holdouts"]), name)
    if found is None:
        names = [Holdout.parse(text).name for text in settings["holdouts"]]
        raise NotFound(
            f"holdout: there is no holdout {name!r}{closest(name, names)}; create it with "
            "experiments.create_holdout",
            field="holdout",
        )
    return found


def _units(ids: Frame | Iterable[str], column: str) -> pd.DataFrame:
    """Return ids as a column of text."""
    if _is_frame(ids):
        units = read_frame("ids", ids, [column])
    elif isinstance(ids, Iterable) and not isinstance(ids, str):
        units = pd.DataFrame({column: pd.Series(list(ids), dtype=object)})
    else:
        raise InvalidRequest(f"ids: {ids!r} is not allowed; allowed: a DataFrame or a list", field="ids")
    for id in units[column]:
        if not isinstance(id, str) or not id:
            raise InvalidRequest(f"ids: {id!r} is not allowed; allowed: text that is not empty", field="ids")
    return units.assign(**{column: units[column].astype(TEXT)})


def _is_frame(ids: object) -> TypeGuard[Frame]:
    # Series of some libraries are Arrow streams too; unlike frames, they have a dtype.
    return isinstance(ids, pd.DataFrame) or (hasattr(ids, "__arrow_c_stream__") and not hasattr(ids, "dtype"))
