"""The messages on the page on troubleshooting are those that the package gives."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs/how-to/troubleshooting.md"
MESSAGES = [
    " ".join(text.split())
    for text in re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
]
DAYS = pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03"], utc=True)
TOUCHPOINTS = pd.DataFrame({"user_id": ["a", "a", "b"], "node_id": ["mail", "ads", "ads"], "date": DAYS})
CONVERSIONS = pd.DataFrame(
    {
        "event_id": ["1", "2"],
        "user_id": ["a", "b"],
        "date": pd.to_datetime(["2025-01-05", "2025-01-06"], utc=True),
        "value": [10.0, 20.0],
        "currency": "EUR",
    }
)
OF_ADS = pd.DataFrame({"node_id": ["ads"], "spend": [5.0], "currency": ["EUR"]})


def given(call):
    """Return all that a call raises and warns of, as the page writes it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except at.errors.AttribError as error:
            return [f"{type(error).__name__}: {error}"]
    return [f"{each.category.__name__}: {each.message}" for each in caught]


def paths_of(touchpoints=TOUCHPOINTS, conversions=CONVERSIONS):
    return at.Paths.from_frames(touchpoints, conversions)


CALLS = {
    "no column that looks like": lambda: at.read_journeys(
        TOUCHPOINTS.rename(columns={"node_id": "x"}).assign(y=["a", "b", "a"]), CONVERSIONS
    ),
    "no user of a conversion": lambda: at.read_journeys(TOUCHPOINTS, CONVERSIONS.assign(user_id=["x", "y"])),
    "no readable rows": lambda: at.read_journeys(TOUCHPOINTS.assign(date="03/04/2025"), CONVERSIONS),
    "may be in thousands": lambda: at.read_journeys(
        TOUCHPOINTS, CONVERSIONS.assign(value=["1.000", "2.000"])
    ),
    "could not be read": lambda: at.read_journeys(
        TOUCHPOINTS.assign(date=["yesterday", "2025-01-02", "2025-01-03"]), CONVERSIONS
    ),
    "before the lookback": lambda: at.attribute(
        paths_of(TOUCHPOINTS.assign(date=DAYS - pd.Timedelta("60D"))), "linear"
    ),
    "UnknownCurrency": lambda: at.attribute(
        paths_of(conversions=CONVERSIONS.drop(columns="currency")), "linear", spend=OF_ADS
    ),
    "spend: these nodes": lambda: at.attribute(
        paths_of(), "linear", spend=pd.concat([OF_ADS.assign(node_id="Adds"), OF_ADS])
    ),
}


def page_message(part):
    (found,) = [message for message in MESSAGES if part in message]
    return found


@pytest.mark.parametrize("part", CALLS)
def test_a_message_is_given(part):
    expected = page_message(part)
    assert any(message.startswith(expected) for message in given(CALLS[part])), given(CALLS[part])


def test_a_project_that_is_open_elsewhere(tmp_path):
    file = tmp_path / "shop.duckdb"
    at.connect("shop", path=file).close()
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        (message,) = given(lambda: at.connect("shop", path=file))
        holder.kill()
    assert message.replace(str(file), "shop.duckdb") == page_message("ProjectInUse")


def test_an_extra_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    expected = page_message("NotSupported")
    assert given(lambda: at.to_excel({"Orders": CONVERSIONS}, tmp_path / "orders.xlsx")) == [expected]


@pytest.mark.large
@pytest.mark.slow
def test_controls_that_contradict():
    # Unpaid touchpoints are rare in this world: among fewer users chance could explain what they earn.
    world = at.simulate("intent", users=60_000, seed=4)
    paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    messages = given(lambda: at.estimate_effects(paths, controls=["organic", "direct"]))
    assert any(message.startswith(page_message("ConfoundingWarning")) for message in messages), messages


def test_every_message_has_a_test():
    tested = [page_message(part) for part in (*CALLS, "ProjectInUse", "NotSupported", "ConfoundingWarning")]
    assert sorted(tested) == sorted(MESSAGES)
    assert PAGE.read_text(encoding="utf-8").count("\n## ") == 10
