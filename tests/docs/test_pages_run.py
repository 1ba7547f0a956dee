"""Each page with Python, and each notebook, runs from top to bottom in the environment that it names."""

import re
import shlex
from contextlib import contextmanager

import pandas as pd
import pytest
from support.page_scripts import continued, named_extras, notebooks, pages, python_of, run, script_of

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

#: Addresses in the documentation, for which a server on this machine stands in.
ADDRESSES = ("https://attribution.example", "https://stats.shop.example")
#: Its last block needs visitors, whom ``test_withhold_at_random.py`` lets come.
_WITH_VISITORS = "how-to/withhold-at-random"
_REMOTE = re.compile(r'at\.connect\("([\w-]+)", url="([^"]+)"')
_OWN = re.compile(r'at\.connect\(\s*"([\w-]+)"(?:, path="([^"]+)")?(?!, url)[,)]')
_SETUP = re.compile(r"^\$ attrib-ds (?=projects create|settings|integrations create)(.+)$", re.MULTILINE)
_FILE = re.compile(r"such as `([\w.]+)`:\n\n```(?:text|toml)\n(.*?)```", re.DOTALL)


def name_of(page):
    return page.stem if page.suffix == ".ipynb" else f"{page.parent.name}/{page.stem}"


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


def runs_always(page):
    """Notebooks that need an extra run always; nbval runs the others with all extras at hand."""
    return page.suffix == ".md" or bool(named_extras(page))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=() if runs_always(page) else pytest.mark.large)
        for page in (*pages(), *notebooks())
        if name_of(page) != _WITH_VISITORS
    ],
)
def test_a_page_runs_as_it_is_printed(page, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    if page.suffix == ".md":
        for name, content in _FILE.findall(page.read_text(encoding="utf-8")):
            (folder / name).write_text(content, encoding="utf-8")
    with service(page, folder) as replaced:
        run(page, folder, replaced)


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
