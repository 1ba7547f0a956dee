"""The command that serves, with what the operator may choose."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from support.http_caller import TIMEOUT, Caller, token_of

from attrib_ds.commands.cli import main
from attrib_ds.service.accounts.administration import create_key

SEARCH = {"fields": [], "sqlQuery": "SELECT _id FROM users"}


@contextmanager
def serving(home, *options):
    """Serve a folder by the command and give back the address."""
    command = [sys.executable, "-m", "attrib_ds", "serve", "--home", str(home), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.communicate(timeout=TIMEOUT)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(
    ("options", "statuses", "policies"),
    [
        ((), [200, 200, 200], 2),
        (("--no-sql", "--rate", "heavy=1/60", "--threads", "2"), [403, 403, 429], 2),
        (("--no-rates", "--most-waiting", "5", "--seconds-to-stop", "1"), [200, 200, 200], 0),
    ],
)
def test_what_the_operator_chooses_counts(tmp_path, options, statuses, policies):
    assert main(["projects", "create", "shop", "--home", str(tmp_path)]) == 0
    key = create_key(tmp_path, tmp_path / "key.json")
    with serving(tmp_path, *options) as url:
        call = Caller(url, token_of(url, key))
        by_sql = [
            call("POST", "/api/v2/projects/shop/users/search", {**SEARCH, "limit": 5}) for _ in range(2)
        ]
        # Without a limit a search is heavy.
        heavy = [call("POST", "/api/v1/projects/shop/interactions/search", {}) for _ in range(2)][-1]
    assert [each.status for each in (*by_sql, heavy)] == statuses
    told = heavy.headers.get("RateLimit-Policy", "")
    assert told.count(";q=") == (policies if heavy.status == 200 else 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rate", "events=200"], "--rate: 'events=200' is not a rate, such as events=600/60"),
        (["--rate", "heavy=0/60"], "'0' is not allowed; allowed: a whole number above 0"),
        (["--rate", "sql=1/1"], "'sql' is not known; allowed: requests, heavy, events, events-by-address"),
        (["--rate", "heavy=1/60", "--no-rates"], "--no-rates and --rate contradict each other"),
    ],
)
def test_choices_that_cannot_be_are_told(tmp_path, capsys, options, told):
    assert main(["serve", "--home", str(tmp_path), *options]) == 1
    assert told in capsys.readouterr().err


def test_a_number_of_nothing_is_wrong_usage(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--home", str(tmp_path), "--threads", "none"])
    assert "'none' is not allowed; allowed: a whole number above 0" in capsys.readouterr().err
