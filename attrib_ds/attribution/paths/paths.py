"""Paths: the ordered touchpoints of each conversion inside its lookback window, as one lazy table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa

from attrib_ds import display, errors, instants
from attrib_ds.attribution.engines.engine import engine, engine_of, has_all_features, joined_in_order, total
from attrib_ds.attribution.paths import inputs
from attrib_ds.attribution.paths import money as amounts
from attrib_ds.attribution.paths.money import ORIGINAL, Money, apply_later_amounts, scale_original_values
from attrib_ds.attribution.paths.project_tables import lazy, names_of
from attrib_ds.attribution.paths.windows import DIRECT, Lookback, Window, after_earlier, pair
from attrib_ds.records.frames import TEXT, Frame, FrameOrPath, read_frame, to_pandas, with_index

#: Share of early conversions that one shift explains.
_NEARLY_ALL: Final = 0.9
#: Longest difference of a local time and UTC.
_WIDEST_ZONE: Final = timedelta(hours=14)
_HOUR: Final = timedelta(hours=1)
#: An instant or a day.
Bound: TypeAlias = datetime | date | str | None


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """The touchpoints before each conversion, as lazy tables that are computed where the data are.

    Make them with :func:`attrib_ds.conversion_paths`, :meth:`from_frames` or :meth:`from_sequences`, and pass
    them to :func:`attrib_ds.attribute`.

    Attributes
    ----------
    touches : ibis.Table
        One row per conversion and touchpoint inside its window, and one row without a node for each
        conversion without touchpoints: ``event_id``, ``user_id``, ``node_id``, ``type``, ``is_direct``,
        ``date``, ``event_date``, ``age_days``, ``youngest_days`` (age of the last touchpoint), ``position``
        (1 is the first), ``length``, ``conversions`` and ``value`` (of the whole conversion), ``currency``.
        With a state, ``event_date`` is the end of the window, ``occurred_date`` the date of the event and
        ``state_date`` that of the state. With later amounts, ``value`` is net of them and ``original_value``
        is not.
    touchpoints : ibis.Table or None
        Every touchpoint, including those of users without a conversion. All touchpoints of such a user, in
        order and regardless of the lookback, are one null path. In aggregated paths the column ``nulls``
        counts null paths.
    converted : ibis.Table or None
        ``user_id`` of every conversion, if it is faster to read than ``touches``.
    observed : ibis.Table or None
        ``user_id``, ``since``, ``until`` and covariates of every observed user, including users without
        touchpoints and conversions.
    nodes : DataFrame or None
        The tree of nodes: ``node_id``, ``name``, ``type``, ``parent_id``.
    spend : DataFrame or None
        ``node_id``, ``spend``, ``currency`` and, if spend is by day, ``date``.
    conversions : ibis.Table or None
        The conversions in :attr:`touches`.
    groups : DataFrame or None
        ``event_id`` and columns that :meth:`split` divides by, such as ``country``.
    later : ibis.Table or None
        Amounts later than their conversions, such as refunds: ``event_id``, ``date``, ``value``.
    window : Window or None
        Rules that decide which touchpoints belong to a conversion.
    timezone : str
        IANA name of the default time zone of results by day.
    settings : mapping of str to str
        Settings of the paths as text, which results carry in ``attrs``.
    has_dates, has_users, has_touch_ids : bool
        Whether touchpoints have dates and belong to users, which they do not in aggregated paths, and whether
        a column identifies them.
    is_checked : bool
        Whether a warning has told how users and dates of conversions and touchpoints differ.
    date_columns : tuple of str
        The dates of touchpoints and of conversions, as warnings name them.
    owner : object
        Owner of the tables, kept alive as long as the paths.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"path": ["search > email", "email"], "conversions": [3, 1]})
    >>> paths = at.Paths.from_sequences(rows, path="path", conversions="conversions")
    >>> paths.summary()[["path", "length", "conversions"]]
                 path  length  conversions
    0  search > email       2          3.0
    1           email       1          1.0
    """

    touches: ir.Table
    touchpoints: ir.Table | None = None
    converted: ir.Table | None = None
    observed: ir.Table | None = None
    nodes: pd.DataFrame | None = None
    spend: pd.DataFrame | None = None
    conversions: ir.Table | None = None
    groups: pd.DataFrame | None = None
    later: ir.Table | None = None
    window: Window | None = None
    timezone: str = "UTC"
    settings: Mapping[str, str] = field(default_factory=dict)
    has_dates: bool = True
    has_users: bool = True
    has_touch_ids: bool = True
    is_checked: bool = False
    date_columns: tuple[str, str] = ("touchpoints['date']", "conversions['date']")
    owner: object = None

    @classmethod
    def from_frames(
        cls,
        touchpoints: FrameOrPath,
        conversions: FrameOrPath,
        *,
        lookback: Lookback = "30D",
        user: str = "user_id",
        node: str = "node_id",
        date: str = "date",
        conversion: str = "event_id",
        value: str | None = None,
        currency: str | None = None,
        columns: Mapping[str, str] | None = None,
        users: FrameOrPath | None = None,
        node_lookbacks: Mapping[str, str | timedelta] | None = None,
        precedence: Sequence[str] | None = None,
        reset: str = "none",
        anchor: str = "event",
        adjustments: FrameOrPath | None = None,
        in_currency: str | None = None,
        rates: Frame | None = None,
        later_rate: str = "original",
        memory: str | None = None,
        unchecked: bool = False,
    ) -> Paths:
        """Make paths from your own tables of touchpoints and conversions.

        Parameters
        ----------
        touchpoints : DataFrame, path of a Parquet file or ibis.Table
            One row per touchpoint with the columns ``user``, ``node`` and ``date``.
            Ibis tables are computed by their own engine, such as Spark or a warehouse; other tables are sent
            there, so they should be small.
        conversions : DataFrame, path of a Parquet file or ibis.Table
            One row per conversion with the columns ``conversion``, ``user``, ``date`` and, optionally,
            ``value`` and ``currency``.
        lookback : str, timedelta or mapping, default "30D"
            Length of the window: touchpoints in ``(date - lookback, date]`` of a conversion belong to its
            path. A mapping has a lookback for each type of touchpoints, such as
            ``{"click": "30D", "view": "1D"}``; its key ``"default"`` stands for all other types.
        user, node, date, conversion : str
            Names of the columns; ``user`` and ``date`` are in both tables. Instants without an offset are
            UTC.
        value : str, optional
            Column of conversions; ``"value"`` if it exists. A conversion without a value has a value of 0.
        currency : str, optional
            Column of conversions, or a code such as ``"EUR"`` for values without a currency; by default the
            column ``"currency"`` if it exists. Values of unknown currency have no ROAS if spend has a
            currency.
        columns : mapping of str to str, optional
            Further columns by meaning. Of touchpoints: ``"touch"``, unique ids, which order touchpoints of
            the same instant (by default node ids do); ``"type"``, such as click or view (by default a column
            ``"type"``). Of conversions: ``"kind"``, for ``reset="same"``; ``"state"``, the date of a state
            such as qualified, without which a conversion is left out; and ``"milestone.NAME"``, the date of
            a milestone, which may be null.
        users : DataFrame, path of a Parquet file or ibis.Table, optional
            One row per observed user, including users without touchpoints and conversions: the column
            ``user``, ``since`` and ``until`` (instants; a conversion that ends the observation is its end),
            and covariates in further columns. Only incremental models use it.
        node_lookbacks : mapping of str to str or timedelta, optional
            Lookbacks by node id, which take precedence over those of types.
        precedence : sequence of str, optional
            Types in order of precedence: with ``("click", "view")``, views are dropped from a window that has
            a click. By default all touchpoints count.
        reset : {"none", "same", "any"}, default "none"
            Which earlier conversions of a user end the window, so that a touchpoint counts for one
            conversion only: none of them, those of the same ``kind``, or all in ``conversions``.
        anchor : {"event", "state"}, default "event"
            Whether windows end at the date of the conversion or of its state.
        adjustments : DataFrame, path of a Parquet file or ibis.Table, optional
            Amounts later than their conversion, such as refunds: ``conversion``, ``date``, ``value`` (below 0
            for a refund) and, if it is not that of the conversion, ``currency``. They are added to the value
            of their conversion and credited with its weights; models are fitted without them. Amounts of
            conversions that are not in ``conversions`` are left out.
        in_currency : str, optional
            Currency to convert every value to by ``rates``, at the date of the conversion.
        rates : DataFrame, optional
            ``currency`` (str), ``date`` (from which the rate is valid) and ``rate`` (worth of one unit in
            ``in_currency``, above 0).
        later_rate : {"original", "own"}, default "original"
            Whether adjustments are converted at the date of their conversion, so that a full refund leaves
            nothing, or at their own.
        memory : str, optional
            Maximum memory of the engine, such as ``"4GB"``; larger data is spilled to a temporary folder. By
            default 80 % of the machine's memory.
        unchecked : bool, default False
            Whether to accept Ibis tables of an engine on which the tests do not run. Its SQL may differ, so
            :func:`attrib_ds.attribute` then checks that the credits of each model add up to the conversions.

        Returns
        -------
        Paths
            Users without a conversion are the null paths.

        Raises
        ------
        InvalidRequest
            If a column is missing, an identifier is missing or not unique, a number is not finite, a date
            cannot be read, a type has no lookback, or a currency has no rate at a date.
        NotSupported
            If the tests do not run on the engine of the tables, and ``unchecked`` is false.

        Warns
        -----
        InputWarning
            If adjustments are of no conversion, each is the value of its conversion itself, or they are above
            the value of a conversion.
        UnknownCurrency
            If some values have no currency beside others that have one.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> touchpoints = pd.DataFrame({"user_id": ["u", "u"], "node_id": ["search", "email"],
        ...     "date": pd.to_datetime(["2025-01-01", "2025-01-02"], utc=True)})
        >>> conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "value": [30.0],
        ...     "date": pd.to_datetime(["2025-01-03"], utc=True)})
        >>> at.Paths.from_frames(touchpoints, conversions).to_pandas()["node_id"].tolist()
        ['search', 'email']
        """
        window = Window.of(
            lookback, of_nodes=node_lookbacks, precedence=precedence, reset=reset, anchor=anchor
        )
        money = Money.of(in_currency, rates, later_rate=later_rate)
        columns = dict(columns or {})
        inputs.check_columns(columns)
        backend = engine_of(
            (touchpoints, conversions, users, adjustments), memory=memory, unchecked=unchecked
        )
        touched = inputs.Input.open(backend, touchpoints, argument="touchpoints")
        points = inputs.read_touchpoints(touched, user=user, node=node, date=date, columns=columns)
        if window.named_types:
            window.require_types(inputs.touch_types(points))
        bought = inputs.Input.open(backend, conversions, argument="conversions")
        converted = inputs.read_conversions(
            bought,
            user=user,
            date=date,
            conversion=conversion,
            value=value,
            currency=currency,
            columns=columns,
        )
        later = None
        if adjustments is not None:
            later = inputs.read_adjustments(
                inputs.Input.open(backend, adjustments, argument="adjustments"),
                conversion=conversion,
                date=date,
            )
            amounts.warn_of_later_amounts(converted, later)
        converted = inputs.anchored(converted, anchor)
        converted, later = apply_later_amounts(converted, later, money)
        if later is not None:
            amounts.warn_of_excess(converted)
        if reset != "none":
            converted = after_earlier(converted, by=["kind"] if reset == "same" and "kind" in columns else [])
        observed = None
        if users is not None:
            observed = inputs.read_observed(inputs.Input.open(backend, users, argument="users"), user=user)
        near = touched.of_users(points, backend, user, bought)
        return cls(
            touches=pair(near if "touch" in columns else near.drop("touch_id"), converted, window=window),
            touchpoints=points,
            converted=converted,
            observed=observed,
            conversions=converted,
            later=later,
            window=window,
            settings=window.described() | money.described(),
            has_touch_ids="touch" in columns,
            date_columns=(f"touchpoints[{date!r}]", f"conversions[{date!r}]"),
        )

    @classmethod
    def from_sequences(
        cls,
        frame: Frame,
        *,
        path: str,
        conversions: str,
        value: str | None = None,
        currency: str | None = None,
        nulls: str | None = None,
        separator: str = " > ",
    ) -> Paths:
        """Make paths from aggregated ones, the input of ChannelAttribution and other libraries.

        Parameters
        ----------
        frame : DataFrame
            One row per distinct path.
        path : str
            Column with the node ids in order, joined by ``separator``.
        conversions : str
            Column with the number of conversions with the path, 0 or more.
        value : str, optional
            Column with the total value of these conversions.
        currency : str, optional
            Column with the currency of the value, or a code such as ``"EUR"`` for all; unknown by default.
        nulls : str, optional
            Column with the number of users with the path who did not convert, 0 or more.
        separator : str, default " > "
            Text between two nodes, not empty.

        Returns
        -------
        Paths
            Without dates and users: models that need them raise :class:`~attrib_ds.errors.InvalidRequest`.

        Raises
        ------
        InvalidRequest
            If a column is missing, a path is empty, a number is missing, negative or not finite, or there is
            a value without a conversion.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
        >>> at.Paths.from_sequences(frame, path="path", conversions="n").lengths()["conversions"].tolist()
        [1.0, 3.0]
        """
        if not separator:
            raise errors.InvalidRequest("separator: '' is not allowed; allowed: text between two nodes")
        source = inputs.Input.open(engine(), frame, argument="frame")
        columns = {
            "path": source.keys(path, role="path"),
            "conversions": source.numbers(conversions, role="conversions", minimum=0),
            "value": ibis.null("float64")
            if value is None
            else source.numbers(value, role="value", maximum=inputs.MOST_VALUE),
            "currency": ibis.null("string") if value is None else source.currencies(currency),
            "nulls": ibis.literal(0.0) if nulls is None else source.numbers(nulls, role="nulls", minimum=0),
        }
        if value is not None:
            has_no_conversion = (columns["conversions"] == 0) & (columns["value"] != 0)
            source.suspect(value, "is not zero although the path has no conversions", has_no_conversion)
        source.check()
        rows = to_pandas(source.table.select(**columns).to_pyarrow())
        rows["node_id"] = rows["path"].str.split(separator, regex=False)
        nodes = rows["node_id"].explode()
        empty = nodes.str.strip() == ""
        if empty.any():
            row = int(nodes.index[empty][0])
            raise errors.InvalidRequest(
                f"frame: the path in row {row} has an empty node ({rows['path'][row]!r}, separated by "
                f"{separator!r}); allowed: one or more nodes, none of them empty"
            )
        # Ids by content: sums and the draws of a bootstrap are the same in any order of the rows.
        rows = rows.sort_values(["path", "currency", "conversions", "value", "nulls"], ignore_index=True)
        rows["event_id"] = rows.pop("path").index.astype(TEXT)
        rows["length"] = rows["node_id"].str.len()
        touches = rows.explode("node_id", ignore_index=True)
        touches["node_id"] = touches["node_id"].astype(TEXT).str.strip()
        touches["position"] = touches.groupby("event_id", sort=False).cumcount() + 1
        arrow = pa.Table.from_pandas(touches, preserve_index=False)
        backend = engine()
        backend.con.register("sequences", arrow)
        points = backend.table("sequences")
        # An empty frame has no type of text.
        columns = {name: points[name].cast("string") for name in ("node_id", "currency")}
        columns |= dict.fromkeys(("user_id", "type", "touch_id"), ibis.null("string"))
        columns |= dict.fromkeys(("date", "event_date"), ibis.null("timestamp(6)"))
        columns |= dict.fromkeys(("age_days", "youngest_days"), ibis.null("float64"))
        points = points.mutate(columns, is_direct=columns["node_id"].lower().isin(DIRECT))
        touched = points.filter(points.conversions > 0).drop("nulls")
        return cls(touches=touched, touchpoints=points, has_dates=False, has_users=False)

    def to_pandas(self) -> pd.DataFrame:
        """Compute the paths as a DataFrame.

        Returns
        -------
        DataFrame
            One row per conversion and touchpoint, ordered by conversion and position: ``event_id``,
            ``user_id``, ``node_id``, ``node_name`` (str), ``date``, ``event_date`` (datetime64[us, UTC]),
            ``position``, ``length`` (Int64), ``conversions``, ``value`` (float64), ``currency`` (str).
            A conversion without a touchpoint has one row with a null ``node_id``, the ``node_name``
            "unattributed" and length 0.
        """
        shown = ["event_id", "user_id", "node_id", "date", "event_date", "position", "length"]
        rows = self.touches.select(*shown, "conversions", "value", "currency")
        ordered = rows.order_by("event_id", "position").to_pyarrow()
        frame = to_pandas(ordered)
        frame.insert(3, "node_name", self.names(frame["node_id"]))
        return frame

    def last_touches(self, number: int) -> pd.DataFrame:
        """Return the rows of :meth:`to_pandas` that are among the last touchpoints of their path."""
        touches = self.touches
        is_last = (touches.length - touches.position < number) | (touches.length == 0)
        return replace(self, touches=touches.filter(is_last)).to_pandas()

    def summary(self, *, top: int | None = 20) -> pd.DataFrame:
        """Count conversions per distinct path.

        Parameters
        ----------
        top : int or None, default 20
            Maximum number of paths, 0 or more, the most frequent first; None for all.

        Returns
        -------
        DataFrame
            One row per path and currency, by conversions: ``path`` (str, nodes joined by `` > ``, empty for
            conversions without a touchpoint), ``length`` (Int64), ``conversions``, ``value`` (float64),
            ``currency`` (str). Paths through different nodes of the same name have separate rows.

        Raises
        ------
        InvalidRequest
            If ``top`` is not a number of paths.
        """
        if top is not None:
            top = errors.check_whole("top", top, minimum=0)
        touches = self._named()
        of_event = touches.group_by("event_id").agg(
            path=joined_in_order(touches.node_name, touches.position, " > "),
            # Names may coincide or contain the separator; ids with their lengths are unambiguous.
            ids=joined_in_order(
                touches.node_id.length().cast("string") + ":" + touches.node_id, touches.position, ""
            ),
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

    @property
    def ends(self) -> ir.Table:
        """The last touchpoint of each conversion, or its row without one."""
        return self.touches.filter(self.touches.position == self.touches.length)

    def lengths(self) -> pd.DataFrame:
        """Count conversions by the number of touchpoints.

        Returns
        -------
        DataFrame
            One row per length, ascending (0: no touchpoint): ``length`` (Int64), ``conversions`` (float64).
        """
        last = self.ends
        counted = last.group_by("length").agg(conversions=last.conversions.sum())
        return to_pandas(counted.order_by("length").to_pyarrow())

    def roles(self) -> pd.DataFrame:
        """Count the conversions that each node opens, assists and closes.

        Returns
        -------
        DataFrame
            One row per node, by the number of conversions it took part in: ``node_id``, ``node_name`` (str),
            and as float64 ``touched`` (conversions with the node in their path), ``opens`` (it was the first
            touchpoint), ``assists`` (it stood between the first and the last one), ``closes`` (it was the
            last touchpoint) and ``alone`` (the path has no other node).

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"path": ["search > email > direct", "direct"], "n": [3, 1]})
        >>> at.Paths.from_sequences(frame, path="path", conversions="n").roles().drop(columns="node_name")
          node_id  touched  opens  assists  closes  alone
        0  direct      4.0    1.0      0.0     4.0    1.0
        1   email      3.0    0.0      3.0     0.0    0.0
        2  search      3.0    3.0      0.0     0.0    0.0
        """
        touches = self.touches.filter(self.touches.length > 0)
        is_first, is_last = touches.position == 1, touches.position == touches.length
        flags = {"opens": is_first, "assists": ~is_first & ~is_last, "closes": is_last}
        flags = {name: flag.cast("int64").max() for name, flag in flags.items()}
        flags["alone"] = (touches.count() == touches.length.max()).cast("int64")
        of_event = touches.group_by(["event_id", "node_id"]).agg(touched=touches.conversions.max(), **flags)
        counted = of_event.group_by("node_id").agg(
            touched=total(of_event.touched),
            **{name: total(of_event.touched * of_event[name]) for name in flags},
        )
        roles = to_pandas(counted.order_by(ibis.desc("touched"), "node_id").to_pyarrow())
        roles.insert(1, "node_name", self.names(roles["node_id"]))
        return roles

    def split(self, by: str | Frame, *, since: str | None = None) -> dict[str, Paths]:
        """Divide the conversions into groups, such as those of new and of returning customers.

        Parameters
        ----------
        by : str or DataFrame
            ``"customer"``: ``"new"`` is the first conversion of a user in these paths, ``"returning"`` are
            the others. Paths of all data know more conversions before than paths of a period.
            ``"country"``, ``"device_type"``: that of the conversion, else of its user's last touchpoint, if
            the files of :func:`attrib_ds.read_journeys` have one. Or a frame with ``event_id`` or
            ``user_id``, as a column or the index, and one further column, such as a city, that names the
            groups. A Series has the groups as values.
        since : str, optional
            Only conversions from this instant or day on; those before still make later ones returning.

        Returns
        -------
        dict of str to Paths
            Paths of each group, by its name, to pass to :func:`attrib_ds.attribute`. Conversions without a
            group are in one of their own, such as ``"(no country)"``. Null paths are those of users without
            any conversion: they are in every group or, with a frame of users, in the group of the user.
            Returns of a group are null, since the spend is that of all groups; pass that of the group to
            :func:`attrib_ds.attribute`.

        Raises
        ------
        InvalidRequest
            If the paths are aggregated ones, ``by`` is not allowed, no conversion is of one of its rows, or a
            group has the name of those without one.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> date = pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03"], utc=True)
        >>> touchpoints = pd.DataFrame({"user_id": "u", "node_id": ["search", "email"], "date": date[:2]})
        >>> orders = pd.DataFrame({"event_id": ["e", "f"], "user_id": "u", "date": date[1:]})
        >>> groups = at.Paths.from_frames(touchpoints, orders).split("customer")
        >>> {name: paths.to_pandas()["event_id"].unique().tolist() for name, paths in groups.items()}
        {'new': ['e'], 'returning': ['f']}
        """
        self.require_dates("groups of conversions")
        conversions: Any = self.conversions
        kept = () if self.groups is None else tuple(self.groups.columns[1:])
        if isinstance(by, str):
            _check_by(by, ("customer", *kept))
        if isinstance(by, str) and self.groups is not None and by in kept:
            by = self.groups[["event_id", by]]
        if isinstance(by, str):
            key, name = "event_id", by
            in_order = ibis.window(
                group_by=conversions.user_id, order_by=[conversions.event_date, conversions.event_id]
            )
            is_first = conversions.user_id.isnull() | (ibis.row_number().over(in_order) == 0)
            groups = conversions.select("event_id", group=ibis.ifelse(is_first, "new", "returning"))
        else:
            frame = _with_ids(by)
            key, name = _key_and_group(frame)
            groups = _groups_by_id(frame, key, name)
        if since is not None:
            conversions = conversions.filter(conversions.event_date >= self._bound(since, "since"))
        joined = conversions.left_join(groups, key)
        names = joined.group.to_pyarrow().unique().to_pylist()
        if names == [None]:
            example = groups[key].min().to_pyarrow().as_py()
            raise errors.InvalidRequest(
                f"by: no {key} of the frame belongs to a conversion. The conversions have {key}s such as "
                f"{conversions[key].min().to_pyarrow().as_py()!r}, the frame has {example!r}"
            )
        rest = f"(no {name})"
        if {None, rest} <= set(names):
            raise errors.InvalidRequest(
                f"by: a group is named {rest!r}, which is the name of conversions without a group; rename "
                "it, or give every conversion a group"
            )
        joined = joined.mutate(group=joined.group.fill_null(rest))
        unknown = {} if self.spend is None else {"spend": "that of all groups, so unknown for this one"}
        converted = self.touches if self.converted is None else self.converted
        parts = {}
        for group in sorted(each or rest for each in names):
            own = joined.filter(joined.group == group)
            points = self.touchpoints
            if key == "user_id" and points is not None:
                named = groups.filter(groups.group == group)
                points = points.anti_join(groups, key) if group == rest else points.semi_join(named, key)
            parts[group] = replace(
                self,
                touches=self.touches.semi_join(own, "event_id"),
                touchpoints=points,
                converted=converted.select("user_id"),
                conversions=conversions.semi_join(own, "event_id"),
                spend=None if self.spend is None else self.spend.iloc[:0],
                settings={**self.settings, **unknown, name: group},
            )
        return parts

    def within(self, *, since: Bound = None, until: Bound = None) -> Paths:
        """Keep the conversions of a period, each with all of its touchpoints.

        Parameters
        ----------
        since, until : datetime, date or str, optional
            Earliest and latest date of conversions. A day stands for its start in ``since`` and for its end
            in ``until``, in the time zone of the paths.

        Returns
        -------
        Paths
            With the spend of these days. Users who convert at other times only are null paths, as they are in
            :func:`attrib_ds.conversion_paths`.

        Raises
        ------
        InvalidRequest
            If the paths are aggregated ones, or ``until`` is before ``since``.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> date = pd.to_datetime(["2025-01-01", "2025-02-01"], utc=True)
        >>> touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["search"], "date": date[:1]})
        >>> orders = pd.DataFrame({"event_id": ["e", "f"], "user_id": "u", "date": date})
        >>> paths = at.Paths.from_frames(touchpoints, orders)
        >>> paths.within(since="2025-02-01").to_pandas()["event_id"].tolist()
        ['f']
        """
        self.require_dates("a period")
        given = {"since": since, "until": until}
        bounds = {name: self._bound(bound, name) for name, bound in given.items() if bound is not None}
        if not bounds:
            return self
        if len(bounds) == 2 and bounds["since"] > bounds["until"]:
            raise errors.InvalidRequest(f"until: {until!s} is before since, {since!s}")
        settings = {**self.settings, **{name: f"{bound.isoformat()}Z" for name, bound in bounds.items()}}
        spend = self.spend
        if spend is not None and "date" not in spend.columns:
            spend, settings["spend"] = spend.iloc[:0], "that of all days, so unknown for these"
        elif spend is not None:
            zone = ZoneInfo(self.timezone)
            at = pd.Series({name: pd.Timestamp(bound, tz="UTC") for name, bound in bounds.items()})
            edges = amounts.local_days_of(at, zone)
            days = amounts.local_days_of(spend["date"], zone)
            spend = spend[days.between(edges.get("since", days.min()), edges.get("until", days.max()))]

        def of_period(rows: Any) -> Any:
            if "since" in bounds:
                rows = rows.filter(rows.event_date >= bounds["since"])
            return rows.filter(rows.event_date <= bounds["until"]) if "until" in bounds else rows

        tables = {
            name: of_period(table)
            for name in ("touches", "converted", "conversions")
            if (table := getattr(self, name)) is not None and "event_date" in table.columns
        }
        return replace(self, **tables, spend=spend, settings=settings)

    def _bound(self, value: object, argument: str) -> datetime:
        """Return an instant, or the start or the end of a day, naive in UTC."""
        day = instants.parse_day(value, argument=argument)
        if day is None:
            return instants.naive(instants.parse_exact(value, argument=argument))
        end = instants.first_instant if argument == "since" else instants.last_instant
        return instants.naive(end(day, ZoneInfo(self.timezone), argument=argument))

    def beyond_lookback(self) -> float:
        """Count the conversions without a touchpoint whose user has one, but only before the lookback."""
        if self.window is None or self.touchpoints is None or self.window.reset != "none":
            return 0.0
        empty = self.touches.filter(self.touches.length == 0)
        first = self.touchpoints.group_by("user_id").agg(first_date=self.touchpoints.date.min())
        joined = empty.inner_join(first, "user_id")
        missed = joined.filter(joined.first_date <= joined.event_date)
        return float(missed.conversions.sum().to_pyarrow().as_py() or 0.0)

    def doubts(self) -> list[str]:
        """Describe how users and dates of conversions and touchpoints differ, as :func:`doubts_of` does."""
        if self.conversions is None or self.touchpoints is None or self.is_checked:
            return []
        return doubts_of(self.conversions, self.touchpoints)

    def before_touchpoints(self) -> tuple[float, float]:
        """Count conversions before all touchpoints of their user, if one shift of clocks explains nearly all.

        Returns
        -------
        tuple of float
            The number of conversions, and the smallest shift of whole or half hours; zeros if no shift of up
            to 14 hours, the widest time zone, does.
        """
        if self.touchpoints is None or not self.has_dates:
            return 0.0, 0.0
        empty = self.touches.filter(self.touches.length == 0)
        first = self.touchpoints.group_by("user_id").agg(first_date=self.touchpoints.date.min())
        early = empty.inner_join(first, "user_id")
        early = early.filter(early.first_date > early.event_date)
        seconds = early.first_date.epoch_seconds() - early.event_date.epoch_seconds()
        counts = to_pandas(
            early.group_by(half_hours=((seconds + 1799) // 1800).cast("int64"))
            .agg(conversions=early.conversions.sum())
            .order_by("half_hours")
            .to_pyarrow()
        )
        reached = counts["conversions"].cumsum() >= _NEARLY_ALL * counts["conversions"].sum()
        if counts.empty or (hours := int(counts["half_hours"][reached].iloc[0]) / 2) * _HOUR > _WIDEST_ZONE:
            return 0.0, 0.0
        return float(counts["conversions"].sum()), hours

    def lags(self) -> pd.DataFrame:
        """Measure the time from the first and from the last touchpoint to each conversion.

        Returns
        -------
        DataFrame
            One row per conversion: ``event_id`` (str), ``conversions`` (float64), ``first_lag_days``,
            ``last_lag_days`` (float64, null without a touchpoint).

        Raises
        ------
        InvalidRequest
            If the paths are aggregated ones, which have no dates.
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
        """Return paths of the same conversions and touchpoints with another lookback.

        Parameters
        ----------
        lookback : str, timedelta or mapping
            As in :meth:`from_frames`. Lookbacks of nodes, resets and all other settings stay.

        Returns
        -------
        Paths
            With the new lookback.

        Raises
        ------
        InvalidRequest
            If the lookback is not allowed, or the paths are aggregated ones.
        """
        if self.conversions is None or self.touchpoints is None or self.window is None:
            raise errors.InvalidRequest(
                "paths: aggregated paths have no dates, so their lookback cannot change; use "
                "Paths.from_frames"
            )
        changed = Window.of(lookback)
        window = replace(self.window, lookback=changed.lookback, of_types=changed.of_types)
        if window.named_types:
            window.require_types(inputs.touch_types(self.touchpoints))
        points = self.touchpoints if self.has_touch_ids else self.touchpoints.drop("touch_id")
        repaired = replace(
            self,
            touches=pair(points, self.conversions, window=window),
            window=window,
            settings={**self.settings, **window.described()},
        )
        return repaired._valued(self.settings["value"]) if "value" in self.settings else repaired

    def with_original_values(self) -> Paths:
        """Return the same paths with the value of conversions before later amounts."""
        return self if ORIGINAL not in self.touches.columns else self._valued("original")

    def with_later_values(self) -> Paths:
        """Return the same paths with only the later amounts of conversions as their value."""
        return self if self.settings.get("value") == "later" else self._valued("later")

    def with_scaled_values(self) -> Paths:
        """Return the same paths with original values scaled to sum to the net value."""
        has_later = ORIGINAL in self.touches.columns
        return replace(self, touches=scale_original_values(self.touches)) if has_later else self

    def computed(self) -> Paths:
        """Return the same paths with their touches cached, if the engine can, for repeated use.

        The cache lives as long as the returned paths.
        """
        can_cache = self.has_users and has_all_features(self.touches)
        return replace(self, touches=self.touches.cache()) if can_cache else self

    def with_spend(self, spend: Frame) -> Paths:
        """Return the same paths with the spend of nodes."""
        settings = {name: text for name, text in self.settings.items() if name != "spend"}
        return replace(self, spend=read_frame("spend", spend), settings=settings)

    def names(self, node_ids: pd.Series[Any]) -> pd.Series[Any]:
        """Return the names of nodes: the id of a node without a name, "unattributed" for a missing id."""
        tree = self.nodes
        names = {} if tree is None else dict(zip(tree["node_id"], tree["name"], strict=True))
        return names_of(node_ids, names)

    def require_dates(self, purpose: str) -> None:
        """Raise if touchpoints have no dates."""
        if not self.has_dates:
            raise errors.InvalidRequest(
                f"paths: {purpose} needs the dates of touchpoints, which aggregated paths do not have; use "
                "Paths.from_frames"
            )

    def milestones(self) -> list[str]:
        """Return the names of the milestones of the paths."""
        return [
            name.removeprefix(inputs.MILESTONE)
            for name in self.touches.columns
            if name.startswith(inputs.MILESTONE)
        ]

    def __repr__(self) -> str:
        kind = "touchpoints with dates" if self.has_dates else "aggregated sequences"
        settings = "".join(f", {name} {value}" for name, value in self.settings.items())
        return f"<Paths of {kind}{settings}; .to_pandas(), .summary(), .lengths(), .lags()>"

    def _repr_html_(self) -> str:
        kind = "touchpoints with dates" if self.has_dates else "aggregated sequences"
        methods = ".to_pandas(), .summary(), .lengths(), .lags(), and attribute(paths, …)"
        return display.card(
            "Paths", {"of": kind, **self.settings}, note=f"Nothing is computed yet: {methods}"
        )

    def _valued(self, which: str) -> Paths:
        touches = self.touches
        original = touches[ORIGINAL] if ORIGINAL in touches.columns else touches.value
        # The original values stay because models learn from them.
        value = original if which == "original" else touches.value - original
        settings = {**self.settings, "value": which}
        return replace(self, touches=touches.mutate(value=value), later=None, settings=settings)

    def _named(self) -> ir.Table:
        if self.nodes is None:
            return self.touches.mutate(node_name=self.touches.node_id)
        # Nodes of one name are told apart, as in plots.
        touched = self.touches.select("node_id").distinct().to_pyarrow()["node_id"].to_pylist()
        names = self.nodes.loc[self.nodes["node_id"].isin(touched), ["node_id", "name"]]
        with_id = names["name"] + " (" + names["node_id"] + ")"
        names = names.assign(node_name=names["name"].mask(names["name"].duplicated(keep=False), with_id))
        named = lazy(names[["node_id", "node_name"]])
        joined = self.touches.left_join(named, "node_id")
        return joined.mutate(node_name=joined.node_name.coalesce(joined.node_id))


