"""Forms and the app in a real browser, with the mouse and with the keyboard alone."""

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from support.waiting import eventually
from support.website import ARGUMENTS, CHROMIUM

from attrib_ds import connect, create_event_type
from attrib_ds.plots.report import PAGES
from attrib_ds.service.accounts.accounts import create_key

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

#: Screenshots, kept for review.
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
CREDITS = "Credited value in EUR by node and model"
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

        def is_listening():
            assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return True

        eventually(is_listening)
        yield process
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
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
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


def kernels_of(process):
    """Return how many kernels a server has started that still run."""
    children = Path(f"/proc/{process.pid}/task").glob("*/children")
    running = [number for child in children for number in child.read_text().split()]
    servers = [Path(f"/proc/{number}/task").glob("*/children") for number in running]
    return sum(len(child.read_text().split()) for server in servers for child in server)


@pytest.mark.slow
def test_what_a_page_computes_with_ends_after_the_page(browser, tmp_path):
    port = free_port()
    program = (
        "from attrib_ds.forms.workbench import run_app; "
        f"run_app(port={port}, opens_browser=False, seconds_unattended=10)"
    )
    with serving([sys.executable, "-c", program], port, tmp_path) as process:
        context = browser.new_context()
        page = context.new_page()
        for _ in range(2):  # the second time as a visitor who reloads it
            page.goto(f"http://127.0.0.1:{port}/", timeout=TIMEOUT * 1000)
            page.get_by_role("button", name="Open the sample").wait_for(timeout=TIMEOUT * 1000)
        eventually(lambda: kernels_of(process) == 1)
        context.close()
        eventually(lambda: kernels_of(process) == 0)


def open_sample(page, app):
    page.goto(app)
    page.get_by_role("button", name="Open the sample").click()
    page.locator(".answers[aria-busy=false] .said li").first.wait_for()


def open_credits(page, app):
    open_sample(page, app)
    page.get_by_role("button", name="Credits", exact=True).click()
    page.get_by_role("img", name=CREDITS).wait_for()


def saved(page, button, path):
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    download.value.save_as(path)
    return path


