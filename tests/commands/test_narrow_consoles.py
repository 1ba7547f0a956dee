"""Commands whose output goes to a pipe or console of Windows, which knows few characters (code page 1252)."""

import argparse
import io
import json
import sys

import pandas as pd
import pytest

from attrib_ds.commands.cli import main, make_parser

CAMPAIGN = "検索広告"
TOUCHES = f"user_id,date,channel\nu,2025-01-01,{CAMPAIGN}\nu,2025-01-02,email\nu,soon,{CAMPAIGN}\n"
ORDERS = "order_id,user_id,date,value,currency\n1,u,2025-01-05,100,EUR\n"
#: They go on until they are stopped.
SERVERS = {"app", "collect", "serve"}


def leaves(parser, *names):
    """Yield the names of all commands."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield " ".join(names)
    for group in groups:
        for name, below in group.choices.items():
            yield from leaves(below, *names, name)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command and return its output; its files and folders have names in Japanese."""
    folder = tmp_path / CAMPAIGN
    folder.mkdir()
    monkeypatch.setenv("ATTRIB_DS_HOME", str(folder))
    monkeypatch.chdir(folder)

    def run(*arguments):
        output = io.BytesIO()
        with (
            monkeypatch.context() as patch,
            io.TextIOWrapper(output, "cp1252", write_through=True) as console,
        ):
            patch.setattr(sys, "stdout", console)
            assert main([str(argument) for argument in arguments]) == 0
            return output.getvalue().decode("cp1252")

    return run


def test_a_report_is_written_whatever_the_console_knows(run, tmp_path):
    folder = tmp_path / CAMPAIGN
    (folder / "touches.csv").write_text(TOUCHES, encoding="utf-8")
    (folder / "orders.csv").write_text(ORDERS, encoding="utf-8")
    files = ("--touchpoints", "touches.csv", "--conversions", "orders.csv", "--models", "linear")
    printed = run("attribute", *files, "--out", folder / "out")
    assert "????" in printed
    assert "email" in printed
    for name, column in (("credits", "node_name"), ("unreadable-rows", "reason")):
        content = (folder / "out" / f"{name}.csv").read_bytes()
        # Excel on Windows reads UTF-8 only after a byte order mark, which pandas leaves out.
        assert content.startswith(b"\xef\xbb\xbf")
        assert column in pd.read_csv(folder / "out" / f"{name}.csv").columns
    assert CAMPAIGN in (folder / "out" / "credits.csv").read_text(encoding="utf-8")
    assert CAMPAIGN in (folder / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.large
@pytest.mark.slow
def test_every_command_prints(run, tmp_path):
    folder = tmp_path / CAMPAIGN
    for name, content in {
        "touches.csv": TOUCHES,
        "orders.csv": ORDERS,
        "types.json": json.dumps([{"reference": "order", "name": CAMPAIGN}]),
        "nodes.ndjson": json.dumps({"_id": "ads", "name": CAMPAIGN, "type": "campaign"}),
    }.items():
        (folder / name).write_text(content, encoding="utf-8")
    files = ("--touchpoints", "touches.csv", "--conversions", "orders.csv")
    calls = [
        ("demo", "--out", "demo"),
        ("attribute", *files),
        ("projects", "create", "shop"),
        ("projects", "list"),
        ("load", "shop", "--nodes", "nodes.ndjson"),
        ("event-types", "create", "shop", "types.json"),
        ("event-types", "list", "shop"),
        ("integrations", "create", "shop", "--vendor-id", "ads", "--name", CAMPAIGN),
        ("integrations", "list", "shop"),
        ("settings", "shop", "--set", f'trafficFilters=["userAgent:{CAMPAIGN}"]'),
        ("backup", "shop", folder / "backup.duckdb"),
        ("restore", "shop", folder / "backup.duckdb", "--replace"),
        ("compact", "shop"),
        ("check", "shop"),
        ("export", "shop", folder / "users.csv", "--columns", "_id"),
        ("sync", "shop", "--to", folder / "mirror.duckdb"),
        ("keys", "create", "shop", "--out", folder / "key.json"),
        ("keys", "list"),
    ]
    printed = {call[0:2]: run(*call) for call in calls}
    key = printed["keys", "list"].split()[0]
    calls.append(("keys", "revoke", key))
    assert key in run(*calls[-1])
    called = {" ".join(map(str, call)) for call in calls}
    missing = [
        name
        for name in leaves(make_parser())
        if not any(f"{call} ".startswith(f"{name} ") for call in called)
    ]
    assert set(missing) == SERVERS
    assert "????" in printed["integrations", "list"]
    assert "????" in printed["projects", "list"]
