"""Plots of effects: ranges of nodes, and contours of sensitivity."""

import math

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, estimate_effects, plots, simulate
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.errors import InvalidRequest


def effects_of(caused, **columns):
    nodes = [f"n{number}" for number in range(len(caused))]
    caused = np.asarray(caused, float)
    return pd.DataFrame(
        {
            "result": "hazard",
            "node_id": nodes,
            "node_name": [name.upper() for name in nodes],
            "currency": "EUR",
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
    ax = plots.effects(effects_of([5.0, 9.0, 20.0, 7.0]), controls=["n2"])
    assert labels(ax) == ["N1", "N3", "N0", "N2 (control)"]
    assert ax.lines[1].get_xdata().tolist() == [18.0, 14.0, 10.0, 40.0]
    assert ranges(ax) == [[(6.0, 13.0), (4.0, 11.0), (2.0, 9.0), (17.0, 24.0)]]
    assert names(ax) == ["credited (a convention)", "caused, by hazard"]
    assert ax.get_xlabel() == "conversions"


def test_a_note_and_nodes_at_the_checkout_are_shown():
    ax = plots.effects(effects_of([5.0, 9.0]), at_checkout=["n0"], note="verdict: cannot tell")
    assert labels(ax) == ["N1", "N0 (at checkout)"]
    assert ax.get_xlabel() == "conversions\nverdict: cannot tell"


def test_several_results_have_their_own_intervals_and_the_last_sets_the_order():
    combined = effects_of([8.0, 1.0]).assign(result="both", low=[7.0, 0.0], high=[9.0, 2.0])
    ax = plots.effects(pd.concat([effects_of([5.0, 9.0]), combined.drop(columns="credited")]))
    assert labels(ax) == ["N0", "N1"]
    assert ranges(ax) == [[(2.0, 9.0), (6.0, 13.0)], [(7.0, 9.0), (0.0, 2.0)]]
    assert names(ax) == ["credited (a convention)", "caused, by hazard", "caused, by both"]


def test_without_credit_there_is_none_in_the_plot():
    ax = plots.effects(effects_of([5.0]).drop(columns=["credited", "result"]))
    assert names(ax) == ["caused"]
    assert ax.get_title(loc="left") == "Conversions caused per node"


@pytest.mark.large
@pytest.mark.slow
def test_results_draw_themselves():
    world = simulate("random", users=8_000, seed=4, holdout=0.2)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    effects = estimate_effects(paths, controls=["direct"])
    holdout = holdout_effects(paths, world.withheld)
    ax = effects.plot(top=2)
    assert labels(ax)[-2:] == ["other (5 nodes)", "direct (control)"]
    assert ax.get_xlabel().startswith("conversions\nverdict: cannot tell; controls earn ")
    assert names(holdout.plot()) == ["caused, by holdout"]
    legend = [
        "credited (a convention)",
        "caused, by the experiment",
        "caused, by discrete_hazard",
        "caused, by both",
    ]
    assert names(effects.combine(holdout).plot()) == legend


def test_the_rest_is_summed_without_an_interval_and_without_controls():
    ax = plots.effects(effects_of([5.0, 9.0, 1.0, 2.0]), controls=["n2"], top=1)
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
    with pytest.raises(InvalidRequest, match="effects: no column 'low'"):
        plots.effects(frame.drop(columns="low"))
    with pytest.raises(InvalidRequest, match="top: 0 is not allowed"):
        plots.effects(frame, top=0)


def test_an_empty_plot_says_so():
    ax = plots.effects(effects_of([5.0]).iloc[:0])
    assert [text.get_text() for text in ax.texts] == ["no effects"]


def sensitivity_of(**columns):
    return pd.DataFrame(
        {
            "node_id": ["ads"],
            "node_name": ["Ads"],
            "currency": "EUR",
            "robustness_value": 0.02,
            "robustness_value_interval": 0.01,
            "benchmark": "organic",
            "benchmark_strength": 2.5,
            "benchmark_exposure": 0.15,
            "benchmark_outcome": 0.0001,
        }
        | columns
    )


def lines(ax):
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    return dict(zip(names, ax.get_legend().legend_handles, strict=True))


def test_lines_hold_the_causes_that_leave_as_much_of_the_effect():
    ax = plots.sensitivity(sensitivity_of(), node="ads")
    half, nothing, interval = ax.lines[:3]
    # A cause with the robustness value in both explains all: f² = 0.02² / 0.98.
    x, y = nothing.get_data()
    assert y * x / (1 - x) == pytest.approx(np.full(len(x), 0.02**2 / 0.98))
    x, y = half.get_data()
    assert y * x / (1 - x) == pytest.approx(np.full(len(x), 0.02**2 / 0.98 / 4))
    x, y = interval.get_data()
    assert y * x / (1 - x) == pytest.approx(np.full(len(x), 0.01**2 / 0.99))
    assert list(lines(ax)) == [
        "half of the effect left",
        "nothing of the effect left",
        "the interval reaches zero",
        "robustness value (2 %)",
        "multiples of organic",
    ]


def test_multiples_of_the_benchmark_end_at_its_strength():
    ax = plots.sensitivity(sensitivity_of(), node="ads")
    assert [text.get_text() for text in ax.texts] == ["1 × organic", "2.5 × organic"]
    (first, last) = zip(*ax.lines[-1].get_data(), strict=True)
    # Once: 0.15 / 0.85, and (1 + 0.15 / 0.85)² / (1 - (0.15 / 0.85)²) times 0.0001 / 0.9999.
    assert first == pytest.approx((0.17647, 0.00014287), rel=1e-4)
    assert last == pytest.approx((0.44118, 0.00040657), rel=1e-4)


def test_without_a_benchmark_or_interval_there_are_fewer_lines():
    frame = sensitivity_of(
        benchmark=None,
        benchmark_strength=np.nan,
        benchmark_exposure=np.nan,
        benchmark_outcome=np.nan,
        robustness_value_interval=0.0,
    )
    ax = plots.sensitivity(frame, node="ads")
    assert list(lines(ax))[1:] == ["nothing of the effect left", "robustness value (2 %)"]


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_plot_without_sensitivity_says_so(value):
    ax = plots.sensitivity(sensitivity_of(robustness_value=value), node="ads")
    assert [text.get_text() for text in ax.texts] == ["no sensitivity"]


def test_sensitivity_that_cannot_be_drawn_is_refused():
    frame = sensitivity_of()
    with pytest.raises(InvalidRequest, match="node: 'tv' is not allowed; allowed: ads"):
        plots.sensitivity(frame, node="tv")
    with pytest.raises(InvalidRequest, match="node: None is not allowed; allowed: ads, tv"):
        plots.sensitivity(pd.concat([frame, frame.assign(node_id="tv")]))
    both = pd.concat([frame, frame.assign(currency="USD")])
    with pytest.raises(InvalidRequest, match="currency: None is not allowed; allowed: EUR, USD"):
        plots.sensitivity(both, node="ads")
    with pytest.raises(InvalidRequest, match="currency: 'GBP' is not allowed"):
        plots.sensitivity(both, node="ads", currency="GBP")
    assert plots.sensitivity(both, node="ads", currency="USD").lines
    with pytest.raises(InvalidRequest, match="effects: 2 rows of 'ads'; allowed: one"):
        plots.sensitivity(pd.concat([frame, frame]), node="ads")
    with pytest.raises(InvalidRequest, match="effects: no column 'benchmark'"):
        plots.sensitivity(frame.drop(columns="benchmark"), node="ads")
