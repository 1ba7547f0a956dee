# ruff: noqa: SIM300  (the fields in capitals are not the constants of these comparisons)
import copy
import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Comparison, Condition, Field, event, interaction, node, to_json, user
from attrib_ds.filters.predicates import in_zone

CITY = interaction("geo.city")
LATITUDE = interaction("geo.latitude")
START = interaction("startDate")
IS_BOT = interaction("isBot")


class Plan(enum.StrEnum):
    PRO = "pro"


@pytest.mark.parametrize(
    ("comparison", "operator", "value"),
    [
        (CITY == "Paris", "equals", "Paris"),
        (CITY != "Paris", "notEquals", "Paris"),
        (CITY < "M", "lessThan", "M"),
        (CITY <= "M", "lessThanOrEquals", "M"),
        (CITY > "M", "greaterThan", "M"),
        (CITY >= "M", "greaterThanOrEquals", "M"),
        ("M" < CITY, "greaterThan", "M"),
        (CITY.isin(["b", "a", "b"]), "in", ("b", "a", "b")),
        (CITY.not_in(("b", "a")), "notIn", ("b", "a")),
        (CITY.contains("a"), "contains", "a"),
        (CITY.not_contains("a"), "notContains", "a"),
        (CITY.starts_with("a"), "startsWith", "a"),
        (CITY.not_starts_with("a"), "notStartsWith", "a"),
        (CITY.ends_with("a"), "endsWith", "a"),
        (CITY.not_ends_with("a"), "notEndsWith", "a"),
        (CITY.between("a", "b"), "between", ("a", "b")),
        (CITY.not_between("a", "b"), "notBetween", ("a", "b")),
        (CITY.is_empty(), "isEmpty", None),
        (CITY.is_not_empty(), "isNotEmpty", None),
        (CITY.is_null(), "isNull", None),
        (CITY.is_not_null(), "isNotNull", None),
        (CITY.matches("^P"), "matches", "^P"),
        (CITY.not_matches("^P"), "notMatches", "^P"),
    ],
)
def test_every_operator_builds_its_comparison(comparison, operator, value):
    assert comparison == Comparison("interaction", "geo.city", operator, value)
    assert (comparison.operator, comparison.value) == (operator, value)


@pytest.mark.parametrize(
    ("comparison", "value"),
    [
        (START == "2025-01-01T02:00:00+02:00", "2025-01-01T00:00:00.000Z"),
        (START == datetime(2025, 1, 1), "2025-01-01T00:00:00.000Z"),
        (START == datetime(2025, 1, 1, 0, 0, 0, 7, tzinfo=UTC), "2025-01-01T00:00:00.000007Z"),
        (START == pd.Timestamp("2025-01-01", tz="Europe/Paris"), "2024-12-31T23:00:00.000Z"),
        (START == np.datetime64("2025-01-01T00:00"), "2025-01-01T00:00:00.000Z"),
        (START.isin(pd.DatetimeIndex(["2025-01-01T00:00:00Z"])), ("2025-01-01T00:00:00.000Z",)),
        (LATITUDE == np.float32(0.5), 0.5),
        (LATITUDE == np.int64(3), 3),
        (np.int64(3) == LATITUDE, 3),
        (np.float64(3) <= LATITUDE, 3.0),
        (LATITUDE == Decimal("2.50"), 2.5),
        (LATITUDE == Decimal("1E+2"), 100),
        (LATITUDE.isin(np.array([1, 2])), (1, 2)),
        (LATITUDE.isin(pd.Series([2.5, 1.0])), (2.5, 1.0)),
        (LATITUDE.isin({3, 10, 2}), (2, 3, 10)),
        (LATITUDE.isin(range(2)), (0, 1)),
        (IS_BOT == np.True_, True),
        (CITY == np.str_("Paris"), "Paris"),
        (CITY == Plan.PRO, "pro"),
        (CITY.isin(pd.Index(["b", "a"])), ("b", "a")),
        (Comparison("interaction", "geo.city", "isNull", "ignored"), None),
    ],
)
def test_values_become_canonical(comparison, value):
    assert comparison.value == value
    values = comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
    assert {type(item) for item in values} <= {str, int, float, bool, type(None)}


