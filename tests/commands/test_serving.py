"""The command ``serve`` with its options."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
import requests
from support.http_caller import TIMEOUT, Caller, ask_token, token_of
from support.older_keys import grow_older

from attrib_ds.commands.cli import main
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

SEARCH = {"fields": [], "sqlQuery": "SELECT _id FROM users"}


@contextmanager
def serving(home, *options, by=()):
    """Serve a folder with the command, run by another one; yield the URL."""
    with started(home, *options, by=by) as lines:
        yield next(lines).split()[-1]


@contextmanager
def started(home, *options, by=()):
    """Serve a folder as :func:`serving` does; yield the lines that the server prints."""
    command = [*by, sys.executable, "-m", "attrib_ds", "serve", "--home", str(home), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.communicate(timeout=TIMEOUT)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize(
    ("options", "statuses", "policies"),
    [
        ((), [200, 200, 200], 2),
        (
            ("--without", "sql", "--rate", "heavy=1/60", "--behind-proxy", "10.0.0.5", "fd00::/8"),
            [403, 403, 429],
            2,
        ),
        (("--without", "rates", "--without", "new-keys"), [200, 200, 200], 0),
    ],
)
def test_the_server_has_the_settings_of_the_options(tmp_path, options, statuses, policies):
    assert main(["projects", "create", "shop", "--home", str(tmp_path)]) == 0
    key = create_key(tmp_path, tmp_path / "key.json")
    with serving(tmp_path, *options) as url:
        call = Caller(url, token_of(url, key))
        by_sql = [
            call("POST", "/api/v2/projects/shop/users/search", {**SEARCH, "limit": 5}) for _ in range(2)
        ]
        # A search without a limit counts as heavy.
        heavy = [call("POST", "/api/v1/projects/shop/interactions/search", {}) for _ in range(2)][-1]
    assert [reply.status for reply in (*by_sql, heavy)] == statuses
    policy = heavy.headers.get("RateLimit-Policy", "")
    assert policy.count(";q=") == (policies if heavy.status == 200 else 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--rate", "events=200"],
            "--rate: 'events=200' is not a rate; allowed: whole numbers above 0, such as events=600/60",
        ),
        (["--rate", "heavy=0/60"], "--rate: 'heavy=0/60' is not a rate; allowed: whole numbers above 0"),
        (
            ["--rate", "sql=1/1"],
            "'sql' is not a rate limit; allowed: requests, heavy, events, events-by-address, hits, hits-by-address",
        ),
        (["--rate", "heavy=1/60", "--without", "rates"], "--without rates and --rate contradict each other"),
    ],
)
def test_invalid_rates_are_refused(tmp_path, capsys, options, message):
    assert main(["serve", "--home", str(tmp_path), *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "192.0.2.1"], "attrib-ds serve: others can reach --host 192.0.2.1: put a reverse proxy in front"),
        (["--host", "0.0.0.0"], "others can reach --host 0.0.0.0"),
        (["--host", "::"], "others can reach --host ::"),
        (["--host", "shop.example", "--url", "https://shop.example"], "others can reach --host shop.example"),
        (["--behind-proxy", "127.0.0.1", "--unprotected"], "not allowed with argument --behind-proxy"),
        (["--behind-proxy"], "expected at least one argument"),
        (["--behind-proxy", "proxy.example"], "'proxy.example' is not allowed; expected an IP address or a network"),
        (["--behind-proxy", "10.0.0.5/8"], "'10.0.0.5/8' is not allowed"),
        (["--behind-proxy", "0.0.0.0/0"], "any client could forge its own"),
        (["--behind-proxy", "10.0.0.5", "::/0"], "any client could forge its own"),
        (["--without", "sql-searches"], "invalid choice: 'sql-searches'"),
        (["--max-page-size", "none"], "argument --max-page-size: 'none' is not allowed; expected a whole number above 0"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_g234_wrong_usage_ends_with_exit_code_2(tmp_path, capsys, options, message):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--home", str(tmp_path), *options])
    assert message in capsys.readouterr().err


def test_g234_the_refusal_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--home", str(tmp_path), "--host", "192.0.2.1"])
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--host", "localhost"],
        ["--host", "::1"],
        ["--host", "127.0.0.2", "--behind-proxy", "127.0.0.1"],
        ["--host", "192.0.2.1", "--behind-proxy", "192.0.2.0/24"],
        ["--host", "192.0.2.1", "--unprotected"],
    ],
    ids=" ".join,
)
def test_g234_a_protected_server_starts(tmp_path, capsys, options):
    """It gets as far as opening the databases of places, one of which is missing."""
    missing = str(tmp_path / "no.mmdb")
    assert main(["serve", "--home", str(tmp_path), "--port", "0", "--geo", missing, *options]) == 1
    error = capsys.readouterr().err
    assert "no.mmdb' does not exist" in error or "cannot listen on" in error


def test_a_missing_extra_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "attrib_ds.service.http.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "--home", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "requires uvicorn" in error
    assert "attrib-ds[serve]" in error


@pytest.mark.slow
def test_a_missing_database_of_places_stops_the_server_from_starting(tmp_path, capsys):
    assert main(["serve", "--home", str(tmp_path), "--port", "0", "--geo", str(tmp_path / "no.mmdb")]) == 1
    assert "no.mmdb' does not exist" in capsys.readouterr().err


def test_a_key_expires_on_the_day_given(tmp_path, capsys):
    home = ["--home", str(tmp_path)]
    assert main(["projects", "create", "shop", *home]) == 0
    days = {
        "past": "2020-01-01",
        "wrong": "soon",
        "later": "2099-01-01",
        "exact": "2099-01-01T12:00:00+01:00",
    }
    codes = {
        name: main(
            ["keys", "create", "shop", "--out", str(tmp_path / f"{name}.json"), "--expires", day, *home]
        )
        for name, day in days.items()
    }
    assert codes == {"past": 1, "wrong": 1, "later": 0, "exact": 0}
    assert "is in the past" in capsys.readouterr().err
    assert main(["keys", "list", *home]) == 0
    listed = capsys.readouterr().out
    assert "valid until 2099-01-01T00:00:00.000Z" in listed
    assert "valid until 2099-01-01T11:00:00.000Z" in listed


@pytest.mark.large
@pytest.mark.slow
def test_an_expired_key_is_refused_and_so_are_its_tokens(tmp_path, capsys):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        end = datetime.now(UTC) + timedelta(minutes=50)
        key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"], expires_at=end)
        token = token_of(url, key)
        call = Caller(url, token)
        assert call("GET", "/api/v1/projects/shop/nodes").status == 200
        grow_older(tmp_path, key.privateKeyId, by=timedelta(minutes=50))
        assert call("GET", "/api/v1/projects/shop/nodes").status == 401
        # RFC 6749: the assertion of an expired key is an invalid grant.
        assert ask_token(Caller(url), key).status == 400
    assert main(["keys", "list", "--home", str(tmp_path)]) == 0
    assert "\texpired\t" in capsys.readouterr().out


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_silent_connections_leave_descriptors_for_others(tmp_path):
    with_few = ("sh", "-c", 'ulimit -S -n 200; exec "$@"', "sh")
    with serving(tmp_path, by=with_few) as url, ExitStack() as stack:
        address = urlsplit(url)
        for _ in range(300):
            stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=TIMEOUT))
        assert Caller(url)("GET", "/health/live", None).status == 200


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_the_log_has_a_line_per_request_without_query_and_address(tmp_path):
    command = [sys.executable, "-m", "attrib_ds", "serve", "--home", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        [*command, "--log-level", "info"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        url = process.stdout.readline().split()[-1]
        Caller(url)("GET", "/health/live?secret=word", None)
        os.kill(process.pid, signal.SIGTERM)
        _, log = process.communicate(timeout=TIMEOUT)
    (line,) = [line for line in log.splitlines() if "/health/live" in line]
    assert " INFO attrib_ds.service.http.app: " in line
    assert " GET /health/live 200 " in line
    assert "secret" not in log
    assert "127.0.0.1" not in log


@pytest.mark.parametrize("port", ["0", "70000", "localhost", "9100:", "host:x"])
def test_an_endpoint_of_metrics_is_a_port_or_an_address_and_a_port(port, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--metrics", port])
    assert "expected a port, such as 9100" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_server_with_a_public_address_tells_where_it_listens(tmp_path):
    with started(tmp_path, "--url", "https://attribution.example") as lines:
        own = next(line.split()[-1] for line in lines if "listens on" in line)
        assert requests.get(f"{own}/health/live", timeout=TIMEOUT).json() == {"status": "live"}


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_the_address_is_printed_where_the_console_knows_few_characters(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    with serving(tmp_path, "--url", "https://検索.example") as url:
        assert url == "https://??.example"
