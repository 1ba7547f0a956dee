import pandas as pd
import pytest

from attrib_ds import conversion_paths, plots
from attrib_ds.errors import InvalidRequest


def frame_of(rows):
    return pd.DataFrame(rows, columns=["length", "conversions"]).astype({"length": "Int64"})


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


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


def test_an_empty_plot_says_so():
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
