"""Tables in bulk: load them, export them, and results as frames and workbooks."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from attrib_ds import display, local_files
from attrib_ds.contract import Answer, File
from attrib_ds.errors import (
    AttribError,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSupported,
    ServiceFailure,
    warn,
)
from attrib_ds.filters import Predicate
from attrib_ds.project import Project, takes_project
from attrib_ds.records import declared_fields
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.records.frames import TEXT, Frame, FrameOrPath, read_frame, to_pandas
from attrib_ds.records.ga4_events import GA4Hits
from attrib_ds.records.snowplow_events import SnowplowHits
from attrib_ds.records.written_files import ParquetSpool, escaped, write_excel
from attrib_ds.sending.conversion_cells import with_instants


def given(parameters: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Return the arguments of an operation from the ``locals()`` of its function, without ``others``."""
    return {name: value for name, value in parameters.items() if name not in ("project", *others)}


def page(answer: Answer, table: pa.Table | None = None) -> pd.DataFrame:
    """Return the records of an answer as a frame, whose attribute ``total`` counts all that match."""
    frame = to_pandas(answer.read() if table is None else table)
    frame.attrs["total"] = answer.total
    return frame


def _write_parquet(answer: Answer, path: Path, read: Callable[[pa.Table], pa.Table] | None = None) -> Path:
    """Write the records of a stream; ``read`` converts each table to the one that users see."""
    columns = answer.columns.empty_table()
    with closing(answer), ParquetSpool(path, (read(columns) if read else columns).schema) as spool:
        for table in answer:
            spool.append(read(table) if read else table)
    return path


def with_event_columns(project: Project, events: pa.Table) -> pa.Table:
    """Return events with a typed column per declared field, state and statistic."""
    return declared_fields.typed_events(events, _declared(project))


def user_columns_reader(project: Project) -> Callable[[pa.Table], pa.Table]:
    """Return a function that gives users typed columns; it requests the event types once, if at all."""

    @cache
    def declared() -> declared_fields.DeclaredFields:
        return _declared(project)

    def read(users: pa.Table) -> pa.Table:
        return (
            declared_fields.typed_users(users, declared())
            if declared_fields.needs_declarations(users.column_names)
            else users
        )

    return read


def _declared(project: Project) -> declared_fields.DeclaredFields:
    """Return what the event types declare, archived ones included; nothing if a key may not read them."""

    def read() -> declared_fields.DeclaredFields:
        try:
            # Without archived ones, archiving an event type would take columns away.
            listed = [
                project.stream("list_event_types", archived=archived).read() for archived in (False, True)
            ]
        except (Forbidden, NotFound, NotSupported):
            return declared_fields.DeclaredFields()
        event_types = pa.concat_tables(listed)
        declared, others = declared_fields.declared_fields(event_types), _other_statistics(event_types)
        return replace(declared, numbers=declared.numbers + others, amounts=declared.amounts + others)

    return project.remembered("event types", read)


def _other_statistics(event_types: pa.Table) -> tuple[str, ...]:
    """Return the keys of statistics whose type has another name; they may be numbers or amounts."""
    lists = [declared_fields.parse(text) or () for text in event_types["fields"].to_pylist()]
    fields = [field for each in lists for field in each if field and str(field.get("type")) in _STATISTICS]
    named = [field.get("storageKey") for field in fields]
    return tuple(dict.fromkeys(key for key in named if isinstance(key, str)))


def knows_additions(project: Project) -> bool:
    """Say whether arguments beyond the specification take effect, as in embedded projects."""

    def read() -> bool:
        try:
            project.send("get_settings")
        except (Forbidden, NotFound, NotSupported) as error:
            return isinstance(error, Forbidden)
        return True

    try:
        return project.transport.timezone is not None or project.remembered("additions", read)
    except AttribError:
        # The next call may find out.
        return False


