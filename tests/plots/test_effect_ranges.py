import math

import numpy as np
import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest


def effects_of(caused, *, controls=(), **columns):
    nodes = [f"n{number}" for number in range(len(caused))]
    caused = np.asarray(caused, float)
    return pd.DataFrame(
        {
            "model": "hazard",
            "node_id": nodes,
            "node_name": [name.upper() for name in nodes],
            "currency": "EUR",
            "is_control": [name in controls for name in nodes],
            "credited": caused * 2,
            "caused": caused,
            "low": caused - 3,
            "high": caused + 4,
            **columns,
        }
    )


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ranges(ax):
    return [
        [(float(part[0][0]), float(part[1][0])) for part in lines.get_segments()]
        for container in ax.containers
        for lines in container.lines[2]
    ]


def test_nodes_are_sorted_by_effect_with_controls_last():
    ax = plots.effects(effects_of([5.0, 9.0, 20.0, 7.0], controls=["n2"]))
    assert labels(ax) == ["N1", "N3", "N0", "N2 (control)"]
    assert ax.lines[1].get_xdata().tolist() == [18.0, 14.0, 10.0, 40.0]
    assert ranges(ax) == [[(6.0, 13.0), (4.0, 11.0), (2.0, 9.0), (17.0, 24.0)]]
    assert names(ax) == ["credited (a convention)", "caused, by hazard"]
    assert ax.get_xlabel() == "conversions"


def test_the_verdict_of_the_controls_and_nodes_at_the_checkout_are_marked():
    share = {"controls_share": 0.58, "controls_share_low": 0.2, "controls_share_high": 0.96}
    frame = effects_of([5.0, 9.0], verdict="cannot tell", is_at_checkout=[True, False], **share)
    ax = plots.effects(frame)
    assert labels(ax) == ["N1", "N0 (at checkout)"]
    assert ax.get_xlabel() == (
        "conversions\nverdict of the controls: cannot tell, with 58 % [20 to 96] of the other nodes' credit"
    )
    unbounded = frame.assign(controls_share_low=-np.inf, controls_share_high=np.inf)
    assert plots.effects(unbounded).get_xlabel().endswith("with 58 % of the other nodes' credit")
    untested = frame.assign(controls_share=np.nan)
    assert plots.effects(untested).get_xlabel() == "conversions\nverdict of the controls: cannot tell"


def test_an_experiment_has_its_own_interval_and_sets_the_order():
    frame = effects_of([5.0, 9.0], combined=[8.0, 1.0], combined_low=[7.0, 0.0], combined_high=[9.0, 2.0])
    ax = plots.effects(frame)
    assert labels(ax) == ["N0", "N1"]
    assert ranges(ax) == [[(2.0, 9.0), (6.0, 13.0)], [(7.0, 9.0), (0.0, 2.0)]]
    assert names(ax)[2] == "caused, with the experiment"


def test_the_rest_is_summed_without_an_interval_and_without_controls():
    ax = plots.effects(effects_of([5.0, 9.0, 1.0, 2.0], controls=["n2"]), top=1)
    assert labels(ax) == ["N1", "other (2 nodes)", "N2 (control)"]
    assert ranges(ax) == [[(6.0, 13.0), (7.0, 7.0), (-2.0, 5.0)]]
    assert ax.lines[1].get_xdata().tolist() == [18.0, 14.0, 2.0]


def test_currencies_are_summed_and_intervals_combined_as_independent():
    frame = pd.concat([effects_of([5.0]), effects_of([7.0]).assign(currency="USD")])
    ax = plots.effects(frame)
    assert ax.lines[1].get_xdata().tolist() == [24.0]
    assert ranges(ax)[0][0] == pytest.approx((12 - 3 * math.sqrt(2), 12 + 4 * math.sqrt(2)))


def test_the_baseline_row_is_left_out():
    frame = effects_of([5.0, 9.0])
    frame.loc[1, ["node_id", "node_name"]] = None
    assert labels(plots.effects(frame)) == ["N0"]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_any_number_of_nodes_fits(count):
    ax = plots.effects(effects_of(np.arange(1.0, count + 1)), top=40)
    assert len(labels(ax)) == count


def test_bad_input_is_refused():
    frame = effects_of([5.0])
    with pytest.raises(InvalidRequest, match="effects: no column 'is_control'"):
        plots.effects(frame.drop(columns="is_control"))
    with pytest.raises(InvalidRequest, match="top: 0 is not allowed"):
        plots.effects(frame, top=0)
    both = pd.concat([frame, frame.assign(model="other")])
    with pytest.raises(InvalidRequest, match="model: None is not allowed because credits have 2 models"):
        plots.effects(both)
    assert names(plots.effects(both, model="other"))[1] == "caused, by other"


def test_an_empty_plot_says_so():
    ax = plots.effects(effects_of([5.0]).iloc[:0])
    assert [text.get_text() for text in ax.texts] == ["no effects"]