def assert_accessible(page):
    """No rule of axe is broken."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    violations = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in violations] == []


@pytest.mark.large
@pytest.mark.slow
def test_from_the_sample_to_credited_channels_with_the_mouse(app, page, tmp_path):
    open_credits(page, app)
    page.get_by_label("First touch", exact=True).check()
    page.get_by_text("Changed since this result.").wait_for()
    page.get_by_role("button", name="Credit", exact=True).click()
    page.get_by_role("heading", name="Credits: 30 rows").wait_for()
    picture = page.get_by_role("img", name=CREDITS)
    picture.wait_for()
    assert picture.evaluate("image => image.complete && image.naturalWidth > 300")
    page.get_by_role("table").first.wait_for()
    page.screenshot(path=SCREENSHOTS / "app-credits.png", full_page=True)
    credits = pd.read_csv(saved(page, "CSV", tmp_path / "credits.csv"))
    assert list(dict.fromkeys(credits["model"])) == ["last_touch", "linear", "first_touch"]
    assert credits.groupby("model")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    assert len(pd.read_excel(saved(page, "Excel", tmp_path / "credits.xlsx"))) == len(credits)
    code = saved(page, "Python", tmp_path / "credits.py").read_text()
    assert "models=['last_touch', 'linear', 'first_touch']" in code
    assert "Credited conversions, " in saved(page, "Report", tmp_path / "report.html").read_text()
    page.get_by_label("Search:").fill("Paid Social")
    cells = page.locator("table.dataTable tbody tr td:nth-child(2)")
    assert set(cells.all_inner_texts()) == {"Paid Social"}


@pytest.mark.slow
def test_two_files_of_ones_own_lead_to_credits(app, page, tmp_path):
    (tmp_path / "clicks.csv").write_text(
        "customer_id,ad,place,timestamp\nu,alpha,home,2025-01-01\nu,beta,shop,2025-01-02\n"
    )
    (tmp_path / "orders.csv").write_text("customer_id,order_date,revenue,currency\nu,2025-01-03,30,EUR\n")
    page.goto(app)
    page.get_by_role("button", name="Use my files").click()
    page.get_by_role("button", name="Credit", exact=True).click()
    page.get_by_role("alert").get_by_text("Visits is required").first.wait_for()
    for label, file in (
        ("Choose the file of visits", "clicks.csv"),
        ("Choose the file of conversions", "orders.csv"),
    ):
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name=label).click()
        chooser.value.set_files(tmp_path / file)
        page.get_by_text(file, exact=True).wait_for()
    # The choice of a column runs the call again that failed without it.
    page.get_by_label("Channel or campaign").select_option("ad")
    page.get_by_role("table").first.wait_for()
    page.screenshot(path=SCREENSHOTS / "app-own-files.png", full_page=True)
    assert_accessible(page)
    credits = pd.read_csv(saved(page, "CSV", tmp_path / "credits.csv"))
    linear = credits[credits["model"] == "linear"].set_index("node_id")
    assert linear["value"].to_dict() == {"alpha": 15, "beta": 15}


@pytest.mark.large
@pytest.mark.slow
def test_a_large_file_can_be_uploaded(app, page, tmp_path):
    rows = "".join(
        f"user-{row % 1000},search,2025-01-{1 + row % 28:02d}T12:00:00Z\n" for row in range(400_000)
    )
    (tmp_path / "clicks.csv").write_text(f"user,channel,date\n{rows}")
    assert (tmp_path / "clicks.csv").stat().st_size > 13_000_000
    page.goto(app)
    page.get_by_role("button", name="Use my files").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose the file of visits").click()
    chooser.value.set_files(tmp_path / "clicks.csv")
    page.get_by_text("clicks.csv", exact=True).wait_for()
    playwright.expect(page.get_by_label("Person", exact=True)).to_have_value(
        "user (as found)", timeout=60_000
    )


@pytest.mark.large
@pytest.mark.slow
def test_a_project_of_this_machine_is_opened(app, page, tmp_path):
    page.goto(app)
    page.get_by_role("button", name="Open or connect …").click()
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("alert").get_by_text("Project is required").first.wait_for()
    page.get_by_label("Project", exact=True).fill("bakery")
    page.get_by_label("Project", exact=True).press("Tab")
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("heading", name="bakery").wait_for()


@pytest.mark.large
@pytest.mark.slow
def test_no_page_of_the_app_breaks_a_rule_of_accessibility(app, page):
    """At each width and in each colour scheme; the pages are made once."""

    def assert_accessible_everywhere(title):
        for width, scheme in itertools.product((600, 1200), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 1400})
            page.emulate_media(color_scheme=scheme)
            # Colours change gradually.
            page.evaluate("Promise.all(document.getAnimations().map(each => each.finished))")
            assert_accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (title, width)

    page.goto(app)
    page.get_by_role("button", name="Open the sample").wait_for()
    assert_accessible_everywhere("start")
    page.get_by_role("button", name="Open the sample").click()
    page.locator(".answers[aria-busy=false] .said li").first.wait_for()
    for title in page.locator(".attrib-tabs button").all_inner_texts():
        page.get_by_role("button", name=title, exact=True).click()
        end = page.locator(".attrib-action, .attrib-asked, .attrib-live-nothing")
        end.wait_for()
        if title == "Overview":
            page.get_by_role("heading", name=PAGES).wait_for()
        page.get_by_role("button", name="More options").or_(end).first.click()
        assert_accessible_everywhere(title)


@pytest.mark.large
@pytest.mark.slow
def test_the_keyboard_alone_leads_from_opening_to_credits(app, page):
    page.goto(app)
    page.get_by_role("button", name="Open the sample").wait_for()
    tab_to(page, "Open the sample")
    page.keyboard.press("Enter")
    page.locator(".answers[aria-busy=false] .said li").first.wait_for()
    tab_to(page, "Credits")
    page.keyboard.press("Enter")
    page.get_by_role("img", name=CREDITS).wait_for()
    tab_to(page, "Event type")
    page.keyboard.press("Control+a")
    page.keyboard.type("order")
    tab_to(page, "First touch")
    page.keyboard.press("Space")
    tab_to(page, "▸ More options")
    page.keyboard.press("Enter")
    page.get_by_label("Lookback window").wait_for()
    tab_to(page, "Lookback window")
    page.keyboard.press("Control+a")
    page.keyboard.type("7D")
    tab_to(page, "Credit")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Credits: 30 rows").wait_for()
    tab_to(page, "▸ Code")
    page.keyboard.press("Enter")
    code = page.get_by_label("Python code").inner_text()
    assert "lookback='7D'" in code
    assert "first_touch" in code


@pytest.mark.large
@pytest.mark.slow
def test_a_click_sees_an_edit_made_just_before(app, page):
    open_credits(page, app)
    # The page holds the second edit back while the kernel processes the first; the click overtakes it.
    page.evaluate(
        """() => {
            const list = document.querySelector(".attrib-field select");
            for (const level of ["campaign", "ad", "integration"]) {
                list.value = level;
                list.dispatchEvent(new Event("change", {bubbles: true}));
            }
            [...document.querySelectorAll("button")].find(button => button.innerText === "Credit").click();
        }"""
    )
    page.locator("table.dataTable tbody").get_by_text("Google Ads").first.wait_for()
    page.get_by_role("button", name="▸ Code").click()
    assert "level='integration'" in page.get_by_label("Python code").inner_text()
    assert "Google Ads" in page.locator("table.dataTable tbody").inner_text()


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


@pytest.mark.large
@pytest.mark.slow
def test_a_filter_narrows_a_search(app, page):
    open_sample(page, app)
    page.get_by_role("button", name="Visits", exact=True).click()
    page.get_by_role("button", name="Add condition").first.click()
    page.get_by_label("Field").fill("geo.countryCode")
    page.get_by_label("Field").press("Tab")
    page.get_by_label("Operator").select_option("equals")
    page.get_by_label("Value").press_sequentially("FR")
    # Suggestions arrive after the text was typed; they must not change it.
    page.locator("datalist option[value=FR]").first.wait_for(state="attached")
    assert page.get_by_label("Value").input_value() == "FR"
    page.get_by_label("Value").press("Tab")
    page.get_by_label("Limit").fill("20")
    page.get_by_label("Limit").press("Tab")
    page.get_by_role("button", name="Search", exact=True).click()
    table = page.get_by_role("table").first
    table.wait_for()
    page.get_by_role("heading", name="Visits: 20 rows").wait_for()
    headings = table.get_by_role("columnheader").all_inner_texts()
    column = headings.index("Country code")
    page.get_by_label("entries per page").select_option("25")
    rows = page.locator("table.dataTable tbody tr").all()
    assert len(rows) == 20
    assert {row.get_by_role("cell").nth(column).inner_text() for row in rows} == {"FR"}


FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def open_live(page, app, url, key):
    """Open the live page of a project of a server."""
    page.goto(app)
    page.get_by_role("button", name="Open or connect …").click()
    # The start page has a list of projects with the same label as the form.
    page.get_by_label("Address of the service", exact=True).wait_for()
    for label, text in {"Project": "my-shop", "Address of the service": url, "Key file": str(key)}.items():
        page.get_by_label(label, exact=True).fill(text)
        page.get_by_label(label, exact=True).press("Tab")
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("button", name="Live", exact=True).click()


@contextlib.contextmanager
def serving_files(folder):
    """Serve a website; yields its address."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with serving(command, port, folder):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def served(tmp_path):
    """The command and the port of a server of a project, and its key file."""
    home = tmp_path / "home"
    with connect("my-shop", path=home / "my-shop.duckdb") as project:
        create_event_type(project, "order", name="Order")
    create_key(home, tmp_path / "key.json", projects=["my-shop"])
    port = free_port()
    command = [sys.executable, "-m", "attrib_ds", "serve", "--port", str(port)]
    return partial(serving, command, port, tmp_path, ATTRIB_DS_HOME=str(home)), port, tmp_path / "key.json"


