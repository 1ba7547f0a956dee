"""The commands that run a server, and give others keys to it."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.errors import InvalidRequest
from attrib_ds.project import home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.service.http.settings import Rates

#: Numbers that the operator may choose, with what they mean.
_NUMBERS: Final = {
    "threads": "requests worked on at once (default 32)",
    "most_waiting": "requests that may wait for that, beyond which the answer is 503 (default 1000)",
    "seconds_to_stop": "how long a stopping server lets running requests finish (default 30)",
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> Iterator[argparse.ArgumentParser]:
    """Add the commands to those of the program, and return their parsers.

    Parameters
    ----------
    commands : action
        From ``ArgumentParser.add_subparsers``.

    Yields
    ------
    ArgumentParser
        Of each command, for the options that all of them have.
    """
    served = commands.add_parser("serve", help="serve the embedded projects over HTTP")
    served.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    served.add_argument(
        "--port", type=int, default=8000, help="port to listen on (default 8000; 0: a free one)"
    )
    served.add_argument("--url", metavar="URL", help="address under which clients know the server")
    served.add_argument("--no-sql", action="store_true", help="refuse searches of users by SQL")
    served.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="NAME=AMOUNT/SECONDS",
        help="how often each may ask, such as requests=600/60 (the default); also heavy, events and "
        "events-by-address; may be repeated",
    )
    served.add_argument("--no-rates", action="store_true", help="let everybody ask as often as they like")
    for name, meaning in _NUMBERS.items():
        served.add_argument(f"--{name.replace('_', '-')}", type=_above_0, metavar="N", help=meaning)
    served.set_defaults(run=_serve)
    yield served

    app = commands.add_parser("app", help="open the attribution workbench in a browser")
    app.add_argument("--port", type=int, default=8866, help="port to listen on (default 8866)")
    app.add_argument("--no-browser", action="store_true", help="only print the address")
    app.set_defaults(run=_app)
    yield app

    keys = commands.add_parser("keys", help="keys of service accounts, which clients of a server need")
    actions = keys.add_subparsers(title="actions", required=True, metavar="ACTION")
    made = actions.add_parser("create", help="make an account for a project, and its key file")
    made.add_argument("project", metavar="PROJECT")
    made.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        help=f"what it may do, may be repeated: {', '.join(SCOPES)} (default {FULL_ACCESS})",
    )
    made.add_argument("--out", type=Path, required=True, metavar="FILE", help="the key file; keep it secret")
    made.set_defaults(run=_create_key)
    yield made
    shown = actions.add_parser("list", help="list the keys")
    shown.set_defaults(run=_list_keys)
    yield shown
    ended = actions.add_parser("revoke", help="end a key and its tokens")
    ended.add_argument("key_id", metavar="KEY", help="its id, as the list shows it")
    ended.set_defaults(run=_revoke_key)
    yield ended


def _above_0(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number above 0")
    return number


def _serve(options: argparse.Namespace) -> None:
    # Imported late, like the ones below: a client never loads the service.
    from attrib_ds.service.http.serving import serve
    from attrib_ds.service.http.settings import Rates, Settings

    if options.no_rates and options.rate:
        raise InvalidRequest("--no-rates and --rate contradict each other; give one of them")
    rates = None if options.no_rates else Rates()
    for text in options.rate:
        rates = _with_rate(rates or Rates(), text)
    given = {name: getattr(options, name) for name in _NUMBERS}
    numbers = {name: number for name, number in given.items() if number is not None}
    settings = Settings(rates=rates, sql=not options.no_sql, **numbers)
    serve(home(), host=options.host, port=options.port, url=options.url, settings=settings)


def _app(options: argparse.Namespace) -> None:
    # Imported late: forms are an extra.
    from attrib_ds.forms.app import run_app

    run_app(port=options.port, opens_browser=not options.no_browser)


def _with_rate(rates: Rates, text: str) -> Rates:
    by_name = {getattr(rates, each.name).name: each.name for each in fields(rates)}
    name, _, rate = text.partition("=")
    amount, _, seconds = rate.partition("/")
    if name not in by_name:
        raise InvalidRequest(f"--rate: {name!r} is not known; allowed: {', '.join(by_name)}")
    try:
        chosen = replace(
            getattr(rates, by_name[name]), amount=_above_0(amount), seconds=float(_above_0(seconds))
        )
    except argparse.ArgumentTypeError as error:
        raise InvalidRequest(f"--rate: {text!r} is not a rate, such as {name}=600/60: {error}") from error
    return replace(rates, **{by_name[name]: chosen})


def _create_key(options: argparse.Namespace) -> None:
    from attrib_ds.service.accounts.administration import create_key

    if not (home() / f"{options.project}.duckdb").exists():
        raise InvalidRequest(f"there is no project {options.project!r} in {home()}; create it first")
    key = create_key(
        home(), options.out, projects=[options.project], scopes=options.scope or ("full_access",)
    )
    print(f"Key {key.privateKeyId} of {key.serviceAccountEmail}: {options.out}")


def _list_keys(_: argparse.Namespace) -> None:
    from attrib_ds.service.accounts.administration import list_keys

    for key in list_keys(home()):
        projects = "all projects" if key.projects is None else " ".join(key.projects)
        state = "revoked" if key.revoked_at is not None else "valid"
        print(f"{key.key_id}\t{state}\t{projects}\t{' '.join(key.scopes)}")


def _revoke_key(options: argparse.Namespace) -> None:
    from attrib_ds.service.accounts.administration import revoke_key

    revoke_key(home(), options.key_id)
    print(f"Revoked {options.key_id}")
