"""Attribution models as frozen values with documented bounds.

Only parameters live here; :mod:`attrib_ds.attribution.rules.weights` turns a rule into weights, and
:mod:`attrib_ds.attribution.credits.path_credits` knows who computes the models of whole paths.
"""

from attrib_ds.attribution.models.incremental import (
    AdditiveHazard,
    DiscreteHazard,
    IncrementalModel,
    Landmark,
    LatentIntent,
)
from attrib_ds.attribution.models.model import Model, check_level, check_share
from attrib_ds.attribution.models.named import model_named, named_models, rule_models
from attrib_ds.attribution.models.rules import (
    CustomWeights,
    FirstTouch,
    LastNonDirect,
    LastTouch,
    Linear,
    LinearRamp,
    OrderedShapley,
    Participation,
    PositionBased,
    Shapley,
    TimeDecay,
)
from attrib_ds.attribution.models.sequences import (
    TRANSFORMS,
    ConversionRateShapley,
    Fractribution,
    Markov,
    PathModel,
    SequenceModel,
)

__all__ = [
    "TRANSFORMS",
    "AdditiveHazard",
    "ConversionRateShapley",
    "CustomWeights",
    "DiscreteHazard",
    "FirstTouch",
    "Fractribution",
    "IncrementalModel",
    "Landmark",
    "LastNonDirect",
    "LastTouch",
    "LatentIntent",
    "Linear",
    "LinearRamp",
    "Markov",
    "Model",
    "OrderedShapley",
    "Participation",
    "PathModel",
    "PositionBased",
    "SequenceModel",
    "Shapley",
    "TimeDecay",
    "check_level",
    "check_share",
    "model_named",
    "named_models",
    "rule_models",
]
