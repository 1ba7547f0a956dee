"""Starting and stopping a server."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from service.http.conftest import MANY
from support.http_caller import TIMEOUT, Caller, answering, ask_token, token_of

from attrib_ds.errors import InvalidRequest, NotSupported, Unavailable
from attrib_ds.service.accounts.administration import create_key
from attrib_ds.service.http.server import running
from attrib_ds.service.http.serving import serve

SERVE = "import sys; from attrib_ds.service.http.serving import serve; serve(sys.argv[1], port=0)"


@contextmanager
def serving(folder):
    """Serve a folder in a process of its own and give back that and its address."""
    command = [sys.executable, "-c", SERVE, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            announced = [process.stdout.readline() for _ in range(5)]
            url = announced[0].split()[-1]
            assert announced[1].endswith(f"{url}/api/v1\n")
            assert announced[3].endswith(f"{url}/auth\n")
            yield process, url
        finally:
            process.kill()


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


@pytest.mark.slow
@needs_signals
def test_a_stopping_server_finishes_what_it_has_accepted(tmp_path, home):
    (tmp_path / "big-shop.duckdb").write_bytes((home / "big-shop.duckdb").read_bytes())
    key = create_key(tmp_path, tmp_path / "key.json")
    with serving(tmp_path) as (process, url):
        call = Caller(url, token_of(url, key))
        with answering(call, {}) as response:
            received = response.read(10)
            os.kill(process.pid, signal.SIGTERM)
            # It takes on nobody else, once it has noticed.
            deadline = time.monotonic() + TIMEOUT
            while _is_listening(url) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not _is_listening(url)
            received += response.read()
        assert json.loads(received)["count"] == received.count(b'"_id"') == MANY
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == ""


@pytest.mark.slow
@needs_signals
def test_an_idle_server_stops_at_once(tmp_path):
    with serving(tmp_path) as (process, _):
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == ""


def _is_listening(url):
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT):
            return True
    except ConnectionError:
        return False


def test_a_port_that_is_taken_is_told(tmp_path, server):
    with pytest.raises(Unavailable, match="port"), running(tmp_path, port=int(server.rpartition(":")[2])):
        pass


def test_a_server_on_every_address_needs_to_know_its_own(tmp_path):
    with pytest.raises(InvalidRequest, match="url"):
        serve(tmp_path, host="0.0.0.0", port=0)


@pytest.mark.slow
def test_the_address_for_clients_is_the_audience(tmp_path):
    key = create_key(tmp_path, tmp_path / "key.json")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(tmp_path, port=port, url="https://attribution.example/") as address:
        assert address == "https://attribution.example"
        local = Caller(f"http://127.0.0.1:{port}")
        assert ask_token(local, key, aud="https://attribution.example/auth/oidc/token").status == 200
        assert ask_token(local, key).status == 400


@pytest.mark.slow
def test_two_servers_may_use_one_folder_of_accounts(tmp_path):
    key = create_key(tmp_path, tmp_path / "key.json")
    with running(tmp_path) as first, running(tmp_path) as second:
        token = token_of(first, key)
        assert Caller(second, token)("GET", "/api/v1/projects/shop/nodes").status == 404


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "attrib_ds.service.http.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(NotSupported, match=r"requires uvicorn.*attrib-ds\[serve\]"):
        serve(tmp_path)


def test_threads_take_shorter_turns_while_a_server_runs(tmp_path):
    before = sys.getswitchinterval()
    with running(tmp_path):
        assert sys.getswitchinterval() == pytest.approx(0.001)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_garbage_is_collected_less_often_while_a_server_runs(tmp_path):
    before = gc.get_threshold()
    with running(tmp_path):
        assert gc.get_threshold()[0] == 50_000
        # What was imported before is left out.
        assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
