"""Estimated effects of nodes: a result is estimated once and asked for tables, contrasts and plots."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pandas as pd

from attrib_ds import display, errors
from attrib_ds.attribution.arrays import Flags, Numbers
from attrib_ds.attribution.credits import returns
from attrib_ds.attribution.experiments.segments import ObservedShare, ObservedShares
from attrib_ds.attribution.models import check_level
from attrib_ds.records.frames import TEXT, Frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Estimates with their lower and upper bounds.
Ranges = tuple[Numbers, Numbers, Numbers]

#: Level of intervals that show an error where no other level is asked for.
LEVEL: Final = 0.95


def unavailable(reason: str) -> Callable[..., Any]:
    """Return a method that raises, because a result does not have what it reports."""

    def method(self: Effects, *args: object, **options: object) -> Any:  # noqa: ARG001
        raise errors.NotSupported(f"{self.label}: {reason}")

    method.__doc__ = f"Raise :class:`~attrib_ds.errors.NotSupported`: {reason}."
    return method


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
    """Conversions that nodes caused, estimated by a model or an experiment.

    Results of :func:`attrib_ds.estimate_effects`, :func:`attrib_ds.experiments.holdout_effects` and of their
    methods. They are frozen and pickle. A method that does not apply raises
    :class:`~attrib_ds.errors.NotSupported` with the reason.

    Attributes
    ----------
    label : str
        Name of the model or of the experiment.
    node_ids, node_names : list
        Ids and names of nodes; a missing id is the baseline.
    currencies : list
        Currencies of conversions; None for conversions without one.
    is_shown : bool array, shape (n_nodes, n_currencies)
        Whether the node has a row.
    controls : tuple of str
        Negative controls.
    warnings : tuple of str
        What the estimation warned of.
    observed_share : (float, float)
        Share of all users who were observed, by which levels are divided, and its standard error.
    """

    label: str
    node_ids: list[str | None]
    node_names: list[str]
    currencies: list[str | None]
    is_shown: Flags
    controls: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    observed_share: tuple[float, float] = (1.0, 0.0)

    #: Measures with intervals, and the names of their columns.
    measures: ClassVar[dict[str, str]] = {"conversions": "caused", "value": "value"}

    def table(self, confidence: float = LEVEL) -> pd.DataFrame:
        """Return the effect of each node.

        Parameters
        ----------
        confidence : float, default 0.95
            Level of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per node and currency, by descending ``caused``: ``node_id``, ``node_name``, ``currency``
            (str); of a model also ``credited`` (float64, conversions that a rule credits); ``caused``
            (float64, conversions that would not have happened without the node), ``low``, ``high`` (float64,
            its bounds); and, where it is estimated, ``value`` (float64, caused value in ``currency``),
            ``value_low``, ``value_high``. The row of a model without a ``node_id`` holds the conversions that
            would have happened anyway, and comes last. Bounds apply to their own row; they do not add up.
        """
        confidence = check_level("confidence", confidence)
        frames = []
        for place, currency in enumerate(self.currencies):
            shown = np.flatnonzero(self.is_shown[:, place])
            columns: dict[str, Any] = {
                "node_id": pd.array(self.node_ids, dtype=TEXT).take(shown),
                "node_name": pd.array(self.node_names, dtype=TEXT).take(shown),
                "currency": pd.array([currency] * len(shown), dtype=TEXT),
            }
            credited = self._credited(place)
            if credited is not None:
                columns["credited"] = credited[shown]
            weights = np.eye(len(self.node_ids))[shown]
            for measure, name in self.measures.items():
                columns |= _columns(name, self._ranges(weights, place, measure, confidence))
            frames.append(pd.DataFrame(columns))
        rows = pd.concat(frames, ignore_index=True)
        # The engine sums in any order, so the last digits are ignored in sorting.
        order = rows.assign(is_last=rows["node_id"].isna(), size=-rows["caused"].round(9))
        order = order.sort_values(["is_last", "size", "node_id", "currency"])
        return rows.loc[order.index].reset_index(drop=True)

    def contrast(self, a: str, b: str, *, confidence: float = LEVEL) -> pd.DataFrame:
        """Return the difference between the effects of two nodes, whose errors are not independent.

        Parameters
        ----------
        a, b : str
            Ids of nodes.
        confidence : float, default 0.95
            Level of the interval, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per currency: ``node_id``, ``other_id``, ``currency`` (str), ``difference`` (float64,
            conversions that ``a`` caused less those of ``b``), ``low``, ``high`` (float64) and, where value
            is estimated, ``value``, ``value_low``, ``value_high``.
        """
        confidence = check_level("confidence", confidence)
        weights = np.zeros((1, len(self.node_ids)))
        for argument, node, sign in (("a", a, 1.0), ("b", b, -1.0)):
            weights[0, self._node(argument, node)] += sign
        rows = []
        for place, currency in enumerate(self.currencies):
            columns: dict[str, Any] = {"node_id": a, "other_id": b, "currency": currency}
            for measure, name in self.measures.items():
                name = "difference" if measure == "conversions" else name
                columns |= _columns(name, self._ranges(weights, place, measure, confidence))
            rows.append(pd.DataFrame(columns))
        texts = dict.fromkeys(["node_id", "other_id", "currency"], TEXT)
        return pd.concat(rows, ignore_index=True).astype(texts)

    def returns(self, spend: Frame, *, confidence: float = LEVEL) -> pd.DataFrame:
        """Return what the spend on each node brought: incremental return and cost per conversion.

        Parameters
        ----------
        spend : DataFrame
            Spend on the users and in the period of the effects, as in :func:`attrib_ds.report_returns`:
            ``node_id`` (str), ``spend`` (number, 0 or more) and ``currency`` (str), in every row or in none.
        confidence : float, default 0.95
            Level of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            One row per node and currency, by descending ``caused``: ``node_id``, ``node_name``, ``currency``
            (str), ``spend`` (float64); ``caused``, ``value`` with their bounds as in :meth:`table`;
            ``incremental_cpa`` (float64, spend per conversion caused; null if none is caused) with
            ``incremental_cpa_low`` and ``incremental_cpa_high`` (inf if it may be none);
            ``incremental_roas`` (float64, value caused per unit of spend) with its bounds alike. A node with
            spend whose effect is not estimated has a row with null effects. The spend counts as exact.

        Raises
        ------
        InvalidRequest
            If a column is missing, an amount is negative or not finite, or currencies are ambiguous.

        Notes
        -----
        These are averages over all that was spent: what the next euro brings is usually less, see
        :meth:`HazardEffects.exposure`. They are as right as the effects: ask :meth:`HazardEffects.verdict`.

        Examples
        --------
        >>> import attrib_ds as at
        >>> import pandas as pd
        >>> world = at.simulate("random", users=8_000, seed=1)
        >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
        >>> spend = pd.DataFrame({"node_id": ["email"], "spend": [500.0], "currency": ["EUR"]})
        >>> found = at.estimate_effects(paths).returns(spend).set_index("node_id").loc["email"]
        >>> bool(found["incremental_cpa"] == 500.0 / found["caused"])
        True
        """
        rows = self.table(confidence).dropna(subset="node_id")
        credits = rows.rename(columns={"caused": "conversions"}).assign(model=self.label, share=np.nan)
        joined = returns.join_spend(credits, spend, models=[self.label])
        names = {"conversions": "caused"}
        for ratio in ("cpa", "roas"):
            names |= {f"{ratio}{side}": f"incremental_{ratio}{side}" for side in ("", "_low", "_high")}
        found = joined.rename(columns=names)
        keys = ["node_id", "node_name", "currency", "spend"]
        wanted = ["caused", "low", "high", "value", "value_low", "value_high", *names.values()]
        numbers = [name for name in dict.fromkeys(wanted) if name in found]
        # Spend without an effect is not spend without effect.
        found.loc[~found["node_id"].isin(rows["node_id"]), numbers] = np.nan
        return found[[*keys, *numbers]]

    def plot(self, *, top: int = 15, ax: Axes | None = None) -> Axes:
        """Draw the effect of each node with its interval, see :func:`attrib_ds.plots.effects`.

        Parameters
        ----------
        top : int, default 15
            Maximum number of nodes with their own row; the others are summed.
        ax : Axes, optional
            Axes to draw on; a new figure by default.
        """
        from attrib_ds import plots

        rows, marks = self._drawn()
        return plots.effects(rows, controls=self.controls, top=top, ax=ax, **marks)

    @property
    def identified(self) -> str:
        """What is identified, under which assumptions, and what is not."""
        raise NotImplementedError

    verdict = unavailable("only a model of effects has a verdict; randomisation needs no controls")
    sensitivity = unavailable("only a model of effects is sensitive to unobserved causes")
    checkout = unavailable("nodes at the checkout mislead only models of effects")
    exposure = unavailable("only a model of effects estimates more or less exposure")
    by = unavailable("only a model of effects estimates effects by period or segment")
    through = unavailable("effects through mediators need a model; an experiment measures the total")
    combine = unavailable("call combine on the effects of a model: model.combine(experiment)")

    def scale(self, observed_share: ObservedShare) -> Effects:
        """Return the effects on all users, of whom only a share was observed.

        Parameters
        ----------
        observed_share : float or (float, float)
            Share of all users who were observed, above 0 and at most 1; or the share and its standard error,
            which widens intervals. It is right if users are missing completely at random.

        Returns
        -------
        Effects
            The same with numbers of conversions and values divided by the share.

        Raises
        ------
        InvalidRequest
            If the share is not allowed.
        NotSupported
            If the effects are scaled already, or the shares are by segment.
        """
        shares = ObservedShares.read(observed_share)
        if shares.column is not None:
            raise errors.NotSupported(
                f"{self.label}: an experiment is not divided by segment; pass one share"
            )
        if self.observed_share != (1.0, 0.0):
            raise errors.NotSupported(f"{self.label}: the effects are scaled already")
        return replace(self, observed_share=shares.of_segment(None))

    def __repr__(self) -> str:
        facts = [f"{name}: {text}" for name, text in self._facts().items()]
        table = self.table().round(3).to_string()
        return "\n".join([f"<{type(self).__name__} of {self.label}>", *facts, table])

    def _repr_html_(self) -> str:
        table = self.table().round(3)._repr_html_()  # type: ignore[operator]
        facts = dict(self._facts())
        noted = "".join(f"<p>{escape(text)}</p>" for text in self.warnings)
        facts.pop("warnings", None)
        return f"{display.card(f'Effects: {self.label}', facts)}{table}{noted}"

    def _facts(self) -> dict[str, str]:
        """Return what is worth knowing besides the table, by name."""
        share = self.observed_share[0]
        facts = {} if share == 1 else {"observed share": f"{share:g}"}
        return facts | ({"warnings": " ".join(self.warnings)} if self.warnings else {})

    def _drawn(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return the rows of the plot, and what it marks."""
        return self.table().assign(result=self.label), {}

    def _credited(self, currency: int) -> Numbers | None:  # noqa: ARG002
        """Return the conversions credited to each node; None without a rule."""
        return None

    def _ranges(self, weights: Numbers, currency: int, measure: str, confidence: float) -> Ranges:
        """Return weighted sums of effects with bounds, scaled to all users."""
        found = self._observed_ranges(weights, currency, measure, confidence)
        return scaled(found, self.observed_share, confidence=confidence)

    def _observed_ranges(self, weights: Numbers, currency: int, measure: str, confidence: float) -> Ranges:
        """Return weighted sums of the effects on observed users, with bounds."""
        raise NotImplementedError

    def _node(self, argument: str, node: str) -> int:
        """Return the position of a node."""
        if not isinstance(node, str) or node not in self.node_ids:
            raise errors.InvalidRequest.choice(
                argument, node, [each for each in self.node_ids if each is not None]
            )
        return self.node_ids.index(node)


