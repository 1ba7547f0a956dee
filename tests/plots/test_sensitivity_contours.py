import numpy as np
import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest


def effects_of(**columns):
    return pd.DataFrame(
        {
            "model": "hazard",
            "node_id": ["ads"],
            "node_name": ["Ads"],
            "currency": "EUR",
            "caused": 90.0,
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
    ax = plots.sensitivity(effects_of(), node="ads")
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
    ax = plots.sensitivity(effects_of(), node="ads")
    assert [text.get_text() for text in ax.texts] == ["1 × organic", "2.5 × organic"]
    (first, last) = zip(*ax.lines[-1].get_data(), strict=True)
    # Once: 0.15 / 0.85, and (1 + 0.15 / 0.85)² / (1 - (0.15 / 0.85)²) times 0.0001 / 0.9999.
    assert first == pytest.approx((0.17647, 0.00014287), rel=1e-4)
    assert last == pytest.approx((0.44118, 0.00040657), rel=1e-4)


def test_without_a_benchmark_or_interval_there_are_fewer_lines():
    frame = effects_of(
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
    ax = plots.sensitivity(effects_of(robustness_value=value), node="ads")
    assert [text.get_text() for text in ax.texts] == ["no sensitivity"]


def test_bad_input_is_refused():
    frame = effects_of()
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
