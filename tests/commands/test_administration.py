"""Commands that administer a project, called as a user does."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attrib_ds import connect, create_event_type, list_event_types
from attrib_ds.commands.cli import main
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import running

ORDER = {
    "reference": "order",
    "name": "Order",
    "fields": [{"type": "email", "entity": "user", "storageKey": "email", "optional": True}],
}


@pytest.fixture
def project(own_home, capsys):
    assert main(["projects", "create", "shop"]) == 0
    capsys.readouterr()
    return own_home / "shop.duckdb"


def failure(capsys, *arguments):
    """Return the line that a failing command writes to standard error."""
    assert main([str(argument) for argument in arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def test_event_types_are_created_from_a_file_and_listed(project, tmp_path, capsys):
    file = write(tmp_path / "types.json", [ORDER, {"reference": "lead", "name": "Lead", "_id": "f" * 24}])
    assert main(["event-types", "create", "shop", file]) == 0
    assert capsys.readouterr().out.count("Created the event type") == 2
    assert main(["event-types", "list", "shop"]) == 0
    assert capsys.readouterr().out == "lead\tLead\t\norder\tOrder\temail\n"
    assert main(["event-types", "list", "shop", "--archived"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"reference": "order"}, "name is required"),
        ({**ORDER, "filds": []}, "'filds' is not allowed (did you mean 'fields'?)"),
        ("order", "'order' is not an event type"),
        ({**ORDER, "fields": [{"type": "mail"}]}, "mail"),
    ],
)
def test_a_file_without_event_types_is_refused_in_one_line(project, tmp_path, capsys, content, expected):
    assert expected in failure(capsys, "event-types", "create", "shop", write(tmp_path / "t.json", content))
    with connect("shop") as shop:
        assert list_event_types(shop).empty


def test_a_file_that_is_not_json_is_refused(project, tmp_path, capsys):
    (tmp_path / "t.json").write_text("{")
    assert "is not JSON" in failure(capsys, "event-types", "create", "shop", tmp_path / "t.json")
    assert "No such file" in failure(capsys, "event-types", "create", "shop", tmp_path / "none.json")


@pytest.mark.large
@pytest.mark.slow
def test_a_project_is_restored_from_its_backup(project, tmp_path, capsys):
    backup = tmp_path / "backup.duckdb"
    assert main(["event-types", "create", "shop", write(tmp_path / "t.json", ORDER)]) == 0
    assert main(["backup", "shop", str(backup)]) == 0
    assert f"Copied shop to {backup}" in capsys.readouterr().out
    assert "exists already" in failure(capsys, "backup", "shop", backup)
    assert "--replace" in failure(capsys, "restore", "shop", backup)
    project.unlink()
    assert main(["restore", "shop", str(backup)]) == 0
    assert "1 event types\n" in capsys.readouterr().out
    assert main(["restore", "shop", str(backup), "--replace"]) == 0
    with connect("shop") as shop:
        assert list_event_types(shop)["reference"].tolist() == ["order"]
    assert "not 'other'" in failure(capsys, "restore", "other", backup)


@pytest.mark.slow
def test_a_check_prints_its_findings_and_fails(project, capsys):
    assert main(["check", "shop"]) == 0
    assert capsys.readouterr().out == "shop is consistent\n"
    with connect("shop") as shop:
        store = shop.transport._store
        store.write(lambda connection: connection.execute("INSERT INTO users VALUES ('x', now())"))
    assert main(["check", "shop"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "users\t1\tlisted users without an event or interaction: x\n"
    assert printed.err == "attrib-ds: 1 checks of the project 'shop' failed\n"


@pytest.mark.parametrize("command", [["check"], ["backup", "file"], ["event-types", "list"]])
def test_a_missing_project_is_not_created(own_home, capsys, command):
    name, *rest = command
    arguments = [name, *rest, "shop"] if name == "event-types" else [name, "shop", *rest]
    assert "there is no project 'shop'" in failure(capsys, *arguments)
    assert not (own_home / "shop.duckdb").exists()


@pytest.mark.slow
def test_the_error_for_a_served_project_names_the_options(project, tmp_path, capsys):
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(project)]
    backup = tmp_path / "backup.duckdb"
    assert main(["backup", "shop", str(backup)]) == 0
    capsys.readouterr()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        for arguments in (
            ["backup", "shop", tmp_path / "other.duckdb"],
            ["check", "shop"],
            ["settings", "shop"],
        ):
            assert "repeat the command with --url ADDRESS --key KEY_FILE" in failure(capsys, *arguments)
        restored = failure(capsys, "restore", "shop", backup, "--replace")
        assert "send it PUT /api/v1/projects/shop/backup with a token of the scope admin" in restored
        process.kill()


@pytest.mark.large
@pytest.mark.slow
def test_a_served_project_is_administered_through_its_server(project, own_home, tmp_path, capsys):
    key, copy = tmp_path / "key.json", tmp_path / "copy.duckdb"
    create_key(own_home, key, projects=["shop"], scopes=["full_access"])
    file = write(tmp_path / "types.json", ORDER)
    with running(own_home) as url:
        server = ["--url", url, "--key", str(key)]
        for command in (
            ["event-types", "create", "shop", file],
            ["integrations", "create", "shop", "--vendor-id", "site", "--name", "Site"],
            ["settings", "shop", "--set", "retentionDurationInDays=365"],
            ["check", "shop"],
            ["compact", "shop"],
            ["backup", "shop", str(copy)],
        ):
            assert main([*command, *server]) == 0, capsys.readouterr().err
        capsys.readouterr()
        assert main(["settings", "shop", *server]) == 0
        assert "retentionDurationInDays\t365\n" in capsys.readouterr().out
        assert main(["integrations", "list", "shop", *server]) == 0
        assert capsys.readouterr().out.startswith("site\tSite\t")
    with connect("shop", path=copy) as shop:
        assert list_event_types(shop)["reference"].tolist() == ["order"]


def test_wrong_usage_exits_with_2(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["restore", "shop"])
    assert ended.value.code == 2


def test_settings_are_shown_and_changed(project, capsys):
    assert main(["settings", "shop"]) == 0
    shown = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert shown == {
        "lenientOptionalFields": "false",
        "retentionDurationInDays": "0",
        "piiFields": "[]",
        "requireTokenForEvents": "false",
        "ingestKeys": "[]",
        "allowedOrigins": "[]",
        "excludedReferrers": "[]",
        "domains": "[]",
        "trafficFilters": "[]",
        "holdoutKey": '""',
        "anonymousNodesPerDay": "10000",
        "respectGpc": "true",
        "respectDnt": "false",
        "visitorOfTheDay": "true",
        "anonymousIdentification": "false",
        "currency": '"EUR"',
        "timezone": '"UTC"',
    }
    origins = '["https://shop.example"]'
    changes = ["--set", f"allowedOrigins={origins}", "--set", "retentionDurationInDays=365"]
    assert main(["settings", "shop", *changes]) == 0
    capsys.readouterr()
    assert main(["settings", "shop", "--set", "retentionDurationInDays=null"]) == 0
    changed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert changed == shown | {"allowedOrigins": origins}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("allowedOrigin=[]", "--set: 'allowedOrigin' is not allowed (did you mean 'allowedOrigins'?)"),
        (
            "projectId=1",
            "--set: 'projectId' is not allowed; allowed: allowedOrigins, anonymousIdentification, ",
        ),
        ("respect=1", "respectDnt, respectGpc, retentionDurationInDays, trafficFilters, visitorOfTheDay"),
        (
            "timezone=",
            "--set: 'timezone' is chosen when the project is made, with attrib-ds projects create --t",
        ),
        ("piiFields", "--set: '' is not JSON"),
        ("allowedOrigins=https://shop.example", "is not JSON; expected a value such as"),
        ('allowedOrigins=["shop.example"]', "expected an origin, such as 'https://shop.example'"),
        ("requireTokenForEvents=1", "require_token_for_events"),
    ],
)
def test_invalid_settings_are_refused(project, capsys, change, expected):
    assert expected in failure(capsys, "settings", "shop", "--set", change)


ESCAPE = "\x1b[2Jcleared\x9b\u202e"


def test_names_cannot_steer_the_terminal(project, capsys):
    name = f"{ESCAPE}\tand\nmore"
    assert main(["integrations", "create", "shop", "--vendor-id", "ads", "--name", name]) == 0
    with connect("shop", path=project) as shop:
        create_event_type(shop, "order", name=name)
    capsys.readouterr()
    for command in ("integrations", "event-types"):
        assert main([command, "list", "shop"]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.split("\t")[1] == "\\x1b[2Jcleared\\x9b\\u202e\\tand\\nmore"


def test_errors_cannot_steer_the_terminal(project, tmp_path, capsys):
    assert failure(capsys, "event-types", "create", "shop", tmp_path / ESCAPE).isprintable()


def test_commands_print_in_one_place():
    folder = Path(main.__code__.co_filename).parent
    printing = [
        file.name for file in folder.glob("*.py") if re.search(r"\bprint\(", file.read_text(encoding="utf-8"))
    ]
    assert printing == ["cli.py"]
