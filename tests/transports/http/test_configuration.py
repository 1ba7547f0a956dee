"""Where a service is: from arguments, the environment or a file; its addresses, and routes that differ."""

import json

import pytest
from support.scripted_service import Reply, page

from attrib_ds import connect, errors, list_nodes, search_interactions
from attrib_ds.contract import OPERATIONS
from attrib_ds.transports.http.configuration import config_file, find_remote, read_addresses, read_routes

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


def test_a_file_may_begin_with_a_byte_order_mark():
    """Editors on Windows write one."""
    configure("")
    config_file().write_text(
        "url = 'https://file.example'\nkey = 'C:\\keys\\new.json'\n", encoding="utf-8-sig"
    )
    found = find_remote(NOTHING)
    assert found.url == "https://file.example"
    assert str(found.key).endswith(r"C:\keys\new.json")


@pytest.mark.parametrize(
    "path",
    [
        r"C:\Users\ann\key.json",  # \U begins a character of eight digits
        r"C:\data\key.json",  # no escape
        r"C:\tools\new.json",  # a tab and a line feed
    ],
)
def test_paths_in_double_quotes_are_explained(path):
    configure(f'url = "https://file.example"\nkey = "{path}"\n')
    with pytest.raises(errors.InvalidRequest, match=r"write paths in single quotes, such as key = 'C:\\keys"):
        find_remote(NOTHING)
    configure(f"url = \"https://file.example\"\nkey = '{path}'\n")
    assert str(find_remote(NOTHING).key).endswith(path)


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
    assert found == {"v1": v1, "v2": v2, "auth": auth}


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


@pytest.fixture
def routes(tmp_path):
    def written(text):
        path = tmp_path / "routes.toml"
        path.write_text(text)
        return path

    return written


def test_methods_and_paths_are_replaced_and_the_rest_travels_where_it_must(open_shop, service, routes):
    file = routes(
        '[list_nodes]\nmethod = "POST"\npath = "/sources/{projectId}/list"\n'
        '[search_interactions]\npath = "/touches"\n'
        '[create_event]\npath = "/projects/{projectId}/events"\n'
    )
    shop = open_shop(routes=file)
    service.script = [page(), page(), Reply(body="00000000-0000-7000-8000-000000000001")]
    list_nodes(shop, type="campaign", limit=2)
    search_interactions(shop, limit=1)
    shop.send("create_event", event_type="order", nonce="1", data={})
    nodes, search, event = service.asked
    assert (nodes.method, nodes.path) == ("POST", "/api/v1/sources/shop/list")
    assert json.loads(nodes.body) == {"type": "campaign", "limit": 2, "offset": 0}
    assert search.path == "/api/v1/touches"
    assert json.loads(search.body)["projectId"] == "shop"
    assert event.path == "/api/v1/projects/shop/events"
    assert "projectId" not in json.loads(event.body)


def test_the_token_route_too(open_shop, service, routes):
    service.script = [page(), page()]
    shop = open_shop(routes=routes('[exchange_token]\npath = "/token"\n'))
    service.script = [Reply(body={"access_token": "x"}), page({"_id": "n"})]
    list_nodes(shop, limit=5)
    assert [each.path for each in service.asked] == [
        "/auth/token",
        "/api/v1/projects/shop/nodes?offset=0&limit=5",
    ]


def test_what_is_not_named_stays(routes):
    found = read_routes(routes('[list_nodes]\npath = "/nodes"\n'))
    assert found.keys() == OPERATIONS.keys()
    assert [name for name in found if found[name] != OPERATIONS[name]] == ["list_nodes"]
    assert read_routes(routes("")) == OPERATIONS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[list_node]", "did you mean 'list_nodes'"),
        ("[load_records]", "'load_records' is not allowed"),
        ("[list_nodes]\nurl = 'x'", "routes/list_nodes: 'url' is not allowed"),
        ("list_nodes = 3", "list_nodes is not a table"),
        ("[list_nodes]\nmethod = 'FETCH'", "'FETCH' is not allowed"),
        ("[search_interactions]\nmethod = 'GET'", "'GET' is not allowed"),
        ("[exchange_token]\nmethod = 'PUT'", "'PUT' is not allowed"),
        ("[list_nodes]\npath = 'nodes'", "'nodes' is not allowed"),
        ("[list_nodes]\npath = '/nodes/'", "without a trailing slash"),
        ("[list_nodes]\npath = '/../{projectId}?x=1'", "is not allowed"),
        ("[list_nodes]\npath = '/{project}/nodes'", "did you mean 'projectId'"),
        ("[list_nodes]\npath = '/{limit}'", "'limit' is not allowed"),
        ("[list_nodes", "is not TOML"),
    ],
)
def test_files_that_are_not_in_order(routes, text, words):
    with pytest.raises(errors.InvalidRequest, match=words):
        read_routes(routes(text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(errors.InvalidRequest, match="does not exist"):
        read_routes(tmp_path / "gone.toml")
