import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest


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


def test_an_empty_plot_says_so():
    ax = plots.orders(compared([], [], 0))
    assert [text.get_text() for text in ax.texts] == ["nothing to compare"]


def test_bad_input_is_refused():
    with pytest.raises(InvalidRequest, match="compared: no column 'behind'"):
        plots.orders(compared([0.0], [0.0], 0).drop(columns="behind"))


def test_without_the_parsimonious_order_no_point_is_labelled():
    some = compared([-9.0, -8.0, -8.1], [1.0, 0.0, 0.1], 1).drop(index=1)
    ax = plots.orders(some)
    assert not ax.texts
    assert ax.get_lines()[1].get_xdata().tolist() == [1, 3]