@pytest.mark.parametrize(
    ("comparison", "operator_type"),
    [
        (user("fields.age") == "30", "string"),
        (user("fields.age") == 30, "number"),
        (user("fields.age") == Decimal("30"), "number"),
        (user("fields.age").isin(np.array([1.5])), "number"),
        (user("fields.consent") == True, "boolean"),  # noqa: E712
        (user("fields.consent") == np.True_, "boolean"),
        (user("fields.since") > datetime(2025, 1, 1), "date"),
        (user("fields.since", operator_type="date") > "2025-01-01T00:00:00Z", "date"),
        (user("fields.since") > "2025-01-01T00:00:00Z", "string"),
        (user("fields.tags", operator_type="array").contains("a"), "array"),
        (user("fields.age", operator_type="number").is_null(), "number"),
        (user("fields.age").is_null(), "string"),
        (user("audienceIds", operator_type="string") == "a", "array"),
        (event("event.seats") > 3, "number"),
        (event("user.email").is_not_null(), "string"),
        (user("eventCount") > 3, "number"),
    ],
)
def test_open_fields_take_the_type_of_their_value(comparison, operator_type):
    assert comparison.operator_type == operator_type


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CITY == None, r"geo.city: equals \(==\) .*missing value None; use isNull \(.is_null\(\)\)"),  # noqa: E711
        (lambda: CITY != pd.NA, r"missing value <NA>; use isNull"),
        (lambda: START == pd.NaT, r"missing value NaT; use isNull"),
        (lambda: LATITUDE == float("nan"), r"missing value nan; use isNull"),
        (lambda: LATITUDE == np.nan, r"missing value nan; use isNull"),
        (lambda: CITY.isin(["a", None]), r"missing value None"),
        (lambda: LATITUDE == float("inf"), r"takes a finite number, got inf"),
        (lambda: LATITUDE == Decimal("Infinity"), r"takes a finite number"),
        (lambda: LATITUDE == 2**63, r"takes a finite number, got 9223372036854775808"),
        (lambda: LATITUDE == "1", r"takes a finite number, got '1' \(str\)"),
        (lambda: LATITUDE > True, r"takes a finite number, got True"),
        (lambda: CITY == 75, r"geo.city: equals \(==\) takes text, got 75 \(int\)"),
        (lambda: CITY == ["Paris"], r"takes text, got \['Paris'\] \(list\); write .isin\(\[…\]\) for a list"),
        (
            lambda: CITY != {"Paris"},
            r"takes text, got \{'Paris'\} \(set\); write .not_in\(\[…\]\) for a list",
        ),
        (lambda: CITY > ["Paris"], r"takes text, got \['Paris'\] \(list\)$"),
        (lambda: CITY == "a\0", r"NUL"),
        (lambda: CITY == "\ud800", r"surrogate"),
        (lambda: CITY == LATITUDE, r"not with another field"),
        (lambda: CITY == (LATITUDE > 1), r"not with another field or predicate; put each"),
        (lambda: IS_BOT == "true", r"takes True or False, got 'true'"),
        (lambda: IS_BOT == 1, r"takes True or False, got 1"),
        (
            lambda: IS_BOT > True,
            r"isBot: greaterThan \(>\) does not apply to a field of type boolean; allowed: eq",
        ),
        (lambda: IS_BOT.between(False, True), r"does not apply"),
        (lambda: START == "2025-02-30", r"startDate: '2025-02-30' does not exist"),
        (
            lambda: LATITUDE.between(4, 2),
            r"between \(between\) takes a low and a high value, got 4 above 2; exch",
        ),
        (lambda: CITY.not_between("b", "a"), r"got 'b' above 'a'"),
        (lambda: START.between("2025-01-02", "2025-01-01"), r"got '2025-01-02' above '2025-01-01'"),
        (
            lambda: START.between("2025-01-01T00:00:00.000001Z", "2025-01-01T00:00:00Z"),
            r"got '2025-01-01T00:00:00.000001Z' above '2025-01-01T00:00:00.000Z'",
        ),
        (lambda: START > 1735689600, r"is not an instant but int"),
        (lambda: START.contains("2025"), r"contains \(contains\) does not apply to a field of type date"),
        (lambda: LATITUDE.matches("1"), r"matches \(matches\) does not apply to a field of type number"),
        (lambda: interaction("geo") == "FR", r"does not apply .* object; allowed: isNotNull .* isNull"),
        (lambda: interaction("userData").is_empty(), r"does not apply"),
        (lambda: user("audienceIds") > "a", r"does not apply to a field of type array"),
        (lambda: CITY.isin("Paris"), r"in \(isin\) takes a list of values, got 'Paris' \(str\)"),
        (lambda: CITY.isin({"Paris": 1}), r"takes a list of values"),
        (lambda: CITY.isin(pd.DataFrame({"city": ["Paris"]})), r"takes a list of values"),
        (lambda: CITY.isin(np.array("Paris")), r"takes a list of values"),
        (lambda: CITY.isin(7), r"takes a list of values, got 7"),
        (lambda: CITY.isin(LATITUDE), r"not with another field"),
        (lambda: CITY.isin([]), r"takes 1 to 10,000 values, got 0"),
        (lambda: CITY.isin(["a"] * 10_001), r"takes 1 to 10,000 values, got 10,001"),
        (lambda: CITY.isin([["a"]]), r"takes text"),
        (lambda: Comparison("interaction", "geo.city", "between", ["a"]), r"takes a low and a high value"),
        (lambda: Comparison("interaction", "geo.city", "between", "ab"), r"takes a low and a high value"),
        (lambda: Comparison("interaction", "geo.city", "equal", "a"), r"operator: .*did you mean 'equals'"),
        (lambda: Comparison("interaction", "geo.city", ["equals"], "a"), r"operator: \['equals'\]"),
        (lambda: Comparison("visit", "geo.city", "equals", "a"), r"kind: 'visit'"),
        (lambda: CITY.matches("a" * 513), r"may have at most 512 characters, this one has 513"),
        (lambda: CITY.matches("("), r"geo.city: .*missing \)"),
        (lambda: CITY.matches(r"(a)\1"), r"invalid escape sequence"),
        (lambda: CITY.matches("(?=a)"), r"invalid perl operator"),
        (lambda: user("fields.age", operator_type="integer"), r"operator_type: 'integer' is not allowed"),
        (lambda: user("eventCount", operator_type="string"), r"operator_type: .*allowed: number"),
        (lambda: user("fields.age", operator_type="number") == "a", r"takes a finite number"),
        (
            lambda: user("fields.age").contains(3),
            r"contains \(contains\) does not apply to a field of type number",
        ),
        (lambda: user("fields.age").isin([1, "a"]), r"takes a finite number, got 'a'"),
    ],
)
def test_misuse_is_refused_when_built(build, message):
    with pytest.raises(InvalidRequest, match=message):
        build()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        *(
            (name, r"write .contains\(text\), .starts_with\(text\)")
            for name in ("str", "startswith", "endswith", "match")
        ),
        *((name, "a missing value only satisfies !=") for name in ("fillna", "dropna")),
        *((name, "ignore case") for name in ("lower", "upper")),
        *((name, r"write .is_null\(\)") for name in ("isna", "isnull")),
        *((name, r"write .is_not_null\(\)") for name in ("notna", "notnull")),
        *((name, "compare it with a day") for name in ("dt", "year")),
        ("is_in", r"write .isin\(\[…\]\)"),
        ("eq", "write == !="),
        ("astype", "operator_type="),
        ("map", "filter first"),
    ],
)
def test_names_of_pandas_tell_what_to_write(name, advice):
    with pytest.raises(
        AttributeError, match=rf"^interaction\('geo.city'\) is a field, not a column of pandas: .*{advice}"
    ):
        getattr(CITY, name)


