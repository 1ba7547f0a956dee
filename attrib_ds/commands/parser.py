"""Arguments of every command; imports nothing slow, so that wrong usage is answered at once."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrib_ds import commands
from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.display import printable
from attrib_ds.importers.column_options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    Actions = argparse._SubParsersAction[argparse.ArgumentParser]


_RESOURCES: Final = ("nodes", "interactions", "hits", "events", "spend")


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command; ``run`` of its options takes them and does the work."""
    parser = argparse.ArgumentParser(
        prog="attrib-ds", description="Marketing attribution for analysts.", allow_abbrev=False
    )
    parser.set_defaults(home=None)
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_demo(actions)
    _add_attribute(actions)
    _add_app(actions)
    for command in (
        *_project_commands(actions),
        *_administration_commands(actions),
        *_serving_commands(actions),
    ):
        command.add_argument(
            "--home",
            type=Path,
            metavar="DIR",
            help="folder of embedded projects (default ATTRIB_DS_HOME, or your data folder)",
        )
    return parser


def _version() -> str:
    try:
        return version("attrib-ds")
    except PackageNotFoundError:
        return "(not installed)"


def _add_demo(actions: Actions) -> None:
    demo = actions.add_parser("demo", help="credit the orders of the sample shop")
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("attribution-report"),
        metavar="DIR",
        help="folder of the report (default attribution-report)",
    )
    demo.set_defaults(run=lambda options: commands.attribution.demo(options))


def _add_attribute(actions: Actions) -> None:
    own = actions.add_parser(
        "attribute",
        help="credit the conversions in your own files",
        description="Credit conversions to the touchpoints before them. Files are CSV, NDJSON, "
        "Parquet or XLSX. Columns with common names are found; name others by options, several of --node or "
        "--path, and a day and its time in --date, with commas. Times without an offset are UTC.",
    )
    own.add_argument("--touchpoints", type=Path, metavar="FILE", help="one row per touchpoint")
    own.add_argument(
        "--conversions",
        type=Path,
        metavar="FILE",
        help="one row per conversion; if omitted, touchpoints with a flag column are conversions",
    )
    own.add_argument(
        "--paths",
        type=Path,
        metavar="FILE",
        help="aggregated paths, or wide journeys with their steps in columns, instead of the two above",
    )
    own.add_argument(
        "--aggregate",
        action="store_true",
        help="add up the rows of a conversion, such as order lines",
    )
    own.add_argument(
        "--dayfirst",
        action=argparse.BooleanOptionalAction,
        help="03/04/2025 is in April",
    )
    own.add_argument("--decimal", choices=(".", ","), help="decimal mark of numbers, if they do not tell")
    own.add_argument(
        "--encoding", metavar="NAME", help="encoding of CSV files that are not UTF-8, such as cp1252"
    )
    own.add_argument(
        "--ignore-case",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="names of nodes that differ by case only are one",
    )
    for option, rows in (
        ("--sheet", "touchpoints or paths"),
        ("--conversion-sheet", "conversions"),
        ("--spend-sheet", "spend"),
    ):
        own.add_argument(
            option, metavar="NAME", help=f"sheet of the {rows} in an XLSX file (default: the first)"
        )
    own.add_argument("--separator", default=" > ", help="separator of nodes in a path (default ' > ')")
    own.add_argument("--spend", type=Path, metavar="FILE", help="spend per node: node, spend, currency")
    own.add_argument(
        "--models", metavar="NAMES", help="such as linear,time_decay (default: rule-based models)"
    )
    own.add_argument("--lookback", default="30D", help="lookback window (default 30D)")
    own.add_argument("--confidence", type=float, metavar="LEVEL", help="add intervals, such as 0.95")
    own.add_argument("--out", type=Path, metavar="DIR", help="write a report and the credits there too")
    for role, option in OPTIONS.items():
        is_currency = role == "currency"
        own.add_argument(
            option,
            dest=f"column_{role}",
            metavar="COLUMN|CODE" if is_currency else "COLUMN",
            help=f"column of the {role.replace('_', ' ')}"
            + (", or the code of amounts without a currency, such as EUR" if is_currency else ""),
        )
    own.set_defaults(run=lambda options: commands.attribution.attribute(options), wrong_usage=own.error)


