"""Choices of a project through the public functions."""

import pytest

from attrib_ds import connect
from attrib_ds.api.admin import get_settings, update_settings
from attrib_ds.errors import InvalidRequest


def test_what_a_project_was_made_with_is_told():
    with connect("my-shop", path=":memory:", currency="NOK", timezone="Europe/Oslo") as shop:
        told = get_settings(shop)
        assert (told["currency"], told["timezone"]) == ("NOK", "Europe/Oslo")


def test_choices_are_read_and_changed():
    with connect("my-shop", path=":memory:") as shop:
        changed = update_settings(
            shop,
            lenient_optional_fields=True,
            retention_duration_in_days=365,
            pii_fields=["email"],
            require_token_for_events=True,
            ingest_keys=["k" * 16],
            allowed_origins=["https://shop.example"],
            excluded_referrers=["pay.example"],
            traffic_filters=["address:203.0.113.0/24"],
            respect_gpc=False,
            respect_dnt=True,
        )
        assert changed.to_dict() == {
            "lenientOptionalFields": True,
            "retentionDurationInDays": 365,
            "piiFields": ["email"],
            "requireTokenForEvents": True,
            "ingestKeys": ["k" * 16],
            "allowedOrigins": ["https://shop.example"],
            "excludedReferrers": ["pay.example"],
            "trafficFilters": ["address:203.0.113.0/24"],
            "holdoutKey": "",
            "respectGpc": False,
            "respectDnt": True,
            "currency": "EUR",
            "timezone": "UTC",
        }
        update_settings(shop, lenient_optional_fields=False)
        told = get_settings(shop)
        assert (told["lenientOptionalFields"], told["retentionDurationInDays"]) == (False, 365)
        with pytest.raises(InvalidRequest, match="retention_duration_in_days: -1 is not allowed"):
            update_settings(shop, retention_duration_in_days=-1)