def compare(results: Mapping[str, Effects], *, confidence: float = LEVEL) -> pd.DataFrame:
    """Compare estimates of the same effects, such as of a model and an experiment.

    Parameters
    ----------
    results : mapping of str to Effects
        Results by label, from :func:`estimate_effects`, :func:`attrib_ds.experiments.holdout_effects` or
        their methods.
    confidence : float, default 0.95
        Level of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per node, currency and result that has an effect of the node, nodes in the order of the first
        result: ``node_id``, ``node_name``, ``currency``, ``result`` (str, label), ``caused``, ``low``,
        ``high`` (float64), ``disagreement`` (float64, distance from the first result in standard errors of
        independent estimates; beyond about 2 they contradict each other; null for the first result).

    Raises
    ------
    InvalidRequest
        If ``results`` is not a mapping from labels to results, or is empty.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=8_000, seed=1, holdout=0.2)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = at.estimate_effects(paths)
    >>> holdout = at.experiments.holdout_effects(paths, world.withheld)
    >>> at.compare({"hazard": effects, "holdout": holdout})["result"].iloc[:2].tolist()
    ['hazard', 'holdout']
    """
    is_valid = isinstance(results, Mapping) and all(isinstance(each, Effects) for each in results.values())
    if not is_valid or not results:
        raise errors.InvalidRequest(
            f"results: {type(results).__name__} is not allowed; allowed: a mapping from labels to results, "
            "as in {'hazard': effects, 'holdout': holdout}"
        )
    keys = ["node_id", "currency"]
    columns = ["node_id", "node_name", "currency", "result", "caused", "low", "high"]
    tables = [each.table(confidence).assign(result=str(label))[columns] for label, each in results.items()]
    rows = pd.concat(tables, ignore_index=True).dropna(subset="node_id")
    order = rows[keys].drop_duplicates().assign(place=lambda nodes: range(len(nodes)))
    rows = rows.merge(order, on=keys).merge(
        tables[0][[*keys, "caused", "low", "high"]], on=keys, how="left", suffixes=("", "_first")
    )
    reach = 2 * NormalDist().inv_cdf(0.5 + confidence / 2)
    variance = sum(((rows[f"high{which}"] - rows[f"low{which}"]) / reach) ** 2 for which in ("", "_first"))
    distance: pd.Series[float] = (rows["caused"] - rows["caused_first"]) / np.sqrt(variance)
    rows["disagreement"] = distance.where(rows["result"] != next(iter(results)))
    rows = rows.sort_values("place", kind="stable", ignore_index=True)
    return rows[[*columns, "disagreement"]].astype({"result": TEXT})


def scaled(
    found: Ranges, observed_share: tuple[float, float] | tuple[Numbers, Numbers], *, confidence: float
) -> Ranges:
    """Divide estimates by the share of users observed, and widen their bounds by its error (delta method)."""
    share, error = observed_share
    estimate, low, high = found
    level = estimate / share
    of_share = NormalDist().inv_cdf(0.5 + confidence / 2) * level * error / share
    below, above = (np.hypot(distance / share, of_share) for distance in (estimate - low, high - estimate))
    return level, level - below, level + above


def around(estimate: Numbers, half_width: Numbers) -> Ranges:
    """Return estimates with symmetric bounds."""
    return estimate, estimate - half_width, estimate + half_width


def weighted(weights: Numbers, amounts: Numbers) -> Numbers:
    """Return weighted sums over the last axis; an unknown amount counts only where it has a weight."""
    return np.asarray(np.where(weights == 0, 0.0, weights * amounts).sum(axis=-1))


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Collect the messages of warnings, which are raised at the end."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield messages
        messages += [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _columns(name: str, found: Ranges) -> dict[str, Numbers]:
    prefix = "" if name in ("caused", "difference") else f"{name}_"
    return dict(zip((name, f"{prefix}low", f"{prefix}high"), found, strict=True))