def warn_of_addition(project: Project, function: str, argument: str, effect: str) -> None:
    """Warn that a service may ignore an argument which the specification does not have."""
    if not knows_additions(project):
        address = project.transport.address
        warn(f"{function}: {address} may ignore {argument}, which the specification does not have; {effect}")


#: Words for types of statistics, of which the specification lists none.
_STATISTICS: Final = frozenset({"statistic", "amount", "money", "decimal", "integer", "float"})
_FORMATS = ("csv", "xlsx", "parquet")
#: Rows of a CSV file that are written at once.
_ROWS: Final = 10_000
#: Options of CSV with their defaults.
_DIALECT: Final = {"delimiter": ",", "encoding": "utf-8", "sanitize_formulas": True}


@takes_project
def export_interactions(
    project: Project,
    path: str | Path,
    *,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    columns: Sequence[str] | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    filtered: bool | None = False,
    bots: bool | None = False,
) -> Path:
    """Write any number of interactions of a project to a Parquet file.

    The file appears once it is complete, and then replaces one of the same name.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    path : str or Path
        The file; its folder must exist.
    where, nodes, since, until, columns, sort, limit, filtered, bots
        As in :func:`attrib_ds.search_interactions`.

    Returns
    -------
    Path
        The file, with one row per interaction and the columns of :func:`attrib_ds.search_interactions`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or the folder does not exist.
    Unavailable
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = at.export_interactions(shop, f"{folder}/visits.parquet", columns=["geo.city"], limit=2)
    ...     pd.read_parquet(file).columns.tolist()
    ['_id', 'geo.city']
    """
    arguments = given(locals(), "path")
    file = _new_file(path)
    return _write_parquet(project.stream("search_interactions", **arguments), file)


