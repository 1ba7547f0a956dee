"""The forms' style wins over the one that JupyterLab gives to the elements of outputs."""

import shutil

import pytest

from attrib_ds.forms import elements

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: From the style sheets of JupyterLab 4.6, which come before or after that of the forms.
JUPYTERLAB = """
.jp-OutputArea-output dl, .jp-OutputArea-output dt, .jp-OutputArea-output dd { display: block; }
.jp-OutputArea-output dl { width: 100%; overflow: hidden; padding: 0; margin: 0; }
.jp-OutputArea-output dt { font-weight: bold; float: left; width: 20%; padding: 0; margin: 0; }
.jp-OutputArea-output dd { float: left; width: 80%; padding: 0; margin: 0; }
.jp-OutputArea-output pre { border: none; margin: 0; padding: 0; overflow-x: auto; overflow-y: auto; }
"""


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_figures_are_side_by_side_and_code_has_a_margin(is_first):
    shown = elements.figures({"Visits": "7", "Hits": "9"}) + elements.code_block("import attrib_ds as at")
    sheet = elements.page().children[0].value
    lab = f"<style>{JUPYTERLAB}</style>"
    sheets = lab + sheet if is_first else sheet + lab
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        page.set_content(
            f'<div class="jp-OutputArea-output"><div class="attrib-page">{sheets}{shown}</div></div>'
        )
        visits, hits = (page.get_by_text(name, exact=True).bounding_box() for name in ("Visits", "Hits"))
        seven, nine = (page.get_by_text(value, exact=True).bounding_box() for value in "79")
        code = page.locator("pre")
        padding = code.evaluate("element => getComputedStyle(element).padding")
        weight = page.locator("dt").first.evaluate("element => getComputedStyle(element).fontWeight")
        chromium.close()
    assert seven["y"] > visits["y"]
    assert seven["x"] == visits["x"]
    assert hits["y"] == visits["y"]
    assert nine["x"] == hits["x"] > visits["x"]
    assert padding == "12px 14px"
    assert weight == "400"
