"""Choices of a project."""

import pytest
from support.service_records import send

from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.store.settings import ProjectSettings, read_settings

DEFAULTS = {
    "lenientOptionalFields": False,
    "retentionDurationInDays": 0,
    "piiFields": [],
    "requireTokenForEvents": False,
    "ingestKeys": [],
    "allowedOrigins": [],
    "excludedReferrers": [],
    "domains": [],
    "trafficFilters": [],
    "holdoutKey": "",
    "anonymousNodesPerDay": 10_000,
    "respectGpc": True,
    "visitorOfTheDay": True,
    "respectDnt": False,
    "anonymousIdentification": False,
    "currency": "EUR",
    "timezone": "UTC",
}


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    yield opened
    opened.close()


def settings(service, operation="get_settings", **changes):
    (row,) = send(service, operation, **changes).read().to_pylist()
    return row


def test_settings_have_defaults(service):
    assert settings(service) == DEFAULTS
    with service._store.cursor() as cursor:
        assert read_settings(cursor) == ProjectSettings()


def test_omitted_settings_keep_their_values(service):
    first = settings(service, "update_settings", lenient_optional_fields=True, pii_fields=["email", "phone"])
    assert first == {**DEFAULTS, "lenientOptionalFields": True, "piiFields": ["email", "phone"]}
    second = settings(
        service, "update_settings", retention_duration_in_days=30, lenient_optional_fields=False
    )
    assert second == {**DEFAULTS, "retentionDurationInDays": 30, "piiFields": ["email", "phone"]}
    assert settings(service, "update_settings", pii_fields=[]) == {**DEFAULTS, "retentionDurationInDays": 30}
    assert settings(service, "update_settings") == settings(service)
    with service._store.cursor() as cursor:
        assert read_settings(cursor) == ProjectSettings(retention_duration_in_days=30)


@pytest.mark.parametrize(
    "wrong",
    [
        {"retention_duration_in_days": -1},
        {"retention_duration_in_days": 36_526},
        {"retention_duration_in_days": True},
        {"lenient_optional_fields": 1},
        {"pii_fields": ["no key"]},
        {"require_token_for_events": "yes"},
        {"ingest_keys": ["short"]},
        {"allowed_origins": ["https://shop.example/page"]},
        {"allowed_origins": ["*"]},
        {"excluded_referrers": ["https://pay.example"]},
        {"excluded_referrers": ["pay"]},
        {"domains": ["https://shop.example"]},
        {"traffic_filters": ["office"]},
        {"traffic_filters": ["address:203.0.113.0/33"]},
        {"traffic_filters": ["referrer:a b"]},
        {"traffic_filters": ["userAgent: "]},
    ],
    ids=lambda value: "".join(map(str, value.items())),
)
def test_invalid_settings_change_nothing(service, wrong):
    (name,) = wrong
    with pytest.raises(InvalidRequest, match=f"^{name}"):
        settings(service, "update_settings", **wrong)
    assert settings(service) == DEFAULTS


def test_the_key_of_holdouts_is_created_once(service):
    send(service, "create_holdout", holdout="banner", node_id="spring", share=0.1)
    first = settings(service)
    assert len(first["holdoutKey"]) == 64
    send(service, "delete_holdout", holdout="banner")
    send(service, "create_holdout", holdout="popup", node_id="a:b", share=0.2)
    assert settings(service) == first == {**DEFAULTS, "holdoutKey": first["holdoutKey"]}


def test_g211_changes_of_holdouts_are_written_down(service):
    period = {"firstDay": "2026-05-01"}
    send(service, "create_holdout", holdout="banner", node_id="spring", share=0.1, **period)
    send(service, "delete_holdout", holdout="banner")
    with service._store.cursor() as cursor:
        lines = cursor.execute("SELECT operation, subject, details FROM audit").fetchall()
    assert lines == [
        ("create_holdout", "banner", '{"nodeId":"spring","share":0.1,"firstDay":"2026-05-01"}'),
        ("delete_holdout", "banner", "{}"),
    ]


def test_choices_of_a_newer_version_are_passed_over(service):
    service._store.write(lambda connection: connection.execute("INSERT INTO settings VALUES ('later', '1')"))
    assert settings(service) == DEFAULTS


def test_g211_a_change_is_written_down(service):
    settings(service)
    settings(service, "update_settings", retention_duration_in_days=30)
    with service._store.cursor() as cursor:
        lines = cursor.execute("SELECT operation, subject, details FROM audit").fetchall()
    assert lines == [("update_settings", "shop", '{"retentionDurationInDays":30}')]