@takes_project
def export_users(
    project: Project,
    path: str | Path,
    *,
    columns: Sequence[str],
    where: Predicate | None = None,
    audience: str | Predicate | Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002  (the field's word)
    delimiter: str = ",",
    encoding: str = "utf-8",
    sanitize_formulas: bool = True,
    transformers: Sequence[Mapping[str, Any]] = (),
) -> Path:
    r"""Write users of a project to a CSV, XLSX or Parquet file.

    The file appears once it is complete, and then replaces one of the same name.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    path : str or Path
        The file; its folder must exist.
    columns : str or sequence of str
        Keys as in :func:`attrib_ds.search_users`, in this order. The cell of a field has its latest value.
    where : Predicate, optional
        On users; all by default.
    audience : str, mapping or Predicate, optional
        The id of an audience, or a condition as in :func:`attrib_ds.search_users`.
    format : {"csv", "xlsx", "parquet"}, optional
        By default from the ending of the file name. XLSX needs the extra ``[excel]`` where the service runs,
        and has room for 1,048,575 users. Parquet has the columns and dtypes of
        :func:`attrib_ds.search_users`, and ignores the arguments below.
    delimiter : {",", ";", "\\t", "|"}, default ","
        Separator of the cells in CSV.
    encoding : {"utf-8", "utf-8-bom"}, default "utf-8"
        Encoding of CSV; Excel detects the latter.
    sanitize_formulas : bool, default True
        Write an apostrophe before text in CSV that a spreadsheet would evaluate: text that begins with ``=``,
        ``+``, ``-``, ``@``, a tab or a carriage return. Numbers and phone numbers are unchanged. XLSX needs
        none.
    transformers : sequence of mapping, default ()
        Changes of columns in order, each with ``type``, ``key`` and ``level``: ``date`` (truncate to the
        year, semester, quarter, month, week, day, hour, minute or second in UTC), ``number`` (number of
        decimals), ``case`` (upper or lower), ``hash`` (sha256), ``join`` (separator of the values of a list,
        by default ``|``). ``date`` needs a column of dates; elsewhere, values of another kind are unchanged.

    Returns
    -------
    Path
        The file: a header with the keys, then one row per user, ordered by id. In CSV and XLSX, instants are
        RFC 3339 text in UTC (dates in XLSX), missing values are empty cells, objects are JSON.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, the folder does not exist, or there are too many users for an XLSX
        file.
    NotFound
        If there is no such audience.
    NotSupported
        If the service cannot write XLSX.
    Unavailable
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import attrib_ds as at
    >>> day = "2025-01-31T12:00:00Z"
    >>> visits = {"userId": ["5f0c0ffee0ddba11ad0be123"], "nodeId": ["ads"], "startDate": [day]}
    >>> with at.connect("my-shop", path=":memory:") as shop, tempfile.TemporaryDirectory() as folder:
    ...     loaded = at.load(shop, interactions=pa.table(visits))
    ...     file = at.export_users(shop, f"{folder}/users.csv", columns=["_id", "interactionCount"])
    ...     print(file.read_text())
    _id,interactionCount
    5f0c0ffee0ddba11ad0be123,1
    <BLANKLINE>
    """
    arguments = given(locals())
    file = _new_file(path)
    format = _format(file) if format is None else format  # noqa: A001
    if format == "parquet":
        members = {"type": "audience", "operator": "in", "value": [audience]}
        condition = members if isinstance(audience, str) else audience
        found = project.stream("search_users", columns=columns, where=where, audience=condition)
        return _write_parquet(found, file, user_columns_reader(project))
    arguments |= {
        "path": file.stem,
        "columns": [columns] if isinstance(columns, str) else list(columns),
        "format": format,
        "transformers": list(transformers),
    }
    is_written_here = format == "csv" and not knows_additions(project)
    for name, default in _DIALECT.items():
        if is_written_here or arguments[name] == default:
            # The specification does not have it.
            del arguments[name]
    exported = project.send("export_users", **arguments).value
    if is_written_here:
        exported = _rewritten(exported, delimiter, encoding, sanitize_formulas=sanitize_formulas)
    exported.save(file)
    return file


def _rewritten(exported: File, delimiter: str, encoding: str, *, sanitize_formulas: bool) -> File:
    """Return a CSV file in another dialect, without formulas that a spreadsheet would evaluate."""
    with closing(exported):
        content = io.BytesIO(b"".join(exported.pieces))
    # Bytes that are not UTF-8 stay as they are.
    text = io.TextIOWrapper(content, "utf-8-sig", "surrogateescape", newline="")
    rows = csv.reader(text, delimiter=max(",;\t|", key=text.readline().count))
    text.seek(0)

    def pieces() -> Iterator[bytes]:
        yield codecs.BOM_UTF8 if encoding == "utf-8-bom" else b""
        try:
            while part := list(itertools.islice(rows, _ROWS)):
                cells = ([escaped(cell) for cell in row] for row in part) if sanitize_formulas else part
                written = io.StringIO(newline="")
                csv.writer(written, delimiter=delimiter, lineterminator="\r\n").writerows(cells)
                yield written.getvalue().encode("utf-8", "surrogateescape")
        except csv.Error as error:
            problem = f"export_users: the service sent CSV that cannot be read: {error}; nothing is saved"
            raise ServiceFailure(problem) from error

    return File(pieces())


def _new_file(path: str | Path) -> Path:
    """Return the path of a file to write, checked before any data is requested."""
    file = Path(path).expanduser()
    if not file.name or file.is_dir():
        raise InvalidRequest(f"path: {str(path)!r} is not the name of a file")
    if not file.parent.is_dir():
        raise InvalidRequest(f"path: the folder {str(file.parent)!r} does not exist")
    return file


def _format(file: Path) -> str:
    ending = file.suffix.removeprefix(".").lower()
    if ending not in _FORMATS:
        raise InvalidRequest(
            f"format: the name {file.name!r} does not end with .csv, .xlsx or .parquet; give format='csv', "
            "'xlsx' or 'parquet'"
        )
    return ending


def to_excel(frames: Frame | Mapping[str, Frame], path: str | Path) -> Path:
    """Write a result, or several, to an Excel workbook.

    Workbooks have no time zones: instants are written in UTC. Text stays text, and is never evaluated as a
    formula.

    Parameters
    ----------
    frames : DataFrame or mapping of str to DataFrame
        One frame, or frames by the name of their sheet (1 to 31 characters). An index is written as first
        columns, unless it only numbers the rows.
    path : str or Path
        File to write, with the suffix ``.xlsx``; an existing one is replaced.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidRequest
        If there is no frame, a sheet cannot have its name or is too large, or the path has another suffix.
    NotSupported
        If the extra ``[excel]`` is not installed.
    Unavailable
        If the file cannot be written.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["search > email"], "n": [4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, ["first_touch", "linear"])
    >>> sheets = {"Credits": credits, "Models": at.compare_models(credits)}
    >>> at.to_excel(sheets, "report.xlsx").name  # doctest: +SKIP
    'report.xlsx'
    """
    file = Path(path)
    if file.suffix.lower() != ".xlsx":
        raise InvalidRequest(f"path: {str(path)!r} must end in .xlsx")
    sheets = frames if isinstance(frames, Mapping) else {"Sheet1": frames}
    if not sheets:
        raise InvalidRequest("frames: is empty; allowed: one DataFrame or more")
    tables = {
        name: read_frame(f"frames[{name!r}]" if sheets is frames else "frames", frame)
        for name, frame in sheets.items()
    }
    with local_files.writing(file, argument="path"), local_files.replacing(file) as sink:
        write_excel(tables, sink)
    return file


@dataclass(frozen=True)
class Loaded:
    """Result of :func:`load`.

    Attributes
    ----------
    counts : dict of str to int
        Loaded rows by kind; ``implicit_nodes`` counts nodes that were created because rows refer to them.
    rejected : DataFrame
        One row per rejected row: ``table`` (str), ``row`` (Int64), ``id`` (str), ``reason`` (str, all
        violations). Rows of frames are counted from 0, those of files from 1, with their header.
    """

    counts: dict[str, int]
    rejected: pd.DataFrame

    def __repr__(self) -> str:
        counts = (display.counted(count, kind.replace("_", " ")) for kind, count in self.counts.items())
        loaded = ", ".join(counts) or "nothing"
        return f"<Loaded {loaded}; {display.counted(len(self.rejected), 'rows')} rejected>"


@takes_project
def load(
    project: Project,
    *,
    interactions: FrameOrPath | None = None,
    hits: FrameOrPath | AccessLog | GA4Hits | SnowplowHits | None = None,
    events: FrameOrPath | None = None,
    nodes: FrameOrPath | None = None,
    spend: FrameOrPath | None = None,
    replace: bool = False,
    geo: str | Path | None = None,
    asn: str | Path | None = None,
) -> Loaded:
    """Load tables in bulk into an embedded project, or raw hits into a remote one.

    Invalid rows are returned with the reason, and the rest is loaded. Each table is loaded in one
    transaction, nodes first.

    Parameters
    ----------
    project : Project
        From :func:`connect`. A remote project takes raw hits from a frame, a file or a folder of parts, in
        portions of 20,000. Each portion is loaded once, even if it is sent again. The key needs the scope
        ``hits:write``.
    interactions, hits, events, nodes, spend : DataFrame, pyarrow.Table, str or Path, optional
        Rows with the columns of the resources (dotted, ``geo.city``), or the path of a Parquet, CSV or NDJSON
        file; NDJSON may be nested. ``_id`` is optional for interactions and events. Events have the columns
        ``states.<key>``, ``statistics.<key>``, ``statistics.<key>.amount`` and ``.currency``, ``event.<key>``
        and ``user.<key>``. You can load them without an event type (:func:`attrib_ds.create_event_type`). You
        need one to send events, and to read them in the same columns instead of as JSON text. A day in the
        ``eventDate`` of a DataFrame stands for its end, as in :func:`attrib_ds.send_events`. Spend is a table
        of outlays (``campaignId``, ``amount.amount``, ``amount.currency``, ``startDate``, ``endDate``).

        Hits belong to loaded sessions (``sessionId``), or are raw: with ``trackerId``, the id of the browser,
        ``date`` and ``pageUrl``, and optionally ``hitId`` (a UUID), ``referrer``, ``userAgent``, ``hitType``,
        ``timezoneOffset``, ``isBot``, ``ip``, ``geo.*`` and ``asn.*``; or an :class:`hits.AccessLog`,
        :class:`hits.GA4` or :class:`hits.Snowplow`. Raw hits become sessions, each with the node of its
        traffic source and its user, whatever the order in which they are loaded. A hit without ``hitId`` is
        identified by its content and skipped if it is stored already. Raw hits may also be a folder of
        Parquet files, such as the parts that ``attrib-ds collect`` writes, or a bucket
        (``s3://bucket/shop/hits``): each file that the project has not read is loaded, in transactions of
        250,000 rows or more that also record their files. ``counts`` has their number as ``parts``.
    replace : bool, default False
        Whether rows replace stored records with the same ids, unless the stored record has a later change;
        unchanged rows are not counted. By default such rows are rejected.
    geo, asn : str or Path, optional
        MMDB files, such as ``GeoLite2-City.mmdb`` and ``GeoLite2-ASN.mmdb``: raw hits with an address (the
        column ``ip``, or a :class:`hits.AccessLog`) get the ``geo.*`` and ``asn.*`` that they do not have.
        Addresses are not stored.

    Returns
    -------
    Loaded
        Counts of loaded rows, and the rejected rows. With raw hits, ``interactions`` is the change of the
        number of sessions: a late hit may join two. ``skipped_requests`` of access logs and
        ``skipped_events`` of exports count what is not a page view.

    Raises
    ------
    InvalidRequest
        If no table is given, a column is unknown or a file cannot be read; nothing of that table is loaded.
    NotSupported
        If the project is remote and the table is not of raw hits.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> nodes = pd.DataFrame({"_id": ["search"], "name": ["Search"], "type": ["channel"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.load(shop, nodes=nodes).counts
    {'nodes': 1}

    Raw hits become sessions:

    >>> hits = pd.DataFrame({"trackerId": ["t", "t"],
    ...                      "date": pd.to_datetime(["2025-01-31 12:00Z", "2025-01-31 12:10Z"]),
    ...                      "pageUrl": ["https://shop.example/?gclid=1", "https://shop.example/boots"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.load(shop, hits=hits)
    ...     at.search_interactions(shop)[["nodeId", "hitCount"]]
           nodeId  hitCount
    0  google/cpc         2
    """
    loaded = {"nodes": nodes, "interactions": interactions, "hits": hits, "events": events, "spend": spend}
    tables = {resource: source for resource, source in loaded.items() if source is not None}
    if not tables:
        raise InvalidRequest(f"load: nothing to load; give at least one of {', '.join(sorted(loaded))}")
    if hits is None and (geo, asn) != (None, None):
        raise InvalidRequest("geo and asn: they look up the addresses of raw hits; pass hits=")
    if isinstance(events, pd.DataFrame):
        tables["events"] = with_instants(events, "eventDate", project.timezone, at_end=True)
    if isinstance(interactions, pd.DataFrame):
        tables["interactions"] = with_instants(interactions, "startDate", project.timezone)
    counts: dict[str, int] = {}
    rejected = []
    for resource, source in tables.items():
        databases = {"geo": geo, "asn": asn} if resource == "hits" else {}
        answer = project.send("load_records", resource=resource, source=source, replace=replace, **databases)
        for kind, count in answer.value.items():
            counts[kind] = counts.get(kind, 0) + count
        refused = to_pandas(answer.read())
        refused.insert(0, "table", pd.Series(resource, index=refused.index, dtype=TEXT))
        rejected.append(refused)
    return Loaded(counts, pd.concat(rejected, ignore_index=True))