def _add_app(actions: Actions) -> None:
    app = actions.add_parser("app", help="open the attribution app in a browser")
    app.add_argument("--port", type=int, default=8866, help="port to listen on (default 8866)")
    app.add_argument("--no-browser", action="store_true", help="print the address only")
    app.set_defaults(run=lambda options: commands.serving.app(options))


def _project_commands(actions: Actions) -> Iterator[argparse.ArgumentParser]:
    projects = actions.add_parser("projects", help="make and list embedded projects")
    project_actions = projects.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = project_actions.add_parser("create", help="make an embedded project")
    create.add_argument("project", metavar="PROJECT")
    create.add_argument("--currency", metavar="CODE", help="currency of the project (default EUR)")
    create.add_argument(
        "--timezone", metavar="NAME", help="time zone of the project, such as Europe/Paris (default UTC)"
    )
    create.set_defaults(run=lambda options: commands.administration.create(options))
    yield create
    listed = project_actions.add_parser("list", help="list the embedded projects")
    listed.set_defaults(run=lambda options: commands.administration.list_all(options))
    yield listed

    load = actions.add_parser("load", help="load files into an embedded project")
    load.add_argument("project", metavar="PROJECT")
    for resource in _RESOURCES:
        load.add_argument(
            f"--{resource}", type=Path, metavar="FILE", help=f"NDJSON, Parquet or CSV of {resource}"
        )
    load.add_argument(
        "--access-log",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="access logs of a web server in the combined format, whose page views become sessions",
    )
    for service in ("GA4", "Snowplow"):
        load.add_argument(
            f"--{service.lower()}-hits",
            type=Path,
            nargs="+",
            metavar="FILE",
            help=f"events exported by {service}, whose page views become sessions",
        )
    load.add_argument(
        "--site", metavar="URL", help="with --access-log: origin of its pages, https://shop.example"
    )
    _add_databases(load)
    load.add_argument("--rejected", type=Path, metavar="FILE", help="write rejected rows there")
    load.set_defaults(run=lambda options: commands.administration.load(options))
    yield load

    sync = actions.add_parser("sync", help="mirror a project of a remote service into a file")
    sync.add_argument("project", metavar="PROJECT")
    sync.add_argument("--to", type=Path, required=True, metavar="PATH", help="file of the mirror")
    sync.add_argument("--url", help="address of the service (default: as connect() finds it)")
    sync.add_argument("--key", type=Path, metavar="FILE", help="key file of a service account")
    sync.add_argument("--since", metavar="DATE", help="first day or instant to read")
    sync.add_argument("--until", metavar="DATE", help="last day or instant to read")
    sync.add_argument("--hits", action="store_true", default=None, help="mirror the hits of sessions too")
    sync.add_argument(
        "--personal", action="store_true", default=None, help="mirror identity data of interactions too"
    )
    sync.add_argument(
        "--currency", metavar="CODE", help="currency of the project if the service omits it (default EUR)"
    )
    sync.add_argument(
        "--timezone", metavar="ZONE", help="time zone of the project if the service omits it (default UTC)"
    )
    sync.set_defaults(run=lambda options: commands.administration.sync(options))
    yield sync

    export = actions.add_parser("export", help="write the users of a project to a CSV or XLSX file")
    export.add_argument("project", metavar="PROJECT")
    export.add_argument("file", type=Path, metavar="FILE", help="file to write; its suffix sets the format")
    export.add_argument(
        "--columns",
        required=True,
        metavar="KEYS",
        help="keys separated by commas, such as _id,fields.email,eventCount,metrics.turnover.sum",
    )
    export.add_argument("--format", choices=("csv", "xlsx"), help="format, if the suffix does not set it")
    export.add_argument("--where", metavar="JSON", help="filter on users, in the service's JSON")
    export.add_argument("--audience", metavar="ID", help="only users of this audience")
    export.add_argument("--delimiter", default=",", help="delimiter of CSV (default ,)")
    export.add_argument(
        "--encoding", default="utf-8", help="encoding of CSV: utf-8 (default) or utf-8-bom for Excel"
    )
    export.add_argument(
        "--keep-formulas",
        action="store_true",
        help="do not escape text that a spreadsheet would evaluate as a formula",
    )
    export.add_argument(
        "--transform",
        action="append",
        default=[],
        metavar="JSON",
        help='transform a column, such as {"type": "date", "key": "createdAt", "level": "day"}; repeatable',
    )
    export.set_defaults(run=lambda options: commands.administration.export(options))
    yield export


