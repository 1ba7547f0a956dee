import math

import numpy as np
import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest


def points(ax):
    return ax.collections[0].get_offsets().tolist()


def ratios(ax):
    return [line.get_ydata()[-1] / line.get_xdata()[-1] for line in ax.get_lines()]


def texts(ax):
    return {text.get_text() for text in ax.texts}


@pytest.mark.slow
def test_points_lie_at_spend_and_value_with_lines_of_equal_return(credit):
    frame = credit(node_id=["a", "b", "c", None], node_name=["Ads", "Mail", "Shop", None],
                   value=[300.0, 90.0, 50.0, 70.0], spend=[100.0, 200.0, math.nan, math.nan])  # fmt: skip
    ax = plots.returns(frame)
    assert points(ax) == [[200, 90], [100, 300]]
    assert ratios(ax) == pytest.approx([1, 2, 5])
    assert {"Ads", "Mail"} <= texts(ax)
    assert {"ROAS 1×", "ROAS 2×", "ROAS 5×"} <= texts(ax)
    assert ax.get_xlabel() == "spend (EUR)\n1 node without spend not drawn"
    assert ax.get_ylabel() == "credited value (EUR)"
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")


@pytest.mark.slow
def test_a_wide_range_of_spend_has_log_axes_with_room_for_zero_and_below(credit):
    frame = credit(node_id=["a", "b", "c"], value=[300.0, 9000.0, 80.0], spend=[10.0, 5000.0, 30.0])
    ax = plots.returns(frame)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    ax = plots.returns(frame.assign(value=[300.0, math.nan, -80.0]))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "symlog")
    assert sorted(points(ax)) == [[10, 300], [30, -80], [5000, 0]]
    assert ax.get_ylim()[0] < -80
    assert ratios(ax) == pytest.approx([1, 2, 5])
    losing = plots.returns(frame.assign(value=[-1.0, -2.0, 0.0]))
    assert losing.get_ylim()[0] < -2


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3, 25, 300])
def test_labels_overlap_neither_each_other_nor_points_and_stay_inside(credit, nodes):
    random = np.random.default_rng(3)
    spend = random.lognormal(6, 1.5, nodes)
    frame = credit(
        node_id=[f"n{i}" for i in range(nodes)],
        node_name=[f"{i} campaign " + "x" * 60 for i in range(nodes)],
        value=spend * random.lognormal(0.5, 0.7, nodes),
        spend=spend,
    )
    ax = plots.returns(frame)
    named = [text for text in ax.texts if not text.get_text().startswith("ROAS")]
    assert min(nodes, 3) <= len(named) <= 30
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    frame_box = ax.get_window_extent()
    for place, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[:place])
        assert frame_box.x0 <= box.x0
        assert box.x1 <= frame_box.x1
    centres = ax.transData.transform(np.array(points(ax)))
    assert not any(box.contains(*centre) for box in boxes for centre in centres)


def test_rows_of_one_node_are_summed(credit):
    frame = credit(node_id=["a", "a"], value=[1.0, 2.0], spend=[4.0, 5.0])
    assert points(plots.returns(frame)) == [[9, 3]]


def test_no_spend_is_refused(credit):
    frame = credit(node_id=["a", None], value=[1.0, 2.0])
    with pytest.raises(InvalidRequest, match="credits: no column 'spend'"):
        plots.returns(frame)
    for spend in ([math.nan, math.nan], [0.0, math.nan], [math.nan, 7.0]):
        with pytest.raises(
            InvalidRequest, match="credits: column 'spend' has no spend of a node; pass spend to attribute"
        ):
            plots.returns(frame.assign(spend=spend))


def test_one_model_and_one_currency_are_required(credit):
    frame = credit(
        node_id=["a", "b"], model=["x", "y"], value=[1.0, 0.0], spend=[2.0, 3.0], currency=["EUR", "USD"]
    )
    with pytest.raises(InvalidRequest, match="model: None is not allowed.*x, y"):
        plots.returns(frame)
    assert points(plots.returns(frame, model="x")) == [[2, 1]]
    both = frame.assign(model="x")
    with pytest.raises(InvalidRequest, match="currency: .*EUR, USD.*never summed"):
        plots.returns(both)
    ax = plots.returns(both, currency="USD")
    assert (points(ax), ax.get_xlabel()) == ([[3, 0]], "spend (USD)")


def test_an_empty_plot_says_so(credit):
    frame = credit(node_id=["a"], spend=[3.0])
    ax = plots.returns(frame)
    assert [text.get_text() for text in ax.texts] == ["no credited value"]
    assert ax.get_xlabel() == "spend (EUR)"
    for empty in (frame.iloc[:0], pd.DataFrame(columns=list(frame.columns))):
        ax = plots.returns(empty)
        assert [text.get_text() for text in ax.texts] == ["no credited conversions"]
        assert ax.get_ylabel() == "credited value"


def test_values_carry_their_intervals_from_bound_to_bound(credit):
    frame = credit(node_id=["a", "b", "b"], value=[300.0, 90.0, 10.0], spend=[100.0, 150.0, 50.0],
                   value_low=[200.0, 1.0, 1.0], value_high=[450.0, 2.0, 2.0])  # fmt: skip
    ax = plots.returns(frame)
    segments = ax.collections[1].get_segments()
    # Bounds of two rows do not add up.
    drawn = [segment.tolist() for segment in segments if np.ptp(segment[:, 1]) > 0]
    assert drawn == [[[100, 200], [100, 450]]]
    assert ax.get_ylim()[1] > 450
    assert ax.get_xlabel().endswith("\nlines from low to high: sampling error, not bias")
    without = plots.returns(frame.drop(columns=["value_low", "value_high"]))
    assert len(without.collections) == 1
    assert "sampling error" not in without.get_xlabel()


@pytest.mark.slow
def test_there_is_little_room_below_zero_without_negative_values(credit):
    frame = credit(node_id=["a", "b", "c"], value=[17_000.0, 800.0, 0.0], spend=[1100.0, 39.0, 480.0],
                   value_low=[15_000.0, 300.0, 0.0], value_high=[19_000.0, 1600.0, 0.0])  # fmt: skip
    ax = plots.returns(frame)
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    wide = plots.returns(frame.assign(spend=[11_000.0, 39.0, 480.0]))
    assert wide.get_yscale() == "symlog"
    assert -20 < wide.get_ylim()[0] < 0
    # A bound next to nothing does not stretch the axis over many powers of ten.
    tiny = plots.returns(frame.assign(spend=[11_000.0, 39.0, 480.0], value_low=[15_000.0, 1e-12, 0.0]))
    assert -20 < tiny.get_ylim()[0] < -0.01
    below = plots.returns(frame.assign(spend=[11_000.0, 39.0, 480.0], value_low=[15_000.0, -50.0, 0.0]))
    assert below.get_ylim()[0] == -100
