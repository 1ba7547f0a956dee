"""Parameters of models: what is refused, and that models are values."""

import pytest

from attrib_ds import errors
from attrib_ds.attribution.models import (
    CustomWeights,
    DiscreteHazard,
    LastNonDirect,
    Linear,
    LinearRamp,
    PositionBased,
    TimeDecay,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeDecay("0D"),
        lambda: TimeDecay("-7D"),
        lambda: TimeDecay("soon"),
        lambda: TimeDecay(7),
        lambda: TimeDecay("7"),
        lambda: TimeDecay("7D", step="0s"),
        lambda: PositionBased(first=1.2),
        lambda: PositionBased(first=-0.1),
        lambda: PositionBased(first=0.6, last=0.6),
        lambda: PositionBased(first=float("nan")),
        lambda: PositionBased(first=True),
        lambda: PositionBased(first=0.5, last=0.3, milestones={"lead": 0.3}),
        lambda: LastNonDirect(direct="direct"),
        lambda: LastNonDirect(direct=5),
        lambda: PositionBased(milestones=5),
        lambda: DiscreteHazard(half_lives=5),
        lambda: DiscreteHazard(covariates="country"),
        lambda: DiscreteHazard(covariates=("country", 5)),
        lambda: CustomWeights("linear"),
    ],
)
def test_parameters_out_of_bounds_are_refused(make):
    with pytest.raises(errors.InvalidRequest, match="allowed"):
        make()


def test_models_are_values():
    assert PositionBased() == PositionBased(first=0.4, last=0.4)
    assert PositionBased(milestones={"lead": 0.1}) == PositionBased(milestones=(("lead", 0.1),))
    assert len({Linear(), Linear(), LinearRamp()}) == 2
    assert repr(CustomWeights(max, "longest")) == "CustomWeights(label='longest')"
