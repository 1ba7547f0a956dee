"""The style of plots on dark backgrounds, with large fonts and with long titles."""

import inspect

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from support.result_frames import HAZARD_EFFECTS, MODEL_ORDERS, SENSITIVITY

from attrib_ds import plots
from attrib_ds.plots import style
from attrib_ds.plots.labels import distinct, shorten

LONG = "a model whose name says everything there is to say about it, and then some more"


FRAMES = {
    "credits": pd.DataFrame(
        {
            "model": LONG,
            "node_id": ["a", "b", None],
            "node_name": [LONG, "Mail", None],
            "conversions": [3.0, -1.0, 2.0],
            "value": [30.0, -10.0, 20.0],
            "currency": "EUR",
            "share": [0.75, -0.25, 0.5],
            "low": [1.0, -2.0, 1.0],
            "high": [5.0, 1.0, 3.0],
            "spend": [10.0, 20.0, None],
        }
    ),
    "series": pd.DataFrame(
        {
            "model": LONG,
            "week": ["2025-W01", "2025-W01", "2025-W02"],
            "node_id": ["a", "b", "a"],
            "node_name": [LONG, "Mail", LONG],
            "conversions": [3.0, -1.0, 2.0],
            "value": [30.0, -10.0, 20.0],
            "currency": "EUR",
        }
    ),
    "effects": HAZARD_EFFECTS,
    "sensitivity": SENSITIVITY,
    "explanation": pd.DataFrame(
        {
            "position": [1, 2, 3],
            "node_id": ["search", "email", "search"],
            "node_name": ["Search", "Email", "Search"],
            "age_days": [9.0, 4.0, 1.0],
            "weight": [0.4, -0.2, 0.4],
        }
    ),
    "funnel": pd.DataFrame({"values.event-count": [80.0], f"values.{LONG}": [20.0]}),
    "insights": pd.DataFrame(
        {
            "group": ["a", "b"],
            "interval": ["1", "2"],
            "sessionCount": [4, 2],
            "hitCount": [9, 3],
            "durationSum": [60.0, 5.0],
        }
    ),
    "lags": pd.DataFrame(
        {
            "event_id": ["e1", "e2", "e3"],
            "conversions": 1.0,
            "first_lag_days": [8.0, 2.0, None],
            "last_lag_days": [1.0, 2.0, None],
        }
    ),
    "lengths": pd.DataFrame({"length": [1, 3], "conversions": [5.0, 2.0]}),
    "orders": MODEL_ORDERS,
    "paths": pd.DataFrame(
        {
            "event_id": ["e1", "e1", "e2"],
            "user_id": ["u1", "u1", "u2"],
            "node_id": ["a", "b", "b"],
            "node_name": ["Ads", "Mail", "Mail"],
            "date": pd.Timestamp("2025-01-01", tz="UTC"),
            "position": [1, 2, 1],
            "length": [2, 2, 1],
        }
    ),
}


FRAMES |= dict.fromkeys(("model_comparison", "returns"), FRAMES["credits"])


FRAMES |= {"seasonality": FRAMES["insights"]}


def brightness(colour):
    return sum(to_rgb(colour)) / 3


def drawn_texts(ax):
    """Draw the figure and return its visible, non-empty texts."""
    ax.figure.draw_without_rendering()
    texts = [text for text in ax.figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert texts
    return texts


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize("name", plots.__all__)
def test_texts_contrast_with_light_and_dark_backgrounds(name):
    assert all(brightness(text.get_color()) < 0.5 for text in drawn_texts(getattr(plots, name)(FRAMES[name])))
    with pyplot.style.context("dark_background"):
        ax = getattr(plots, name)(FRAMES[name])
        assert all(brightness(text.get_color()) > 0.5 for text in drawn_texts(ax))


def test_the_background_is_that_of_the_figure():
    figure, ax = pyplot.subplots(facecolor="#102030")
    plots.lengths(FRAMES["lengths"], ax=ax)
    assert all(brightness(label.get_color()) > 0.5 for label in (ax.xaxis.label, *ax.get_yticklabels()))
    assert style.palette(ax).background == "#102030"
    figure.set_facecolor("none")
    assert style.palette(ax).background == "white"
    with pyplot.style.context("dark_background"):
        assert style.palette(ax).background == "black"


def fits(ax):
    # Tick labels outside the axes are visible texts, though they are not drawn.
    words = [text for text in drawn_texts(ax) if any(map(str.isalpha, text.get_text()))]
    return all(text.get_window_extent().x1 <= ax.figure.bbox.x1 for text in words)


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", plots.__all__)
def test_words_stay_on_the_figure(name):
    assert fits(getattr(plots, name)(FRAMES[name]))


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", plots.__all__)
def test_figures_grow_with_large_texts(name):
    usual = getattr(plots, name)(FRAMES[name]).figure.get_size_inches()
    with pyplot.rc_context({"font.size": 20}):
        ax = getattr(plots, name)(FRAMES[name])
        # A layout without room would warn, which fails.
        assert fits(ax)
    assert ax.figure.get_size_inches() == pytest.approx(2 * usual)


def test_short_names_are_kept_and_white_space_is_collapsed():
    assert shorten("Mail") == "Mail"
    assert shorten(" two\n lines\t") == "two lines"
    assert shorten("abcdefgh", width=5) == "ab…gh"


def test_control_characters_are_escaped():
    # matplotlib repeats characters without a glyph in its warnings, which go to the terminal.
    assert shorten("\x1b[2Jmail") == "\\x1b[2Jmail"
    assert distinct({"a": "\x07mail\u202e"}) == {"a": "\\x07mail\\u202e"}


def test_shortened_names_keep_the_part_that_differs():
    names = {str(year): f"Retargeting, spring {year}, all regions and devices" for year in (2023, 2024, 2025)}
    assert distinct(names, width=30) == {
        "2023": "Retargetin…2023, all regions …",
        "2024": "Retargetin…2024, all regions …",
        "2025": "Retargetin…2025, all regions …",
    }


@given(
    st.dictionaries(st.text("ab", max_size=3), st.text("xy z", max_size=60), max_size=30), st.integers(12, 40)
)
def test_labels_are_distinct_and_short(names, width):
    labels = distinct(names, width=width)
    assert list(labels) == list(names)
    assert len(set(labels.values())) == len(names)
    # A number that distinguishes equal labels may exceed the width.
    assert all(len(label) <= width + 4 for label in labels.values())


def test_public_names_are_sorted_and_callable():
    assert plots.__all__ == sorted(plots.__all__)
    assert all(callable(getattr(plots, name)) for name in plots.__all__)


@pytest.mark.parametrize("name", plots.__all__)
def test_only_the_frame_is_positional_and_axes_are_returned(name):
    frame, *rest = inspect.signature(getattr(plots, name)).parameters.values()
    assert frame.kind is frame.POSITIONAL_OR_KEYWORD
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in rest)
    assert rest[-1].name == "ax"
    assert inspect.signature(getattr(plots, name)).return_annotation == "Axes"
