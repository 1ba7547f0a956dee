"""Plots of credits: bars of one model, dots of several, cost against return."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from support.law_examples import examples

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest
from attrib_ds.plots import credit_plots, style
from attrib_ds.records.frames import TEXT


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def messages(ax):
    return [text.get_text() for text in ax.texts]


def test_bars_are_in_descending_order_with_unattributed_last(credit):
    frame = credit(
        node_id=[None, "a", "b", "c"], node_name=[None, "Ads", "Mail", "Shop"], conversions=[9, 2, 5, 3]
    )
    ax = plots.credits(frame)
    assert labels(ax) == ["Mail", "Shop", "Ads", "unattributed"]
    assert widths(ax) == [5, 3, 2, 9]
    assert ax.yaxis_inverted()
    assert to_hex(ax.patches[-1].get_facecolor()).upper() == style.GREY
    assert ax.get_xlabel() == "credited conversions"
    assert ax.get_title(loc="left") == "Credited conversions per node, linear"
    assert not ax.spines["top"].get_visible()
    assert not ax.spines["right"].get_visible()


@pytest.mark.slow
def test_nodes_beyond_the_top_are_summed(credit):
    frame = credit(node_id=["a", "b", "c", "d", None], conversions=[1.0, 8.0, 4.0, 2.5, 7.0])
    ax = plots.credits(frame, top=2)
    assert labels(ax) == ["b", "c", "other (2 nodes)", "unattributed"]
    assert widths(ax) == [8, 4, 3.5, 7]
    assert labels(plots.credits(frame, top=3))[-2] == "other (1 node)"
    assert labels(plots.credits(frame, top=4)) == ["b", "c", "d", "a", "unattributed"]


def test_large_negative_credit_is_kept_and_ordered_by_sign(credit):
    frame = credit(node_id=["a", "b", "c"], conversions=[1.0, -6.0, 4.0])
    ax = plots.credits(frame, top=2)
    assert labels(ax) == ["c", "b", "other (1 node)"]
    assert widths(ax) == [4, -6, 1]
    assert ax.get_xlim()[0] < -6


@pytest.mark.parametrize(("nodes", "shown"), [(1, 1), (3, 3), (300, 21)])
def test_any_number_of_nodes_is_readable(credit, nodes, shown):
    frame = credit(node_id=[f"n{i:03}" for i in range(nodes)], conversions=np.arange(1.0, nodes + 1))
    ax = plots.credits(frame)
    assert len(widths(ax)) == len(labels(ax)) == shown
    assert sum(widths(ax)) == nodes * (nodes + 1) / 2
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0


def test_long_names_are_cut_in_the_middle_and_stay_distinct(credit):
    names = [
        "Spring campaign for returning visitors " + str(year) + " all regions, desktop"
        for year in (2024, 2025)
    ]
    names.append("x" * 60)
    ax = plots.credits(credit(node_id=["a", "b", "c"], node_name=names, conversions=[3, 2, 1]))
    shown = labels(ax)
    assert all(len(label) <= 36 for label in shown)
    assert "2024" in shown[0]
    assert "2025" in shown[1]
    assert shown[2] == "x" * 18 + "…" + "x" * 17
    ax.figure.draw_without_rendering()
    assert ax.get_tightbbox().x0 >= 0


def test_equal_and_missing_names_fall_back_on_the_id(credit):
    frame = credit(node_id=["a", "b", "c"], node_name=["Mail", "Mail", None], conversions=[3, 2, 1])
    assert labels(plots.credits(frame)) == ["Mail (a)", "Mail (b)", "c"]


def test_names_are_drawn_literally(credit):
    frame = credit(node_id=["a", "b"], node_name=["Save $5, get $10_x", "_mail\n2"], conversions=[3, 2])
    ax = plots.credits(frame)
    assert labels(ax) == ["Save $5, get $10_x", "_mail 2"]
    assert not ax.get_yticklabels()[0].get_parse_math()


def test_intervals_span_low_to_high_even_around_an_estimate_outside(credit):
    frame = credit(
        node_id=["a", "b", None], conversions=[5.0, 3.0, 1.0], low=[4.0, 3.5, 0.5], high=[7.0, 4.5, 2.0]
    )
    ax = plots.credits(frame)
    (bars,) = [part for part in ax.containers if part.__class__.__name__ == "ErrorbarContainer"]
    segments = bars.lines[2][0].get_segments()
    assert [tuple(map(tuple, segment)) for segment in segments] == [
        ((4.0, 0.0), (7.0, 0.0)),
        ((3.5, 1.0), (4.5, 1.0)),
        ((0.5, 2.0), (2.0, 2.0)),
    ]
    assert "sampling error, not bias" in ax.get_xlabel()


@pytest.mark.parametrize("by", ["value", "share"])
def test_bounds_of_conversions_are_not_drawn_on_other_measures(credit, by):
    frame = credit(node_id=["a"], conversions=[5.0], value=[10.0], low=[4.0], high=[7.0])
    ax = plots.credits(frame, by=by)
    assert len(ax.containers) == 1
    assert "sampling" not in ax.get_xlabel()


def test_sums_carry_no_interval(credit):
    frame = credit(
        node_id=["a", "a", "b", "c"],
        conversions=[5.0, 1, 2, 1],
        low=[1.0, 1, 1, math.nan],
        high=[6.0, 2, 3, math.nan],
    )
    ax = plots.credits(frame, top=2)
    assert widths(ax) == [6, 2, 1]
    (bars,) = [part for part in ax.containers if part.__class__.__name__ == "ErrorbarContainer"]
    assert [segment[0, 1] for segment in bars.lines[2][0].get_segments()] == [1]
    ax = plots.credits(frame.iloc[:2])
    assert len(ax.containers) == 1
    assert ax.get_xlabel().endswith("no intervals: bounds do not add up")


@pytest.mark.slow
def test_value_carries_its_currency_and_share_its_percent(credit):
    frame = credit(node_id=["a", "b"], conversions=[3.0, 1.0], value=[1_500_000.0, 30.0])
    ax = plots.credits(frame, by="value")
    assert ax.get_xlabel() == "credited value (EUR)"
    assert widths(ax) == [1_500_000, 30]
    ax.figure.draw_without_rendering()
    assert "500,000" in [label.get_text() for label in ax.get_xticklabels()]
    ax = plots.credits(frame, by="share")
    assert ax.get_xlabel() == "share of conversions (%)"
    assert widths(ax) == [0.75, 0.25]
    ax.figure.draw_without_rendering()
    assert "20" in [label.get_text() for label in ax.get_xticklabels()]
    nameless = frame.assign(currency=pd.Series([None, None], dtype=TEXT))
    assert plots.credits(nameless, by="value").get_xlabel() == "credited value"


def test_currencies_are_never_summed(credit):
    frame = credit(
        node_id=["a", "a", "b"],
        conversions=[1.0, 2.0, 4.0],
        value=[10.0, 20.0, 40.0],
        currency=["EUR", "USD", "USD"],
    )
    with pytest.raises(InvalidRequest, match=r"^currency: .*EUR, USD.*never summed") as caught:
        plots.credits(frame, by="value")
    assert caught.value.field == "currency"
    ax = plots.credits(frame, by="value", currency="USD")
    assert (labels(ax), widths(ax), ax.get_xlabel()) == (["b", "a"], [40, 20], "credited value (USD)")
    assert widths(plots.credits(frame)) == [4, 3]
    assert widths(plots.credits(frame, currency="EUR")) == [1]
    with pytest.raises(InvalidRequest, match="currency: 'EURO' is not allowed .did you mean 'EUR'.*EUR, USD"):
        plots.credits(frame, by="value", currency="EURO")


def test_value_without_a_currency_is_a_currency_of_its_own(credit):
    frame = credit(node_id=["a", "b"], value=[10.0, 20.0], currency=["EUR", None])
    with pytest.raises(InvalidRequest, match=r"^currency: .*EUR, none"):
        plots.credits(frame, by="value")
    worthless = frame.assign(value=[10.0, math.nan])
    ax = plots.credits(worthless, by="value")
    assert (labels(ax), ax.get_xlabel()) == (
        ["a"],
        "credited value (EUR)\n1 node without credited value not drawn",
    )
    nameless = frame.assign(currency=pd.Series([None, None], dtype=TEXT))
    with pytest.raises(
        InvalidRequest, match="currency: 'EUR' is not allowed.*have no currency; allowed: None"
    ):
        plots.credits(nameless, currency="EUR")


def test_with_several_models_one_must_be_named(credit):
    frame = credit(node_id=["a", "a"], model=["linear", "last"], conversions=[3.0, 4.0])
    with pytest.raises(InvalidRequest, match=r"^model: None is not allowed.*2 models; allowed: last, linear"):
        plots.credits(frame)
    assert widths(plots.credits(frame, model="last")) == [4]
    with pytest.raises(InvalidRequest, match="model: 'lats' is not allowed .did you mean 'last'"):
        plots.credits(frame, model="lats")


@pytest.mark.parametrize(
    ("argument", "value", "allowed"),
    [("by", "clicks", "conversions, share, value"), ("by", None, "conversions"), ("top", 0, "whole numbers, 1 or more"),
     ("top", 2.5, "whole numbers"), ("top", True, "whole numbers")],
)  # fmt: skip
def test_arguments_out_of_range_are_named(credit, argument, value, allowed):
    with pytest.raises(InvalidRequest, match=rf"^{argument}: {value!r} is not allowed.*{allowed}"):
        plots.credits(credit(node_id=["a"]), **{argument: value})


def test_frames_without_credits_are_refused(credit):
    with pytest.raises(InvalidRequest, match="credits: no column 'node_name', 'share'; required: model"):
        plots.credits(credit(node_id=["a"]).drop(columns=["node_name", "share"]))
    with pytest.raises(InvalidRequest, match="credits: must be a DataFrame, got list"):
        plots.credits([1])
    with pytest.raises(InvalidRequest, match=f"credits: column 'conversions' is {TEXT}; allowed: numbers"):
        plots.credits(credit(node_id=["a"]).assign(conversions=pd.Series(["many"], dtype=TEXT)))


@pytest.mark.parametrize("by", ["conversions", "value", "share"])
def test_an_empty_frame_says_so(credit, by):
    untyped = pd.DataFrame(columns=list(credit(node_id=["a"]).columns))
    for frame in (credit(node_id=["a"]).iloc[:0], untyped):
        ax = plots.credits(frame, by=by, model="linear")
        assert messages(ax) == ["no credited value" if by == "value" else "no credited conversions"]
        assert ax.get_xlabel()
        assert not ax.patches


def test_no_value_at_all_says_so(credit):
    ax = plots.credits(credit(node_id=["a", None], value=[math.nan, math.nan]), by="value")
    assert messages(ax) == ["no credited value"]
    ax = plots.credits(credit(node_id=["a"]).assign(value=None, currency=None), by="value")
    assert messages(ax) == ["no credited value"]


def test_nullable_integers_and_decimals_are_numbers(credit):
    frame = credit(node_id=["a", "b"]).assign(conversions=pd.array([3, None], dtype="Int64"))
    ax = plots.credits(frame)
    assert (labels(ax), widths(ax)) == (["a"], [3])


def test_given_axes_are_used_and_their_figure_is_unchanged(credit):
    figure = Figure(figsize=(3, 3))
    ax = figure.subplots()
    frame = credit(node_id=["a", "b"], conversions=[1.0, 2.0])
    before = frame.copy()
    assert plots.credits(frame, ax=ax) is ax
    assert figure.get_size_inches().tolist() == [3, 3]
    assert figure.get_layout_engine() is None
    assert pyplot.get_fignums() == []
    pd.testing.assert_frame_equal(frame, before)


@settings(max_examples=examples(40))  # each example draws
@given(
    amounts=st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    unattributed=st.integers(0, 9),
    top=st.integers(1, 45),
)
def test_bars_sum_to_the_model_total_for_any_top(amounts, unattributed, top):
    frame = pd.DataFrame({
        "model": "m", "node_id": [*(f"n{i}" for i in range(len(amounts))), None], "node_name": None,
        "conversions": [*amounts, unattributed], "value": None, "currency": None, "share": 0.0,
    })  # fmt: skip
    ax = plots.credits(frame, top=top, ax=Figure().subplots())
    assert sum(widths(ax)) == sum(amounts) + unattributed
    assert len(widths(ax)) == min(len(amounts), top) + (len(amounts) > top) + 1


MODELS = [
    "first",
    "last",
    "linear",
    "decay",
    "u",
    "j",
    "w",
    "markov",
    "markov 2",
    "shapley",
    "rate",
    "hazard",
]


def dots(ax):
    return [line for line in ax.get_lines() if line.get_marker() != "None"]


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def two_models(credit):
    return credit(
        model=["first"] * 4 + ["last"] * 3,
        node_id=["a", "b", "c", None, "a", "b", None],
        conversions=[6.0, 3.0, 1.0, 2.0, 1.0, 9.0, 2.0],
        share=[0.5, 0.25, 0.0625, 0.1875, 0.125, 0.75, 0.125],
    )


def test_each_model_has_a_dot_per_node_and_the_line_spans_them(credit):
    ax = plots.model_comparison(two_models(credit))
    assert labels(ax) == ["b", "a", "c", "unattributed"]
    first, last = dots(ax)
    assert first.get_xdata().tolist() == [0.25, 0.5, 0.0625, 0.1875]
    np.testing.assert_array_equal(last.get_xdata(), [0.75, 0.125, math.nan, 0.125])
    assert names(ax) == ["first", "last"]
    spans = [[point.tolist() for point in segment] for segment in ax.collections[0].get_segments()]
    assert spans == [
        [[0.25, 0], [0.75, 0]],
        [[0.125, 1], [0.5, 1]],
        [[0.0625, 2], [0.0625, 2]],
        [[0.125, 3], [0.1875, 3]],
    ]
    assert ax.get_xlabel() == "share of conversions (%)"


def test_the_rest_is_summed_per_model(credit):
    ax = plots.model_comparison(two_models(credit), by="conversions", top=1)
    assert labels(ax) == ["b", "other (2 nodes)", "unattributed"]
    assert [line.get_xdata().tolist() for line in dots(ax)] == [[3, 7, 2], [9, 1, 2]]
    assert ax.get_xlabel() == "credited conversions"


def test_top_counts_magnitude_in_any_model(credit):
    frame = credit(
        model=["x", "x", "x", "y", "y", "y"], node_id=["a", "b", "c"] * 2, conversions=[5.0, 1, 4, 5, -9, 4]
    )
    assert labels(plots.model_comparison(frame, by="conversions", top=2)) == ["a", "b", "other (1 node)"]


@pytest.mark.parametrize("count", [1, 2, 12])
@pytest.mark.parametrize("nodes", [1, 3, 300])
def test_markers_of_models_differ_and_stay_in_their_row(credit, count, nodes):
    frame = pd.concat(
        [
            credit(
                model=model, node_id=[f"n{i}" for i in range(nodes)], conversions=np.arange(1.0, nodes + 1)
            )
            for model in MODELS[:count]
        ]
    )
    ax = plots.model_comparison(frame)
    looks = {(line.get_marker(), to_hex(line.get_color())) for line in dots(ax)}
    assert len(looks) == count
    assert len({marker for marker, _ in looks}) == count
    rows = np.arange(min(nodes, 16))
    heights = np.array([line.get_ydata() for line in dots(ax)])
    assert heights.shape == (count, len(rows))
    assert (np.abs(heights - rows) < 0.5).all()
    assert len(set(heights[:, 0])) == count
    assert names(ax) == MODELS[:count]


def test_odd_model_names_reach_the_legend(credit):
    frame = credit(model=["_a", "$b$", "x" * 60], node_id=["n", "n", "n"])
    assert names(plots.model_comparison(frame)) == ["_a", "$b$", "x" * 15 + "…" + "x" * 14]


def test_value_needs_one_currency(credit):
    frame = credit(node_id=["a", "b"], value=[1.0, 2.0], currency=["EUR", "USD"])
    with pytest.raises(InvalidRequest, match="currency: .*EUR, USD"):
        plots.model_comparison(frame, by="value")
    ax = plots.model_comparison(frame, by="value", currency="EUR")
    assert (labels(ax), ax.get_xlabel()) == (["a"], "credited value (EUR)")


def test_bad_input_is_refused(credit):
    with pytest.raises(InvalidRequest, match="by: 'credit' is not allowed"):
        plots.model_comparison(credit(node_id=["a"]), by="credit")
    with pytest.raises(InvalidRequest, match="top: -1 is not allowed"):
        plots.model_comparison(credit(node_id=["a"]), top=-1)
    with pytest.raises(InvalidRequest, match="credits: no column 'model'"):
        plots.model_comparison(credit(node_id=["a"]).drop(columns="model"))


def test_an_empty_plot_says_so(credit):
    ax = plots.model_comparison(credit(node_id=["a"]).iloc[:0])
    assert [text.get_text() for text in ax.texts] == ["no credited conversions"]
    ax = plots.model_comparison(credit(node_id=["a"], value=[math.nan]), by="value")
    assert [text.get_text() for text in ax.texts] == ["no credited value"]


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


def test_lines_of_equal_return_end_at_the_edge_and_leave_the_limits_to_the_points(credit):
    ax = plots.returns(credit(node_id=["a", "b"], value=[300.0, 90.0], spend=[100.0, 200.0]))
    assert ratios(ax) == pytest.approx([1, 2, 5])
    assert all(line.get_xdata()[-1] == ax.get_xlim()[1] for line in ax.get_lines())
    assert 300 < ax.get_ylim()[1] < 400


@pytest.mark.parametrize(
    ("spend", "value", "scales", "limits", "linear"),
    [
        ([10, 500], [300, 9_000], ("linear", "linear"), None, None),
        ([0, 5_000], [300, 9_000], ("linear", "linear"), None, None),
        ([10, 501], [-300, 0], ("linear", "linear"), None, None),
        ([10, 501], [80, 9_000], ("log", "log"), (40, 18_000), None),
        # Linear below the power of ten under the least value above zero.
        ([10, 501], [80, 0], ("log", "symlog"), (-1.5, 160), 10),
        ([10, 501], [80, -30], ("log", "symlog"), (-60, 160), 10),
        # A bound that is tiny beside the others does not stretch the axis: 10 is a hundred-thousandth.
        ([10, 501], [1e6, 2], ("log", "symlog"), (-1.5, 2e6), 10),
    ],
)
def test_scales_of_returns(spend, value, scales, limits, linear):
    ax = Figure().subplots()
    credit_plots._scale(ax, np.array(spend, float), np.array(value, float))
    assert (ax.get_xscale(), ax.get_yscale()) == scales
    if limits is not None:
        assert ax.get_xlim() == (5, 1_503)
        assert ax.get_ylim() == pytest.approx(limits)
    if linear is not None:
        assert ax.yaxis.get_transform().linthresh == linear


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


@pytest.mark.few(2)
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


def test_an_empty_plot_of_returns_says_so(credit):
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
