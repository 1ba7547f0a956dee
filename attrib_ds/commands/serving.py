"""Commands ``serve``, ``keys`` and ``app``: HTTP server of embedded projects, client keys, and the app."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from attrib_ds import instants
from attrib_ds.commands.parser import show, show_row
from attrib_ds.errors import InvalidRequest
from attrib_ds.project import home

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from attrib_ds.service.http.server_options import RateLimits

_LIMITS: Final = (
    "threads",
    "most_waiting",
    "reads",
    "seconds_to_read",
    "most_connections",
    "most_connections_per_address",
    "body_mebibytes",
    "seconds_to_stop",
    "max_page_size",
)


def serve(options: argparse.Namespace) -> None:
    """Serve the embedded projects over HTTP."""
    # The client imports the service only inside functions.
    from attrib_ds.service.http.client_addresses import parse_proxies
    from attrib_ds.service.http.server_options import RateLimits, ServerOptions
    from attrib_ds.service.http.serving import serve

    if options.no_rates and options.rate:
        raise InvalidRequest("--no-rates and --rate contradict each other; pass only one of them")
    rates = None if options.no_rates else RateLimits()
    for text in options.rate:
        rates = _with_rate(rates or RateLimits(), text)
    limits = {name: getattr(options, name) for name in _LIMITS if getattr(options, name) is not None}
    server_options = ServerOptions(
        rate_limits=rates,
        sql=not options.no_sql,
        new_keys=not options.no_new_keys,
        trusted_proxies=tuple(map(parse_proxies, options.trusted_proxy)),
        geo=options.geo,
        asn=options.asn,
        **limits,
    )
    serve(home(), host=options.host, port=options.port, url=options.url, options=server_options)


def app(options: argparse.Namespace) -> None:
    """Open the app in a browser."""
    from attrib_ds.forms.app import run_app

    run_app(port=options.port, opens_browser=not options.no_browser)


def _with_rate(rates: RateLimits, text: str) -> RateLimits:
    by_name = {getattr(rates, field.name).name: field.name for field in fields(rates)}
    name, _, rate = text.partition("=")
    amount, _, seconds = rate.partition("/")
    if name not in by_name:
        raise InvalidRequest(f"--rate: {name!r} is not a rate limit; allowed: {', '.join(by_name)}")
    if not all(re.fullmatch("0*[1-9][0-9]{0,17}", number) for number in (amount, seconds)):
        raise InvalidRequest(
            f"--rate: {text!r} is not a rate; allowed: whole numbers above 0, such as {name}=600/60"
        )
    limit = replace(getattr(rates, by_name[name]), amount=int(amount), seconds=float(seconds))
    return replace(rates, **{by_name[name]: limit})


def create_key(options: argparse.Namespace) -> None:
    """Create a service account and its key file."""
    from attrib_ds.service.accounts.administration import create_key

    if not (home() / f"{options.project}.duckdb").exists():
        raise InvalidRequest(f"there is no project {options.project!r} in {home()}; create it first")
    key = create_key(
        home(),
        options.out,
        projects=[options.project],
        scopes=options.scope or ("full_access",),
        expires_at=_expiry(options.expires),
    )
    show(f"Key {key.privateKeyId} of {key.serviceAccountEmail}: {options.out}")


def list_keys(_: argparse.Namespace) -> None:
    """Print the keys."""
    from attrib_ds.service.accounts.administration import list_keys

    for key in list_keys(home()):
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
    if expires_at <= instants.now():
        return "expired"
    return f"valid until {instants.format(expires_at)}"


def revoke_key(options: argparse.Namespace) -> None:
    """Revoke a key and its tokens."""
    from attrib_ds.service.accounts.administration import revoke_key

    revoke_key(home(), options.key_id)
    show(f"Revoked {options.key_id}")