def doubts_of(
    conversions: ir.Table, touchpoints: ir.Table, *, advice: str = "write users alike in both tables"
) -> list[str]:
    """Describe conversions that are all before the touchpoints or at midnight, and users without any.

    Parameters
    ----------
    conversions, touchpoints : ibis.Table
        With ``user_id``, and ``event_id`` and ``event_date``, or ``date``.
    advice : str
        What to do about users.

    Returns
    -------
    list of str
        Empty if there is nothing to say.
    """
    first, last = (
        column.to_pyarrow().as_py() for column in (touchpoints.date.min(), conversions.event_date.max())
    )
    doubts = []
    if first is not None and last is not None and last < first - _WIDEST_ZONE:
        doubts.append(
            f"dates: all conversions are before the first touchpoint ({first:%Y-%m-%d %H:%M}), so that none "
            "is attributed. Check the periods of both, and the order of day and month"
        )
    if last is not None and (count := _at_midnight(conversions, touchpoints)):
        doubts.append(
            "conversions: all dates are midnights, so they are instants, and "
            f"{display.counted(count, 'conversions')} did not get the touchpoints later that day. If they "
            "are days, pass them as dates, or without a time zone, as with dates.dt.tz_localize(None)"
        )
    strangers = _strangers(conversions, touchpoints)
    return [*doubts, *([f"users: {strangers}: {advice}"] if strangers else [])]


