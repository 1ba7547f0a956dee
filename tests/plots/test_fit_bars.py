import pandas as pd
import pytest

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest


@pytest.fixture
def check():
    lags = pd.DataFrame(
        {
            "statistic": "lag",
            "value": ["0", "1", "2+"],
            "observed": [0.2, 0.3, 0.5],
            "replicated": [0.3, 0.3, 0.4],
            "low": [0.25, 0.24, 0.33],
            "high": [0.36, 0.35, 0.46],
            "distance": 0.1,
        }
    )
    lengths = lags.assign(statistic="length", observed=[0.3, 0.3, 0.4], distance=0.0)
    return pd.concat([lengths, lags], ignore_index=True)


def test_the_statistic_with_the_largest_distance_is_drawn(check):
    ax = plots.fit(check)
    assert ax.get_title(loc="left") == "Users by lag"
    assert [bar.get_height() for bar in ax.patches] == [0.2, 0.3, 0.5]
    assert ax.get_xlabel() == "10 % of the users are elsewhere than in the model"
    assert ax.containers[1].lines[0].get_ydata().tolist() == [0.3, 0.3, 0.4]


def test_bars_through_the_points_show_where_samples_would_be(check):
    (bars,) = plots.fit(check).containers[1].lines[2]
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [
        pytest.approx([0.25, 0.36]),
        pytest.approx([0.24, 0.35]),
        pytest.approx([0.33, 0.46]),
    ]


def test_another_statistic_can_be_chosen(check):
    assert [bar.get_height() for bar in plots.fit(check, statistic="length").patches] == [0.3, 0.3, 0.4]
    with pytest.raises(InvalidRequest, match=r"statistic: 'lags' .*did you mean 'lag'"):
        plots.fit(check, statistic="lags")


def test_an_empty_plot_says_so(check):
    assert [text.get_text() for text in plots.fit(check.iloc[:0]).texts] == ["no statistics"]
