"""Plots of paths: flows, lengths, order and the funnel of states."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from support.law_examples import examples

from attrib_ds import Paths, conversion_paths, event_insights, plots
from attrib_ds.errors import InvalidRequest


def touches_of(paths, **columns):
    rows = [
        (
            event,
            f"u{event}",
            node,
            node and node.upper(),
            pd.Timestamp("2025-01-01", tz="UTC"),
            place,
            len(path),
        )
        for event, path in paths.items()
        for place, node in enumerate(path, start=1)
    ]
    names = ["event_id", "user_id", "node_id", "node_name", "date", "position", "length"]
    frame = pd.DataFrame(rows, columns=names).astype({"position": "Int64", "length": "Int64"})
    return frame.assign(**columns)


def blocks(ax):
    """Return the heights of the blocks of each column, from top to bottom."""
    blocks = {}
    for patch in ax.patches:
        if isinstance(patch, Rectangle):
            column = round(patch.get_x() + patch.get_width() / 2)
            blocks.setdefault(column, []).append((patch.get_y(), patch.get_height()))
    return {column: [height for _, height in sorted(parts)] for column, parts in blocks.items()}


def bands(ax):
    """Return (column, height) of each band, in the order they were drawn."""
    bands = []
    for patch in ax.patches:
        if isinstance(patch, PathPatch):
            corners = patch.get_path().vertices
            bands.append((int(corners[0, 0]), round(corners[7, 1] - corners[0, 1], 9)))
            assert corners[4, 1] - corners[3, 1] == pytest.approx(bands[-1][1])
    return bands


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


THREE = {"e1": ["a", "b"], "e2": ["b"], "e3": ["x", "a", "c"]}


def test_paths_are_aligned_at_the_conversion_and_start_where_they_begin():
    ax = plots.paths(touches_of(THREE), steps=2)
    # Column 0 holds the touch before the last: a for e1 and e3, none for e2.
    assert blocks(ax) == {0: [2], 1: [2, 1], 2: [3]}
    assert bands(ax) == [(0, 1), (0, 1), (1, 2), (1, 1)]
    assert ticks(ax) == ["1 before", "last touch", "conversion"]
    assert legend(ax) == ["A", "B", "C"]
    # The same margin on both sides of the columns at 0, 1 and 2.
    assert ax.get_xlim() == (-0.15, 2.15)
    assert ax.get_title(loc="left") == "Last 2 touches before 3 conversions"


def test_all_steps_have_a_column_label():
    ax = plots.paths(touches_of(THREE))
    assert ticks(ax) == ["3 before", "2 before", "1 before", "last touch", "conversion"]
    assert blocks(ax) == {1: [1], 2: [2], 3: [2, 1], 4: [3]}
    counts = {text.xy[0]: text.get_text() for text in ax.texts if hasattr(text, "xy")}
    assert counts == {1: "1", 2: "2", 3: "3", 4: "3"}
    assert plots.paths(touches_of(THREE), steps=1).get_title(loc="left") == "Last touch before 3 conversions"


def test_nodes_beyond_the_top_are_grouped_at_the_bottom():
    ax = plots.paths(touches_of(THREE), steps=3, top=1)
    # a and b are touched twice each; a comes first by its identifier.
    assert legend(ax) == ["A", "other (3 nodes)"]
    assert blocks(ax) == {0: [1], 1: [2], 2: [3], 3: [3]}
    assert bands(ax) == [(0, 1), (1, 2), (2, 3)]


def test_bands_leave_and_arrive_within_their_blocks():
    ax = plots.paths(touches_of({"e1": ["a", "c"], "e2": ["b", "c"], "e3": ["a", "d"]}), steps=2)
    edges = [patch.get_path().vertices for patch in ax.patches if isinstance(patch, PathPatch)]
    # Stacked with a gap of 0.025 × 3: a at 0–2, b at 2.075–3.075; c at 0–2, d at 2.075–3.075.
    spans = [[edge[0, 1], edge[7, 1], edge[3, 1], edge[4, 1]] for edge in edges[:3]]
    np.testing.assert_allclose(spans, [[0, 1, 0, 1], [1, 2, 2.075, 3.075], [2.075, 3.075, 1, 2]])


def test_conversions_weigh_paths_and_those_without_a_touch_are_counted():
    touches = touches_of(THREE)
    touches["conversions"] = touches["event_id"].map({"e1": 10.0, "e2": 2.5, "e3": 0.0})
    bare = touches.iloc[:2].assign(
        event_id=["e4", "e5"],
        node_id=None,
        node_name=None,
        position=[pd.NA, 0],
        length=0,
        conversions=[4.0, 3.0],
    )
    ax = plots.paths(pd.concat([touches, bare]), steps=2)
    assert blocks(ax) == {0: [10], 1: [12.5], 2: [12.5]}
    assert ax.get_title(loc="left") == "Last 2 touches before 12.5 conversions"
    assert ax.get_xlabel() == "7 conversions without a touch not drawn"


def test_rows_without_an_event_are_left_out_and_touches_without_a_node_kept():
    touches = pd.concat([touches_of(THREE), touches_of({None: ["a"], "e4": [None]})])
    ax = plots.paths(touches, steps=1)
    assert blocks(ax) == {0: [2, 1, 1], 1: [4]}
    assert "no node" in legend(ax)


def test_many_nodes_and_long_names_draw():
    random = np.random.default_rng(1)
    paths = {f"e{i}": [f"node {k:03} " + "x" * 60 for k in random.integers(0, 300, 3)] for i in range(500)}
    ax = plots.paths(touches_of(paths))
    assert len(legend(ax)) == 9
    assert legend(ax)[-1] == "other (292 nodes)"
    assert all(len(name) <= 36 for name in legend(ax))
    assert all(sum(heights) == 500 for column, heights in blocks(ax).items() if column > 0)


@settings(max_examples=examples(40))  # each example draws
@given(
    paths=st.dictionaries(
        st.text("ef", min_size=1, max_size=5),
        st.lists(st.sampled_from("abcde"), min_size=1, max_size=6),
        min_size=1,
    ),
    steps=st.integers(1, 5),
    top=st.integers(1, 6),
)
def test_the_flow_into_a_column_equals_the_flow_out(paths, steps, top):
    ax = plots.paths(touches_of(paths), steps=steps, top=top, ax=Figure().subplots())
    drawn = blocks(ax)
    for column in range(steps):
        reached = sum(len(path) >= steps - column for path in paths.values())
        assert sum(drawn.get(column, [])) == reached
        assert sum(height for start, height in bands(ax) if start == column) == reached
    assert drawn[steps] == [len(paths)]


def test_bad_input_is_refused():
    touches = touches_of(THREE)
    with pytest.raises(InvalidRequest, match="paths: no column 'length'; required: event_id"):
        plots.paths(touches.drop(columns="length"))
    with pytest.raises(InvalidRequest, match="steps: 0 is not allowed; allowed: whole numbers, 1 or more"):
        plots.paths(touches, steps=0)
    with pytest.raises(InvalidRequest, match="top: '8' is not allowed"):
        plots.paths(touches, top="8")


def test_an_empty_plot_says_so():
    for frame in (touches_of(THREE).iloc[:0], touches_of({})):
        ax = plots.paths(frame)
        assert [text.get_text() for text in ax.texts] == ["no credited conversions"]
    ax = plots.paths(touches_of({None: ["a"]}))
    assert [text.get_text() for text in ax.texts] == ["no paths to a conversion"]


def test_paths_are_drawn_as_the_frame_of_their_touches():
    rows = pd.DataFrame({"path": ["a > b > c", "b > c", "c"], "n": [3, 2, 1], "nulls": [0, 1, 0]})
    lazy = Paths.from_sequences(rows, path="path", conversions="n", nulls="nulls")
    drawn = [plots.paths(each, steps=2, ax=Figure().subplots()) for each in (lazy, lazy.to_pandas())]
    titles = {axes.get_title(loc="left") for axes in drawn}
    assert titles == {"Last 2 touches before 6 conversions"}
    shapes = [[patch.get_path().get_extents().bounds for patch in axes.patches] for axes in drawn]
    assert shapes[0] == shapes[1]
    with pytest.raises(InvalidRequest, match="paths: must be a DataFrame, got list"):
        plots.paths([])


def frame_of(rows):
    return pd.DataFrame(rows, columns=["length", "conversions"]).astype({"length": "Int64"})


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


def test_a_bar_per_length_including_lengths_without_conversions():
    ax = plots.lengths(frame_of([(0, 4.0), (1, 5.0), (3, 2.0)]))
    assert heights(ax) == [4, 5, 0, 2]
    assert ticks(ax) == ["0", "1", "2", "3"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("conversions", "touchpoints in the lookback")


def test_long_paths_share_the_last_bar():
    ax = plots.lengths(frame_of([(1, 5.0), (4, 2.0), (40, 3.0), (4_000, 1.0)]), most=4)
    assert heights(ax) == [0, 5, 0, 0, 6]
    assert ticks(ax)[-1] == "4+"


@pytest.mark.slow
def test_every_conversion_of_the_sample_is_drawn(sample):
    paths = conversion_paths(sample, event_type="order")
    assert sum(heights(plots.lengths(paths.lengths()))) == pytest.approx(1_446)


def test_an_empty_plot_of_lengths_says_so():
    assert [text.get_text() for text in plots.lengths(frame_of([])).texts] == ["no conversions"]


@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        (frame_of([]).drop(columns="length"), {}, "lengths: no column 'length'"),
        (frame_of([]), {"most": 0}, "most: 0 is not allowed"),
        (frame_of([(1, 2.0), (None, 3.0)]), {}, "column 'length' contains nan; allowed: touchpoints from 0"),
        (frame_of([(-1, 2.0)]), {}, "column 'length' contains -1; allowed: touchpoints from 0"),
    ],
)
def test_invalid_arguments_are_refused(frame, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        plots.lengths(frame, **arguments)


def compared(behind, error, chosen):
    count = len(behind)
    return pd.DataFrame(
        {
            "order": pd.array(range(1, count + 1), dtype="Int64"),
            "held_out": [-5.0 - value for value in behind],
            "behind": behind,
            "behind_error": error,
            "is_best": pd.array([value == 0 for value in behind], dtype="boolean"),
            "is_parsimonious": pd.array([place == chosen for place in range(count)], dtype="boolean"),
        }
    )


def test_points_error_bars_and_the_parsimonious_order():
    ax = plots.orders(compared([0.1, 0.05, 0.0, 0.4], [0.02, 0.06, 0.0, 0.1], 1))
    line, others, chosen = (
        line for line in ax.get_lines() if len(line.get_xdata()) and line.get_zorder() >= 2
    )
    assert line.get_xdata().tolist() == [1, 2, 3, 4]
    assert line.get_ydata().tolist() == [-0.1, -0.05, 0.0, -0.4]
    assert others.get_xdata().tolist() == [1, 3, 4]
    assert others.get_markerfacecolor() == "white"
    assert chosen.get_xdata().tolist() == [2]
    assert [text.get_text() for text in ax.texts] == ["order 2"]
    (bars,) = ax.collections
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert ends[1] == pytest.approx([-0.11, 0.01])
    assert ax.get_xticks().tolist() == [1, 2, 3, 4]


def test_one_order():
    ax = plots.orders(compared([0.0], [0.0], 0))
    assert ax.get_xlim() == (0.5, 1.5)


def test_an_empty_plot_of_orders_says_so():
    ax = plots.orders(compared([], [], 0))
    assert [text.get_text() for text in ax.texts] == ["nothing to compare"]


def test_bad_input_of_orders_is_refused():
    with pytest.raises(InvalidRequest, match="compared: no column 'behind'"):
        plots.orders(compared([0.0], [0.0], 0).drop(columns="behind"))


def test_without_the_parsimonious_order_no_point_is_labelled():
    some = compared([-9.0, -8.0, -8.1], [1.0, 0.0, 0.1], 1).drop(index=1)
    ax = plots.orders(some)
    assert not ax.texts
    assert ax.get_lines()[1].get_xdata().tolist() == [1, 3]


STEPS = pd.DataFrame(
    {
        "identifier": "shop",
        "interval": ["2025-01", "2025-02"],
        "values.event-count": [60.0, 40.0],
        "values.qualified": [30.0, 20.0],
        "values.won": [4.0, 6.0],
        "values.state-delay-won": [86_400.0, 90_000.0],
    }
)


def test_a_bar_per_state_with_its_share_of_all_and_of_the_previous_step():
    ax = plots.funnel(STEPS)
    assert [bar.get_width() for bar in ax.patches] == [100, 50, 10]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["events", "qualified", "won"]
    assert [text.get_text() for text in ax.texts] == [
        "100", "50  (50.0% of all)", "10  (10.0% of all, 20.0% of the previous step)",
    ]  # fmt: skip
    assert ax.get_xlabel() == "events"


def test_steps_are_drawn_in_the_given_order():
    ax = plots.funnel(STEPS, steps=["event-count", "won"])
    assert [bar.get_width() for bar in ax.patches] == [100, 10]
    assert ax.texts[1].get_text() == "10  (10.0% of all)"


def test_zero_events_are_drawn_without_shares():
    ax = plots.funnel(STEPS.iloc[:0])
    assert [text.get_text() for text in ax.texts] == ["0", "0", "0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": ["one"]}, "steps: 'one'"),
        ({"steps": []}, "steps: at least one metric of events is required"),
        ({"insights": STEPS[["interval"]]}, "steps: at least one metric of events is required"),
        ({"insights": [1]}, "must be a DataFrame"),
    ],
)
def test_invalid_arguments_of_funnel_are_refused(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        plots.funnel(**{"insights": STEPS, **arguments})


@pytest.mark.slow
def test_event_insights_are_drawn_as_lines(sample):
    days = {"since": "2025-01-01T00:00:00Z", "until": "2025-06-30T00:00:00Z"}
    counts = event_insights(
        sample, metrics=["event-count", "turnover"], interval="month", group_by="event-type", **days
    )
    ax = plots.insights(counts)
    assert ax.get_ylabel() == "events"
    # Hollow markers over partial intervals have no line of their own.
    total = sum(line.get_ydata().sum() for line in ax.get_lines() if line.get_linestyle() != "None")
    assert total == counts["values.event-count"].sum() > 0
    assert plots.insights(counts, value="turnover").get_ylabel() == "turnover"
    with pytest.raises(InvalidRequest, match="value: 'sessionCount'"):
        plots.insights(counts, value="sessionCount")


def test_one_project_is_one_line_without_a_name():
    ax = plots.insights(STEPS, value="won")
    assert [line.get_ydata().tolist() for line in ax.get_lines()] == [[4, 6]]
    assert ax.get_legend() is None
