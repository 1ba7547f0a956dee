"""Who is withheld: a keyed hash, checked against OpenSSL and the binomial distribution."""

from dataclasses import replace
from datetime import UTC, date, datetime

from scipy.stats import binom

from attrib_ds.contract.administration import Holdout, find_holdout

KEY = "0123456789abcdef"
IDS = [f"tracker-{number}" for number in range(20_000)]


def holdout(name="banner", share=0.1):
    return Holdout(name=name, share=share, node_id="spring")


def withheld(*args, key=KEY):
    chosen = holdout(*args)
    return {id for id in IDS if chosen.withholds(id, key=key)}


def test_the_draw_is_that_of_another_implementation():
    # printf 'banner\ntracker-7' | openssl dgst -sha256 -hmac 0123456789abcdef
    drawn = 0xF43C8720 / 16**8
    assert not holdout(share=drawn - 1e-6).withholds("tracker-7", key=KEY)
    assert holdout(share=drawn + 1e-6).withholds("tracker-7", key=KEY)


def test_the_share_is_withheld():
    for share in [0.02, 0.1, 0.5]:
        low, high = binom.ppf([1e-6, 1 - 1e-6], len(IDS), share)
        assert low <= len(withheld("banner", share)) <= high, share


def test_holdouts_and_keys_are_independent():
    first = withheld("banner", 0.5)
    low, high = binom.ppf([1e-6, 1 - 1e-6], len(first), 0.5)
    assert low <= len(first & withheld("popup", 0.5)) <= high
    assert low <= len(first & withheld("banner", 0.5, key="another")) <= high


def test_a_larger_share_keeps_who_was_withheld():
    assert withheld("banner", 0.1) < withheld("banner", 0.2) < withheld("banner", 0.21)


def test_the_period_includes_both_days_in_utc():
    bounded = replace(holdout(), since=date(2026, 5, 1), until=date(2026, 5, 2))
    days = [(4, 30, 23), (5, 1, 0), (5, 2, 23), (5, 3, 0)]
    running = [
        bounded.is_running(datetime(2026, month, day, hour, 59, tzinfo=UTC)) for month, day, hour in days
    ]
    assert running == [False, True, True, False]
    assert holdout().is_running(datetime(1999, 1, 1, tzinfo=UTC))


def test_a_holdout_is_stored_as_json_and_read_from_earlier_versions():
    expected = Holdout(
        name="banner", share=0.25, node_id="google/cpc:a", since=date(2026, 5, 1), until=date(2026, 6, 30)
    )
    assert Holdout.parse("banner:0.25:2026-05-01/2026-06-30:google/cpc:a") == expected
    assert Holdout.parse("banner:0.1:/:spring") == holdout()
    for stored in (expected, holdout()):
        assert Holdout.parse(str(stored)) == stored
    assert find_holdout(("popup:0.1:/:x", str(expected)), "banner") == expected
    assert find_holdout(("popup:0.1:/:x",), "banner") is None