def test_other_names_are_missing_as_anywhere():
    assert not hasattr(CITY, "nonsense")
    assert not hasattr(CITY, "__array__")
    assert copy.copy(CITY).name == "geo.city"


PARIS = ZoneInfo("Europe/Paris")
#: The second of April 2025 in Paris, in UTC.
FIRST, LAST = "2025-04-01T22:00:00.000Z", "2025-04-02T21:59:59.999999Z"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (START >= "2025-04-02", START >= FIRST),
        (START > "2025-04-02", START > LAST),
        (START <= date(2025, 4, 2), START <= LAST),
        (START < np.datetime64("2025-04-02"), START < FIRST),
        (START == "2025-04-02", START.between(FIRST, LAST)),
        (START != "2025-04-02", START.not_between(FIRST, LAST)),
        (START.between("2025-04-02", "2025-04-02"), START.between(FIRST, LAST)),
        (START.between("2025-04-02", "2025-05-01T00:00:00Z"), START.between(FIRST, "2025-05-01T00:00:00Z")),
        (
            START.not_between("2025-04-01T00:00:00Z", "2025-04-02"),
            START.not_between("2025-04-01T00:00:00Z", LAST),
        ),
        (
            START.isin(["2025-04-02", "2025-05-01T00:00:00Z"]),
            START.between(FIRST, LAST) | (START == "2025-05-01T00:00:00Z"),
        ),
        (START.not_in(["2025-04-02"]), Condition("interaction", "AND", (START.not_between(FIRST, LAST),))),
        (~((START >= "2025-04-02") & (CITY == "Paris")), ~((START >= FIRST) & (CITY == "Paris"))),
        (
            user("fields.born", operator_type="date") <= "2025-04-02",
            user("fields.born", operator_type="date") <= LAST,
        ),
        (user("fields.born") <= "2025-04-02", user("fields.born") <= "2025-04-02"),
    ],
)
def test_a_day_stands_for_its_instants_in_the_zone(given, expected):
    """As in ``since`` and ``until``."""
    assert in_zone(given, lambda: PARIS) == expected
    assert eval(repr(given)) == given


