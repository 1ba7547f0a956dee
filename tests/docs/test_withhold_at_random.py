"""The page on withholding at random leads from "Measure a site" to an effect."""

import json
import re
import shlex
from pathlib import Path

import pytest
from support.http_caller import Caller

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.service.http.server import ServerOptions, running

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
PAGE = (DOCS / "withhold-at-random.md").read_text(encoding="utf-8")
MEASURE = (DOCS / "measure-a-site.md").read_text(encoding="utf-8")
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
SERVER = "https://stats.shop.example"


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)


@pytest.mark.large
@pytest.mark.slow
def test_the_page_leads_from_a_measured_site_to_the_effect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    monkeypatch.setenv("ATTRIB_DS_HOME", str(home))
    commands = re.findall(r"^\$ (?!attrib-ds serve)(.+)$", MEASURE, flags=re.MULTILINE)
    create_key = re.search(r"`(attrib-ds keys create .+?)`", MEASURE)[1]
    for command in [*commands, create_key, *re.findall(r"^\$ (.+)$", PAGE, flags=re.MULTILINE)]:
        assert main(shlex.split(command)[1:]) == 0
    names = {}
    with running(home, options=ServerOptions(rate_limits=None)) as url:
        exec(blocks(MEASURE)[0].replace(SERVER, url), names)
        *earlier, last = (block.replace(SERVER, url) for block in blocks(PAGE))
        for block in earlier:
            exec(block, names)
        with names["shop"] as shop:
            trackers = [f"t-{number}" for number in range(300)]
            drawn = at.experiments.assign(shop, trackers, holdout="banner", column="tracker_id")
            call = Caller(url)
            shown = [answer(call, number, tracker) for number, tracker in enumerate(trackers)]
            assert shown == (~drawn["withheld"]).tolist()
            exec(last, names)
    effects = names["effects"].groups()
    assert effects["users"].tolist() == [300]
    assert effects["withheld"].tolist() == [drawn["withheld"].sum()]


def answer(call, number, tracker):
    """Ask whether to show the banner to a visitor; every third one orders."""
    sent = {"projectId": "my-shop", "trackerId": tracker}
    headers = {"Origin": "https://shop.example", "User_Agent": FIREFOX}
    asked = {**sent, "holdout": "banner", "opportunityId": f"00000000-0000-4000-8000-{number:012}"}
    reply = call("POST", "/show", json.dumps(asked), **headers)
    assert reply.status == 200, reply.content
    if number % 3 == 0:
        order = {**sent, "eventType": "order", "nonce": f"o-{number}", "data": {"total": 10}}
        assert call("POST", "/api/v1/events", order, **headers).status == 200
    return reply.json()["show"]
