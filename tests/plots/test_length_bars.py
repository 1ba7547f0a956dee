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


def test_a_bar_per_length_also_where_there_is_none():
    ax = plots.lengths(frame_of([(0, 4.0), (1, 5.0), (3, 2.0)]))
    assert heights(ax) == [4, 5, 0, 2]
    assert ticks(ax) == ["0", "1", "2", "3"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("conversions", "touchpoints in the lookback")


def test_long_paths_share_the_last_bar():
    ax = plots.lengths(frame_of([(1, 5.0), (4, 2.0), (40, 3.0), (4_000, 1.0)]), most=4)
    assert heights(ax) == [0, 5, 0, 0, 6]
    assert ticks(ax)[-1] == "4+"


def test_of_the_sample_every_conversion_is_drawn(sample):
    paths = conversion_paths(sample, event_type="order")
    assert sum(heights(plots.lengths(paths.lengths()))) == pytest.approx(1_446)


def test_nothing_is_said_to_be_nothing():
    assert [text.get_text() for text in plots.lengths(frame_of([])).texts] == ["no conversions"]


@pytest.mark.parametrize(
    ("frame", "arguments", "told"),
    [
        (frame_of([]).drop(columns="length"), {}, "lengths: no column 'length'"),
        (frame_of([]), {"most": 0}, "most: 0 is not allowed"),
        (frame_of([(1, 2.0), (None, 3.0)]), {}, "column 'length' holds nan; allowed: touchpoints from 0"),
        (frame_of([(-1, 2.0)]), {}, "column 'length' holds -1; allowed: touchpoints from 0"),
    ],
)
def test_what_is_not_allowed_is_told(frame, arguments, told):
    with pytest.raises(InvalidRequest, match=told):
        plots.lengths(frame, **arguments)