@pytest.mark.large
@pytest.mark.slow
def test_visits_and_conversions_appear_in_the_live_page(app, browser, page, served, tmp_path):
    serve, port, key = served
    with contextlib.ExitStack() as stack:
        stack.enter_context(serve())
        open_live(page, app, f"http://127.0.0.1:{port}", key)
        page.get_by_role("heading", name="No visits have arrived yet.").wait_for()
        line = page.get_by_label("HTML").inner_text()
        event = 'attrib.event("order", {}, {nonce: "1"})'
        html = f"<!DOCTYPE html><title>Shop</title>{line}<button onclick='{event}'>Order</button>"
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "boots.html").write_text(html)
        shop = stack.enter_context(serving_files(tmp_path / "site"))
        site = browser.new_page(user_agent=FIREFOX)
        with site.expect_response(re.compile("/c$")) as response:
            site.goto(f"{shop}/boots.html?utm_source=newsletter&utm_medium=email&utm_campaign=spring")
        assert response.value.status == 202
        page.get_by_role("cell", name="/boots.html").wait_for()
        sources = page.get_by_role("table", name="Sources")
        assert sources.get_by_role("cell").all_inner_texts() == ["newsletter / email › spring", "1"]
        with site.expect_response(re.compile("/api/v1/events")):
            site.get_by_role("button", name="Order").click()
        conversions = page.get_by_role("table", name="Conversions")
        conversions.wait_for()
        assert conversions.get_by_role("cell").all_inner_texts() == ["Order", "1", ""]
        site.close()
        assert_accessible(page)
        page.screenshot(path=SCREENSHOTS / "app-live.png", full_page=True)


