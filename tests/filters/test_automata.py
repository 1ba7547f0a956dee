"""The number of states of a pattern's automaton, which bounds the time to match it."""

from __future__ import annotations

import time

import duckdb
import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import interaction
from attrib_ds.filters.patterns import states
from attrib_ds.filters.values import MOST_STATES

CITY = interaction("geo.city")


@pytest.mark.parametrize("length", range(6))
def test_a_pattern_that_remembers_where_a_letter_was_doubles_its_states_with_each_character(length):
    # Each of the last `length` characters, and the next one, may or may not be the first letter.
    assert states(f"a.{{{length}}}b", 1_000) == 2 ** (length + 1)
    assert states("a" + "." * length + "b", 1_000) == 2 ** (length + 1)
    assert states(f"[ab]*a(?:a|b){{{length}}}c", 1_000) >= 2**length


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        # One for each prefix that the text may have ended with, the whole being the same as none.
        ("shoes", 5),
        (r"\Qsho.s\E", 5),
        ("shop|cart", 7),
        # The same, and one for a text that no longer matches.
        ("^shoes", 6),
        # Digits count up, another character starts anew.
        (r"\d{10}x", 11),
        (r"^\d{4}", 5),
        ("a*", 1),
        ("", 1),
        (")(", 1),
        ("a.{40}b", 501),
    ],
)
def test_states(pattern, count):
    assert states(pattern, 500) == count


def test_case_matters_only_where_it_is_respected():
    assert states("a[^A]{9}b", 500) == states("(?i)b[^A]{9}b", 500) == 501
    # Without case, no character within the repetition begins the pattern again.
    assert states("(?i)a[^A]{9}b", 500) < 100


@pytest.mark.parametrize(
    "pattern",
    [
        "[ab]*a[ab]{140}c",
        "a[ab]{95}c",
        "a.{40}c",
        "a(?:b|.){20}c",
        "a" + "." * 60,
        "(?:(?:a|b)?x?){12}a.{10}y",
        r"(?i)A\p{L}{9}!",
        "a?(?:.{8}|.{7})(?:..[ab](?:[ab]{6}){2}.{8})?c",
        r"[\x{31}\x{33}][\x{31}-\x{32}]{12}x",
    ],
)
def test_slow_patterns_are_refused(pattern):
    with pytest.raises(InvalidRequest, match=r"geo\.city: .*too many ways"):
        CITY.matches(pattern)


USUAL = [
    r"^\w{1,64}@\w{1,64}$",
    r"[\w.+-]+@[\w-]+\.[\w.-]+",
    "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"gclid=[\w-]{20,}",
    "foo.{0,5}bar",
    "foo.*bar",
    "shoes.*red.*size",
    r"(?i)^(.*(([^a-df-z]|^)shop|shopping).*)$",
    r"utm_(source|medium)=(google|bing|[a-z]+)(&|$)",
    "|".join(f"shop-{number}[.]com" for number in range(30)),
    r"(\d{1,3}\.){3}\d{1,3}",
    r"\p{L}+ \p{L}+",
    "[ab]*a[ab]{8}c",
]


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_allowed(pattern):
    assert CITY.matches(pattern).value == pattern


@pytest.mark.slow
@pytest.mark.parametrize("pattern", USUAL)
def test_the_engine_matches_allowed_patterns_in_time(pattern):
    assert states(pattern, MOST_STATES) <= MOST_STATES
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            "CREATE TABLE t AS SELECT string_agg(chr((97 + (random() > 0.5)::INT)), '') AS text "
            "FROM range(2048 * 4096) r(n) GROUP BY n % 2048"
        )
        before = time.process_time()
        connection.execute("SELECT count(*) FROM t WHERE regexp_matches(text, ?)", [pattern]).fetchall()
        assert time.process_time() - before < 1


@pytest.mark.parametrize(
    "pattern", ["(" * 200 + "a" + ")" * 200, "(?:" * 60 + "[ab]" + ")?" * 60, "(a{30}){20}"]
)
def test_states_are_counted_in_time(pattern):
    before = time.process_time()
    states(pattern, MOST_STATES)
    assert time.process_time() - before < 1
