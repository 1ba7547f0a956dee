"""The expanded size of regular expressions, which bounds the time to match them."""

from __future__ import annotations

import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Condition, interaction
from attrib_ds.filters.values import expanded_size

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
    long = [CITY.matches(letter * 500) for letter in "uvwxy"]
    allowed = long[0] | long[1] | long[2] | long[3]
    with pytest.raises(InvalidRequest, match=r"rules: .* at most 2,400 characters and classes .* has 2,500"):
        allowed | long[4]


def test_a_predicate_has_a_limited_number_of_patterns():
    allowed = Condition("interaction", "OR", (CITY.matches("a"),) * 10 + (CITY.not_matches("b"),) * 10)
    with pytest.raises(InvalidRequest, match="rules: .* at most 20 patterns, this one has 21"):
        allowed & CITY.matches("c")


def test_a_predicate_has_a_limited_number_of_searches():
    allowed = Condition("interaction", "OR", (CITY.contains("a"),) * 40 + (CITY.not_matches("b"),) * 10)
    with pytest.raises(InvalidRequest, match="at most 50 patterns and substrings, this one has 51"):
        allowed & ~CITY.contains("c")