def _administration_commands(actions: Actions) -> Iterator[argparse.ArgumentParser]:
    integrations = actions.add_parser("integrations", help="ad platforms of an embedded project")
    integration_actions = integrations.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = integration_actions.add_parser("create", help="make an integration, which campaigns belong to")
    create.add_argument("project", metavar="PROJECT")
    create.add_argument("--vendor-id", required=True, metavar="ID", help="its id, unique in the project")
    create.add_argument("--name", required=True, metavar="NAME", help="its display name")
    create.add_argument(
        "--currency", metavar="CODE", help="currency of its outlays (default: that of the project)"
    )
    create.add_argument("--channel", metavar="NAME", help="channel of its traffic, such as Offline")
    create.set_defaults(run=lambda options: commands.administration.create_integration(options))
    yield create
    listed = integration_actions.add_parser("list", help="list the integrations of a project")
    listed.add_argument("project", metavar="PROJECT")
    listed.set_defaults(run=lambda options: commands.administration.list_integrations(options))
    yield listed

    event_types = actions.add_parser("event-types", help="event types of an embedded project")
    event_type_actions = event_types.add_subparsers(title="actions", required=True, metavar="ACTION")
    listed = event_type_actions.add_parser("list", help="list the event types of a project")
    listed.add_argument("project", metavar="PROJECT")
    listed.add_argument("--archived", action="store_true", help="list the archived ones")
    listed.set_defaults(run=lambda options: commands.administration.list_event_types(options))
    yield listed
    create = event_type_actions.add_parser("create", help="make event types from a JSON file")
    create.add_argument("project", metavar="PROJECT")
    create.add_argument(
        "file", type=Path, metavar="FILE", help="a JSON object with at least reference and name, or a list"
    )
    create.set_defaults(run=lambda options: commands.administration.create_event_types(options))
    yield create

    settings = actions.add_parser("settings", help="show and change the settings of an embedded project")
    settings.add_argument("project", metavar="PROJECT")
    settings.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a setting to change, such as retentionDurationInDays=365, requireTokenForEvents=true or "
        "allowedOrigins='[\"https://shop.example\"]'; null clears it; repeatable",
    )
    settings.set_defaults(run=lambda options: commands.administration.settings(options))
    yield settings

    backup = actions.add_parser("backup", help="copy a project into a file, while it is in use")
    backup.add_argument("project", metavar="PROJECT")
    backup.add_argument("file", type=Path, metavar="FILE", help="a new file")
    backup.set_defaults(run=lambda options: commands.administration.back_up(options))
    yield backup

    restore = actions.add_parser("restore", help="restore a project from a backup")
    restore.add_argument("project", metavar="PROJECT")
    restore.add_argument("file", type=Path, metavar="FILE", help="the backup; it is left unchanged")
    restore.add_argument("--replace", action="store_true", help="overwrite the existing project")
    restore.set_defaults(run=lambda options: commands.administration.restore(options))
    yield restore

    check = actions.add_parser("check", help="check a project's file for inconsistencies")
    check.add_argument("project", metavar="PROJECT")
    check.set_defaults(run=lambda options: commands.administration.check(options))
    yield check


