"""Forms and the app in a real browser, with the mouse and with the keyboard alone."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Screenshots, kept for review.
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
#: Seconds until a server or a kernel has started on a busy machine.
TIMEOUT = 90

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, folder, **environment):
    """Run a server until the block ends; the server and its kernels are one process group."""
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=folder,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        for _ in range(TIMEOUT * 5):
            if process.poll() is not None:
                pytest.fail(f"the server ended: {(folder / 'server.log').read_text()[-2000:]}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            time.sleep(0.2)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1200, "height": 1400}, accept_downloads=True)
    context.set_default_timeout(TIMEOUT * 1000)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("app")
    port = free_port()
    command = [sys.executable, "-m", "attrib_ds", "app", "--port", str(port), "--no-browser"]
    with serving(command, port, folder, ATTRIB_DS_HOME=str(folder)):
        yield f"http://127.0.0.1:{port}/"


@pytest.mark.slow
def test_from_the_sample_to_credited_nodes_with_the_mouse(app, page, tmp_path):
    page.goto(app)
    page.get_by_role("button", name="Open").click()
    attribution = shown_tab(page)
    attribution.get_by_label("Event type").fill("order")
    attribution.get_by_label("Event type").press("Tab")
    attribution.get_by_label("Models").select_option(["linear", "last_touch"])
    attribution.get_by_label("Level").select_option("channel")
    page.screenshot(path=SCREENSHOTS / "app-attribution-form.png", full_page=True)
    attribution.get_by_role("button", name="Credit").click()
    picture = attribution.get_by_role("img", name="Credits of several models")
    picture.wait_for()
    assert picture.evaluate("image => image.complete && image.naturalWidth > 300")
    rows = attribution.get_by_role("table").get_by_role("row")
    headings = rows.first.get_by_role("columnheader").all_inner_texts()
    assert headings[:3] == ["model", "node_id", "node_name"]
    page.screenshot(path=SCREENSHOTS / "app-attribution-result.png", full_page=True)
    with page.expect_download() as download:
        attribution.get_by_role("link", name="Save as CSV").click()
    download.value.save_as(tmp_path / "credits.csv")
    credits = pd.read_csv(tmp_path / "credits.csv")
    assert rows.count() == len(credits) + 1
    assert credits.groupby("model")["share"].sum().tolist() == pytest.approx([1, 1])
    with page.expect_download() as workbook:
        attribution.get_by_role("link", name="Save as Excel").click()
    workbook.value.save_as(tmp_path / "credits.xlsx")
    assert len(pd.read_excel(tmp_path / "credits.xlsx")) == len(credits)
    with page.expect_download() as code:
        attribution.get_by_role("link", name="Save the code").click()
    code.value.save_as(tmp_path / "credits.py")
    assert "models=['last_touch', 'linear']" in (tmp_path / "credits.py").read_text()


@pytest.mark.slow
def test_an_error_is_shown_in_the_form_and_can_be_corrected(app, page):
    page.goto(app)
    page.get_by_role("button", name="Open").click()
    attribution = shown_tab(page)
    attribution.get_by_label("Event type").fill("ordre")
    attribution.get_by_label("Event type").press("Tab")
    attribution.get_by_role("button", name="Credit").click()
    alert = attribution.get_by_role("alert")
    assert "did you mean 'order'" in alert.inner_text()
    page.screenshot(path=SCREENSHOTS / "app-error.png", full_page=True)
    attribution.get_by_label("Event type").fill("order")
    attribution.get_by_label("Event type").press("Tab")
    attribution.get_by_role("button", name="Credit").click()
    attribution.get_by_role("img", name="Credited conversions by node").wait_for()
    assert alert.count() == 0


@pytest.mark.slow
def test_the_keyboard_alone_leads_from_opening_to_credits(app, page):
    page.goto(app)
    page.get_by_role("button", name="Open").wait_for()
    tab_to(page, "Open")
    page.keyboard.press("Enter")
    page.get_by_label("Event type").first.wait_for()
    tab_to(page, "Event type")
    page.keyboard.press("Control+a")
    page.keyboard.type("order")
    tab_to(page, "Models")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowDown")
    tab_to(page, "Credit")
    page.keyboard.press("Enter")
    page.get_by_role("img", name="Credits of several models").wait_for()
    assert page.get_by_role("table").get_by_role("cell", name="first_touch").count() > 0
    page.screenshot(path=SCREENSHOTS / "app-keyboard.png", full_page=True)


@pytest.mark.slow
def test_a_click_sees_an_edit_made_just_before(app, page):
    page.goto(app)
    page.get_by_role("button", name="Open").click()
    # The page holds the second edit back while the kernel processes the first; the click overtakes it.
    shown_tab(page).get_by_label("Models").evaluate(
        """list => {
            for (const last of [0, 1, 2]) {
                [...list.options].forEach((option, index) => { option.selected = index <= last; });
                list.dispatchEvent(new Event("change", {bubbles: true}));
            }
            [...document.querySelectorAll("button")].find(button => button.innerText === "Credit").click();
        }"""
    )
    table = shown_tab(page).get_by_role("table")
    table.wait_for()
    models = {"first_touch", "last_touch", "last_non_direct"}
    assert set(table.locator("tbody tr td:first-child").all_inner_texts()) == models


def shown_tab(page):
    """Return the panel of the open tab, which has no ARIA role."""
    return page.locator(".widget-tab-contents > .widget-vbox:not(.lm-mod-hidden)")


def tab_to(page, label):
    """Press Tab until the control with a label has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => { const e = document.activeElement;"
            " return e.labels && e.labels.length ? e.labels[0].innerText : e.innerText || ''; }"
        )
        if focused.strip() == label:
            return
    pytest.fail(f"Tab never reaches {label!r}")