def test_the_zone_is_asked_for_only_if_there_is_a_day():
    instant = (START >= FIRST) & START.is_not_null()
    assert in_zone(instant, lambda: pytest.fail("asked")) == instant


def test_a_low_instant_above_the_high_day_is_refused_in_the_zone():
    pair = START.between("2025-04-03T12:00:00Z", "2025-04-02")
    with pytest.raises(InvalidRequest, match="exchange them"):
        in_zone(pair, lambda: PARIS)


def test_a_day_is_not_written_without_a_zone():
    with pytest.raises(InvalidRequest, match="startDate: '2025-04-02' is a date without a time"):
        to_json(START.isin(["2025-04-02"]))


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: bool(CITY), r"is a field and not true or false; compare it"),
        (lambda: not CITY, r"not true or false"),
        (lambda: 1 < LATITUDE < 3, r"field.between\(1, 3\) for 1 < field < 3"),
        (lambda: CITY in ["Paris", "Lyon"], r"field.isin"),
        (lambda: "Par" in CITY, r"write interaction\(\"geo.city\"\).contains\(text\)"),
        (lambda: list(CITY), r"has no members"),
        (lambda: {CITY: 1}, r"unhashable"),
        (lambda: ~IS_BOT, r"is a field, not a predicate: compare it first"),
        (lambda: CITY & (LATITUDE > 1), r"compare it first"),
        (lambda: (LATITUDE > 1) & CITY, r"& combines predicates, got .*\(Field\)"),
        (lambda: "x" | CITY, r"put each comparison in parentheses"),
        (lambda: LATITUDE > 1 & LATITUDE < 3, r"put each comparison in parentheses"),
    ],
)
def test_python_s_own_logic_is_refused_with_the_fix(misuse, message):
    with pytest.raises((TypeError, InvalidRequest), match=message):
        misuse()


def test_names_of_fields():
    assert repr(node("channel")) == 'node("channel")'
    assert repr(user("fields.a", operator_type="date")) == 'user("fields.a", operator_type="date")'
    assert repr(Field("interaction", "geo.city")) == 'interaction("geo.city")'
