"""The page on security: its tests exist, and its defaults are those of the server."""

import re
from pathlib import Path

from attrib_ds.commands.cli import make_parser
from attrib_ds.service.http.server import RATES, ServerOptions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/security.md").read_text(encoding="utf-8")
RISKS = re.findall(r"^\| (API\d+) [^|]+\|[^|]+\| (.+) \|$", PAGE, re.MULTILINE)
#: What grows, its bound and its tests.
BOUNDS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`tests/[^|]+) \|$", PAGE, re.MULTILINE)
LIMITS = re.findall(r"^\| [^|]+ \| ([^|]+) \| `(--[a-z-]+)(?: ([^`]+))?` \|$", PAGE, re.MULTILINE)


def test_every_risk_has_a_row() -> None:
    assert [risk for risk, _ in RISKS] == [f"API{number}" for number in range(1, 11)]


def test_every_cited_test_exists() -> None:
    assert len(BOUNDS) >= 22
    for risk, cell in [*RISKS, *((what, cell) for what, _, cell in BOUNDS if not what.startswith("API"))]:
        cited = re.findall(r"`([^`:]+)::([^`]+)`", cell)
        assert cited, risk
        assert cell == ", ".join(f"`{file}::{test}`" for file, test in cited), risk
        for file, test in cited:
            content = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {test}\(", content, re.MULTILINE), f"{risk}: {file}::{test}"


def test_the_limits_are_the_defaults_of_the_server() -> None:
    options, described = ServerOptions(), {}
    for default, option, example in LIMITS:
        if option == "--rate":
            amount, seconds = re.fullmatch(r"(\d+) per (\d+) s", default).groups()  # type: ignore[union-attr]
            described[example] = f"{example.partition('=')[0]}={amount}/{seconds}"
        else:
            assert (default, getattr(options, option[2:].replace("-", "_"))) == ("none", None)
    assert described == {
        text: text for text in (f"{name}={rate.amount}/{rate.seconds:g}" for name, rate in RATES.items())
    }
    for row in (
        f"| time of a read | {options.seconds_to_read:g} seconds |",
        f"| reads at once | {options.reads}; {options.most_waiting:,} wait |",
        f"| other requests at once | {options.threads}; {options.most_waiting:,} wait |",
        f"| unlimited searches or exports at once per account | {options.streams};",
        f"| request bodies in flight | {options.body_mebibytes} MiB |",
    ):
        assert row in PAGE


def test_the_server_has_few_options() -> None:
    serve = make_parser()._subparsers._group_actions[0].choices["serve"]  # type: ignore[union-attr,index]
    options = {action.option_strings[-1] for action in serve._actions}
    assert options - {"--help", "--home"} == {
        *("--host", "--port", "--url", "--behind-proxy", "--unprotected", "--rate", "--without"),
        *("--geo", "--asn", "--max-page-size", "--metrics", "--log-level"),
    }
