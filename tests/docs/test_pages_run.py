"""Each page with Python runs from top to bottom in the environment that it names, and its results are right.

Notebooks run with nbval; ``notebooks/conftest.py`` gives them the same environment.
"""

import json
import os
import re
import shlex
from contextlib import contextmanager

import pandas as pd
import pytest
from support.page_scripts import (
    ROOT,
    bare_interpreters,
    continued,
    pages,
    python_of,
    run,
    script_of,
    with_outputs,
)

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

#: Addresses in the documentation, for which a server on this machine stands in.
ADDRESSES = ("https://attribution.example", "https://stats.shop.example")
#: Its last block needs visitors, whom ``test_withhold_at_random.py`` lets come.
_WITH_VISITORS = "how-to/withhold-at-random"
#: What a page has computed at its end: expressions and their values.
RESULTS = {
    "how-to/large-results": {
        "list(pd.read_parquet(visits).columns)": ["_id", "userId", "startDate"],
    },
    "how-to/other-engines": {
        "same.round(9).equals(credits.round(9))": True,
        '[again[name].round(9).equals(credits[name].round(9)) for name in ("model", "node_id", "conversions", "value")]': [
            True
        ]
        * 4,
    },
    "how-to/questions": {
        # Opens are first touch, and closes last touch.
        '[bool(roles.set_index("node_id")[role].sub(credits[credits["model"] == model].groupby("node_id")'
        '["conversions"].sum()).abs().max() < 1e-9)'
        ' for role, model in (("opens", "first_touch"), ("closes", "last_touch"))]': [True, True],
        'sorted(by_customer.index.unique("customer"))': ["new", "returning"],
        'pd.ExcelFile("report.xlsx").sheet_names[:2]': ["Overview", "Credit"],
    },
    "how-to/raw-hits": {
        # Anna's two sessions, Ben's one, the visitor of the log, and Carl of the export.
        'at.search_interactions(shop, sort="startDate")[["nodeId", "hitCount", "referrerType"]].values.tolist()': [
            ["newsletter/email/january", 2, "campaign"],
            ["google/cpc", 1, "campaign"],
            ["ai-assistants/chatgpt", 1, "ai"],
            ["google/cpc", 2, "campaign"],
            ["google/cpc", 1, "campaign"],
        ],
        'at.search_interactions(shop)["userId"].nunique()': 4,
        'at.list_nodes(shop).dropna(subset="channel").set_index("_id")["channel"].to_dict()': {
            "ai-assistants": "AI Assistants",
            "ai-assistants/chatgpt": "AI Assistants",
            "direct": "Direct",
            "google/cpc": "Paid Search",
            "newsletter/email": "Email",
            "newsletter/email/january": "Email",
        },
        'at.list_hits(shop, at.search_interactions(shop, sort="startDate")["firstHitId"].iloc[0])'
        '["pageUrl.pathname"].tolist()': ["/", "/boots"],
    },
    "how-to/sending-frames": {
        'len(at.list_trashed_events(at.connect("phone-orders", path="phone-orders.duckdb")))': 0,
    },
    "how-to/users-and-events": {
        '{name: str(kind) for name, kind in events.dtypes.items() if name.startswith(("event.", "user.", "stat"))}': {
            "event.delivery": "datetime64[us, UTC]",
            "user.email": "str",
            "user.age": "float64",
            "statistics.turnover.amount": "float64",
            "statistics.turnover.currency": "str",
            "states.confirmed": "Int64",
            "states.confirmed.date": "datetime64[us, UTC]",
        },
    },
    "how-to/weekly-report": {
        'pd.ExcelFile("weekly.xlsx").sheet_names': ["Credits", "Weeks"],
        '"Last 7 days" in open("weekly.html", encoding="utf-8").read()': True,
    },
}
_REMOTE = re.compile(r'at\.connect\("([\w-]+)", url="([^"]+)"')
_OWN = re.compile(r'at\.connect\(\s*"([\w-]+)"(?:, path="([^"]+)")?(?!, url)[,)]')
_SETUP = re.compile(r"^\$ attrib-ds (?=projects create|settings|integrations create)(.+)$", re.MULTILINE)
_FILE = re.compile(r"such as `([\w.]+)`:\n\n```(?:text|toml)\n(.*?)```", re.DOTALL)


def name_of(page):
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def fill(home, project):
    """Make a project with two visits of one person and an order."""
    home.mkdir(exist_ok=True)
    days = pd.to_datetime(["2025-01-01T10:00Z", "2025-01-03T18:00Z"])
    pages = [
        "https://shop.example/?utm_source=newsletter&utm_medium=email",
        "https://shop.example/?gclid=Cj0KCQ",
    ]
    order = {"trackerId": "t1", "eventDate": "2025-01-03T18:20:00Z", "data.turnover": 60.0}
    turnover = {"type": "currency", "entity": "event", "storageKey": "turnover"}
    with at.connect(project, path=home / f"{project}.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order", fields=[turnover])
        at.load(shop, hits=pd.DataFrame({"trackerId": "t1", "date": days, "pageUrl": pages}))
        at.send_events(shop, pd.DataFrame([order]), event_type="order")


@contextmanager
def service(page, folder):
    """Serve the projects that a page connects to, and leave the key beside the page."""
    code = script_of(page)
    served = {project for project, _ in _REMOTE.findall(code)}
    if not served:
        yield {}
        return
    home = folder.parent / "server"
    texts = [each.read_text(encoding="utf-8") for each in (continued(page), page) if each]
    commands = [command for text in texts for command in _SETUP.findall(text)]
    for command in commands:
        assert main([*shlex.split(command), "--home", str(home)]) == 0, command
    for project in served:
        if not any(command.startswith(f"projects create {project} ") for command in commands):
            fill(home, project)
    create_key(home, folder / "key.json", projects=sorted(served), scopes=["full_access"])
    with running(home, options=ServerOptions(rate_limits=None)) as url:
        yield dict.fromkeys(ADDRESSES, url)


@pytest.fixture(scope="module")
def run_page():
    with bare_interpreters() as run_page:
        yield run_page


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in pages() if name_of(page) != _WITH_VISITORS], ids=name_of)
def test_a_page_runs_as_it_is_printed(page, tmp_path, run_page):
    folder = tmp_path / "empty"
    folder.mkdir()
    for name, content in _FILE.findall(page.read_text(encoding="utf-8")):
        (folder / name).write_text(content, encoding="utf-8")
    results = RESULTS.get(name_of(page), {})
    shown = f"\nimport json, pandas as pd\nprint(json.dumps([{', '.join(results)}]))" if results else ""
    with service(page, folder) as replaced:
        *printed, computed = run(page, folder, replaced, shown, run_page)
    if results:
        assert dict(zip(results, json.loads(computed), strict=True)) == results
    text = with_outputs(page, printed)
    if os.environ.get("STORE_OUTPUTS"):
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text, "outputs differ; STORE_OUTPUTS=1 stores them"


def test_results_are_of_pages():
    assert set(RESULTS) <= {name_of(page) for page in pages()}


def test_pages_do_not_share_a_project():
    owners = {}
    for page in pages():
        code = re.sub(r"  # .*", "", python_of(page))
        for project, path in _OWN.findall(code):
            if path == ":memory:":
                continue
            file = path or f"{project}.duckdb"
            assert owners.setdefault(file, page) == page, f"{file} in {name_of(page)}"
        for path in re.findall(r'at\.sync\(\w+, "([^"]+)"', code):
            assert owners.setdefault(path, page) == page, f"{path} in {name_of(page)}"
