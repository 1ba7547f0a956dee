"""Where a project is: from arguments, the environment or the configuration file."""

import json

import pytest

from attrib_ds import connect, errors
from attrib_ds.transports.http.configuration import config_file, find_remote

NOTHING = dict.fromkeys(("url", "url_v2", "auth_url", "key", "routes"))


def configure(text):
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text)


def test_nothing_said_is_no_remote_service():
    assert find_remote(NOTHING) is None


def test_the_environment_and_then_the_file(monkeypatch, tmp_path):
    configure('url = "https://file.example"\nkey = "keys/shop.json"\nroutes = "/etc/routes.toml"\n')
    found = find_remote(NOTHING)
    assert found.url == "https://file.example"
    assert found.key == config_file().parent / "keys" / "shop.json"
    assert str(found.routes) == "/etc/routes.toml"
    monkeypatch.setenv("ATTRIB_DS_URL", "https://environment.example")
    assert find_remote(NOTHING).url == "https://environment.example"
    assert find_remote({**NOTHING, "url": "https://said.example"}).url == "https://said.example"


def test_addresses_of_one_service_do_not_mix_with_those_of_another(monkeypatch):
    configure('url = "https://file.example"\nauth_url = "https://auth.file.example"\n')
    monkeypatch.setenv("ATTRIB_DS_URL", "https://environment.example")
    monkeypatch.setenv("ATTRIB_DS_URL_V2", "https://v2.environment.example")
    found = find_remote(NOTHING)
    assert (found.url_v2, found.auth_url) == ("https://v2.environment.example", None)
    monkeypatch.setenv("ATTRIB_DS_AUTH_URL", "https://auth.environment.example")
    found = find_remote({**NOTHING, "url": "https://said.example"})
    assert (found.url, found.url_v2, found.auth_url) == ("https://said.example", None, None)
    found = find_remote({**NOTHING, "auth_url": "https://auth.example"})
    assert (found.url, found.auth_url) == ("https://environment.example", "https://auth.example")


def test_the_key_may_be_from_elsewhere(monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_KEY", "environment.json")
    assert find_remote({**NOTHING, "url": "https://said.example"}).key == "environment.json"
    assert find_remote({**NOTHING, "url": "https://said.example", "key": "said.json"}).key == "said.json"


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_URL", "")
    assert find_remote(NOTHING) is None


def test_the_environment_may_hold_the_key_itself(monkeypatch, key):
    monkeypatch.setenv("ATTRIB_DS_KEY", json.dumps(key))
    with connect("shop", url="http://127.0.0.1:1") as shop:
        assert repr(shop) == "<Project 'shop' at http://127.0.0.1:1/api/v1>"


@pytest.mark.parametrize("name", ["url_v2", "auth_url", "key", "routes"])
def test_what_is_for_a_service_needs_its_address(name):
    with pytest.raises(
        errors.InvalidRequest, match=rf"{name}: applies to a remote service, but no address .* url="
    ):
        connect("my-shop", **{name: "https://service.example"})


@pytest.mark.parametrize(
    ("text", "words"),
    [("ulr = 'x'", "did you mean 'url'"), ("url = 3", "url is not a string"), ("url = ", "cannot be read")],
)
def test_a_file_that_is_not_in_order(text, words):
    configure(text)
    with pytest.raises(errors.InvalidRequest, match=words):
        connect("my-shop")
    connect("my-shop", path=":memory:").close()
