"""The number and length of the values that a predicate may hold."""

from __future__ import annotations

import ibis
import pyarrow as pa
import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Comparison, Condition, from_json, interaction, to_json
from attrib_ds.filters.ibis_form import to_ibis

CITY = interaction("geo.city")
#: 250 texts of 4,000 characters: together the most that a list may hold.
LONG = ["%04d" % number + "x" * 3_996 for number in range(250)]  # noqa: UP031


@pytest.mark.parametrize("operator", ["equals", "contains", "startsWith", "endsWith"])
def test_a_text_has_a_maximum_length(operator):
    Comparison("interaction", "geo.city", operator, "é" * 4_096)
    with pytest.raises(InvalidRequest, match=r"geo\.city: .* at most 4,096 characters, this one has 4,097"):
        Comparison("interaction", "geo.city", operator, "é" * 4_097)


@pytest.mark.parametrize("operator", ["in", "between"])
def test_a_text_among_several_has_a_maximum_length(operator):
    with pytest.raises(InvalidRequest, match=r"geo\.city: .* at most 4,096 characters, this one has 5,000"):
        Comparison("interaction", "geo.city", operator, ["a", "b" * 5_000])


def test_the_texts_of_a_list_have_a_maximum_length_together():
    assert len(CITY.isin(LONG).value) == 250
    with pytest.raises(
        InvalidRequest, match=r"geo\.city: in .* 1,000,000 characters together, got 1,000,001"
    ):
        CITY.isin([*LONG, "y"])


def test_the_texts_of_a_predicate_have_a_maximum_length_together():
    with pytest.raises(
        InvalidRequest, match="rules: .* 1,000,000 characters of text, this one has 1,000,001"
    ):
        CITY.isin(LONG) | (CITY == "y")


def test_the_values_of_a_predicate_have_a_maximum_number_together():
    numbers = interaction("hitCount").isin(range(10_000))
    allowed = Condition("interaction", "OR", (numbers, numbers))
    with pytest.raises(InvalidRequest, match="rules: .* at most 20,000 values, this one has 20,001"):
        ~(allowed & (interaction("hitCount") == 1))


def test_json_names_the_part_that_is_too_long():
    written = to_json((CITY == "a") & CITY.contains("b"))
    written["rules"][1]["value"] = "b" * 4_097
    with pytest.raises(InvalidRequest, match="/rules/1/value: .* at most 4,096 characters"):
        from_json(written)


@pytest.mark.parametrize("predicate", [CITY.contains("Z"), CITY.matches("z")])
def test_texts_are_searched_to_the_4096th_character(predicate):
    table = ibis.memtable(pa.table({"geo.city": ["é" * 4_095 + "z", "é" * 4_096 + "z"]}))
    assert to_ibis(predicate, table).to_pyarrow().to_pylist() == [True, False]
    assert to_ibis(~predicate, table).to_pyarrow().to_pylist() == [False, True]
