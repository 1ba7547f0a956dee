"""The page on security: its tests exist, and its defaults are those of the server."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from attrib_ds.commands.parser import make_parser
from attrib_ds.service.http.server import ServerOptions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/security.md").read_text(encoding="utf-8")
RISKS = re.findall(r"^\| (API\d+) [^|]+\|[^|]+\| (.+) \|$", PAGE, re.MULTILINE)
LIMITS = re.findall(r"^\| [^|]+ \| ([^|]+) \| `(--[a-z-]+)(?: ([^`]+))?` \|$", PAGE, re.MULTILINE)


def test_every_risk_has_a_row() -> None:
    assert [risk for risk, _ in RISKS] == [f"API{number}" for number in range(1, 11)]


def test_every_cited_test_exists() -> None:
    for risk, cell in RISKS:
        cited = re.findall(r"`([^`:]+)::([^`]+)`", cell)
        assert cited, risk
        assert cell == ", ".join(f"`{file}::{test}`" for file, test in cited), risk
        for file, test in cited:
            content = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {test}\(", content, re.MULTILINE), f"{risk}: {file}::{test}"


def test_the_limits_are_the_defaults_of_the_server() -> None:
    options = ServerOptions()
    described = {}
    for default, option, example in LIMITS:
        if option == "--rate":
            amount, seconds = re.fullmatch(r"(\d+) per (\d+) s", default).groups()  # type: ignore[union-attr]
            described[example] = f"{example.partition('=')[0]}={amount}/{seconds}"
        else:
            attribute = option.removeprefix("--").replace("-", "_")
            expected = getattr(options, attribute)
            assert default.split()[0] == ("none" if expected is None else f"{expected:g}"), option
    rates = [getattr(RateLimits(), field.name) for field in fields(RateLimits)]
    assert described == {
        text: text for text in (f"{rate.name}={rate.amount}/{rate.seconds:g}" for rate in rates)
    }


def test_every_option_of_the_server_that_limits_is_listed() -> None:
    serve = make_parser()._subparsers._group_actions[0].choices["serve"]  # type: ignore[union-attr,index]
    options = {action.option_strings[-1] for action in serve._actions}
    assert options - {option for _, option, _ in LIMITS} == {
        *(
            "--help",
            "--host",
            "--port",
            "--url",
            "--home",
            "--no-sql",
            "--no-new-keys",
            "--no-rates",
            "--trusted-proxy",
        ),
        *("--geo", "--asn"),
    }
