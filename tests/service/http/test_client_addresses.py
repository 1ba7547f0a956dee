"""Whose address a request counts for, with and without trusted proxies."""

from __future__ import annotations

import pytest
from service.http.test_connections import LIVE, connected, one_response, rest_of, statuses
from starlette.requests import Request
from support.http_caller import Caller

from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.http.client_addresses import network_of, network_of_client, parse_proxies
from attrib_ds.service.http.rate_limits import RateLimit
from attrib_ds.service.http.server import running
from attrib_ds.service.http.server_options import RateLimits, ServerOptions

HERE = (parse_proxies("127.0.0.1"),)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::"),
        ("", ""),
    ],
)
def test_addresses_of_one_ipv6_network_count_as_one(address, network):
    assert network_of(address) == network


def client(peer, *forwarded, proxies):
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    scope = {"type": "http", "client": (peer, 1), "headers": headers}
    return network_of_client(Request(scope), [parse_proxies(proxy) for proxy in proxies])


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        # From the proxy: its own entry is the last one.
        ("10.0.0.5", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.5", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["2001:db8:1:2:3::4"], "2001:db8:1:2::"),
        # What stands before it, the client has written.
        ("10.0.0.5", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["10.0.0.5, 198.51.100.1 "], "198.51.100.1"),
        # Not an address: that of the proxy counts.
        ("10.0.0.5", [], "10.0.0.5"),
        ("10.0.0.5", [""], "10.0.0.5"),
        ("10.0.0.5", ["198.51.100.1,"], "10.0.0.5"),
        ("10.0.0.5", ["unknown"], "10.0.0.5"),
        ("10.0.0.5", ["198.51.100.1:443"], "10.0.0.5"),
        ("10.0.0.5", ["\xe9"], "10.0.0.5"),
        # From anybody else.
        ("10.0.0.6", ["198.51.100.1"], "10.0.0.6"),
        ("2001:db8::5", ["198.51.100.1"], "2001:db8::"),
    ],
)
def test_only_the_last_entry_of_a_trusted_proxy_counts(peer, forwarded, expected):
    assert client(peer, *forwarded, proxies=["10.0.0.5"]) == expected


def test_proxies_may_be_a_network():
    assert client("172.18.4.2", "198.51.100.1", proxies=["fd00::/8", "172.18.0.0/16"]) == "198.51.100.1"
    assert client("172.19.4.2", "198.51.100.1", proxies=["fd00::/8", "172.18.0.0/16"]) == "172.19.4.2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("proxy.example", "'proxy.example' is not an address"),
        ("10.0.0.5/8", "'10.0.0.5/8' is not an address"),
        ("", "'' is not an address"),
        ("0.0.0.0/0", "any client could forge its own"),
        ("::/0", "any client could forge its own"),
    ],
)
def test_other_proxies_are_refused(text, message):
    with pytest.raises(InvalidRequest, match=message):
        parse_proxies(text)


def send(url, nonce, **headers):
    event = {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": {}}
    return Caller(url)("POST", "/api/v1/events", event, **headers).status


def test_clients_behind_a_trusted_proxy_have_rates_of_their_own(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    rates = RateLimits(events_by_address=RateLimit("events-by-address", 1, 36_000))
    with running(tmp_path, options=ServerOptions(rate_limits=rates, trusted_proxies=HERE)) as url:
        assert send(url, "1", X_Forwarded_For="198.51.100.1") == 200
        assert send(url, "2", X_Forwarded_For="198.51.100.2") == 200
        # A forged entry before that of the proxy changes nothing.
        assert send(url, "3", X_Forwarded_For="203.0.113.9, 198.51.100.1") == 429


@pytest.mark.slow
def test_without_a_trusted_proxy_the_header_is_ignored(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    rates = RateLimits(events_by_address=RateLimit("events-by-address", 1, 36_000))
    with running(tmp_path, options=ServerOptions(rate_limits=rates)) as url:
        assert send(url, "1", X_Forwarded_For="198.51.100.1") == 200
        assert send(url, "2", X_Forwarded_For="198.51.100.2") == 429
        assert send(url, "3", Forwarded="for=198.51.100.3", X_Real_IP="198.51.100.3") == 429


@pytest.mark.slow
def test_connections_of_a_trusted_proxy_count_only_together(tmp_path):
    options = ServerOptions(most_connections=2, most_connections_per_address=1, trusted_proxies=HERE)
    with (
        running(tmp_path, options=options) as url,
        connected(url, LIVE) as first,
        connected(url, LIVE) as second,
    ):
        assert [statuses(one_response(each)) for each in (first, second)] == [[200], [200]]
        with connected(url, LIVE) as third:
            assert statuses(rest_of(third)) == [503]
