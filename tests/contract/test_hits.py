"""The hit of a tracking script: what it may hold."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attrib_ds.contract.interactions import CollectHit, read_hit
from attrib_ds.errors import InvalidRequest
from attrib_ds.json_numbers import load_exact

HIT = {"projectId": "shop", "pageUrl": "https://shop.example/"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=5,
)
few = settings(max_examples=60)


def read(values, **options):
    """Return the hit, or the error of what is none."""
    try:
        return read_hit(values, **options), None
    except InvalidRequest as error:
        return None, error


@few
@given(st.dictionaries(st.sampled_from(sorted(CollectHit.model_fields)), JSON))
def test_any_json_is_a_hit_or_refused_by_name(values):
    hit, refusal = read({**HIT, **values})
    if refusal is not None:
        assert refusal.field.removeprefix("/") in CollectHit.model_fields
        assert refusal.message.startswith(refusal.field)
        return
    assert timedelta(0) <= hit.delay <= timedelta(days=7)
    assert "\0" not in f"{hit.pageUrl}{hit.trackerId}{hit.referrer}{hit.hitType}"
    f"{hit.pageUrl}{hit.trackerId}{hit.referrer}".encode()


@few
@given(st.dictionaries(st.sampled_from(sorted(CollectHit.model_fields)), st.text(max_size=30)))
def test_any_query_is_a_hit_or_refused_by_name(values):
    _, refusal = read({**HIT, **values}, is_query=True)
    assert refusal is None or refusal.field in CollectHit.model_fields


@pytest.mark.parametrize("number", ["1e400", "1" + "0" * 400, "1e-400", "0.5"])
def test_extreme_numbers_are_refused(number):
    with pytest.raises(InvalidRequest, match="/timezoneOffset: .* expected a whole number of minutes"):
        read_hit({**HIT, "timezoneOffset": load_exact(number)})


def test_a_query_gives_the_same_hit_as_a_body():
    body = {**HIT, "timezoneOffset": -330, "isPersistent": False, "date": "2025-01-01T10:00:00.000Z"}
    query = {**HIT, "timezoneOffset": "-330", "isPersistent": "false", "date": "2025-01-01T10:00:00.000Z"}
    assert read_hit(query, is_query=True) == read_hit(body)


def test_members_that_are_null_or_unknown_do_not_count():
    assert read_hit({**HIT, "title": "Boots", "date": None}) == read_hit(HIT)


def test_the_delay_is_between_the_page_view_and_its_sending():
    for date, sent_at, delay in [
        ("2025-01-01T10:00:00Z", "2025-01-01T10:00:05Z", timedelta(seconds=5)),
        ("2025-01-01T10:00:00+01:00", "2025-01-01T10:00:05Z", timedelta(hours=1, seconds=5)),
        ("2025-01-01T10:00:05Z", "2025-01-01T10:00:00Z", timedelta(0)),
        ("2025-01-01T10:00:00Z", "2025-01-08T10:00:00Z", timedelta(days=7)),
        ("2025-01-01T10:00:00Z", None, timedelta(0)),
        (None, "2025-01-01T10:00:00Z", timedelta(0)),
    ]:
        assert read_hit({**HIT, "date": date, "sentAt": sent_at}).delay == delay, (date, sent_at)


def test_a_hit_of_more_than_a_week_ago_is_refused():
    late = {"date": "2025-01-01T10:00:00Z", "sentAt": "2025-01-08T10:00:00.001Z"}
    with pytest.raises(InvalidRequest, match="/date: is more than 7 days before /sentAt"):
        read_hit({**HIT, **late})
