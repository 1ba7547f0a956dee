"""Addresses: completed, and never unencrypted."""

import pytest

from attrib_ds import connect, errors
from attrib_ds.transports.http.configuration import read_addresses


@pytest.mark.parametrize(
    ("given", "v1", "v2", "auth"),
    [
        ({"url": "https://a.example"}, "https://a.example/api/v1", "https://a.example/api/v2", "https://a.example/auth"),
        ({"url": "https://a.example:8443/api/v1/"}, "https://a.example:8443/api/v1", "https://a.example:8443/api/v2", "https://a.example:8443/auth"),
        ({"url": "https://a.example/shop"}, "https://a.example/shop/api/v1", "https://a.example/shop/api/v2", "https://a.example/auth"),
        ({"url": "https://a.example", "url_v2": "https://b.example"}, "https://a.example/api/v1", "https://b.example/api/v2", "https://a.example/auth"),
        ({"url": "https://a.example", "url_v2": "https://b.example/api/v2", "auth_url": "https://c.example/"}, "https://a.example/api/v1", "https://b.example/api/v2", "https://c.example"),
        ({"url": "http://localhost:8000"}, "http://localhost:8000/api/v1", "http://localhost:8000/api/v2", "http://localhost:8000/auth"),
        ({"url": "http://[::1]:8000"}, "http://[::1]:8000/api/v1", "http://[::1]:8000/api/v2", "http://[::1]:8000/auth"),
    ],
)  # fmt: skip
def test_addresses_are_completed(given, v1, v2, auth):
    found = read_addresses(**given)
    assert (found.v1, found.v2, found.auth) == (v1, v2, auth)


@pytest.mark.parametrize("argument", ["url", "url_v2", "auth_url"])
@pytest.mark.parametrize(
    "host", ["shop.example", "10.0.0.1", "127.0.0.1.evil.example", "localhost.evil.example"]
)
def test_other_machines_are_spoken_to_in_secret(argument, host):
    given = {"url": "https://a.example", argument: f"http://{host}"}
    with pytest.raises(
        errors.InvalidRequest, match=rf"{argument}: .* unencrypted; use 'https://{host}', or allow"
    ):
        read_addresses(**given)
    assert read_addresses(**given, allow_insecure=True)


def test_connect_says_so_too():
    with pytest.raises(errors.InvalidRequest, match="allow_insecure=True"):
        connect("my-shop", url="http://shop.example")
    with connect("my-shop", url="http://shop.example", allow_insecure=True) as shop:
        assert repr(shop) == "<Project 'my-shop' at http://shop.example/api/v1>"


@pytest.mark.parametrize(
    "url", ["shop.example", "ftp://a.example", "https://", "https://a.example:port", "https://[::1", "", 7]
)
def test_what_is_no_address(url):
    with pytest.raises(
        errors.InvalidRequest, match=r"url: .* is not an address; expected one such as 'https://"
    ):
        read_addresses(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://anna:secret@a.example",
        "https://a.example?token=secret",
        "https://a.example#x",
        "https://@a.example",
        "http://127.0.0.1\\@a.example",
    ],
)
def test_addresses_hold_no_secrets(url):
    with pytest.raises(errors.InvalidRequest, match="contains a user name, a query or a fragment") as caught:
        read_addresses(url)
    assert "secret" not in str(caught.value)


def test_one_project_is_in_one_place(tmp_path, key):
    with pytest.raises(errors.InvalidRequest, match="path: is for embedded projects, url for remote ones"):
        connect("my-shop", path=tmp_path / "x", url="https://a.example")
    with pytest.raises(errors.InvalidRequest, match="path: is for embedded projects, key for remote ones"):
        connect("my-shop", path=tmp_path / "x", key=key)
    with pytest.raises(errors.InvalidRequest, match="read_only: only for embedded"):
        connect("my-shop", url="https://a.example", read_only=True)
