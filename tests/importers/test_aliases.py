"""Present names of renamed nodes; the expected values are worked out by hand."""

import warnings

import pandas as pd
import pyarrow as pa
import pytest

from attrib_ds import errors, read_journeys
from attrib_ds.importers.aliases import Aliases


def names(aliases, *words):
    return Aliases(aliases).renamed(pa.table({"campaign": list(words)}))["campaign"].to_pylist()


def test_names_that_were_changed_twice_have_the_last_one():
    assert names({"b": "c", "a": "b"}, "a", "B", "c", "d") == ["c", "c", "c", "d"]
    # Another spelling of the same name.
    assert names({"Spring Sale": "spring-sale"}, "SPRING_SALE") == ["spring-sale"]


@pytest.mark.parametrize("names", [{"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}])
def test_names_that_lead_back_to_themselves_are_refused(names):
    with pytest.raises(errors.InvalidRequest, match="aliases: the names .* lead back to themselves"):
        Aliases(names)


@pytest.mark.parametrize("given", [{"a": ""}, {"a": None}, {" ": "b"}, {1: "b"}, [("a", "b")], "a"])
def test_other_than_names_is_refused(given):
    with pytest.raises(errors.InvalidRequest, match="aliases: .* is not allowed; allowed: present names by"):
        Aliases(given)


def test_a_name_has_one_present_name():
    with pytest.raises(errors.InvalidRequest, match="aliases: 'spring-sale' has two present names, 'a' and"):
        Aliases({"Spring Sale": "a", "spring-sale": "b"})


def test_an_alias_of_the_spend_is_used():
    clicks = pd.DataFrame({"user": ["u"], "channel": ["summer"], "date": ["2025-01-01"]})
    orders = pd.DataFrame({"order_id": [1], "user": ["u"], "date": ["2025-01-02"], "value": [9.0]})
    spend = pd.DataFrame({"channel": ["spring"], "spend": [3.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        journeys = read_journeys(clicks, orders, spend=spend, currency="EUR", aliases={"spring": "summer"})
    assert journeys.spend[["node_id", "spend"]].to_numpy().tolist() == [["summer", 3.0]]
