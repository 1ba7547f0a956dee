"""Paths: the touchpoints of each conversion inside the lookback, in order, as one lazy table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds.attribution.engines.engine import engine_of, has_everything, joined_in_order
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.paths.aggregated import read_sequences
from attrib_ds.attribution.paths.columns import Input
from attrib_ds.attribution.paths.money import ORIGINAL, Money, settled, shared_out
from attrib_ds.attribution.paths.pairing import after_earlier, pair
from attrib_ds.attribution.paths.path_inputs import (
    MILESTONE,
    read_adjustments,
    read_conversions,
    read_observed,
    read_touchpoints,
    touch_types,
)
from attrib_ds.attribution.paths.tree import lazy, replaced
from attrib_ds.attribution.paths.windows import Window
from attrib_ds.display import card
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    import ibis.expr.types as ir
    import pandas as pd

    from attrib_ds.attribution.paths.windows import Lookback


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """The touchpoints that led to conversions: lazy, and computed where the data is.

    Made by :func:`attrib_ds.conversion_paths`, :meth:`from_frames` or :meth:`from_sequences`.

    Attributes
    ----------
    touches : ibis.Table
        One row per conversion and touchpoint inside its lookback, and one row without a node for each
        conversion that has none: ``event_id``, ``user_id``, ``node_id``, ``type``, ``is_direct``, ``date``,
        ``event_date``, ``age_days``, ``youngest_days`` (age of the last one), ``position`` (1 is the
        first), ``length``, ``conversions`` and ``value`` (of the whole conversion), ``currency``. Where a
        state is asked for, ``event_date`` is the end of the window, and ``occurred_date`` and ``state_date``
        tell the dates of the event and the state apart. With later amounts, ``value`` is net of them and
        ``original_value`` without.
    touchpoints : ibis.Table or None
        Every touchpoint, those of users without a conversion included. All touchpoints of such a user, in
        order and whatever their dates, are one null path. In aggregated paths the column ``nulls`` counts
        them.
    converted : ibis.Table or None
        ``user_id`` of every conversion, where this is quicker to read than ``touches``.
    observed : ibis.Table or None
        ``user_id``, ``since``, ``until`` of every user who was observed, whether or not anything happened,
        and what else is known of them.
    nodes : DataFrame or None
        The tree of nodes: ``node_id``, ``name``, ``type``, ``parent_id``.
    spend : DataFrame or None
        ``node_id``, ``spend``, ``currency`` and, where it is known by day, ``date``.
    conversions : ibis.Table or None
        What :attr:`touches` were paired from.
    later : ibis.Table or None
        Amounts that came after their conversions, such as refunds: ``event_id``, ``date``, ``value``.
    window : Window or None
        Which touchpoints belong to a conversion.
    timezone : str
        IANA name of the time zone whose days are meant where nothing else is said.
    settings : mapping of str to str
        How the paths were made, in words: what results made from them carry in ``attrs``.
    """

    touches: ir.Table
    touchpoints: ir.Table | None = None
    converted: ir.Table | None = None
    observed: ir.Table | None = None
    nodes: pd.DataFrame | None = None
    spend: pd.DataFrame | None = None
    conversions: ir.Table | None = None
    later: ir.Table | None = None
    window: Window | None = None
    timezone: str = "UTC"
    settings: Mapping[str, str] = field(default_factory=dict)
    has_dates: bool = True
    has_users: bool = True
    has_touch_ids: bool = True
    # Whoever owns the tables; they live as long as the paths do.
    owner: object = None

    @classmethod
    def from_frames(
        cls,
        touchpoints: object,
        conversions: object,
        *,
        lookback: Lookback = "30D",
        user: str = "user_id",
        node: str = "node_id",
        date: str = "date",
        touch: str | None = None,
        type: str | None = None,  # noqa: A002
        conversion: str = "event_id",
        value: str | None = None,
        currency: str | None = None,
        milestones: Mapping[str, str] | None = None,
        users: object = None,
        node_lookbacks: Mapping[str, str | timedelta] | None = None,
        precedence: Sequence[str] | None = None,
        reset: str = "none",
        kind: str | None = None,
        state: str | None = None,
        anchor: str = "event",
        adjustments: object = None,
        in_currency: str | None = None,
        rates: pd.DataFrame | None = None,
        later_rate: str = "original",
        memory: str | None = None,
    ) -> Paths:
        """Make paths from touchpoints and conversions of any origin.

        Parameters
        ----------
        touchpoints : DataFrame, pyarrow.Table, path of a Parquet file or ibis.Table
            One row per touchpoint with the columns ``user``, ``node``, ``date`` (and ``touch``, ``type``).
            What is computed from a table of Ibis is computed where it is, on Spark or a warehouse; frames
            beside it are sent there, so they should be small.
        conversions : DataFrame, pyarrow.Table, path of a Parquet file or ibis.Table
            One row per conversion with the columns ``conversion``, ``user``, ``date`` and, as far as there,
            ``value``, ``currency`` and milestones.
        lookback : str, timedelta or mapping, default "30D"
            Touchpoints in ``(date - lookback, date]`` of a conversion belong to its path. A mapping has one
            for each type of touchpoints, such as ``{"click": "30D", "view": "1D"}``; ``"default"`` in it is
            that of the types it does not name.
        user, node, date, conversion : str
            Names of the columns. ``user`` and ``date`` are the same in both tables. Instants without an
            offset are UTC.
        touch : str, optional
            Column of touchpoints that identifies them; it decides the order of touchpoints of the same
            instant, which the node's id decides otherwise.
        type : str, optional
            Column of touchpoints that tells their kinds apart (click, view); ``"type"`` where it is there.
        value, currency : str, optional
            Columns of conversions; ``"value"`` and ``"currency"`` where they are there.
        milestones : mapping of str to str, optional
            Name of a milestone to the column of conversions that holds its date (or nothing).
        users : DataFrame, pyarrow.Table, path of a Parquet file or ibis.Table, optional
            One row per user who was observed, also those whom nothing touched and who did not convert: the
            column ``user``, ``since`` and ``until`` (instants; a conversion that ends the observation is
            its end), and in further columns what else is known of the user. Only incremental models look
            at it.
        node_lookbacks : mapping of str to str or timedelta, optional
            Lookbacks of nodes, which go before those of types.
        precedence : sequence of str, optional
            Types, the first before the others: with ``("click", "view")`` the views in a window that holds a
            click are left out. Without it (the default) all count.
        reset : {"none", "same", "any"}, default "none"
            Which conversions of a user end the window of the next one, so that a touchpoint counts for the
            first of them only: none; those of the same ``kind``; any that is given.
        kind : str, optional
            Column of conversions that tells their kinds apart; by default all are of one kind.
        state : str, optional
            Column of conversions that holds the date of a state, such as qualified. Conversions without one
            are left out.
        anchor : {"event", "state"}, default "event"
            Whether windows end at the date of the conversion or at that of its state.
        adjustments : DataFrame, pyarrow.Table, path of a Parquet file or ibis.Table, optional
            Amounts that came later, such as refunds: ``conversion``, ``date``, ``value`` (below zero for a
            refund) and, where it is not that of the conversion, ``currency``. They are added to the value of
            their conversion and have its weights; models are fitted without them. Those of conversions that
            are not given are left out.
        in_currency : str, optional
            Convert every value to this currency by ``rates``, at the date of the conversion.
        rates : DataFrame, optional
            ``currency`` (str), ``date`` (from which on the rate holds) and ``rate`` (what one unit is worth
            in ``in_currency``, above 0).
        later_rate : {"original", "own"}, default "original"
            Whether adjustments are converted at the date of their conversion, so that a full refund leaves
            nothing, or at their own.
        memory : str, optional
            How much memory the engine may use, such as ``"4GB"``; what is larger goes through files in the
            folder for temporary files, which must have room for it. By default four fifths of what there is.

        Returns
        -------
        Paths
            Users without a conversion are the null paths.

        Raises
        ------
        InvalidRequest
            If a column is missing, an identifier is missing or doubled, a number is not finite, a date
            cannot be read, a type has no lookback, or a currency has no rate on a day.

        Examples
        --------
        >>> import pandas as pd
        >>> from attrib_ds import Paths
        >>> touchpoints = pd.DataFrame({"user_id": ["u", "u"], "node_id": ["search", "email"],
        ...     "date": pd.to_datetime(["2025-01-01", "2025-01-02"], utc=True)})
        >>> conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "value": [30.0],
        ...     "date": pd.to_datetime(["2025-01-03"], utc=True)})
        >>> Paths.from_frames(touchpoints, conversions).to_pandas()["node_id"].tolist()
        ['search', 'email']
        """
        window = Window.of(
            lookback, of_nodes=node_lookbacks, precedence=precedence, reset=reset, anchor=anchor
        )
        money = Money.of(in_currency, rates, later_rate=later_rate)
        backend = engine_of((touchpoints, conversions, users, adjustments), memory=memory)
        points = read_touchpoints(
            Input.open(backend, touchpoints, argument="touchpoints"),
            user=user,
            node=node,
            date=date,
            touch=touch,
            type=type,
        )
        if window.named_types:
            window.require_types(touch_types(points))
        converted = read_conversions(
            Input.open(backend, conversions, argument="conversions"),
            user=user,
            date=date,
            conversion=conversion,
            value=value,
            currency=currency,
            milestones=milestones or {},
            kind=kind,
            state=state,
            anchor=anchor,
        )
        later = None
        if adjustments is not None:
            later = read_adjustments(
                Input.open(backend, adjustments, argument="adjustments"), conversion=conversion, date=date
            )
        converted, later = settled(converted, later, money)
        if reset != "none":
            converted = after_earlier(converted, by=["kind"] if reset == "same" and kind is not None else [])
        observed = None
        if users is not None:
            observed = read_observed(Input.open(backend, users, argument="users"), user=user)
        return cls(
            touches=pair(points, converted, window=window),
            touchpoints=points,
            converted=converted,
            observed=observed,
            conversions=converted,
            later=later,
            window=window,
            settings=window.described() | money.described(),
            has_touch_ids=touch is not None,
        )

    @classmethod
    def from_sequences(
        cls,
        frame: pd.DataFrame,
        *,
        path: str,
        conversions: str,
        value: str | None = None,
        nulls: str | None = None,
        separator: str = " > ",
    ) -> Paths:
        """Make paths from already aggregated ones, the form other libraries use.

        Parameters
        ----------
        frame : DataFrame
            One row per distinct path.
        path : str
            Column of the nodes in order, joined by ``separator``.
        conversions : str
            Column of the number of conversions with that path, 0 or more.
        value : str, optional
            Column of the total value of those conversions.
        nulls : str, optional
            Column of the number of users with that path who did not convert.
        separator : str, default " > "
            What stands between two nodes.

        Returns
        -------
        Paths
            Without dates: models that need ages refuse them.

        Raises
        ------
        InvalidRequest
            If a column is missing, a path is empty, a number is missing, negative or not finite, or there is
            a value without a conversion.

        Examples
        --------
        >>> import pandas as pd
        >>> from attrib_ds import Paths
        >>> frame = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
        >>> Paths.from_sequences(frame, path="path", conversions="n").lengths()["conversions"].tolist()
        [1.0, 3.0]
        """
        touches, points = read_sequences(
            frame, path=path, conversions=conversions, value=value, nulls=nulls, separator=separator
        )
        return cls(touches=touches, touchpoints=points, has_dates=False, has_users=False)

    def to_pandas(self) -> pd.DataFrame:
        """Compute the paths.

        Returns
        -------
        DataFrame
            One row per conversion and touchpoint, ordered by conversion and position: ``event_id``,
            ``user_id``, ``node_id``, ``node_name`` (str), ``date``, ``event_date`` (datetime64[us, UTC]),
            ``position``, ``length`` (Int64), ``conversions``, ``value`` (float64), ``currency`` (str).
            A conversion without a touchpoint has one row with a null node and length 0.
        """
        shown = ["event_id", "user_id", "node_id", "date", "event_date", "position", "length"]
        rows = self.touches.select(*shown, "conversions", "value", "currency")
        ordered = rows.order_by("event_id", "position").to_pyarrow()
        frame = to_pandas(ordered)
        frame.insert(3, "node_name", self.names(frame["node_id"]))
        return frame

    def summary(self, *, top: int | None = 20) -> pd.DataFrame:
        """Count conversions per distinct path.

        Parameters
        ----------
        top : int, optional
            How many paths, the most frequent first; None for all.

        Returns
        -------
        DataFrame
            One row per path and currency, by conversions: ``path`` (str, nodes joined by `` > ``, empty for
            conversions without a touchpoint), ``length`` (Int64), ``conversions``, ``value`` (float64),
            ``currency`` (str). Paths through different nodes of the same name have a row each.
        """
        if top is not None and (not isinstance(top, int) or top < 0):
            raise InvalidRequest(
                f"top: {top!r} is not a number of paths; allowed: 0 or more, or None", field="top"
            )
        touches = self._named()
        of_event = touches.group_by("event_id").agg(
            path=joined_in_order(touches.node_name, touches.position, " > "),
            # Names may be alike, or hold what stands between them; ids with their lengths are not.
            ids=joined_in_order(_counted(touches.node_id), touches.position, ""),
            length=touches.length.max(),
            conversions=touches.conversions.max(),
            value=touches.value.max(),
            currency=touches.currency.max(),
        )
        counted = of_event.group_by(
            [of_event.path.fill_null("").name("path"), "ids", "length", "currency"]
        ).agg(conversions=of_event.conversions.sum(), value=total(of_event.value))
        ordered = counted.order_by(ibis.desc("conversions"), "path", "currency", "ids")
        limited = ordered if top is None else ordered.limit(top)
        return to_pandas(limited.select("path", "length", "conversions", "value", "currency").to_pyarrow())

    def lengths(self) -> pd.DataFrame:
        """Count conversions by the number of touchpoints.

        Returns
        -------
        DataFrame
            One row per length, ascending (0: no touchpoint): ``length`` (Int64), ``conversions`` (float64).
        """
        last = self._one_per_event()
        counted = last.group_by("length").agg(conversions=last.conversions.sum())
        return to_pandas(counted.order_by("length").to_pyarrow())

    def lags(self) -> pd.DataFrame:
        """Measure the time from the first and from the last touchpoint to each conversion.

        Returns
        -------
        DataFrame
            One row per conversion: ``event_id`` (str), ``conversions`` (float64), ``first_lag_days``,
            ``last_lag_days`` (float64, null where there is no touchpoint).
        """
        self.require_dates("lags")
        touches = self.touches
        lags = touches.group_by("event_id").agg(
            conversions=touches.conversions.max(),
            first_lag_days=touches.age_days.max(),
            last_lag_days=touches.age_days.min(),
        )
        return to_pandas(lags.order_by("event_id").to_pyarrow())

    def with_lookback(self, lookback: Lookback) -> Paths:
        """Return paths of the same conversions and touchpoints within another lookback.

        Parameters
        ----------
        lookback : str, timedelta or mapping
            As in :meth:`from_frames`. Lookbacks of nodes, resets and what else was said stay.

        Returns
        -------
        Paths
            Lazy, as these are.

        Raises
        ------
        InvalidRequest
            If the lookback is not allowed, or the paths are aggregated ones.
        """
        if self.conversions is None or self.touchpoints is None or self.window is None:
            raise InvalidRequest(
                "paths: aggregated paths have no dates, so they have no other lookback; use "
                "Paths.from_frames",
                field="paths",
            )
        given = Window.of(lookback)
        window = replace(self.window, lookback=given.lookback, of_types=given.of_types)
        if window.named_types:
            window.require_types(touch_types(self.touchpoints))
        repaired = replace(
            self,
            touches=pair(self.touchpoints, self.conversions, window=window),
            window=window,
            settings={**self.settings, **window.described()},
        )
        return repaired._valued(self.settings["value"]) if "value" in self.settings else repaired

    def with_original_values(self) -> Paths:
        """Return the same paths with the values that conversions had before later amounts."""
        return self if ORIGINAL not in self.touches.columns else self._valued("original")

    def with_later_values(self) -> Paths:
        """Return the same paths with only what came after the conversions as their value."""
        return self if self.settings.get("value") == "later" else self._valued("later")

    def with_shared_values(self) -> Paths:
        """Return the same paths with their net value shared out as the original values were."""
        has_later = ORIGINAL in self.touches.columns
        return replace(self, touches=shared_out(self.touches)) if has_later else self

    def computed(self) -> Paths:
        """Return the same paths with their touches computed, for those who look at them several times.

        Where the engine can keep them, which it does as long as these paths live.
        """
        is_kept = self.has_users and has_everything(self.touches)
        return replace(self, touches=self.touches.cache()) if is_kept else self

    def with_spend(self, spend: pd.DataFrame) -> Paths:
        """Return the same paths with the spend of nodes beside them."""
        return replace(self, spend=spend)

    def names(self, node_ids: pd.Series[Any]) -> pd.Series[Any]:
        """Return the names of nodes; a node without one is called by its id."""
        if self.nodes is None:
            return node_ids.copy()
        return replaced(node_ids, dict(zip(self.nodes["node_id"], self.nodes["name"], strict=True)))

    def require_dates(self, what: str) -> None:
        """Refuse what needs the dates of touchpoints where there are none."""
        if not self.has_dates:
            raise InvalidRequest(
                f"paths: {what} needs the dates of touchpoints, which aggregated paths do not have; "
                "use Paths.from_frames",
                field="paths",
            )

    def milestones(self) -> list[str]:
        """Return the names of the milestones whose dates the paths carry."""
        return [name.removeprefix(MILESTONE) for name in self.touches.columns if name.startswith(MILESTONE)]

    def __repr__(self) -> str:
        kind = "touchpoints with dates" if self.has_dates else "aggregated sequences"
        told = "".join(f", {name} {value}" for name, value in self.settings.items())
        return f"<Paths of {kind}{told}; .to_pandas(), .summary(), .lengths(), .lags()>"

    def _repr_html_(self) -> str:
        kind = "touchpoints with dates" if self.has_dates else "aggregated sequences"
        ways = ".to_pandas(), .summary(), .lengths(), .lags(), and attribute(paths, …)"
        return card("Paths", {"of": kind, **self.settings}, note=f"Nothing is computed yet: {ways}")

    def _valued(self, which: str) -> Paths:
        touches = self.touches
        original = touches[ORIGINAL] if ORIGINAL in touches.columns else touches.value
        # The original values stay, because models learn from them.
        value = original if which == "original" else touches.value - original
        told = {**self.settings, "value": which}
        return replace(self, touches=touches.mutate(value=value), later=None, settings=told)

    def _one_per_event(self) -> ir.Table:
        touches = self.touches
        return touches.filter(touches.position == touches.length)

    def _named(self) -> ir.Table:
        if self.nodes is None:
            return self.touches.mutate(node_name=self.touches.node_id)
        named = lazy(self.nodes[["node_id", "name"]].rename(columns={"name": "node_name"}))
        joined = self.touches.left_join(named, "node_id")
        return joined.mutate(node_name=joined.node_name.coalesce(joined.node_id))


def _counted(node_ids: Any) -> Any:
    return node_ids.length().cast("string") + ":" + node_ids


def require_paths(paths: object) -> None:
    """Refuse what is not ``Paths``, such as the frame of touchpoints that they are made from."""
    if not isinstance(paths, Paths):
        raise InvalidRequest(
            f"paths: {type(paths).__name__} is not Paths; allowed: what conversion_paths, Paths.from_frames "
            "or Paths.from_sequences make",
            field="paths",
        )
