"""Models that compare whole paths, those without a conversion included."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from attrib_ds.attribution.models.model import (
    Model,
    check_amount,
    check_level,
    check_share,
    check_whole,
    texts,
)
from attrib_ds.errors import InvalidRequest

#: How the touchpoints of a path can be put together before a model sees them.
TRANSFORMS = ("unique", "exposure", "first", "frequency")


@dataclass(frozen=True)
class PathModel(Model):
    """Base of the models that compare whole paths, those that led to no conversion included."""

    #: Whether credits may be negative.
    signed: ClassVar[bool] = False


@dataclass(frozen=True)
class ConversionRateShapley(PathModel):
    """Credit the nodes of a path by how much each raises the conversion rate, in every order of joining.

    A set of nodes is worth the conversion rate of the users who touched exactly these nodes. The Shapley
    value of that game, within the set a user touched, says how to divide the conversions of the set; it may
    be negative where users with one node more convert less often. Without null paths every set that somebody
    touched has the rate one.

    Parameters
    ----------
    shrinkage : float, default 0
        Users with the overall conversion rate that are added to every set: rare sets are drawn towards it,
        and sets that nobody touched have it. At 0 a set that nobody touched has the rate 0.
    exact_size : int, default 10
        Sets of up to so many nodes are computed exactly, at a cost of ``2 ** size`` each; 1 to 16.
    permutations : int, default 256
        Orders of joining that are drawn for larger sets; each is used backwards too.
    seed : int, default 0
        Of the draws.

    Notes
    -----
    By Hoeffding's inequality a drawn value is within ``2 * rate * sqrt(log(2 / d) / (2 * permutations))`` of
    the exact one with probability ``1 - d``, where ``rate`` is the highest conversion rate of a set;
    :meth:`sampling_error` computes it. The values of a set add up exactly all the same.
    """

    shrinkage: float = 0.0
    exact_size: int = 10
    permutations: int = 256
    seed: int = 0

    signed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_amount("shrinkage", self.shrinkage)
        check_whole("exact_size", self.exact_size, minimum=1, maximum=16)
        check_whole("permutations", self.permutations, minimum=1)
        check_whole("seed", self.seed, minimum=0)

    def sampling_error(self, *, rate: float = 1.0, confidence: float = 0.95) -> float:
        """Return how far a drawn value may be from the exact one, as a conversion rate.

        Parameters
        ----------
        rate : float, default 1
            The highest conversion rate of a set of nodes.
        confidence : float, default 0.95
            Probability that the error is no larger.

        Returns
        -------
        float
            Hoeffding's bound for one node of one set of more than ``exact_size`` nodes.

        Raises
        ------
        InvalidRequest
            If the rate is not from 0 to 1, or the confidence not between 0 and 1.
        """
        check_share("rate", rate)
        check_level("confidence", confidence)
        return 2 * rate * math.sqrt(math.log(2 / (1 - confidence)) / (2 * self.permutations))


@dataclass(frozen=True)
class SequenceModel(PathModel):
    """Base of the models that look at the order of touchpoints.

    Parameters
    ----------
    transform : str, default "unique"
        ``"unique"`` leaves the path as it is; ``"exposure"`` makes one touchpoint of consecutive ones of the
        same node; ``"first"`` keeps the first touchpoint of each node; ``"frequency"`` keeps it too, and
        tells nodes apart by how often they were touched in the path.
    steps : int, optional
        Only the last ``steps`` touchpoints of a path, taken before anything else; all by default.
    remove_if_not_all : tuple of str, optional
        Nodes, such as direct, whose touchpoints are left out before the transform, unless the path holds
        nothing else.
    remove_if_last_and_not_all : tuple of str, optional
        Nodes whose touchpoints are left out after those where they end a path, unless it holds nothing else.
    """

    transform: str = field(default="unique", kw_only=True)
    steps: int | None = field(default=None, kw_only=True)
    remove_if_not_all: tuple[str, ...] = field(default=(), kw_only=True)
    remove_if_last_and_not_all: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise InvalidRequest.choice("transform", self.transform, TRANSFORMS)
        if self.steps is not None:
            check_whole("steps", self.steps, minimum=1)
        for argument in ("remove_if_not_all", "remove_if_last_and_not_all"):
            object.__setattr__(self, argument, texts(argument, getattr(self, argument)))


@dataclass(frozen=True)
class Markov(SequenceModel):
    """Credit nodes in proportion to their removal effect in a Markov chain of touchpoints.

    The removal effect of a node is the share of conversions that the chain loses when every walk that
    reaches the node ends there. It is solved, not simulated.

    Parameters
    ----------
    order : int, default 1
        Touchpoints that the next step depends on, 1 to 9. An order that is at least the length of the longest
        path gives each node the share of conversions whose path holds it.
    nulls : bool, default True
        Whether paths that led to no conversion are part of the chain, where they are known. Without them the
        removal effect of order 1 is how many walks meet the node, and says nothing about its effect.
    transform, steps, remove_if_not_all, remove_if_last_and_not_all
        As in :class:`SequenceModel`. Consecutive touchpoints of one node change nothing at order 1.

    References
    ----------
    Anderl, Becker, von Wangenheim and Schumann (2016), Mapping the customer journey, International Journal
    of Research in Marketing 33(3), 457-474.
    """

    order: int = 1
    nulls: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("order", self.order, minimum=1, maximum=9)
        if not isinstance(self.nulls, bool):
            raise InvalidRequest(f"nulls: {self.nulls!r} is not allowed; allowed: True, False", field="nulls")


@dataclass(frozen=True)
class Fractribution(SequenceModel):
    """Credit touchpoints in proportion to the conversion rate that the path loses without them.

    The rate of a path is that of the users with exactly this path; a path that nobody had has the rate 0. A
    loss below zero counts as zero; where nothing is lost the last touchpoint takes all, and so does the only
    one.

    Parameters
    ----------
    shrinkage : float, default 0
        Users with the overall conversion rate that are added to every path, so that a path seen once does
        not have the rate 0 or 1; a path that nobody had has the overall rate then.
    transform, steps, remove_if_not_all, remove_if_last_and_not_all
        As in :class:`SequenceModel`. The path without a touchpoint is not transformed again.

    References
    ----------
    Google, Fractribution (2020), the open-source implementation. It calls the rule a Shapley value, which it
    is not.
    """

    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("shrinkage", self.shrinkage)
