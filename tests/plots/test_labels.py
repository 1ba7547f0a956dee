from hypothesis import given
from hypothesis import strategies as st

from attrib_ds.plots.style import distinct, shorten


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
