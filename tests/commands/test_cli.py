"""The command line, called as a user does."""

import gzip
import html
import json
import os
import re
import subprocess
import sys

import pandas as pd
import pytest
from support.address_databases import write_asn, write_geo

from attrib_ds import (
    Paths,
    attribute,
    connect,
    conversion_paths,
    report,
    sample_project,
    search_interactions,
)
from attrib_ds.commands.cli import main
from attrib_ds.errors import InvalidRequest
from attrib_ds.keys import SCOPES

TOUCHES = "user_id,date,channel\nu,2025-01-01T10:00:00Z,search\nu,2025-01-02,email\nv,2025-01-02,<b>tv</b>\n"
ORDERS = "order_id,user_id,date,value,currency\n1,u,2025-01-05,100,EUR\n2,w,2025-01-05,50,EUR\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "touches.csv").write_text(TOUCHES, encoding="utf-8")
    (tmp_path / "orders.csv").write_text(ORDERS, encoding="utf-8")
    return ["--touchpoints", str(tmp_path / "touches.csv"), "--conversions", str(tmp_path / "orders.csv")]


def row_of(output, node):
    (line,) = [line.strip() for line in output.splitlines() if line.strip().startswith(f"{node} ")]
    return [float(number.replace(",", "")) for number in line.removeprefix(node).split()]


#: What a credit from frames or files needs nothing of.
HEAVY = (
    "scipy.stats",
    "cryptography",
    "requests",
    "ua_parser",
    "crawleruseragents",
    "phonenumbers",
    "attrib_ds.service",
)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    "main_job",
    [
        "from attrib_ds.commands.cli import main; main(['attribute', *sys.argv[1:], '--models', 'linear'])",
        "import pandas as pd, attrib_ds as at; paths = at.Paths.from_frames(*map(pd.read_csv, sys.argv[2::2]), "
        "node='channel', conversion='order_id'); at.attribute(paths, 'linear')",
    ],
    ids=["command", "frames"],
)
def test_the_main_job_imports_little(files, main_job):
    code = f"import sys; {main_job}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.large
@pytest.mark.slow
def test_demo_prints_credits_and_writes_a_report(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "report")]) == 0
    printed = capsys.readouterr().out
    assert "Brand" in printed
    assert "report.html" in printed
    credits = pd.read_csv(tmp_path / "report" / "credits.csv")
    # The sample shop has 1,446 orders; every model divides all of them.
    assert credits.groupby("model")["conversions"].sum().tolist() == pytest.approx([1446.0] * 6)
    # The files read as tables give the credits of the project that they are loaded into.
    with sample_project() as shop:
        paths = conversion_paths(shop, event_type="order", statistic="turnover", level="campaign")
        loaded = attribute(paths, list(credits["model"].unique()))
    same = loaded.assign(**credits[["conversions", "value", "spend"]])
    pd.testing.assert_frame_equal(same, loaded, check_exact=True)
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 30
    assert not re.search(r'\s(src|href)="', page), "the page is self-contained"


def test_attribute_prints_a_table(files, capsys):
    assert main(["attribute", *files, "--models", "first_touch,linear"]) == 0
    printed = capsys.readouterr().out
    assert "Read 3 touchpoints, 2 conversions." in printed
    assert "user = user_id, node = channel, date = date" in printed
    assert (
        "First touch is shown first, because its credit is nearest to the middle of the 2 models." in printed
    )
    first, by_model = printed.split("Credited conversions by model")
    # Conversions, their share in percent, and their value.
    assert row_of(first, "search") == [1.0, 50.0, 100.0]
    assert row_of(first, "email") == [0.0, 0.0, 0.0]
    assert row_of(by_model, "search") == [1.0, 0.5]
    assert row_of(by_model, "email") == [0.0, 0.5]
    assert row_of(by_model, "unattributed") == [1.0, 1.0]


@pytest.mark.large
@pytest.mark.slow
def test_attribute_prints_intervals(files, capsys):
    assert main(["attribute", *files, "--models", "linear", "--confidence", "0.95"]) == 0
    printed = capsys.readouterr().out
    printed = printed.split("Credited conversions, with intervals at 95 %")[1]
    # One conversion without a touchpoint: the exact bounds of a Poisson number of 1 are 0.025 and 5.57.
    (line,) = [line for line in printed.splitlines() if "unattributed" in line]
    assert line.partition("unattributed")[2].strip() == "1.0 (0.0 to 5.6)"


