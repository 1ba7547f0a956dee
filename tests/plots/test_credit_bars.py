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
from attrib_ds.plots import style
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
    [("by", "clicks", "conversions, share, value"), ("by", None, "conversions"), ("top", 0, "whole numbers from 1"),
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


@settings(max_examples=examples(40), deadline=None)  # each example draws
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
