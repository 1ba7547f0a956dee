"""Models by name: ``"linear"``, ``"markov_2"`` and others stand for a model with default parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrib_ds.attribution.models.path_models import (
    ConversionRateShapley,
    DiscreteHazard,
    Fractribution,
    Markov,
)
from attrib_ds.attribution.models.rules import (
    FirstTouch,
    LastNonDirect,
    LastTouch,
    Linear,
    LinearRamp,
    Participation,
    PositionBased,
    Shapley,
    TimeDecay,
)
from attrib_ds.errors import InvalidRequest, closest

if TYPE_CHECKING:
    from attrib_ds.attribution.models.model import Model


def rule_models() -> dict[str, Model]:
    """Return every rule-based model that needs no milestones, by name, with default parameters."""
    return {
        "first_touch": FirstTouch(),
        "last_touch": LastTouch(),
        "last_non_direct": LastNonDirect(),
        "linear": Linear(),
        "linear_ramp": LinearRamp(),
        "time_decay": TimeDecay(),
        "position_based": PositionBased(),
        "j_shaped": PositionBased(first=0.2, last=0.6),
        "inverse_j": PositionBased(first=0.6, last=0.2),
        "participation": Participation(),
    }


def named_models() -> dict[str, Model]:
    """Return every model that has a name, with default parameters."""
    return rule_models() | {
        "w_shaped": PositionBased(first=0.3, last=0.3, milestones={"lead": 0.3}),
        "full_path": PositionBased(first=0.225, last=0.225, milestones={"lead": 0.225, "opportunity": 0.225}),
        "shapley": Shapley(),
        "conversion_rate_shapley": ConversionRateShapley(),
        "markov": Markov(),
        "markov_2": Markov(order=2),
        "fractribution": Fractribution(),
        "discrete_hazard": DiscreteHazard(),
    }


def model_named(name: str) -> Model:
    """Return the model with default parameters of a name.

    Parameters
    ----------
    name : str
        Name such as ``"linear"``; case, spaces, hyphens and underscores do not matter, and short forms
        (``"first"``, ``"position"``, ``"u"``, ``"j"``) are accepted.

    Returns
    -------
    Model
        With its default parameters.

    Raises
    ------
    InvalidRequest
        If no model has that name; the message names the closest one.

    Examples
    --------
    >>> model_named("time-decay")
    TimeDecay(half_life='7D', step=None)
    """
    named = named_models()
    short = {
        "first": "first_touch",
        "last": "last_touch",
        "lastnondirectclick": "last_non_direct",
        "ramp": "linear_ramp",
        "position": "position_based",
        "u": "position_based",
        "ushaped": "position_based",
        "j": "j_shaped",
        "inversej": "inverse_j",
        "inversejshaped": "inverse_j",
        "w": "w_shaped",
        "z": "full_path",
        "zshaped": "full_path",
        "markov1": "markov",
    }
    key = re.sub(r"[^a-z0-9]", "", name.casefold())
    names = {full.replace("_", ""): full for full in named}
    match = names.get(key) or short.get(key)
    if match is None:
        raise InvalidRequest(
            f"models: {name!r} is not a model{closest(name, named)}; allowed: {', '.join(sorted(named))}",
            field="models",
        )
    return named[match]