def _serving_commands(actions: Actions) -> Iterator[argparse.ArgumentParser]:
    serve = actions.add_parser("serve", help="serve the embedded projects over HTTP")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    serve.add_argument(
        "--port", type=int, default=8000, help="port to listen on (default 8000; 0: a free one)"
    )
    serve.add_argument("--url", metavar="URL", help="public address of the server, as clients reach it")
    edge = serve.add_mutually_exclusive_group()
    edge.add_argument(
        "--behind-proxy",
        type=_proxy,
        nargs="+",
        default=[],
        metavar="ADDRESS",
        help="addresses or networks of your reverse proxy: X-Forwarded-For and X-Forwarded-Proto are trusted "
        "from them alone",
    )
    edge.add_argument(
        "--unprotected",
        action="store_true",
        help="listen on another address than this machine's own without a proxy, in a network you trust",
    )
    serve.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="NAME=AMOUNT/SECONDS",
        help="a rate limit, such as requests=600/60 (default); also heavy, events, events-by-address, "
        "hits and hits-by-address; repeatable",
    )
    serve.add_argument(
        "--without",
        action="append",
        choices=("rates", "sql", "new-keys"),
        default=[],
        help="switch off rate limits, searches of users by SQL or creating keys over HTTP; repeatable",
    )
    _add_databases(serve)
    serve.add_argument(
        "--max-page-size", type=_positive, metavar="N", help="records per page at most (default: no maximum)"
    )

    def run_server(options: argparse.Namespace) -> None:
        if not (_is_loopback(options.host) or options.behind_proxy or options.unprotected):
            serve.exit(
                2,
                f"attrib-ds serve: others can reach --host {options.host}: put a reverse proxy in front and "
                "pass its address to --behind-proxy, or pass --unprotected\n",
            )
        commands.serving.serve(options)

    serve.set_defaults(run=run_server)
    yield serve

    keys = actions.add_parser("keys", help="keys of service accounts, which clients of a server need")
    key_actions = keys.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = key_actions.add_parser("create", help="make a service account for a project, and its key file")
    create.add_argument("project", metavar="PROJECT")
    create.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        help=f"a scope to grant, repeatable: {', '.join(SCOPES)} (default {FULL_ACCESS})",
    )
    create.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the key file; keep it secret"
    )
    create.add_argument(
        "--expires", metavar="DATE", help="first day or instant on which the key is refused (default: never)"
    )
    create.set_defaults(run=lambda options: commands.serving.create_key(options))
    yield create
    listed = key_actions.add_parser("list", help="list the keys")
    listed.set_defaults(run=lambda options: commands.serving.list_keys(options))
    yield listed
    revoke = key_actions.add_parser("revoke", help="revoke a key and its tokens")
    revoke.add_argument("key_id", metavar="KEY", help="id of the key, as listed")
    revoke.set_defaults(run=lambda options: commands.serving.revoke_key(options))
    yield revoke


def _add_databases(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--geo",
        type=Path,
        metavar="FILE",
        help="MMDB file with the places of the addresses of hits, such as GeoLite2-City.mmdb",
    )
    parser.add_argument(
        "--asn", type=Path, metavar="FILE", help="MMDB file with their networks, such as GeoLite2-ASN.mmdb"
    )


def _is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy(text: str) -> str:
    """Check the address of a proxy, or a network of them."""
    try:
        network = ip_network(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; expected an IP address or a network, such as 10.0.0.5 or 172.18.0.0/16"
        ) from None
    if not network.prefixlen:
        raise argparse.ArgumentTypeError(f"{text!r} is every address, so that any client could forge its own")
    return text


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expected a whole number above 0")
    return number


def show(text: str) -> None:
    """Print text to standard output."""
    print(printable(text))


def show_row(*cells: str) -> None:
    """Print cells as one line, separated by tabs; tabs and line feeds in cells are escaped."""
    show("\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in cells))


def show_error(text: str) -> None:
    """Print a message as one line to standard error."""
    print(f"attrib-ds: {printable(' '.join(text.split()))}", file=sys.stderr)
