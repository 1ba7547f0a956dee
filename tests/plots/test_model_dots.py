import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest

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


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


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
