"""The expanded size of regular expressions, which bounds the time to match them."""

from __future__ import annotations

import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import interaction
from attrib_ds.filters.patterns import expanded_size

CITY = interaction("geo.city")


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("ab{3}", 4),
        ("(?:ab){3}", 6),
        ("(?P<name>ab){2,5}", 10),
        ("(?i)ab", 2),
        ("a{2,}", 2),
        ("((a{10}){10}){10}", 1_000),
        ("(a|bc){2}", 8),
        ("x{0,1000}" * 40, 40_000),
        (".{3}", 12),
        ("[a-z]{3}", 12),
        ("[]{9}]{3}", 12),
        (r"\d{3}", 12),
        (r"\.{3}", 3),
        (r"\Qa{9}\E", 4),
        (r"a\{9}", 4),
        (r"\pL{3}", 150),
        (r"[\p{Greek}\d]{3}", 150),
        ("(){1000}", 1_000),
    ],
)
def test_repetitions_are_written_out(pattern, size):
    assert expanded_size(pattern) == size


@pytest.mark.parametrize("pattern", ["x{0,1000}" * 40, r"\pL{100}", "(?:(?:.?a?)?b?){300}z", "(a{30}){30}"])
def test_a_pattern_that_expands_too_far_is_refused(pattern):
    with pytest.raises(InvalidRequest, match=r"geo\.city: .*written out.*allowed: 600"):
        CITY.matches(pattern)


@pytest.mark.parametrize(
    "pattern", [r"^\w{1,64}@\w{1,64}$", "a" * 512, r"^\+\d{10,15}$", r"\p{L}+ \p{L}+", ".{0,100}"]
)
def test_usual_patterns_are_allowed(pattern):
    assert CITY.matches(pattern).value == pattern


def test_the_patterns_of_a_predicate_have_a_limit_together():
    slow = [CITY.matches(f"[ab]*a[ab]{{100}}{letter}") for letter in "uvwxyz"]
    allowed = slow[0] | slow[1] | slow[2] | slow[3] | slow[4]
    with pytest.raises(InvalidRequest, match=r"rules: the patterns .* allowed: 2,400"):
        allowed | slow[5]
