"""Randomised holdouts: plan one, withhold a node, measure its effect, and combine the result with models."""

from attrib_ds.api.holdouts import assign, create_holdout, delete_holdout, list_holdouts, list_opportunities
from attrib_ds.attribution.experiments.effects import Effects
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.experiments.plans import plan_holdout

__all__ = [
    "Effects",
    "assign",
    "create_holdout",
    "delete_holdout",
    "holdout_effects",
    "list_holdouts",
    "list_opportunities",
    "plan_holdout",
]


def __dir__() -> list[str]:
    return __all__
