"""Commands ``serve``, ``collect``, ``keys`` and ``app``: HTTP servers, client keys, and the app."""

import argparse
import json
import logging
import re
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from zoneinfo import ZoneInfo

from attrib_ds import errors, instants, project
from attrib_ds.commands.cli import show, show_row

#: Packages of the extra ``[serve]``.
_EXTRA: Final = ("httptools", "prometheus_client", "starlette", "uvicorn")


def serve(options: argparse.Namespace) -> None:
    """Serve the embedded projects over HTTP."""
    server = _server()
    if options.rate and "rates" in options.without:
        raise errors.InvalidRequest("--without rates and --rate contradict each other; pass only one of them")
    server_options = server.ServerOptions(
        rate_limits=None if "rates" in options.without else _rates(options, server),
        sql="sql" not in options.without,
        new_keys="new-keys" not in options.without,
        max_page_size=options.max_page_size,
        **_listening(options),
    )
    server.serve(
        project.home(), host=options.host, port=options.port, url=options.url, options=server_options
    )


def collect(options: argparse.Namespace) -> None:
    """Answer the pages of a site, and write their hits to a folder or bucket."""
    server = _server()
    if (options.settings is None) == (options.url is None):
        raise errors.InvalidRequest("pass --settings FILE, or --url URL with --key FILE, for the settings")
    server_options = server.ServerOptions(rate_limits=_rates(options, server), **_listening(options))
    with ExitStack() as stack:
        if options.url is not None:
            service = stack.enter_context(project.connect(options.project, url=options.url, key=options.key))
        server.collect(
            options.project,
            options.to,
            journals=options.journal or project.home() / "journals",
            read=lambda: (
                _read_settings(options.settings)
                if options.settings is not None
                else service.send("get_collector").value
            ),
            host=options.host,
            port=options.port,
            options=server_options,
        )


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise errors.InvalidRequest(f"--settings: {str(file)!r} cannot be read: {error}") from error
    if not isinstance(record, dict):
        raise errors.InvalidRequest(f"--settings: {str(file)!r} is not a JSON object")
    return record


def _server() -> ModuleType:
    # The client imports the service only inside functions.
    try:
        import attrib_ds.service.http.server as server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise errors.NotSupported(
            f"serving over HTTP requires {error.name}, which is not installed; install the extra: "
            "pip install 'attrib-ds[serve]'"
        ) from error
    return server


def _rates(options: argparse.Namespace, server: ModuleType) -> dict[str, Any]:
    """Return the rate limits, with those of the options."""
    rates = dict(server.RATES)
    for text in options.rate:
        name, _, rate = text.partition("=")
        amount, _, seconds = rate.partition("/")
        if name not in rates:
            raise errors.InvalidRequest(f"--rate: {name!r} is not a rate limit; allowed: {', '.join(rates)}")
        if not all(re.fullmatch("0*[1-9][0-9]{0,17}", number) for number in (amount, seconds)):
            raise errors.InvalidRequest(
                f"--rate: {text!r} is not a rate; allowed: whole numbers above 0, such as {name}=600/60"
            )
        rates[name] = server.Rate(int(amount), float(seconds))
    return rates


def _listening(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of every server, and begin its log."""
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=options.log_level.upper(), format=form)
    return {
        "behind_proxy": tuple(options.behind_proxy),
        "metrics": options.metrics,
        "geo": options.geo,
        "asn": options.asn,
    }


def app(options: argparse.Namespace) -> None:
    """Open the app in a browser."""
    from attrib_ds.forms.workbench import run_app

    run_app(port=options.port, opens_browser=not options.no_browser)


def create_key(options: argparse.Namespace) -> None:
    """Create a service account and its key file."""
    from attrib_ds.service.accounts.accounts import create_key

    if not (project.home() / f"{options.project}.duckdb").exists():
        raise errors.InvalidRequest(
            f"there is no project {options.project!r} in {project.home()}; create it first"
        )
    key = create_key(
        project.home(),
        options.out,
        projects=[options.project],
        scopes=options.scope or ("full_access",),
        expires_at=_expiry(options.expires),
    )
    show(f"Key {key.privateKeyId} of {key.serviceAccountEmail}: {options.out}")


def list_keys(_: argparse.Namespace) -> None:
    """Print the keys."""
    from attrib_ds.service.accounts.accounts import Accounts

    with closing(Accounts.open(project.home())) as accounts:
        keys = accounts.list_keys()
    for key in keys:
        projects = "all projects" if key.projects is None else " ".join(key.projects)
        show_row(key.key_id, _state(key.revoked_at, key.expires_at), projects, " ".join(key.scopes))


def _expiry(text: str | None) -> datetime | None:
    """Read a day, which starts in UTC, or an instant."""
    if text is None:
        return None
    day = instants.parse_day(text, argument="--expires")
    if day is not None:
        return instants.first_instant(day, ZoneInfo("UTC"), argument="--expires")
    return instants.parse(text, argument="--expires")


def _state(revoked_at: datetime | None, expires_at: datetime | None) -> str:
    if revoked_at is not None:
        return "revoked"
    if expires_at is None:
        return "valid"
    return "expired" if expires_at <= instants.now() else f"valid until {instants.format(expires_at)}"


def revoke_key(options: argparse.Namespace) -> None:
    """Revoke a key and its tokens."""
    from attrib_ds.service.accounts.accounts import Accounts

    with closing(Accounts.open(project.home())) as accounts:
        accounts.revoke_key(options.key_id)
    show(f"Revoked {options.key_id}")
