"""The page on measuring a site names what there is, and leads from a campaign link to its credit."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from support.http_caller import Caller
from support.waiting import eventually
from support.website import ARGUMENTS, CHROMIUM, site

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.contract.administration import UpdateSettings
from attrib_ds.service.http import pages
from attrib_ds.service.http.dispatch import REQUIRED_SCOPES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "measure-a-site.md").read_text(encoding="utf-8")
FOLDER = Path(pages.__file__).parent / "tracker"


def test_the_page_lists_the_attributes_of_the_script():
    script = (FOLDER / "t.js").read_text(encoding="utf-8")
    names = re.search(r"const \{ (.*) \} = settings", script)[1].split(", ")
    names = [name.split(" = ")[0] for name in names]
    names += [one or other for one, other in re.findall(r'settings\.(\w+)|"(\w+)" in settings', script)]
    assert sorted(re.findall(r"^\| `data-(\w+)", PAGE, flags=re.MULTILINE)) == sorted(set(names))


def test_the_page_lists_what_else_is_counted():
    script = (FOLDER / "t.js").read_text(encoding="utf-8")
    words = set(re.findall(r'counted\.has\("(\w+)"\)', script))
    section = PAGE.split("## What else is counted")[1].split("\n## ")[0]
    assert words == set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)) | {"hash"}
    assert "`hash`" in section


def test_settings_and_calls_of_the_page_exist():
    settings = {"allowedOrigins", "respectGpc", "respectDnt", "trafficFilters"}
    assert all(f"`{name}`" in PAGE or f"{name}=" in PAGE for name in settings)
    assert settings <= set(UpdateSettings.model_fields)
    types = (FOLDER / "attrib.d.ts").read_text(encoding="utf-8")
    calls = set(re.findall(r"attrib\.(\w+)\(", PAGE))
    assert calls == {"consent", "event", "push", "show", "trackerId"}
    assert all(f"  {call}(" in types for call in calls)


def blocks(language, page):
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return probe.getsockname()[1]


@contextmanager
def served(commands, port):
    """Run the commands of the page in order; the last one serves."""
    *earlier, last = (shlex.split(command)[1:] for command in commands)
    for arguments in earlier:
        assert main(arguments) == 0
    command = [sys.executable, "-m", "attrib_ds", *last, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


@contextmanager
def visitor():
    """A page of a browser that is no bot by its user agent."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0"
        yield browser.new_context(user_agent=agent).new_page()
        browser.close()


@pytest.mark.browser
@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None or sys.platform == "win32", reason="needs Chromium and SIGTERM")
def test_the_page_leads_from_a_campaign_link_to_its_credit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "ATTRIB_DS_HOME", str(tmp_path / "home"))
    port = free_port()
    script, *_, order = blocks("html", PAGE)
    pages = {"/": script, "/boots": script, "/thanks": script + order}

    def answer(path, _):
        content = f"<!DOCTYPE html>{pages.get(path.partition('?')[0], '')}"
        content = content.replace("https://stats.shop.example", f"http://127.0.0.1:{port}")
        return 200, {"Content-Type": "text/html"}, content.encode()

    with site(answer) as shop_url:
        page_here = PAGE.replace("https://stats.shop.example", f"http://127.0.0.1:{port}")
        page_here = page_here.replace("https://shop.example", shop_url)
        commands = re.findall(r"^\$ (.+)$", page_here, flags=re.MULTILINE)
        create_key = re.search(r"`(attrib-ds keys create .+?)`", PAGE)[1]
        declare, counted, credit = blocks("python", page_here)
        link = re.search(r"came by `(.+?)`", page_here)[1]
        node = re.search(r"node `(.+?)` one conversion", PAGE)[1]
        names: dict[str, object] = {}
        # A setting of a later section is made before the server starts.
        commands.sort(key=lambda command: command.startswith("attrib-ds serve"))
        with served([*commands[:-1], create_key, commands[-1]], port):
            exec(declare, names)
            exec(counted, names)
            with visitor() as page:
                with page.expect_response("**/c"):
                    page.goto(link)
                page.evaluate("attrib.consent(true)")
                with page.expect_response("**/c"):
                    page.goto(f"{shop_url}/boots")
                # Somebody who counts orders sends the next number first.
                taken = {"projectId": "my-shop", "eventType": "order", "nonce": "order-1001", "data": {}}
                forged = Caller(f"http://127.0.0.1:{port}")("POST", "/api/v1/events", taken, Origin=shop_url)
                assert forged.status == 200
                with page.expect_response("**/events") as accepted:
                    page.goto(f"{shop_url}/thanks")
                assert accepted.value.status == 200
                with page.expect_response("**/events"):
                    page.reload()
            with at.connect("my-shop", url=f"http://127.0.0.1:{port}", key="key.json") as shop:
                eventually(lambda: at.search_interactions(shop, columns=["hitCount"])["hitCount"].sum() == 4)
            exec(credit, names)
    credits = names["credits"]
    assert credits[["node_id", "conversions"]].values.tolist() == [[node, 1.0]]


def test_the_scopes_of_the_live_page_are_those_of_its_calls():
    calls = (
        "interaction_insights",
        "search_interactions",
        "list_nodes",
        "event_insights",
        "list_event_types",
    )
    named = set(re.findall(r"`([\w-]+:\w+)`", PAGE))
    assert named == {REQUIRED_SCOPES[call] for call in calls}