def _at_midnight(conversions: ir.Table, touchpoints: ir.Table) -> int:
    """Count conversions with touchpoints later that day if all are midnights, since they may be days."""
    start = conversions.event_date
    if conversions.filter(start != start.truncate("D")).limit(1).to_pyarrow().num_rows:
        return 0
    bounds = conversions.select("event_id", "user_id", "event_date")
    pairs = bounds.inner_join(touchpoints.select("user_id", "date"), "user_id")
    ends = pairs.event_date + ibis.interval(days=1)
    same_day = pairs.filter(pairs.date > pairs.event_date, pairs.date < ends)
    return int(same_day.event_id.nunique().to_pyarrow().as_py())


def _strangers(conversions: ir.Table, touchpoints: ir.Table) -> str:
    """Describe users of conversions without a touchpoint: all, or those who are written in another way."""
    buyers = conversions.filter(conversions.user_id.notnull()).select("user_id").distinct()
    visitors = touchpoints.filter(touchpoints.user_id.notnull()).select("user_id")
    lonely = buyers.anti_join(visitors, "user_id")
    (alone,) = lonely.agg(count=lonely.count(), example=lonely.user_id.min()).to_pyarrow().to_pylist()
    if not alone["count"]:
        return ""
    other = visitors.select(plain=_plain(visitors.user_id), known=visitors.user_id)
    alike = lonely.mutate(plain=_plain(lonely.user_id)).inner_join(other, "plain")
    spelled = alike.user_id.nunique().to_pyarrow().as_py()
    differ = "by case, blanks, leading zeros or a final .0 only"
    if alone["count"] == buyers.count().to_pyarrow().as_py():
        visitor = visitors.user_id.min().to_pyarrow().as_py()
        if visitor is None:
            return ""
        return (
            f"no user of a conversion, such as {alone['example']!r}, has a touchpoint. Touchpoints have "
            f"users such as {visitor!r}" + (f"; they differ {differ}" if spelled else "")
        )
    for row in alike.order_by("user_id", "known").limit(1).to_pyarrow().to_pylist():
        verb = "differs" if spelled == 1 else "differ"
        return (
            f"{display.counted(spelled, 'users')} of conversions {verb} from those of touchpoints {differ}, "
            f"such as {row['user_id']!r} from {row['known']!r}"
        )
    return ""


