"""The command ``attrib-ds`` and its arguments; imports nothing slow, so that wrong usage is answered at once.

Exit codes: 0 success, 1 a failure reported in one line on standard error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrib_ds
from attrib_ds import commands, display, errors
from attrib_ds.importers.columns import OPTIONS
from attrib_ds.keys import FULL_ACCESS, SCOPES

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

#: Name and settings of an argument.
Argument = tuple[str, dict[str, Any]]

_RESOURCES: Final = ("nodes", "interactions", "hits", "events", "spend")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments after the program's name; those of the process by default.

    Returns
    -------
    int
        The exit code.
    """
    # Pipes and old consoles on Windows know few characters; files have them all.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    options = make_parser().parse_args(arguments)
    if options.home is not None:
        os.environ["ATTRIB_DS_HOME"] = str(options.home)
    try:
        code = options.run(options) or 0
        # What is still to be written may meet a closed pipe too.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has enough; Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (errors.AttribError, OSError) as error:
        show_error(str(error))
        return 1
    except KeyboardInterrupt:
        show_error("interrupted")
        return 1
    return code


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command; ``run`` of its options takes them and does the work."""
    parser = argparse.ArgumentParser(
        prog="attrib-ds", description="Marketing attribution for analysts.", allow_abbrev=False
    )
    parser.set_defaults(home=None)
    parser.add_argument("--version", action="version", version=f"%(prog)s {attrib_ds.__version__}")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_credits(actions)
    _add_projects(actions)
    _add_administration(actions)
    _add_serving(actions)
    return parser


def _alias(text: str) -> tuple[str, str]:
    former, _, name = text.partition("=")
    if not former.strip() or not name.strip():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; allowed: OLD=NEW, such as 'spring=summer'"
        )
    return former, name


def _option(name: str, about: str | None = None, **settings: Any) -> Argument:
    """Return an argument; a word behind its name stands for its value in the help."""
    name, _, value = name.partition(" ")
    return name, {"help": about, **({"metavar": value} if value else {}), **settings}


def _switch(name: str, about: str) -> Argument:
    return _option(name, about, action="store_true")


def _path(name: str, about: str, **settings: Any) -> Argument:
    return _option(name if " " in name else f"{name} FILE", about, type=Path, **settings)


_PROJECT: Final = _option("project PROJECT")
_HOME: Final = _path(
    "--home DIR", "folder of embedded projects (default ATTRIB_DS_HOME, or your data folder)"
)
#: Where a project is: behind a server that holds its file, or in a folder.
_PLACE: Final = (
    _option("--url", "address of the server that has the project open (default: open its file)"),
    _path("--key", "with --url: key file of a service account (default ATTRIB_DS_KEY)"),
    _HOME,
)
_DATABASES: Final = (
    _path("--geo", "MMDB file with the places of the addresses of hits, such as GeoLite2-City.mmdb"),
    _path("--asn", "MMDB file with the networks of these addresses, such as GeoLite2-ASN.mmdb"),
)


def _add(
    actions: Actions, name: str, run: str, about: str, *arguments: Argument, **settings: Any
) -> argparse.ArgumentParser:
    """Add a command that runs a function, named with its module, when it is called."""
    module, function = run.split(".")
    command = actions.add_parser(name, help=about, **settings)
    for argument, options in arguments:
        command.add_argument(argument, **options)
    command.set_defaults(run=lambda options: getattr(getattr(commands, module), function)(options))
    return command


def _group(actions: Actions, name: str, about: str) -> Actions:
    return actions.add_parser(name, help=about).add_subparsers(
        title="actions", required=True, metavar="ACTION"
    )


def _add_credits(actions: Actions) -> None:
    _add(
        actions, "demo", "attribution.demo", "credit the orders of the sample shop",
        _path("--out DIR",
            "folder of the report (default attribution-report)", default=Path("attribution-report")),
    )  # fmt: skip
    sheets = {
        "--sheet": "touchpoints or paths",
        "--conversion-sheet": "conversions",
        "--spend-sheet": "spend",
    }
    code = ", or the code of amounts without a currency, such as EUR"
    ids = {
        "touch": "touch id",
        "conversion": "conversion id",
        "flag": "conversion flag",
        "nulls": "null paths",
    }
    own = _add(
        actions, "attribute", "attribution.attribute", "credit the conversions in your own files",
        _path("--touchpoints", "one row per touchpoint"),
        _path("--conversions", "one row per conversion, unless a flag column of the touchpoints marks them"),
        _path("--paths",
            "in place of these two: aggregated paths, or journeys with a column for each step"),
        _switch("--aggregate", "add up the rows of a conversion, such as order lines"),
        _switch("--order-sources", "use the source that is written in each order as its last touchpoint"),
        _option("--dayfirst", "03/04/2025 is 3 April", action=argparse.BooleanOptionalAction),
        _option("--decimal", "decimal mark, if the numbers are ambiguous", choices=(".", ",")),
        _option("--timezone ZONE", "zone of times without an offset, such as Europe/Paris"),
        _option("--encoding NAME", "encoding of CSV files that are not UTF-8, such as cp1252"),
        _option("--ignore-case",
            "treat names of nodes that differ only by case as one",
            action=argparse.BooleanOptionalAction, default=True),
        _option("--alias OLD=NEW",
            "present name of a renamed campaign or other node; may be repeated",
            type=_alias, action="append", default=[], dest="aliases"),
        *(
            _option(option, f"sheet of the {rows} in an XLSX file (default: the first)", metavar="NAME")
            for option, rows in sheets.items()
        ),
        _option("--separator", "separator of nodes in a path (default ' > ')", default=" > "),
        _path("--spend", "spend of campaigns, as pipelines and ad platforms write it", nargs="+"),
        _option("--conversion-page PATH",
            "page that counts as a conversion, such as /thank-you, in page views or an access log"),
        _option("--models NAMES", "such as linear,time_decay (default: rule-based models)"),
        _option("--lookback", "lookback window (default 30D)", default="30D"),
        _option("--confidence LEVEL", "add intervals, such as 0.95", type=float),
        _path("--out DIR", "folder for a report, the credits as CSV, and reading.json"),
        _switch("--explain",
            "show how the files are read, and credit nothing; the exit code is 1 if something is not clear"),
        _path("--reading", "reading.json of an earlier report, to read files in the same way"),
        *(
            _option(option,
                f"column of the {ids.get(role, role.replace('_', ' '))}{code if role == 'currency' else ''}",
                dest=f"column_{role}", metavar="COLUMN|CODE" if role == "currency" else "COLUMN")
            for role, option in OPTIONS.items()
        ),
        description="Credit conversions to the touchpoints before them. Files are CSV, NDJSON, "
        "Parquet, XLSX and others. Columns are found by name and content; name others with options. Separate "
        "several columns of --node, --path or --date by commas. Times without an offset are UTC.",
    )  # fmt: skip
    own.set_defaults(wrong_usage=own.error)
    _add(
        actions, "app", "serving.app", "open the attribution app in a browser",
        _option("--port", "port to listen on (default 8866; 0: a free one)", type=int, default=8866),
        _switch("--no-browser", "print the address instead of opening a browser"),
    )  # fmt: skip


def _add_projects(actions: Actions) -> None:
    projects = _group(actions, "projects", "create and list embedded projects")
    _add(
        projects, "create", "administration.create", "create an embedded project",
        _PROJECT,
        _option("--currency CODE", "currency of the project (default EUR)"),
        _option("--timezone NAME", "time zone of the project, such as Europe/Paris (default UTC)"),
        _HOME,
    )  # fmt: skip
    _add(projects, "list", "administration.list_all", "list the embedded projects", _HOME)
    _add(
        actions, "load", "administration.load", "load files into an embedded project",
        _PROJECT,
        *(
            # A bucket is not a path.
            _option(f"--{resource} FILE",
                f"NDJSON, Parquet or CSV of {resource}"
                + ", or folder or bucket of parts" * (resource == "hits"))
            for resource in _RESOURCES
        ),
        _path("--access-log",
            "access logs of a web server in the combined format, whose page views become sessions",
            nargs="+"),
        *(
            _path(f"--{service.lower()}-hits",
                f"events exported by {service}, whose page views become sessions", nargs="+")
            for service in ("GA4", "Snowplow")
        ),
        _option("--site URL", "with --access-log: origin of its pages, https://shop.example"),
        *_DATABASES,
        _path("--rejected", "file for rejected rows"),
        _HOME,
    )  # fmt: skip
    flag = {"action": "store_true", "default": None}
    _add(
        actions, "sync", "administration.sync", "mirror a project of a remote service into a file",
        _PROJECT,
        _path("--to PATH", "file of the mirror", required=True),
        _option("--url", "address of the service (default: ATTRIB_DS_URL or config.toml)"),
        _path("--key", "key file of a service account"),
        _option("--since DATE", "first day or instant to read"),
        _option("--until DATE", "last day or instant to read"),
        _option("--hits", "mirror the hits of sessions too", **flag),
        _option("--personal", "mirror identity data of interactions too", **flag),
        _option("--currency CODE", "currency of the project if the service omits it (default EUR)"),
        _option("--timezone ZONE", "time zone of the project if the service omits it (default UTC)"),
        _HOME,
    )  # fmt: skip
    _add(
        actions, "export", "administration.export", "write the users of a project to a CSV or XLSX file",
        _PROJECT,
        _path("file", "file to write; its suffix sets the format"),
        _option("--columns KEYS",
            "keys separated by commas, such as _id,fields.email,eventCount,metrics.turnover.sum",
            required=True),
        _option("--format", "format, if the suffix does not set it", choices=("csv", "xlsx")),
        _option("--where JSON", "filter on users, in the service's JSON"),
        _option("--audience ID", "only users of this audience"),
        _option("--delimiter", "delimiter of CSV (default ,)", default=","),
        _option("--encoding", "encoding of CSV: utf-8 (default) or utf-8-bom for Excel", default="utf-8"),
        _switch("--keep-formulas", "do not escape text that a spreadsheet would evaluate as a formula"),
        _option("--transform JSON",
            'transform a column, such as {"type": "date", "key": "createdAt", "level": "day"}; repeatable',
            action="append", default=[]),
        *_PLACE,
    )  # fmt: skip


def _add_administration(actions: Actions) -> None:
    integrations = _group(actions, "integrations", "list and create integrations (ad platforms)")
    _add(
        integrations, "create", "administration.create_integration",
        "create an integration, to which campaigns belong",
        _PROJECT,
        _option("--vendor-id ID", "its id, unique in the project", required=True),
        _option("--name NAME", "its display name", required=True),
        _option("--currency CODE", "currency of its spend (default: the project's)"),
        _option("--channel NAME", "channel of its traffic, such as Offline"),
        *_PLACE,
    )  # fmt: skip
    about = "list the integrations of a project"
    _add(integrations, "list", "administration.list_integrations", about, _PROJECT, *_PLACE)

    event_types = _group(actions, "event-types", "list and create event types")
    archived = _switch("--archived", "list the archived ones")
    about = "list the event types of a project"
    _add(event_types, "list", "administration.list_event_types", about, _PROJECT, archived, *_PLACE)
    definitions = _path("file", "a JSON object with at least reference and name, or a list")
    about = "create event types from a JSON file"
    _add(event_types, "create", "administration.create_event_types", about, _PROJECT, definitions, *_PLACE)

    _add(
        actions, "settings", "administration.settings", "show and change the settings of a project",
        _PROJECT,
        _option("--set NAME=JSON",
            "a setting to change, such as retentionDurationInDays=365, requireTokenForEvents=true or "
            "allowedOrigins='[\"https://shop.example\"]'; null clears it; repeatable",
            action="append", default=[]),
        *_PLACE,
    )  # fmt: skip
    about = "copy a project into a file; with --url, while it is served"
    _add(actions, "backup", "administration.back_up", about, _PROJECT, _path("file", "a new file"), *_PLACE)
    _add(
        actions, "restore", "administration.restore", "restore a project from a backup",
        _PROJECT,
        _path("file", "the backup; it is left unchanged"),
        _switch("--replace", "overwrite the existing project"),
        _HOME,
    )  # fmt: skip
    about = "remove the data of erased persons from a project's files"
    _add(actions, "compact", "administration.compact", about, _PROJECT, *_PLACE)
    repair = _switch("--repair", "copy the file, then repair what can be computed from hits")
    about = "check a project's file for inconsistencies"
    _add(actions, "check", "administration.check", about, _PROJECT, repair, *_PLACE)


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; expected a port, such as 9100, or an address and a port, such as "
            "0.0.0.0:9100"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


#: Of commands that listen.
_LISTENING: Final = (
    _option("--host", "address to listen on (default 127.0.0.1)", default="127.0.0.1"),
    _option("--port", "port to listen on (default 8000; 0: a free one)", type=int, default=8000),
    _option("--rate NAME=AMOUNT/SECONDS",
        "a rate limit, such as requests=600/60 (default); also heavy, events, events-by-address, hits and "
        "hits-by-address; repeatable", action="append", default=[]),
    *_DATABASES,
    _option("--metrics [HOST:]PORT",
        "serve Prometheus metrics at /metrics on this port, by default on this machine only", type=_endpoint),
    _option("--log-level",
        "messages to show on standard error (default warning); info shows each request",
        choices=("debug", "info", "warning", "error"), default="warning"),
)  # fmt: skip


def _add_serving(actions: Actions) -> None:
    serve = _add(
        actions, "serve", "serving.serve", "serve the embedded projects over HTTP",
        _option("--url URL", "public address of the server, as clients reach it"),
        _option("--without",
            "switch off rate limits, searches of users by SQL or creating keys over HTTP; repeatable",
            action="append", choices=("rates", "sql", "new-keys"), default=[]),
        _option("--max-page-size N", "most records per page (default: no maximum)", type=_positive),
        *_LISTENING,
        _HOME,
    )  # fmt: skip
    _add_edge(serve, "serve")
    collect = _add(
        actions, "collect", "serving.collect",
        "collect the hits of a site into a folder or bucket",
        _PROJECT,
        _option("--to PLACE",
            "folder of the parts, or a bucket such as s3://bucket/shop or gs://bucket/shop", required=True),
        _path("--settings", "the project's settings in JSON, as `attrib-ds settings` names them"),
        _option("--url", "address of the service to read the settings from"),
        _path("--key", "key file of a service account with the scope hits:write"),
        _path("--journal DIR",
            "local folder of hits not yet in a part (default: in the folder of embedded projects)"),
        *_LISTENING,
        _HOME,
    )  # fmt: skip
    _add_edge(collect, "collect")

    keys = _group(actions, "keys", "manage the keys of a server's clients")
    _add(
        keys, "create", "serving.create_key", "create a service account for a project, and its key file",
        _PROJECT,
        _option("--scope SCOPE",
            f"a scope to grant, repeatable: {', '.join(SCOPES)} (default {FULL_ACCESS})", action="append"),
        _path("--out", "the key file; keep it secret", required=True),
        _option("--expires DATE", "first day or instant on which the key is refused (default: never)"),
        _HOME,
    )  # fmt: skip
    _add(keys, "list", "serving.list_keys", "list the keys", _HOME)
    key = _option("key_id KEY", "id of the key, as listed")
    _add(keys, "revoke", "serving.revoke_key", "revoke a key and its tokens", key, _HOME)


def _add_edge(server: argparse.ArgumentParser, name: str) -> None:
    """Add the options of a command that listens, and refuse to listen unprotected unless asked."""
    edge = server.add_mutually_exclusive_group()
    edge.add_argument(
        "--behind-proxy", type=_proxy, nargs="+", default=[], metavar="ADDRESS",
        help="addresses or networks of your reverse proxy: X-Forwarded-For and X-Forwarded-Proto are read "
        "from these only",
    )  # fmt: skip
    edge.add_argument(
        "--unprotected", action="store_true",
        help="listen on any address without a proxy, in a network that you trust",
    )  # fmt: skip

    def run_server(options: argparse.Namespace) -> None:
        if not (_is_loopback(options.host) or options.behind_proxy or options.unprotected):
            server.exit(
                2,
                f"attrib-ds {name}: others can reach --host {options.host}: put a reverse proxy in front and "
                "pass its address to --behind-proxy, or pass --unprotected\n",
            )
        getattr(commands.serving, name)(options)

    server.set_defaults(run=run_server)


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
        raise argparse.ArgumentTypeError(f"{text!r} covers all addresses, so any client could forge its own")
    return text


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expected a whole number above 0")
    return number


def show(text: str) -> None:
    """Print text to standard output."""
    print(display.printable(text))


def show_row(*cells: str) -> None:
    """Print cells as one line, separated by tabs; tabs and line feeds in cells are escaped."""
    show("\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in cells))


def show_error(text: str) -> None:
    """Print a message as one line to standard error."""
    print(f"attrib-ds: {display.printable(' '.join(text.split()))}", file=sys.stderr)
