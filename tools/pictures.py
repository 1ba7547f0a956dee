"""Draws the pictures of plots, the report and the app in docs/images: all of them, or those that are named.

python tools/pictures.py [PICTURE ...]

It needs Playwright and Chromium. ``layers.py`` draws ``layers.svg``; ``live-page.png`` shows a served site.
"""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import attrib_ds as at

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
MODELS: Final = ("first_touch", "last_touch", "last_non_direct", "linear", "time_decay", "position_based")
#: Milliseconds that the app may take, also on a busy machine.
PATIENCE: Final = 600_000


def model_comparison() -> None:
    """Draw the credits of the sample shop under six models."""
    with at.sample_project() as shop:
        paths = at.conversion_paths(shop, event_type="order", statistic="turnover", level="campaign")
        _save(at.plots.model_comparison(at.attribute(paths, MODELS)), "model-comparison")


def sensitivity() -> None:
    """Draw how strong a cause must be to explain brand search away, where exposure follows intent."""
    world = at.simulate("intent", users=60_000, seed=1)
    paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", at.errors.ConfoundingWarning)
        effects = at.estimate_effects(paths, controls=["organic", "direct"])
    _save(at.plots.sensitivity(effects.sensitivity(), node="brand_search"), "sensitivity")


def _save(axes: Any, name: str) -> None:
    axes.figure.savefig(IMAGES / f"{name}.png", dpi=100, bbox_inches="tight")


def report() -> None:
    """Show the top of the demo's report."""
    with tempfile.TemporaryDirectory() as folder, _page(width=1120, height=1372, scale=1.5) as page:
        subprocess.run([sys.executable, "-m", "attrib_ds", "demo", "--out", folder], check=True)
        page.goto((Path(folder) / "report.html").as_uri())
        _show(page, "report")


def app_overview() -> None:
    """Show the first page of the app on the sample shop."""
    with _app() as page:
        _show(page, "app-overview", full_page=True)


def form_attribution() -> None:
    """Show the form that credits conversions, with three models."""
    with _app() as page:
        page.get_by_role("button", name="Credits", exact=True).click()
        page.get_by_label("First touch", exact=True).check()
        page.get_by_role("button", name="Credit", exact=True).click()
        page.get_by_role("heading", name="Credits: 30 rows").wait_for()
        page.get_by_role("table").first.wait_for()
        _show(page, "form-attribution", full_page=True)


def _show(page: Page, name: str, *, full_page: bool = False) -> None:
    """Write a screenshot with few colours, which makes its file small."""
    screenshot = Image.open(io.BytesIO(page.screenshot(full_page=full_page)))
    screenshot.quantize(128, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


@contextmanager
def _page(*, width: int, height: int, scale: float = 1) -> Iterator[Page]:
    """Open a browser of this size until the block ends."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


@contextmanager
def _app() -> Iterator[Page]:
    """Open the sample in the app, whose server ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "attrib_ds", "app", "--port", str(port), "--no-browser"]
    with tempfile.TemporaryDirectory() as folder, _page(width=1120, height=1080) as page:
        environment = {**os.environ, "ATTRIB_DS_HOME": folder}
        with subprocess.Popen(command, env=environment) as server:
            _wait_for(port, page)
            page.goto(f"http://127.0.0.1:{port}/")
            page.get_by_role("button", name="Open the sample").click()
            page.locator(".answers[aria-busy=false] .said li").first.wait_for()
            yield page
            server.terminate()


def _wait_for(port: int, page: Page) -> None:
    """Wait until a server on this machine listens."""
    for _ in range(PATIENCE // 1000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        page.wait_for_timeout(1000)
    raise TimeoutError(f"nothing listens on port {port}")


PICTURES: Final = {
    each.__name__.replace("_", "-"): each
    for each in (model_comparison, sensitivity, report, app_overview, form_attribution)
}

if __name__ == "__main__":
    for picture in sys.argv[1:] or PICTURES:
        PICTURES[picture]()
