"""Questions of pages are captured by the same filters as hits."""

import pytest

from attrib_ds.service.collection.traffic_filters import captures

CLIENT = {"address": "198.51.100.1", "user_agent": "Firefox", "page": "https://shop.example", "referrer": ""}


@pytest.mark.parametrize(
    ("text", "sent", "expected"),
    [
        ("address:203.0.113.0/24", {"address": "::ffff:203.0.113.9"}, True),
        ("address:203.0.113.0/24", {"address": "203.0.114.9"}, False),
        ("userAgent:IPHONE", {"user_agent": "Mozilla/5.0 (iPhone; CPU)"}, True),
        ("userAgent:iPad", {"user_agent": "Mozilla/5.0 (iPhone; CPU)"}, False),
        ("referrer:spam.example", {"referrer": "https://www.buttons.Spam.example./x"}, True),
        ("referrer:www.spam.example", {"referrer": "https://spam.example"}, True),
        ("referrer:spam.example", {"referrer": "https://notspam.example/"}, False),
        ("referrer:spam.example", {"referrer": "https://search.example/?q=https://spam.example/"}, False),
        ("referrer:spam.example", {"page": "https://spam.example"}, False),
        ("referrer:spam.example", {"referrer": "spam.example"}, False),
        ("hostname:test.shop.example", {"page": "https://a.test.shop.example:8443"}, True),
        ("hostname:test.shop.example", {"page": "https://user@test.shop.example/boots?size=42"}, True),
        ("hostname:test.shop.example", {}, False),
        ("hostname:test.shop.example", {"page": "null"}, False),
        ("hostname:test.shop.example", {"page": ""}, False),
    ],
)
def test_a_filter_captures_by_address_user_agent_and_hosts(text, sent, expected):
    assert captures([text], **CLIENT | sent) is expected
    assert captures(["address:192.0.2.1", text], **CLIENT | sent) is expected
    assert not captures([], **CLIENT | sent)