@pytest.mark.large
@pytest.mark.slow
def test_attribute_prints_cost_and_return(files, tmp_path, capsys):
    spend = tmp_path / "spend.csv"
    spend.write_text("channel,cost,currency\nsearch,25,EUR\nradio,5,EUR\n", encoding="utf-8")
    assert main(["attribute", *files, "--models", "linear", "--spend", str(spend)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"node Conversions Share, % Value, EUR Spend, EUR CPA, EUR ROAS\n", printed)
    assert row_of(printed, "search") == [0.5, 25.0, 50.0, 25.0, 50.0, 2.0]
    # Without a conversion there is no cost per conversion.
    assert row_of(printed, "radio") == [0.0, 0.0, 0.0, 5.0, 0.0]
    assert row_of(printed, "email") == [0.5, 25.0, 50.0]


@pytest.mark.large
@pytest.mark.slow
def test_the_option_currency_is_a_column_or_the_code_of_amounts_without_one(files, tmp_path, capsys):
    (tmp_path / "orders.csv").write_text(
        ORDERS.replace(",EUR", "").replace(",currency", ""), encoding="utf-8"
    )
    spend = tmp_path / "spend.csv"
    spend.write_text("channel,cost,currency\nsearch,25,EUR\n", encoding="utf-8")
    arguments = ["attribute", *files, "--models", "linear", "--spend", str(spend)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "pass --currency EUR where they are read" in printed.err
    assert "ROAS" not in printed.out
    assert main([*arguments, "--currency", "EUR"]) == 0
    printed = capsys.readouterr()
    assert not printed.err
    assert row_of(printed.out, "search")[-1] == 2.0
    paths = tmp_path / "paths.csv"
    paths.write_text("path,conversions,value\nsearch > b,2,90\n", encoding="utf-8")
    aggregated = ["attribute", "--paths", str(paths), "--models", "first_touch", "--spend", str(spend)]
    assert main([*aggregated, "--currency", "EUR"]) == 0
    assert row_of(capsys.readouterr().out, "search")[-1] == 3.6


@pytest.mark.large
@pytest.mark.slow
def test_options_say_how_files_are_written(tmp_path, capsys):
    (tmp_path / "clicks.csv").write_bytes(
        "user,channel,date\nu,Köln,02.01.2025\nu,köln,02.01.2025\n".encode("cp1252")
    )
    (tmp_path / "orders.csv").write_text("order_id;user;date;revenue\n1;u;03.01.2025;1.500\n")
    (tmp_path / "spend.csv").write_bytes("channel;cost\nKÖLN;2.000\n".encode("utf-16"))
    files = {"touchpoints": "clicks.csv", "conversions": "orders.csv", "spend": "spend.csv"}
    options = [part for role, name in files.items() for part in (f"--{role}", str(tmp_path / name))]
    arguments = ["attribute", *options, "--models", "linear", "--dayfirst", "--currency", "€"]
    assert main(arguments) == 1
    assert "--decimal ','" in capsys.readouterr().err
    assert main([*arguments, "--encoding", "latin-1", "--decimal", ","]) == 0
    assert "read as cp1252" not in capsys.readouterr().err
    assert main([*arguments, "--decimal", ","]) == 0
    printed = capsys.readouterr()
    assert "clicks.csv: read as cp1252, not UTF-8" in printed.err
    assert "--no-ignore-case" in printed.err
    # 1,500 of value for 2,000 of spend.
    assert row_of(printed.out, "Köln")[-1] == 0.75


@pytest.mark.slow
def test_renamed_nodes_have_their_present_name(files, capsys):
    assert (
        main(["attribute", *files, "--models", "last_touch", "--alias", "email=mail", "--alias", "a=b"]) == 0
    )
    printed = capsys.readouterr()
    assert row_of(printed.out, "mail")[:3] == [1.0, 50.0, 100.0]
    assert "aliases: no campaign or other node is named 'a'" in printed.err


@pytest.mark.large
@pytest.mark.slow
def test_attribute_writes_a_report_with_names_escaped(files, tmp_path, capsys):
    orders = tmp_path / "orders.csv"
    orders.write_text(ORDERS + "3,v,2025-01-05,10,EUR\n", encoding="utf-8")
    out = tmp_path / "out"
    assert main(["attribute", *files, "--out", str(out), "--confidence", "0.9"]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert html.escape("<b>tv</b>") in page
    assert "<b>tv</b>" not in page
    credits = pd.read_csv(out / "credits.csv")
    assert {"low", "high"} <= set(credits.columns)


@pytest.mark.slow
def test_names_in_credits_are_no_formulas(tmp_path):
    sequences = pd.DataFrame({"path": ["=1+1 > email", "email"], "conversions": [3, 1]})
    sequences.to_csv(tmp_path / "paths.csv", index=False)
    assert main(["attribute", "--paths", str(tmp_path / "paths.csv"), "--out", str(tmp_path / "out")]) == 0
    names = pd.read_csv(tmp_path / "out" / "credits.csv")["node_name"]
    assert set(names.dropna()) == {"'=1+1", "email"}


@pytest.mark.large
@pytest.mark.slow
def test_attribute_with_spend(files, tmp_path, capsys):
    spend = tmp_path / "spend.csv"
    spend.write_text("channel,cost,currency\nsearch,25,EUR\n", encoding="utf-8")
    out = tmp_path / "out"
    arguments = [*files, "--spend", str(spend), "--models", "linear", "--out", str(out)]
    assert main(["attribute", *arguments]) == 0
    search = pd.read_csv(out / "credits.csv").set_index("node_id").loc["search"]
    assert search[["spend", "cpa", "roas"]].tolist() == [25.0, 50.0, 2.0]


@pytest.mark.large
@pytest.mark.slow
def test_unreadable_rows_are_listed_in_a_file(files, tmp_path, capsys):
    (tmp_path / "touches.csv").write_text(TOUCHES + "u,soon,tv\n", encoding="utf-8")
    out = tmp_path / "out"
    assert main(["attribute", *files, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "1 row could not be read, the first is row 5" in printed.err
    listed = pd.read_csv(out / "unreadable-rows.csv")
    assert listed["row"].tolist() == [5]
    assert listed["reason"].str.startswith("date is not a date: 'soon'").all()
    assert "1 unreadable row of touches.csv." in (out / "report.html").read_text(encoding="utf-8")


def test_aggregated_paths(tmp_path, capsys):
    file = tmp_path / "paths.csv"
    file.write_text("path,conversions,nulls\na | b,3,1\nb,1,0\n", encoding="utf-8")
    assert main(["attribute", "--paths", str(file), "--separator", " | "]) == 0
    by_model = capsys.readouterr().out.split("Credited conversions by model")[1]
    assert row_of(by_model, "b")[:2] == [1.0, 4.0]


def test_a_project_has_the_currency_and_time_zone_of_the_options(tmp_path, capsys):
    create = ["projects", "create", "my-shop", "--home", str(tmp_path), "--currency", "NOK"]
    assert main([*create, "--timezone", "Europe/Oslo"]) == 0
    with connect("my-shop", path=tmp_path / "my-shop.duckdb", currency="NOK") as shop:
        assert shop.tables().currency == "NOK"
    with pytest.raises(InvalidRequest, match="currency: got 'EUR', but the project has 'NOK'"):
        connect("my-shop", path=tmp_path / "my-shop.duckdb", currency="EUR")
    with pytest.raises(InvalidRequest, match="timezone: got 'UTC'"):
        connect("my-shop", path=tmp_path / "my-shop.duckdb", timezone="UTC")
    invalid = ["projects", "create", "other", "--home", str(tmp_path), "--timezone", "Oslo"]
    assert main(invalid) == 1
    assert "timezone: 'Oslo' is not allowed" in capsys.readouterr().err
    assert not (tmp_path / "other.duckdb").exists()


def test_projects_and_load(tmp_path, capsys, own_home):
    assert main(["projects", "create", "my-shop"]) == 0
    assert main(["projects", "create", "my-shop"]) == 1
    assert "the project 'my-shop' already exists" in capsys.readouterr().err
    visits = tmp_path / "visits.ndjson"
    visits.write_text(
        '{"userId": "%s", "nodeId": "tv", "startDate": "2025-01-01T10:00:00Z", "geo": {"city": "Lyon"}}\n'
        '{"userId": "nobody", "nodeId": "tv", "startDate": "2025-01-01T10:00:00Z"}\n' % ("a" * 24),
        encoding="utf-8",
    )
    rejected = tmp_path / "rejected.csv"
    assert main(["load", "my-shop", "--interactions", str(visits), "--rejected", str(rejected)]) == 0
    printed = capsys.readouterr()
    assert "1 interactions" in printed.out
    assert "rejected 1 row, the first is row 2" in printed.err
    assert pd.read_csv(rejected)["row"].tolist() == [2]
    assert main(["projects", "list"]) == 0
    assert "my-shop" in capsys.readouterr().out
    with connect("my-shop") as shop:
        assert search_interactions(shop)["geo.city"].tolist() == ["Lyon"]


@pytest.mark.slow
def test_access_logs_are_loaded_with_places(tmp_path, capsys, own_home):
    assert main(["projects", "create", "my-shop"]) == 0
    request = '203.0.113.7 - - [31/Jan/2025:10:0%d:00 +0000] "GET /%d HTTP/2.0" 200 512 "-" "curl/8"\n'
    logs = [tmp_path / "one.log", tmp_path / "two.log.gz"]
    logs[0].write_text(request % (0, 0) + "no log line\n", encoding="utf-8")
    logs[1].write_bytes(gzip.compress((request % (1, 1)).encode()))
    files = [str(log) for log in logs]
    databases = ["--geo", str(write_geo(tmp_path / "geo")), "--asn", str(write_asn(tmp_path / "asn"))]
    assert (
        main(["load", "my-shop", "--access-log", *files, "--site", "https://shop.example", *databases]) == 0
    )
    printed = capsys.readouterr()
    assert "2 hits\n1 interactions" in printed.out
    assert "rejected 1 row, the first is row 2" in printed.err
    with connect("my-shop") as shop:
        visit = search_interactions(shop, bots=None).iloc[0]
    assert (visit["geo.city"], visit["asn.asnId"]) == ("Paris", "AS3215")


@pytest.mark.large
@pytest.mark.slow
def test_page_views_of_exports_are_loaded(tmp_path, capsys, own_home):
    assert main(["projects", "create", "my-shop"]) == 0
    page = [{"key": "page_location", "value": {"string_value": "https://shop.example/?gclid=1"}}]
    view = {"event_timestamp": 1_735_725_600_000_000, "event_name": "page_view", "user_pseudo_id": "a.1"}
    ga4, snowplow = tmp_path / "events.jsonl", tmp_path / "atomic.jsonl"
    ga4.write_text(json.dumps(view | {"event_params": page}), encoding="utf-8")
    event = {"event_id": "1", "event_name": "page_view", "collector_tstamp": "2025-01-02 10:00:00"}
    event |= {"domain_userid": "d", "page_url": "https://shop.example/"}
    snowplow.write_text(json.dumps(event), encoding="utf-8")
    assert main(["load", "my-shop", "--ga4-hits", str(ga4)]) == 0
    assert main(["load", "my-shop", "--snowplow-hits", str(snowplow)]) == 0
    assert "0 skipped events" in capsys.readouterr().out
    with connect("my-shop") as shop:
        assert search_interactions(shop)["nodeId"].tolist() == ["direct", "google/cpc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["attribute", "--touchpoints", "missing.csv"], "missing.csv"),
        (["load", "Not-A-Project", "--nodes", "x.csv"], "project_id"),
        (["load", "my-shop"], "there is nothing to load"),
        (["load", "my-shop", "--access-log", "x.log"], "--site https://shop.example"),
        (["load", "my-shop", "--access-log", "x.log", "--site", "shop"], "site: 'shop' is not allowed"),
        (["load", "my-shop", "--access-log", "x.log", "--hits", "x.csv", "--site", "s"], "are all hits"),
        (["load", "my-shop", "--nodes", "missing.csv"], "missing.csv"),
        (
            ["load", "my-shop", "--nodes", "x.csv", "--geo", "x.mmdb"],
            "they look up the addresses of raw hits",
        ),
    ],
)
def test_failures_are_one_line_on_standard_error(arguments, message, capsys):
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("attrib-ds: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["attribute"],
        ["attribute", "--paths", "a.csv", "--touchpoints", "b.csv"],
        ["attribute", "--paths", "a.csv", "--alias", "a=b"],
        ["attribute", "--touchpoints", "a.csv", "--alias", "a"],
        ["attribute", "--touchpoints", "a.csv", "--confidence", "high"],
        ["projects"],
        ["integrations", "create", "my-shop", "--name", "My ads"],
    ],
)
def test_wrong_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: attrib-ds" in capsys.readouterr().err


def test_integrations_are_created_and_listed(capsys):
    assert main(["projects", "create", "my-shop"]) == 0
    command = ["integrations", "create", "my-shop"]
    assert main([*command, "--vendor-id", "posters", "--name", "Posters", "--currency", "NOK"]) == 0
    assert main([*command, "--vendor-id", "my-ads", "--name", "My ads"]) == 0
    printed = capsys.readouterr().out
    assert "Created the integration posters with the id " in printed
    assert main(["integrations", "list", "my-shop"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:3] for line in lines] == [["my-ads", "My ads", "EUR"], ["posters", "Posters", "NOK"]]
    assert all(line[3] in printed for line in lines)
    assert main([*command, "--vendor-id", "my-ads", "--name", "Again"]) == 1
    assert "an integration 'my-ads' exists already" in capsys.readouterr().err


def test_creating_an_integration_does_not_create_a_project(own_home, capsys):
    assert main(["integrations", "create", "my-shop", "--vendor-id", "my-ads", "--name", "My ads"]) == 1
    assert "there is no project 'my-shop'" in capsys.readouterr().err
    assert list(own_home.glob("*")) == []


def test_unknown_models_are_a_failure(files, capsys):
    assert main(["attribute", *files, "--models", "linaer"]) == 1
    assert "did you mean 'linear'" in capsys.readouterr().err


def test_the_module_runs_as_a_command():
    process = subprocess.run(
        [sys.executable, "-m", "attrib_ds", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("demo", "attribute", "projects", "load", "integrations"):
        assert command in process.stdout


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("attrib-ds ")


def test_help_lists_the_scopes_of_a_key(capsys):
    with pytest.raises(SystemExit):
        main(["keys", "create", "--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert f"repeatable:{','.join(SCOPES)}(defaultfull_access)" in shown


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("{", "--where: '{' is not JSON"),
        ("5", "--where: filter: must be an object"),
        ('{"type": "nothing"}', "--where: /type: 'nothing' is not allowed"),
    ],
)
def test_an_invalid_filter_is_reported_with_its_option(where, words, capsys, tmp_path):
    command = ["export", "my-shop", str(tmp_path / "users.csv"), "--columns", "_id", "--where", where]
    assert main(command) == 1
    assert words in capsys.readouterr().err


def test_keys_are_created_listed_and_revoked(tmp_path, capsys, own_home):
    out = tmp_path / "key.json"
    assert main(["keys", "create", "my-shop", "--out", str(out)]) == 1
    assert "there is no project 'my-shop'" in capsys.readouterr().err
    assert main(["projects", "create", "my-shop"]) == 0
    assert main(["keys", "create", "my-shop", "--out", str(out)]) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert sorted(written) == ["clientId", "privateKey", "privateKeyId", "serviceAccountEmail"]
    assert out.stat().st_mode & 0o077 == 0
    assert "PRIVATE" not in capsys.readouterr().out
    assert main(["keys", "list"]) == 0
    assert f"{written['privateKeyId']}\tvalid\tmy-shop\tfull_access" in capsys.readouterr().out
    assert main(["keys", "revoke", written["privateKeyId"]]) == 0
    assert main(["keys", "list"]) == 0
    assert "\trevoked\t" in capsys.readouterr().out


@pytest.mark.slow
def test_names_in_a_report_cannot_steer_a_terminal_or_disguise_text(tmp_path):
    sequences = pd.DataFrame({"path": ["\x1b[2Jads\x07 > \u202eemail", "\u202eemail"], "conversions": [3, 1]})
    paths = Paths.from_sequences(sequences, path="path", conversions="conversions")
    options = {"paths": paths, "title": "\x1b]0;title", "notes": ("\x9b",)}
    page = report(attribute(paths, "linear"), tmp_path / "report.html", **options).read_text(encoding="utf-8")
    assert not set(page) & set("\x07\x1b\x9b\u202e")
    assert "\\x1b[2Jads\\x07" in page


@pytest.mark.slow
def test_a_closed_pipe_ends_a_command_quietly_after_its_files(tmp_path):
    """As `attrib-ds demo | head` does, whose reader leaves before anything is printed."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "attrib_ds", "demo", "--out", tmp_path]
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=120)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    assert {file.name for file in tmp_path.iterdir()} == {"report.html", "credits.csv"}