@pytest.mark.large
@pytest.mark.slow
def test_the_live_page_says_that_the_server_is_away_and_goes_on_when_it_is_back(app, page, served):
    serve, port, key = served
    with serve():
        open_live(page, app, f"http://127.0.0.1:{port}", key)
        page.locator(".attrib-fresh").wait_for()
    # Before the call has given up, the page says that nothing arrives.
    page.get_by_text("No new numbers since").wait_for()
    page.get_by_role("alert").get_by_text("The page tries again by itself.").wait_for()
    assert page.get_by_role("heading", name="No visits have arrived yet.").is_visible()
    page.screenshot(path=SCREENSHOTS / "app-live-error.png", full_page=True)
    with serve():
        # The longest wait between two attempts is a minute, and the server starts meanwhile.
        page.locator(".attrib-fresh").wait_for(timeout=180_000)
        assert page.get_by_role("alert").count() == 0


@pytest.mark.large
@pytest.mark.slow
def test_a_page_that_shows_something_else_asks_for_no_numbers(app, page):
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    open_sample(page, app)
    page.get_by_role("button", name="Live", exact=True).click()
    page.locator(".attrib-fresh").wait_for()
    sent.clear()
    page.wait_for_timeout(6_000)
    assert any("comm_msg" in frame for frame in sent)
    page.get_by_role("button", name="Credits", exact=True).click()
    page.get_by_role("button", name="Credit", exact=True).wait_for()
    sent.clear()
    page.wait_for_timeout(6_000)
    assert [frame for frame in sent if "comm_msg" in frame] == []


@pytest.mark.large
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
        # Defaults run at once, and their table has a button of the same name.
        page.get_by_label("Interval", exact=True).select_option("month")
        page.get_by_role("button", name="Count", exact=True).click()
        page.get_by_role("img", name="Visits over time").wait_for()
        page.get_by_role("cell", name="2025-06", exact=True).wait_for()
        months = (
            page.get_by_role("table").get_by_role("cell", name=re.compile(r"^2025-\d\d$")).all_inner_texts()
        )
        assert months == sorted(months)
        assert len(months) == 6
        page.screenshot(path=SCREENSHOTS / "jupyterlab-insights.png")
