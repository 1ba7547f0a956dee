"""The command ``attrib-ds``.

Exit codes: 0 done, 1 a failure told in one line on standard error, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from attrib_ds.api.admin.integrations import create_integration
from attrib_ds.api.conversions import conversion_paths
from attrib_ds.api.exports import export_users
from attrib_ds.api.loading import load
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.commands import serving as serving_commands
from attrib_ds.commands.administration import add_commands, existing
from attrib_ds.commands.report import side_by_side, write_report
from attrib_ds.errors import AttribError, InvalidRequest
from attrib_ds.filters import from_json
from attrib_ds.importers.own_files import OPTIONS, FilePaths, read_paths, read_sequences, read_spend
from attrib_ds.mirroring import sync
from attrib_ds.project import connect, home
from attrib_ds.records.frames import to_pandas
from attrib_ds.sample.shop import sample_project
from attrib_ds.transports.http.configuration import find_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project


_DEMO_MODELS = ("first_touch", "last_touch", "last_non_direct", "linear", "time_decay", "position_based")
_SEQUENCE_MODELS = ("first_touch", "last_touch", "last_non_direct", "linear", "position_based")
_MOST_ROWS = 30
_RETURNS = {
    "cpa": "Spend per credited conversion (CPA)",
    "roas": "Credited value per unit spent (ROAS)",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind the command; by default what the process was given.

    Returns
    -------
    int
        The exit code.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.home is not None:
        os.environ["ATTRIB_DS_HOME"] = str(options.home)
    try:
        options.run(options)
    except (AttribError, OSError) as error:
        print(f"attrib-ds: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("attrib-ds: interrupted", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attrib-ds", description="Marketing attribution for analysts.", allow_abbrev=False
    )
    parser.set_defaults(home=None)
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="credit the conversions of the shipped sample shop")
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("attribution-report"),
        metavar="DIR",
        help="where to write (default attribution-report)",
    )
    demo.set_defaults(run=_demo)

    own = commands.add_parser(
        "attribute",
        help="credit the conversions in files of your own",
        description="Credit conversions to the touchpoints before them. Files are CSV, NDJSON or Parquet; "
        "columns with common names are found, others are named by options. Times without an offset are UTC.",
    )
    own.add_argument("--touchpoints", type=Path, metavar="FILE", help="one row per touchpoint")
    own.add_argument(
        "--conversions",
        type=Path,
        metavar="FILE",
        help="one row per conversion; without it, touchpoints with a flag column are conversions",
    )
    own.add_argument(
        "--paths", type=Path, metavar="FILE", help="already aggregated paths, instead of the two"
    )
    own.add_argument(
        "--separator", default=" > ", help="between the nodes of aggregated paths (default ' > ')"
    )
    own.add_argument("--spend", type=Path, metavar="FILE", help="spend per node: node, spend, currency")
    own.add_argument(
        "--models", metavar="NAMES", help="such as linear,time_decay (default: the rules of the demo)"
    )
    own.add_argument("--lookback", default="30D", help="how far back touchpoints count (default 30D)")
    own.add_argument("--confidence", type=float, metavar="LEVEL", help="add intervals, such as 0.95")
    own.add_argument("--out", type=Path, metavar="DIR", help="also write a report and the credits there")
    for role, option in OPTIONS.items():
        own.add_argument(
            option, dest=f"column_{role}", metavar="COLUMN", help=f"column of the {role.replace('_', ' ')}"
        )
    own.set_defaults(run=_attribute, wrong_usage=own.error)

    projects = commands.add_parser("projects", help="embedded projects")
    actions = projects.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make an embedded project")
    create.add_argument("project", metavar="PROJECT")
    create.add_argument("--currency", metavar="CODE", help="its currency (default EUR)")
    create.add_argument(
        "--timezone", metavar="NAME", help="its time zone, such as Europe/Paris (default UTC)"
    )
    create.set_defaults(run=_create_project)
    listed = actions.add_parser("list", help="list the embedded projects")
    listed.set_defaults(run=_list_projects)

    filled = commands.add_parser("load", help="load files into an embedded project")
    filled.add_argument("project", metavar="PROJECT")
    for resource in ("nodes", "interactions", "hits", "events", "spend"):
        filled.add_argument(
            f"--{resource}", type=Path, metavar="FILE", help=f"NDJSON, Parquet or CSV of {resource}"
        )
    filled.add_argument("--rejected", type=Path, metavar="FILE", help="write the rows that did not fit there")
    filled.set_defaults(run=_load)

    integrations = commands.add_parser("integrations", help="ad platforms of an embedded project")
    actions = integrations.add_subparsers(title="actions", required=True, metavar="ACTION")
    joined = actions.add_parser("create", help="make an integration, which campaigns belong to")
    joined.add_argument("project", metavar="PROJECT")
    joined.add_argument("--vendor-id", required=True, metavar="ID", help="its id, unique in the project")
    joined.add_argument("--name", required=True, metavar="NAME", help="what people call it")
    joined.add_argument(
        "--currency", metavar="CODE", help="of its outlays, such as EUR (default: that of the project)"
    )
    joined.add_argument("--channel", metavar="NAME", help="what it is counted under, such as Offline")
    joined.set_defaults(run=_create_integration)
    known = actions.add_parser("list", help="list the integrations of a project")
    known.add_argument("project", metavar="PROJECT")
    known.set_defaults(run=_list_integrations)

    mirrored = commands.add_parser("sync", help="mirror a project of a remote service into a file")
    mirrored.add_argument("project", metavar="PROJECT")
    mirrored.add_argument("--to", type=Path, required=True, metavar="PATH", help="file of the mirror")
    mirrored.add_argument("--url", help="address of the service (default: as connect() finds it)")
    mirrored.add_argument("--key", type=Path, metavar="FILE", help="key file of a service account")
    mirrored.add_argument("--since", metavar="INSTANT", help="read what is dated from here on")
    mirrored.add_argument("--until", metavar="INSTANT", help="read what is dated until here")
    mirrored.add_argument("--hits", action="store_true", default=None, help="mirror the hits of sessions too")
    mirrored.add_argument(
        "--personal", action="store_true", default=None, help="mirror identity data of interactions too"
    )
    mirrored.add_argument(
        "--currency", metavar="CODE", help="of the project, where the service does not tell it (default EUR)"
    )
    mirrored.add_argument(
        "--timezone", metavar="ZONE", help="of the project, where the service does not tell it (default UTC)"
    )
    mirrored.set_defaults(run=_sync)

    administered = list(add_commands(commands))

    exported = commands.add_parser("export", help="write the users of a project to a CSV or XLSX file")
    exported.add_argument("project", metavar="PROJECT")
    exported.add_argument(
        "file", type=Path, metavar="FILE", help="where to write; its ending tells the format"
    )
    exported.add_argument(
        "--columns",
        required=True,
        metavar="KEYS",
        help="keys separated by commas, such as _id,fields.email,eventCount,metrics.turnover.sum",
    )
    exported.add_argument("--format", choices=("csv", "xlsx"), help="where the ending does not tell it")
    exported.add_argument("--where", metavar="JSON", help="a filter on users, as the service takes it")
    exported.add_argument("--audience", metavar="ID", help="only the users of this audience")
    exported.add_argument("--delimiter", default=",", help="between the cells of CSV (default ,)")
    exported.add_argument(
        "--encoding", default="utf-8", help="of CSV: utf-8 (the default) or utf-8-bom, which Excel recognises"
    )
    exported.add_argument(
        "--keep-formulas",
        action="store_true",
        help="write text of CSV as it is, even where a spreadsheet would calculate it",
    )
    exported.add_argument(
        "--transform",
        action="append",
        default=[],
        metavar="JSON",
        help='change a column, such as {"type": "date", "key": "createdAt", "level": "day"}; may be repeated',
    )
    exported.set_defaults(run=_export)

    serving = serving_commands.add_commands(commands)
    for command in (create, listed, filled, joined, known, mirrored, *administered, exported, *serving):
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


def _demo(options: argparse.Namespace) -> None:
    with sample_project() as shop:
        paths = conversion_paths(shop, event_type="order", statistic="turnover", level="campaign")
        credits = attribute(paths, _DEMO_MODELS)
        print("Sample shop: orders of half a year, credited to campaigns (conversions)\n")
        _print_credits(credits)
        notes = (
            "Orders of the shipped sample shop, January to June 2025, with a lookback of 30 days.",
            "The data is made up; the shop does not exist.",
        )
        report = write_report(
            options.out, credits, paths, title="Where the sample shop's orders came from", notes=notes
        )
    print(f"\nReport: {report.page}\nCredits: {report.credits}")


def _attribute(options: argparse.Namespace) -> None:
    read = _read(options)
    default = _DEMO_MODELS if read.paths.has_dates else _SEQUENCE_MODELS
    models = default if options.models is None else [name.strip() for name in options.models.split(",")]
    spend, rejected = None, read.rejected
    if options.spend is not None:
        spend, others = read_spend(options.spend, columns=_columns(options))
        rejected = pd.concat([rejected, others], ignore_index=True)
    credits = attribute(read.paths, models, confidence=options.confidence, spend=spend)
    counted = ", ".join(f"{count:,} {kind}" for kind, count in read.counts.items())
    print(f"Read {counted}.")
    for kind, taken in read.columns.items():
        print(f"Columns of {kind}: {', '.join(f'{role} = {column}' for role, column in taken.items())}")
    _tell_rejected(rejected, options.out)
    _print_credited(credits, confidence=options.confidence)
    if options.out is not None:
        notes = (f"{counted}; lookback {options.lookback}; {len(rejected):,} unreadable rows.",)
        report = write_report(options.out, credits, read.paths, title="Credited conversions", notes=notes)
        print(f"\nReport: {report.page}\nCredits: {report.credits}")


def _read(options: argparse.Namespace) -> FilePaths:
    if options.paths is None and options.touchpoints is None:
        options.wrong_usage("give --touchpoints FILE (with --conversions FILE), or --paths FILE")
    if options.paths is not None and (options.touchpoints or options.conversions) is not None:
        options.wrong_usage("--paths FILE stands instead of --touchpoints and --conversions")
    columns = _columns(options)
    if options.paths is not None:
        return read_sequences(options.paths, columns=columns, separator=options.separator)
    return read_paths(options.touchpoints, options.conversions, columns=columns, lookback=options.lookback)


def _columns(options: argparse.Namespace) -> dict[str, str]:
    named = {role: getattr(options, f"column_{role}") for role in OPTIONS}
    return {role: column for role, column in named.items() if column is not None}


def _tell_rejected(rejected: pd.DataFrame, folder: Path | None) -> None:
    if not len(rejected):
        return
    listed = (folder or Path()) / "unreadable-rows.csv"
    listed.parent.mkdir(parents=True, exist_ok=True)
    rejected.to_csv(listed, index=False)
    first = rejected.iloc[0]
    counted = "1 row" if len(rejected) == 1 else f"{len(rejected):,} rows"
    print(
        f"attrib-ds: {counted} could not be read, the first is row {first['row']} of "
        f"{first['file']} ({first['reason']}); all are listed in {listed}",
        file=sys.stderr,
    )


def _print_credited(credits: pd.DataFrame, *, confidence: float | None) -> None:
    if confidence is None:
        print("\nCredited conversions\n")
        _print_credits(credits)
    else:
        print(f"\nCredited conversions, with intervals at {confidence * 100:.6g} %\n")
        _print_rows(_texts_side_by_side(credits, _with_bounds(credits)))
    for column, title in _RETURNS.items():
        if column in credits.columns and credits[column].notna().any():
            known = credits[credits[column].notna()]
            print(f"\n{title}\n")
            _print_rows(_texts_side_by_side(known, known[column].map("{:,.2f}".format)))


def _with_bounds(credits: pd.DataFrame) -> pd.Series[Any]:
    """Write credited conversions with their bounds, where they have any."""
    cells = [
        f"{credited:,.1f}" if pd.isna(low) else f"{credited:,.1f} ({low:,.1f} to {high:,.1f})"
        for credited, low, high in credits[["conversions", "low", "high"]].itertuples(index=False)
    ]
    return pd.Series(cells, index=credits.index, dtype="str")


def _texts_side_by_side(credits: pd.DataFrame, cells: pd.Series[Any]) -> pd.DataFrame:
    """Lay a text for each row of credits side by side by model; currencies stay apart."""
    models = list(dict.fromkeys(credits["model"]))
    keys = ["node_id", "node_name", "currency"]
    # The order of the last model, and unattributed conversions at the end.
    rows: pd.DataFrame = pd.concat(
        [credits.loc[credits["model"] == model, keys] for model in reversed(models)]
    )
    rows = rows.drop_duplicates()
    rows = rows.loc[rows["node_id"].isna().sort_values(kind="stable").index]
    for model in models:
        of_model = credits["model"] == model
        texts = credits.loc[of_model, keys].assign(**{model: cells[of_model]})
        rows = rows.merge(texts, on=keys, how="left")
    rows.insert(0, "node", rows["node_name"].where(rows["node_id"].notna(), "unattributed"))
    several = len(credits["currency"].dropna().unique()) > 1
    return rows[["node", *(["currency"] if several else []), *models]].fillna("")


def _print_credits(credits: pd.DataFrame) -> None:
    _print_rows(side_by_side(credits, by="conversions"))


def _print_rows(rows: pd.DataFrame) -> None:
    shown = rows.head(_MOST_ROWS)
    print(shown.to_string(index=False, float_format=lambda number: f"{number:,.1f}"))
    if len(rows) > len(shown):
        print(f"… and {len(rows) - len(shown):,} more rows")


def _create_project(options: argparse.Namespace) -> None:
    file = home() / f"{options.project}.duckdb"
    if file.exists():
        raise InvalidRequest(f"the project {options.project!r} is there already: {file}")
    made = connect(options.project, path=file, currency=options.currency, timezone=options.timezone)
    with made as project:
        print(f"Created {project!r}")


def _list_projects(_: argparse.Namespace) -> None:
    for file in sorted(home().glob("*.duckdb")):
        print(f"{file.stem}\t{file.stat().st_size:,} bytes\t{file}")


def _create_integration(options: argparse.Namespace) -> None:
    with existing(options.project) as project:
        made = create_integration(
            project,
            options.vendor_id,
            name=options.name,
            currency=options.currency,
            channel=options.channel,
        )
    print(f"Created the integration {options.vendor_id} with the id {made}")


def _list_integrations(options: argparse.Namespace) -> None:
    with existing(options.project) as project:
        integrations = to_pandas(project.send("list_integrations").table)
    for integration in integrations.to_dict("records"):
        print("\t".join(integration[name] for name in ("vendorId", "name", "currency", "_id")))


def _load(options: argparse.Namespace) -> None:
    resources = ("nodes", "interactions", "hits", "events", "spend")
    given = {name: getattr(options, name) for name in resources if getattr(options, name) is not None}
    if not given:
        raise InvalidRequest(
            f"there is nothing to load; give one of {', '.join(f'--{name} FILE' for name in resources)}"
        )
    with connect(options.project) as project:
        report = load(project, **given)
    for kind, count in report.counts.items():
        print(f"{count:,} {kind.replace('_', ' ')}")
    if len(report.rejected):
        first = report.rejected.iloc[0]
        where = ""
        if options.rejected is not None:
            report.rejected.to_csv(options.rejected, index=False)
            where = f"; all are listed in {options.rejected}"
        print(
            f"attrib-ds: {len(report.rejected):,} rows did not fit, the first is row {first['row']} of "
            f"{first['table']} ({first['reason']}){where}",
            file=sys.stderr,
        )


def _sync(options: argparse.Namespace) -> None:
    with (
        _source(options) as source,
        sync(
            source,
            options.to,
            since=options.since,
            until=options.until,
            hits=options.hits,
            personal=options.personal,
            currency=options.currency,
            timezone=options.timezone,
        ) as mirror,
    ):
        interactions = mirror.send("search_interactions", limit=0, filtered=None, bots=None).total
        users = mirror.send("search_users", fields=(), limit=0).total
    print(f"{options.to} holds {interactions:,} interactions and {users:,} users of {options.project}")


def _source(options: argparse.Namespace) -> Project:
    """Open the project of a service, or where none is known the embedded one, which must be there."""
    is_embedded = options.url is None and find_remote({"key": options.key}) is None
    if is_embedded:
        return existing(options.project)
    return connect(options.project, url=options.url, key=options.key)


def _export(options: argparse.Namespace) -> None:
    where = None if options.where is None else _filter(options.where)
    with existing(options.project) as project:
        file = export_users(
            project,
            options.file,
            columns=[key.strip() for key in options.columns.split(",")],
            where=where,
            audience=options.audience,
            format=options.format,
            delimiter=options.delimiter,
            encoding=options.encoding,
            sanitize_formulas=not options.keep_formulas,
            transformers=[_json(each, "--transform") for each in options.transform],
        )
    print(f"Wrote {file}")


def _filter(text: str) -> Predicate:
    try:
        return from_json(_json(text, "--where"), kind="user")
    except InvalidRequest as error:
        raise InvalidRequest(f"--where: {error.message.removeprefix('--where: ')}") from error


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{option}: {text!r} is not JSON: {error}") from error
