"""What an export holds, as frames that a project takes and that paths are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from attrib_ds.api.loading import load
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.attribution.paths.tree import ancestors_at, replaced
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta

    import pandas as pd

    from attrib_ds.api.loading import Loaded
    from attrib_ds.project import Project

#: Column of events that holds what the source knows them by.
SOURCE_ID = "event.sourceId"
#: The statistic that holds what conversions are worth.
REVENUE = "statistics.revenue"


@dataclass(frozen=True, eq=False, repr=False)
class Journeys:
    """Interactions, events and nodes that were read from an export.

    Made by :func:`attrib_ds.read_ga4`, :func:`attrib_ds.read_snowplow`, :func:`attrib_ds.read_matomo` and
    :func:`attrib_ds.read_journeys`. The frames are what :func:`attrib_ds.load` takes. Ids follow from those
    of the source, so that what is read twice has the same ids.

    Attributes
    ----------
    interactions : DataFrame
        One row per session or touchpoint, by date.
    events : DataFrame
        One row per conversion, by date; ``event.sourceId`` is what the source knows it by.
    nodes : DataFrame
        The tree of traffic sources, parents before children.
    hits : DataFrame
        One row per page view; without rows where the source has none.
    rejected : DataFrame
        ``file`` (str), ``row`` (Int64, from 0), ``reason`` (str) of what could not be read.
    repeated : int
        Conversions that were there more than once, and are kept once.
    columns : dict of str to dict
        The columns taken, by kind and role, where they were looked for.
    """

    interactions: pd.DataFrame
    events: pd.DataFrame
    nodes: pd.DataFrame
    hits: pd.DataFrame
    rejected: pd.DataFrame
    repeated: int = 0
    columns: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Rows by kind."""
        frames = {"interactions": self.interactions, "events": self.events, "hits": self.hits}
        return {name: len(frame) for name, frame in frames.items() if len(frame) or name != "hits"}

    def load(self, project: Project) -> Loaded:
        """Load everything into an embedded project.

        What is there already under the same id is replaced if it tells something else, and never doubled, so
        that the days of an export may overlap.

        Parameters
        ----------
        project : Project
            An embedded project, from :func:`attrib_ds.connect`.

        Returns
        -------
        Loaded
            Counts of what is new or changed, and rejected rows.
        """
        frames = {
            "nodes": self.nodes,
            "interactions": self.interactions,
            "hits": self.hits,
            "events": self.events,
        }
        # A frame without rows has nothing to load.
        return load(project, **{name: frame for name, frame in frames.items() if len(frame)}, replace=True)

    def paths(
        self,
        *,
        event_type: str | None = None,
        lookback: str | timedelta = "30D",
        level: str | None = None,
    ) -> Paths:
        """Make paths of conversions without a project.

        Parameters
        ----------
        event_type : str, optional
            Which events are conversions; may be left out where all are of one type.
        lookback : str or timedelta, default "30D"
            As in ``Paths.from_frames``.
        level : str, optional
            Credit the ancestor of this type (``"campaign"``), or the channel (``"channel"``), instead of the
            node that was touched.

        Returns
        -------
        Paths
            Conversions are known by what the source knows them by, and bots are left out.

        Raises
        ------
        InvalidRequest
            If the event type is not there, or there are several and none is named.
        """
        known = sorted(set(self.events["eventType"]))
        if event_type is None and len(known) > 1:
            raise InvalidRequest(
                f"event_type: there are several; allowed: {', '.join(known)}", field="event_type"
            )
        # Without a conversion there is no path, whatever its type; days without one are nothing wrong.
        if event_type is not None and known and event_type not in known:
            raise InvalidRequest.choice("event_type", event_type, known)
        events = self.events if event_type is None else self.events[self.events["eventType"] == event_type]
        people = self.interactions[~self.interactions["isBot"].astype(bool)]
        touchpoints = people[["_id", "userId", "nodeId", "startDate"]].set_axis(
            ["touch_id", "user_id", "node_id", "date"], axis="columns"
        )
        if level is not None:
            touchpoints["node_id"] = replaced(touchpoints["node_id"], ancestors_at(self.nodes, level))
        names = {SOURCE_ID: "event_id", "userId": "user_id", "eventDate": "date"}
        amount = REVENUE if REVENUE in events.columns else f"{REVENUE}.amount"
        if events[amount].notna().any():
            names |= {amount: "value", f"{REVENUE}.currency": "currency"}
        conversions = events[[name for name in names if name in events.columns]].rename(columns=names)
        paths = Paths.from_frames(touchpoints, conversions, lookback=lookback, touch="touch_id")
        tree = self.nodes.rename(columns={"_id": "node_id", "parentId": "parent_id"})
        return replace(paths, nodes=tree[["node_id", "name", "type", "parent_id"]])

    def __repr__(self) -> str:
        counted = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items())
        return f"<Journeys of {counted}, {len(self.nodes):,} nodes; {len(self.rejected):,} rows rejected>"
