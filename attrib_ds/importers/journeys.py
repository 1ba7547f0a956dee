"""The result of an importer: frames to load into a project or to build paths from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attrib_ds.api.loading import load
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.attribution.paths.tree import ancestors_at, replaced
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import pandas as pd

    from attrib_ds.api.loading import Loaded
    from attrib_ds.project import Project
    from attrib_ds.records.input_frames import Frame, FrameOrPath

#: Column of events with their id in the source.
SOURCE_ID = "event.sourceId"
#: Statistic with the value of conversions.
REVENUE = "statistics.revenue"


@dataclass(frozen=True, eq=False, repr=False)
class Journeys:
    """Interactions, events and nodes read from an export.

    Returned by :func:`attrib_ds.read_ga4`, :func:`attrib_ds.read_snowplow`, :func:`attrib_ds.read_matomo` and
    :func:`attrib_ds.read_journeys`. The frames have the columns that :func:`attrib_ds.load` takes. Ids are
    derived from those of the source, so that reading the same data again gives the same ids.

    Attributes
    ----------
    interactions : DataFrame
        One row per session or touchpoint, by date.
    events : DataFrame
        One row per conversion, by date; ``event.sourceId`` is its id in the source.
    nodes : DataFrame
        The tree of traffic sources, parents before children.
    hits : DataFrame
        One row per page view; empty if the source has none.
    rejected : DataFrame
        Rows that could not be read: ``file`` (str), ``row`` (Int64, from 0), ``reason`` (str).
    repeated : int
        Number of duplicate conversions that were dropped.
    columns : dict of str to dict
        The columns used, by kind and role, if they were matched by name.
    """

    interactions: pd.DataFrame
    events: pd.DataFrame
    nodes: pd.DataFrame
    hits: pd.DataFrame
    rejected: pd.DataFrame
    repeated: int = 0
    columns: dict[str, dict[str, str | Sequence[str]]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by kind."""
        frames = {"interactions": self.interactions, "events": self.events, "hits": self.hits}
        return {name: len(frame) for name, frame in frames.items() if len(frame) or name != "hits"}

    def load(self, project: Project) -> Loaded:
        """Load everything into an embedded project.

        Records with the same id are replaced if they differ and never duplicated, so that the days of an
        export may overlap.

        Parameters
        ----------
        project : Project
            An embedded project, from :func:`attrib_ds.connect`.

        Returns
        -------
        Loaded
            Counts of new and changed records, and rejected rows.
        """
        frames: dict[str, Any] = {
            "nodes": self.nodes,
            "interactions": self.interactions,
            "hits": self.hits,
            "events": self.events,
        }
        return load(project, **{name: frame for name, frame in frames.items() if len(frame)}, replace=True)

    def paths(
        self,
        *,
        event_type: str | None = None,
        lookback: str | timedelta = "30D",
        level: str | None = None,
        adjustments: FrameOrPath | None = None,
        in_currency: str | None = None,
        rates: Frame | None = None,
        later_rate: str = "original",
    ) -> Paths:
        """Build the paths of conversions without a project.

        Parameters
        ----------
        event_type : str, optional
            Type of the events that are conversions; required if there are several.
        lookback : str or timedelta, default "30D"
            As in ``Paths.from_frames``.
        level : str, optional
            Credit the ancestor of this type (``"campaign"``), or the channel (``"channel"``), instead of the
            node that was touched.
        adjustments : DataFrame or path of a Parquet file, optional
            Amounts later than their conversion, such as refunds, as in ``Paths.from_frames``: ``event_id``
            (the conversion's id in the source), ``date``, ``value`` and, optionally, ``currency``.
        in_currency : str, optional
            Currency to convert every value to by ``rates``, at the date of the conversion.
        rates : DataFrame, optional
            ``currency``, ``date`` and ``rate``, as in ``Paths.from_frames``.
        later_rate : {"original", "own"}, default "original"
            Whether adjustments are converted at the date of their conversion or at their own.

        Returns
        -------
        Paths
            Conversions are identified by their id in the source; bots are left out.

        Raises
        ------
        InvalidRequest
            If the event type does not exist, or there are several and none is given; or a currency has no
            rate at a date.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> clicks = pd.DataFrame({"user": ["u"], "channel": ["search"], "date": ["2025-01-01"]})
        >>> orders = pd.DataFrame({"order_id": [1001], "user": ["u"], "date": ["2025-01-02"],
        ...                        "value": [90.0]})
        >>> refunds = pd.DataFrame({"event_id": [1001], "date": ["2025-01-09"], "value": [-30.0]})
        >>> paths = at.read_journeys(clicks, orders, currency="EUR").paths(adjustments=refunds)
        >>> at.attribute(paths, "linear")["value"].tolist()
        [60.0]
        """
        event_types = sorted(set(self.events["eventType"]))
        if event_type is None and len(event_types) > 1:
            raise InvalidRequest(
                f"event_type is required with several event types; allowed: {', '.join(event_types)}",
                field="event_type",
            )
        # Days without any conversion are not an error: they have no paths, for any event type.
        if event_type is not None and event_types and event_type not in event_types:
            raise InvalidRequest.choice("event_type", event_type, event_types)
        events = self.events if event_type is None else self.events[self.events["eventType"] == event_type]
        human = self.interactions[~self.interactions["isBot"].astype(bool)]
        touchpoints = human[["_id", "userId", "nodeId", "startDate"]].set_axis(
            ["touch_id", "user_id", "node_id", "date"], axis="columns"
        )
        if level is not None:
            touchpoints["node_id"] = replaced(touchpoints["node_id"], ancestors_at(self.nodes, level))
        names = {SOURCE_ID: "event_id", "userId": "user_id", "eventDate": "date"}
        amount = REVENUE if REVENUE in events.columns else f"{REVENUE}.amount"
        if events[amount].notna().any():
            names |= {amount: "value", f"{REVENUE}.currency": "currency"}
        conversions = events[[name for name in names if name in events.columns]].rename(columns=names)
        if "value" in conversions.columns:
            conversions = _completed(conversions, in_currency)
        paths = Paths.from_frames(
            touchpoints,
            conversions,
            lookback=lookback,
            touch="touch_id",
            adjustments=adjustments,
            in_currency=in_currency,
            rates=rates,
            later_rate=later_rate,
        )
        tree = self.nodes.rename(columns={"_id": "node_id", "parentId": "parent_id"})
        return replace(paths, nodes=tree[["node_id", "name", "type", "parent_id"]])

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items())
        return f"<Journeys of {counts}, {len(self.nodes):,} nodes; {len(self.rejected):,} rows rejected>"


def _completed(conversions: pd.DataFrame, in_currency: str | None) -> pd.DataFrame:
    """Count conversions without a value as 0, in the currency of all values if they have one."""
    if "currency" in conversions.columns:
        currencies = conversions["currency"].dropna().unique()
        common = in_currency or (currencies[0] if len(currencies) == 1 else None)
        if common is not None:
            conversions["currency"] = conversions["currency"].mask(conversions["value"].isna(), common)
    conversions["value"] = conversions["value"].fillna(0.0)
    return conversions
