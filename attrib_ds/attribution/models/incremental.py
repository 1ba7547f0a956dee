"""Models that estimate which conversions would not have happened without a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.models.model import check_amount, check_whole
from attrib_ds.attribution.models.sequences import PathModel
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True)
class IncrementalModel(PathModel):
    """Base of the models that estimate which conversions would not have happened without a node.

    What is left of a conversion when the nodes have their parts is nobody's: it would have happened anyway.
    Where conversions and exposure have a common cause that is not observed, such as the wish to buy, these
    models take its effect for that of the nodes; what they credit to nodes without any effect tells so.
    """

    signed: ClassVar[bool] = True


@dataclass(frozen=True)
class DiscreteHazard(IncrementalModel):
    """Credit nodes with the conversions that would not have happened without them, period by period.

    The chance that a user converts in a period is a logistic function of what is at work in it: each node's
    touchpoints until then, of which half is left after a half-life, saturated as ``log(1 + level)``; what is
    known of the user; and the time. A node's credit for a conversion is the share of that chance which is
    lost without the node's touchpoints. It may be negative, and with nodes that strengthen each other the
    parts of a conversion may add up to more than it.

    Parameters
    ----------
    half_lives : tuple of str or timedelta, default ("1D", "3D", "9D")
        Speeds at which effects fade; the data decide how much of each.
    step : str or timedelta, default "1D"
        Length of a period.
    interactions : bool, default False
        Whether two nodes may be worth more, or less, together than alone.
    covariates : tuple of str, optional
        What is known of users and raises or lowers their chance; by default every column of the observed
        users.
    shrinkage : float, default 0.01
        How strongly effects are drawn towards zero: the precision of the prior of a standardised effect, per
        conversion.
    comparisons : int, default 20
        About how many periods without a conversion are drawn for each conversion, to compare with; fewer
        where that would be more than ``rows``.
    rows : int, default 2,000,000
        At most about so many are drawn.
    seed : int, default 0
        Of the draw.

    References
    ----------
    Shender, Amini, Bao, Dikmen, Richardson and Wang (2024), A time to event framework for multi-touch
    attribution, Journal of Data Science 22(1), take effects away in the same sense.
    """

    half_lives: tuple[str | timedelta, ...] = ("1D", "3D", "9D")
    step: str | timedelta = "1D"
    interactions: bool = False
    covariates: tuple[str, ...] | None = None
    shrinkage: float = 0.01
    comparisons: int = 20
    rows: int = 2_000_000
    seed: int = 0

    #: Nodes whose pairs are not too many to tell apart.
    most_interacting: ClassVar[int] = 20

    def __post_init__(self) -> None:
        if isinstance(self.half_lives, str) or not self.half_lives:
            raise InvalidRequest(
                f"half_lives: {self.half_lives!r} is not allowed; allowed: one or more lengths of time",
                field="half_lives",
            )
        object.__setattr__(self, "half_lives", tuple(self.half_lives))
        for each in self.half_lives:
            as_days(each, argument="half_lives")
        as_days(self.step, argument="step")
        if self.covariates is not None:
            object.__setattr__(self, "covariates", tuple(self.covariates))
        check_amount("shrinkage", self.shrinkage)
        check_whole("comparisons", self.comparisons, minimum=1)
        check_whole("rows", self.rows, minimum=1_000)
        check_whole("seed", self.seed, minimum=0)