def _plain(users: Any) -> Any:
    """Return ids without case, blanks around them, leading zeros and a final ``.0``."""
    folded = users.strip().lower()
    has_zeros = folded.startswith("0") | folded.endswith(".0")
    return has_zeros.ifelse(folded.re_replace(r"\.0$", "").re_replace("^0+", ""), folded)


def _check_by(by: str, allowed: tuple[str, ...]) -> None:
    """Refuse other names of groups, and say how to make groups such as cohorts."""
    if by not in allowed:
        refusal = errors.InvalidRequest.choice("by", by, allowed)
        raise errors.InvalidRequest(
            f"{refusal.message}; for other groups, such as cohorts, pass a frame with 'user_id' or "
            "'event_id' and one column with the group of each",
            field="by",
        )


def _with_ids(by: Frame) -> pd.DataFrame:
    """Return a frame of groups with the ids as a column, which may be those of its index."""
    if isinstance(by, pd.Series):
        by = by.to_frame("group" if by.name is None else by.name)
    frame = read_frame("by", by)
    return frame if {"event_id", "user_id"} & {*frame.columns} else with_index(frame)


def _groups_by_id(frame: pd.DataFrame, key: str, name: str) -> ir.Table:
    """Return ids as paths write them and their ``group``, without the rows that lack either."""
    rows = frame[[key]].assign(group=frame[name].astype(TEXT))
    source = inputs.Input.open(engine(None), rows, argument="by")
    ids = source.keys(key, role=None, optional=True)
    source.check()
    return ibis.memtable(source.table.select(ids.name(key), "group").to_pyarrow().drop_null())


def _key_and_group(frame: pd.DataFrame) -> tuple[str, str]:
    """Return the column that says what a row is of, and the one that names its group."""
    keys = [name for name in ("event_id", "user_id") if name in frame.columns]
    names = [name for name in frame.columns if name not in keys]
    if len(keys) != 1 or len(names) != 1 or frame[keys[0]].duplicated().any():
        raise errors.InvalidRequest(
            f"by: has the columns {', '.join(map(str, frame.columns))}; allowed: 'event_id' or 'user_id', "
            "each once, and one column with the names of groups"
        )
    return keys[0], names[0]


def require_paths(paths: object) -> None:
    """Require ``Paths``, and not, for example, a frame of touchpoints."""
    if not isinstance(paths, Paths):
        raise errors.InvalidRequest(
            f"paths: {type(paths).__name__} is not Paths; allowed: the result of conversion_paths, "
            "Paths.from_frames or Paths.from_sequences"
        )