@pytest.mark.slow
def test_a_filter_narrows_a_search(app, page):
    page.goto(app)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("tab", name="Interactions").click()
    search = shown_tab(page)
    search.get_by_role("button", name="Add condition").first.click()
    search.get_by_label("Field").fill("geo.countryCode")
    search.get_by_label("Field").press("Tab")
    search.get_by_label("Operator").select_option("equals")
    search.get_by_label("Value").press_sequentially("FR")
    # Suggestions arrive after the text was typed; they must not change it.
    search.locator("datalist option[value=FR]").first.wait_for(state="attached")
    assert search.get_by_label("Value").input_value() == "FR"
    search.get_by_label("Value").press("Tab")
    search.get_by_label("Limit").fill("20")
    search.get_by_label("Limit").press("Tab")
    search.get_by_role("button", name="Search").click()
    table = search.get_by_role("table")
    table.wait_for()
    page.screenshot(path=SCREENSHOTS / "app-search.png", full_page=True)
    headings = table.get_by_role("row").first.get_by_role("columnheader").all_inner_texts()
    column = headings.index("geo.countryCode")
    rows = table.get_by_role("row").all()[1:]
    assert len(rows) == 20
    assert {row.get_by_role("cell").nth(column).inner_text() for row in rows} == {"FR"}


@pytest.mark.slow
def test_forms_work_in_jupyterlab(page, tmp_path):
    source = "from attrib_ds import forms, sample_project\n\nform = forms.insights(sample_project())\nform"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "counts.ipynb")
    port = free_port()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--ip=127.0.0.1", "--allow-root",
        "--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path}", "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with serving(command, port, tmp_path, JUPYTER_CONFIG_DIR=str(tmp_path)):
        page.goto(f"http://127.0.0.1:{port}/lab/tree/counts.ipynb")
        page.get_by_text("form = forms.insights").first.click()
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.keyboard.press("Shift+Enter")
        page.get_by_label("Interval").select_option("month")
        page.get_by_role("button", name="Count", exact=True).click()
        page.get_by_role("img", name="Interactions over time").wait_for()
        months = (
            page.get_by_role("table").get_by_role("cell", name=re.compile(r"^2025-\d\d$")).all_inner_texts()
        )
        assert months == sorted(months)
        assert len(months) == 6
        page.screenshot(path=SCREENSHOTS / "jupyterlab-insights.png")
