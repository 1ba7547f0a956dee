"""What a file is by its content, whatever its name: tables, printouts, pages, JSON and logs."""

import codecs
import csv
import json
import re
import sqlite3
import string
import unicodedata
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from zipfile import ZipFile, is_zipfile

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import display
from attrib_ds.contract.identifiers import SIGNS
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.content import dumps, evidence, objects
from attrib_ds.records import sources, text_files, written_files
from attrib_ds.records.sources import ROW, Source, literal, quoted

#: A number with the sign of a currency.
_PRICE: Final = "(?<![^\\s,;|\"'(+-])({0})\\s?-?\\d|\\d\\s?({0})(?![^\\s,;|\"').-])".format("|".join(SIGNS))
#: Apostrophes and blanks between thousands, which are letters in other encodings. They come before the digits
#: on their left, since searches for single characters are fast.
_THOUSANDS: Final = r"{}(?:(?<=(?<!\w)\d.)|(?<=(?<!\w)\d\d.)|(?<=(?<!\w)\d\d\d.))\d{{3}}(?!\w)"
_LETTERS: Final = Path(__file__).with_name("letters.tsv").read_text(encoding="utf-8").splitlines()[2:]
_OF_DOS, _RARE = {"cp850", "cp852", "cp857", "cp866"}, 0.4
#: Points between two readings that are alike; of a pair of letters, and of none; words in ASCII for a point.
_NEAR, _HIGHEST, _NO_PAIR, _PLAIN = 0.05, 9, -3, 20
#: Letters of the East between others: other encodings look like this.
_AMONG_LETTERS: Final = re.compile(r"[A-Za-z][^\x00-\x7f]+[a-z]")
_WORD: Final = re.compile(r"[^\s\d,;|\"'.()\[\]:/<>=-]+")
_START_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 1 << 28
#: Lines of frames as clients of databases draw them, and those of ASCII.
_CORNERS: Final = "┌┬┐├┼┤└┴┘╭╮╰╯╒╤╕╞╪╡╘╧╛╔╦╗╠╬╣╚╩╝╟╫╢┏┳┓┣╋┫┗┻┛┡╇┩"
_FRAME: Final = str.maketrans("─━═╌┄│┃║┆" + _CORNERS, "-----||||" + "+" * len(_CORNERS))
_RULE: Final = re.compile(r"\s*[+|]?[-=+|\s]*-{3,}[-=+|\s]*|-\[ RECORD 1 \][-+]*|\*+ 1\. row \*+")
#: Where a row begins that is printed with a line for each of its cells.
_RECORD: Final = re.compile(r"-\[ RECORD \d+ \][-+]*|\*+ \d+\. row \*+")
_SPANS: Final = re.compile(r"\s*-+( +-+)+\s*")
_REQUEST: Final = re.compile(rb'^\S+ \S+ (\S+) \[\d+/\w+/\d{4}:[^\]]+\] "[A-Z]+ ')
_LOG_HEADER: Final = "#Fields:"
_PARTS_IN_LOG: Final = (("cs-uri-stem", "cs-uri-query", "page", "?"), ("date", "time", "date", " "))
#: Names of columns in brackets, which JSON and pages have not.
_IN_BRACKETS: Final = re.compile(
    r"(\{\{?[^{}\[\]\",]+\}\}?|\[[^{}\[\]\",]+\]|<[^<>]+>)[ \"]*[,;\t|][ \"]*[{\[<]"
)
#: Encodings of the East, with one that has the common characters first and the first byte of their last one.
_COMMON: Final[dict[str, tuple[str, int]]] = {
    "cp932": ("euc_jp", 0xCF), "euc_jp": ("euc_jp", 0xCF), "gb18030": ("gb2312", 0xD7),
    "big5": ("big5", 0xC6), "cp949": ("euc_kr", 0xC8),
}  # fmt: skip
_TOTAL: Final = re.compile(rf"\*{{1,3}}$|{evidence.TOTAL}\b", re.IGNORECASE)
#: Points of a name of amounts that names a sum.
_TELLS: Final = 5
#: What spreadsheets and services write before a text so that it stays one, and logs around a page.
_AROUND: Final = ('^(?:[`\'\\t]|="(.*)"$)', r"^[A-Z]{3,7} (\S+) HTTP/[\d.]+$")
#: A name and its value in a line of a log.
_PAIR: Final = re.compile(
    r"""(?:^|(?<=[\s,;|]))([A-Za-z_][\w.@-]*)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*?)(?=[,;|]?(?:\s|$)))"""
)
_FEW_PAIRS: Final = 2
#: An instant before the pairs, which may lack its year.
_STAMP: Final = re.compile(
    r"\[?(\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]+(?: ?[+-]\d\d:?\d\d|Z)?|[A-Z][a-z]{2} +\d+ [\d:]+)\]?\s*"
)
#: Rows that may have totals.
_LAST_ROWS: Final = 5
#: A number, perhaps with a currency.
_NUMBER: Final = r"\D?\D?\D?\d[\d., ]*\D?\D?\D?"
#: Rows of labels below a header.
_MOST_LABELS: Final = 2
#: Types of columns, which databases print below the header.
_TYPE: Final = re.compile(
    rf"((Nullable|LowCardinality)\()?({'|'.join(evidence.WORDS['type'])})(\(.*\))?\)?", re.IGNORECASE
)
_NULLS: Final = ("NULL", "\\N", "")
#: Elements of pages and of workbooks in XML.
_CELLS: Final = frozenset(["td", "th", "cell"])


def opened(
    connection: duckdb.DuckDBPyConnection, rows: Any, *, argument: str, encoding: str | None
) -> tuple[Source, list[str]]:
    """Copy a file, a frame or an Arrow table to a table of a connection; return it, and what was left out.

    Raises
    ------
    InvalidRequest
        As :func:`attrib_ds.records.sources.open_source` does, or if an encoding is not clear.
    """
    text_files.check_codec(encoding)
    said: list[str] = []
    path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
    if path is None:
        source = _of_frame(connection, rows, argument, said)
    elif not path.is_file() or path.stat().st_size == 0:
        source = sources.open_source(connection, path, argument=argument)
    else:
        try:
            source = _from_file(connection, path, argument, encoding, said)
            source = replace(source, first=source.first or 1)
        except (OSError, EOFError, zlib.error, sqlite3.Error) as error:
            raise InvalidRequest(f"{argument}: {path.name!r} cannot be read: {error}") from error
    return _without_index(connection, objects.unwrapped(connection, source)), said


def _from_file(
    connection: duckdb.DuckDBPyConnection, path: Path, argument: str, encoding: str | None, said: list[str]
) -> Source:
    with text_files.open_binary(path) as file:
        start = file.read(_START_BYTES)
    form = ".parquet" if start.startswith(b"PAR1") else None
    if start.startswith(b"PK\x03\x04") and b"xl/" in start + path.read_bytes()[-_START_BYTES:]:
        form = ".xlsx"
    if form == ".xlsx":
        return _of_frame(connection, written_files.read_sheet(path, argument=argument), argument, said)
    is_archive = start.startswith(b"PK\x03\x04") and form is None
    if is_archive and (source := _of_archive(connection, path, argument, encoding, said)) is not None:
        return source
    if form is not None or start.startswith((b"PK\x03\x04", b"%PDF", b"\xd0\xcf\x11\xe0")):
        return sources.open_source(connection, path, argument=argument, form=form)
    if start.startswith(b"SQLite format 3\0"):
        source = _from_tables(connection, _of_database(path), path, argument)
        if source is not None:
            return source
    head = start.removeprefix(codecs.BOM_UTF8).lstrip()
    is_in_brackets = _IN_BRACKETS.match(head.decode(errors="replace"))
    if head[:1] in (b"{", b"[") and not is_in_brackets:
        return _from_json(connection, path, head, argument)
    encoding = _encoding(path, argument, encoding, said)
    text = start.decode(encoding or "utf-8-sig", errors="replace")
    table: pa.Table | None = None
    whole: Any = None
    has_table = re.search(r"<table\b", text[:2000], re.IGNORECASE) and "</t" in text.lower()
    if has_table or (re.match(r"\s*<", text) and not is_in_brackets):
        table = _of_page(_whole(path, encoding))
        whole = objects.of_xml(_whole(path, encoding)) if table is None else None
        if table is None and not objects.tables_in(whole, argument):
            raise InvalidRequest(f"{argument}: {path.name!r} is a web page or XML; export the table as CSV")
    elif dumps.is_dump(text):
        whole = dumps.tables_of(_whole(path, encoding))
    elif _are_pairs(text.splitlines()[:-1] or [text]):
        table = _of_pairs(_whole(path, encoding))
    elif any(line.startswith(_LOG_HEADER) for line in text.splitlines()[:10]):
        table = _of_log(_whole(path, encoding))
    elif any(_RULE.fullmatch(line.translate(_FRAME)) for line in text.splitlines()[:20]):
        table = _of_printout(_whole(path, encoding).translate(_FRAME), argument)
    if whole is not None and (source := _from_tables(connection, whole, path, argument)) is not None:
        return source
    if table is not None:
        return replace(sources.open_source(connection, table, argument=argument), first=2)
    if path.suffix.casefold() in written_files.WORKBOOKS and not {*text_files.DELIMITERS} & {*text}:
        raise InvalidRequest(f"{argument}: {path.name!r} is plain text without a table, not a workbook")
    if "\r" in text and "\n" not in text:
        with TemporaryDirectory() as folder:
            copy = Path(folder) / path.name.removesuffix(".gz")
            copy.write_text(_whole(path, encoding).replace("\r", "\n"), encoding="utf-8")
            return sources.open_source(connection, copy, argument=argument, form=".csv", tolerant=True)
    said += _left_out(text_files.lines_above(path, argument, encoding), "lines", "above the header")
    return sources.open_source(
        connection, path, argument=argument, encoding=encoding, form=".csv", tolerant=True
    )


def _of_archive(
    connection: duckdb.DuckDBPyConnection, path: Path, argument: str, encoding: str | None, said: list[str]
) -> Source | None:
    """Read the only file in a ZIP archive; None if it has several."""
    if not is_zipfile(path):
        return None
    with ZipFile(path) as archive, TemporaryDirectory() as folder:
        files = [each for each in archive.infolist() if not each.is_dir() and "__MACOSX" not in each.filename]
        if len(files) != 1:
            return None
        if files[0].file_size > _MOST_BYTES:
            raise OSError(
                f"{files[0].filename!r} in it has more than {_MOST_BYTES:,} bytes; decompress it first"
            )
        copy = Path(folder) / Path(files[0].filename).name
        copy.write_bytes(archive.read(files[0]))
        return _from_file(connection, copy, argument, encoding, said)


def _of_frame(connection: duckdb.DuckDBPyConnection, rows: Any, argument: str, said: list[str]) -> Source:
    """Copy a frame, or the sheet of a workbook, whose title is said."""
    said += _left_out(getattr(rows, "attrs", {}).get(written_files.ABOVE, ()), "lines", "above the header")
    return sources.open_source(connection, rows, argument=argument)


def _left_out(lines: Sequence[str], noun: str, place: str) -> list[str]:
    """Return what is to be said of text around the rows: the line that names most currencies says most."""
    clearest = max(lines, key=lambda line: len(evidence.choice_of_currencies(line)), default="")
    return [f"{display.counted(len(lines), noun)} {place} left out, such as {clearest!r}"] if lines else []


def is_log(path: Path) -> bool:
    """Return whether a file is the access log of a web server, by its first lines."""
    try:
        with text_files.open_binary(path) as file:
            lines = [line for line in islice(file, 20) if line.strip()]
    except (OSError, EOFError, zlib.error):
        return False
    return bool(lines) and sum(_REQUEST.match(line) is not None for line in lines) > len(lines) / 2


def _whole(path: Path, encoding: str | None) -> str:
    with text_files.open_binary(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(f"it has more than {_MOST_BYTES:,} bytes; export it as CSV")
    return content.decode(encoding or "utf-8-sig", errors="replace")


# -- kinds of files


def _from_json(connection: duckdb.DuckDBPyConnection, path: Path, head: bytes, argument: str) -> Source:
    """Read lines or an array of objects, or the likely table in another value of JSON."""
    first, _, rest = head.partition(b"\n")
    has_lines = head.startswith(b"{") and rest.strip() and objects.decoded(first)
    has_rows = has_lines or re.match(rb"\[\s*\{", head)
    if not has_rows or objects.has_parts(_first_object(head.removeprefix(b"[")), argument):
        text = _whole(path, None).encode()
        whole = (
            [*map(objects.decoded, filter(None, text.splitlines()))] if has_lines else objects.decoded(text)
        )
        if (source := _from_tables(connection, whole, path, argument)) is not None:
            return source
    return sources.open_source(connection, path, argument=argument, form=".json")


def _of_database(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables of a SQLite database."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: [dict(row) for row in database.execute(f"SELECT * FROM {quoted(name)}")]
            for (name,) in names
        }


def _first_object(text: bytes) -> Any:
    """Return the first object of JSON in a text that may be cut."""
    try:
        return json.JSONDecoder().raw_decode(text.decode(errors="ignore").lstrip())[0]
    except ValueError:
        return None


def _from_tables(
    connection: duckdb.DuckDBPyConnection, whole: Any, path: Path, argument: str
) -> Source | None:
    """Read the likely table in a value of JSON; None if it has none."""
    tables = objects.tables_in(whole, argument)
    found = objects.likely(tables, argument) if len(tables) > 1 else tables
    if len(found) > 1:
        listed = ", ".join(repr(name) for name in found)
        raise InvalidRequest(
            f"{argument}: {path.name!r} has several lists that may be the {argument}: {listed}; write "
            "the one with the rows to a file"
        )
    for rows in found.values():
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "rows.json"
            copy.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
            return sources.open_source(connection, copy, argument=argument, form=".json")
    return None


class _Page(HTMLParser):
    """The cells of the tables of a page or of the first sheet of a workbook in XML, by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._is_cell = False
        self._sheets = 0

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        tag = tag.removeprefix("ss:")
        if tag == "worksheet" and len(self.rows) > 1:
            self._sheets += 1
        if self._sheets:
            return
        if tag in {"tr", "row"}:
            self.rows.append([])
        elif tag in _CELLS and self.rows:
            # Sheets have no empty cells: the next one says where it stands.
            place = int(dict(attrs).get("ss:index") or 0)
            self.rows[-1] += [""] * (1 + max(0, place - 1 - len(self.rows[-1])))
        self._is_cell = self._is_cell or tag in _CELLS

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = self._is_cell and tag.removeprefix("ss:") not in {*_CELLS, "tr", "row"}

    def handle_data(self, data: str) -> None:
        if self._is_cell and self.rows and self.rows[-1] and not self._sheets:
            self.rows[-1][-1] += data


def _of_page(text: str) -> pa.Table | None:
    page = _Page()
    page.feed(text)
    width = next((len(row) for row in page.rows if len(list(filter(str.strip, row))) > 1), 0)
    return _table([row + [""] * (width - len(row)) if len(row) > 1 else row for row in page.rows])


def _of_log(text: str) -> pa.Table | None:
    """Return the rows of a log whose header begins with ``#Fields``."""
    lines = text.splitlines()
    names = next(line for line in lines if line.startswith(_LOG_HEADER))[len(_LOG_HEADER) :].split()
    body = [line for line in lines if line.strip() and not line.startswith("#")]
    rows = [*csv.reader(body, delimiter="\t" if body and "\t" in body[0] else " ")]
    for first, second, joined, mark in _PARTS_IN_LOG:
        if {first, second} <= {*names}:
            at, behind = names.index(first), names.index(second)
            names[at] = joined
            for row in rows:
                if len(row) == len(names) and row[behind] != "-":
                    row[at] += f"{mark}{row[behind]}"
                    row[behind] = "-"
    return _table([names, *rows], nulls=("-", ""))


def _are_pairs(lines: Sequence[str]) -> bool:
    """Return whether lines have names of their own beside each value, as logs have."""
    filled = [line for line in lines[:20] if line.strip()]
    return bool(filled) and all(len(_PAIR.findall(line)) > _FEW_PAIRS for line in filled)


def _of_pairs(text: str) -> pa.Table | None:
    """Return the rows of a log whose lines are pairs of a name and a value, behind an instant or words."""
    rows = []
    for line in filter(str.strip, text.splitlines()):
        pairs = [*_PAIR.finditer(line)]
        head = line[: pairs[0].start()].strip() if pairs else line
        at = _STAMP.match(head)
        row = {"time": at[1], "event": head[at.end() :]} if at else {"event": head}
        rows.append(row | {found[1]: (found[2] or found[3]).replace('\\"', '"') for found in pairs})
    names = [*dict.fromkeys(name for row in rows for name in row if any(each.get(name) for each in rows))]
    return _table([names, *([row.get(name, "") for name in names] for row in rows)])


def _of_printout(text: str, argument: str) -> pa.Table | None:
    """Return the rows of a table in a frame of dashes and bars, as the clients of databases print it."""
    lines = text.splitlines()
    if any(map(_RECORD.fullmatch, lines)):
        return _of_records(lines)
    if any(re.fullmatch(r"[|\s·.…]*", line) and re.search("[·…]", line) for line in lines):
        raise InvalidRequest(
            f"{argument}: the printout leaves out rows, where it has lines of dots; print or export all rows"
        )
    rules = [number for number, line in enumerate(lines) if _RULE.fullmatch(line)]
    bars = [line for line in lines if "|" in line and not _RULE.fullmatch(line)]
    if len(bars) > 1:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in bars]
        if not bars[0].lstrip().startswith("|"):
            rows = [[cell.strip() for cell in line.split("|")] for line in bars]
        return _table(rows) if len(rows[0]) > 1 else None
    number = next((each for each in rules if each and _SPANS.fullmatch(lines[each])), None)
    if number is None:
        return None
    spans = [match.span() for match in re.finditer("-+", lines[number])]
    ends: list[int | None] = [*(start for start, _ in spans[1:]), None]
    header = lines[number - 1].strip()
    below = [
        line
        for line in lines[number + 1 :]
        if line.strip()
        and not _RULE.fullmatch(line)
        and line.strip() != header
        and not re.fullmatch(r"\s*(\(\d+ \w+( \w+)?\)|\d+ \w+ \w+\.|SQL> .*)\s*", line)
    ]
    return _table(
        [
            [line[start:end].strip() for (start, _), end in zip(spans, ends, strict=True)]
            for line in (lines[number - 1], *below)
        ]
    )


def _of_records(lines: Sequence[str]) -> pa.Table | None:
    """Return rows that are printed with a line for each of their cells, below a line that numbers them."""
    rows: list[dict[str, str]] = []
    for line in lines:
        name, *cells = re.split("[|:]", line, maxsplit=1)
        if _RECORD.fullmatch(line):
            rows.append({})
        elif cells and rows:
            rows[-1][name.strip()] = cells[0].strip()
    names = [*dict.fromkeys(name for row in rows for name in row)]
    return _table([names, *([row.get(name, "") for name in names] for row in rows)])


def _table(rows: Sequence[Sequence[str]], nulls: Sequence[str] = _NULLS) -> pa.Table | None:
    """Return rows below a header as a table of text; rows of another length are left out."""
    rows = [[cell.strip() for cell in row] for row in rows]
    start = next((at for at, row in enumerate(rows) if len(list(filter(None, row))) > 1), None)
    if start is None:
        return None
    if rows[start][:27] == ["", *string.ascii_uppercase][: len(rows[start])]:
        # The letters of the columns of a sheet, beside the numbers of its rows.
        return _table([row[1:] for row in rows[start + 1 :]], nulls)
    names = [name or f"Unnamed: {at}" for at, name in enumerate(rows[start])]
    body = [row for row in rows[start + 1 :] if len(row) == len(names)]
    columns = [
        pa.array([None if row[at] in nulls else row[at] for row in body], pa.string())
        for at in range(len(names))
    ]
    return pa.table(columns, names=names)


# -- encodings


def _encoding(path: Path, argument: str, given: str | None, said: list[str]) -> str | None:
    """Return the encoding of a text that is not UTF-8: the one in which its words are words."""
    if not text_files.is_foreign(path, argument):
        return text_files.marked_encoding(path)
    if given is not None:
        return given
    with text_files.open_binary(path) as file:
        content = file.read(_START_BYTES * 16)
    scores: dict[str, tuple[float, str]] = {}
    readings: dict[str, _Text] = {}
    for line in _LETTERS:
        _, encodings, letters, listed, joined = line.split("\t")
        words = {*listed.split()}
        pairs = {joined[at : at + 2]: int(joined[at + 2]) for at in range(0, len(joined), 3)}
        for encoding in encodings.split():
            if encoding not in readings:
                readings[encoding] = _decoded(content, encoding)
            text, foreign, plain, has_prices, thousands = readings[encoding]
            score = _score(foreign, letters or encoding, words)
            if score and pairs:
                score += sum(_likeness(word, pairs) for word in foreign) / len(foreign)
            # Words of ASCII decide between languages whose letters fit alike.
            score += len(words & plain) / _PLAIN
            score += (2 if score and has_prices else 0) + thousands
            # Those of DOS are rare.
            score -= _RARE if encoding in _OF_DOS else 0
            if score > scores.get(encoding, (-1.0, ""))[0]:
                scores[encoding] = (score, text)
    ranked = sorted(scores.items(), key=lambda item: -item[1][0])
    if not ranked or ranked[0][1][0] <= 0:
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not UTF-8 text, and its words are words in no encoding that is "
            "known; pass encoding=, such as encoding='cp1252' (encoding='utf-8' leaves out the rows that are "
            "not UTF-8)",
            field="encoding",
        )
    best, (score, text) = ranked[0]
    for other, (equal, reading) in ranked[1:]:
        if equal > score - _NEAR and reading != text:
            first, second = next(
                pair for pair in zip(text.split(), reading.split(), strict=False) if pair[0] != pair[1]
            )
            raise InvalidRequest(
                f"{argument}: {path.name!r} is not UTF-8 text: {first!r} in {best} is {second!r} in {other}; "
                f"pass encoding={best!r} or encoding={other!r}",
                field="encoding",
            )
    # Of encodings that read the same, the most common one.
    best = next(encoding for encoding, (_, reading) in scores.items() if reading == text)
    said.append(f"read as {best}, not UTF-8")
    return best


class _Text(NamedTuple):
    """Text of a file in one encoding, and what speaks for the encoding in every language.

    Attributes
    ----------
    foreign, plain : set of str
        Words with letters outside ASCII, and words in ASCII.
    has_prices : bool
        Whether an amount has the sign of a currency.
    thousands : int
        Points for an apostrophe or a blank between thousands; negative for a letter there.
    """

    text: str
    foreign: set[str]
    plain: set[str]
    has_prices: bool
    thousands: int


def _decoded(content: bytes, encoding: str) -> _Text:
    """Decode the start of a file; the text is empty if it cannot be in the encoding."""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        text = content[: error.start].decode(encoding) if error.start >= len(content) - 4 else ""
    text = "" if re.search("[\x80-\x9f]", text) else text
    foreign = {word for word in _WORD.findall(text) if not word.isascii()}
    plain = {*re.findall("[a-z]{3,}", text.lower())}
    thousands = 2 * bool(re.search(_THOUSANDS.format("[’\u00a0\u202f]"), text))
    thousands -= 2 * bool(re.search(_THOUSANDS.format("[À-ÖØ-öø-\u0eff†]"), text))
    return _Text(text, foreign, plain, bool(re.search(_PRICE, text)), thousands)


def _likeness(word: str, pairs: Mapping[str, int]) -> float:
    """Return how often the pairs of letters of a word occur in a language, if one of them is foreign."""
    found = [one + other for one, other in pairwise(f" {word.lower()} ") if not (one + other).isascii()]
    is_word = any(map(str.isalpha, word))
    return sum(pairs.get(pair, _NO_PAIR) for pair in found) / len(found) / _HIGHEST if is_word else 0


def _score(found: Collection[str], letters: str, words: Collection[str]) -> float:
    """Return the share of the words with foreign letters that a language has, and more for known words.

    Of languages of the East, common characters stand for its letters, and the encoding for the language.
    """
    if not found:
        return 0
    if letters in _COMMON:
        found = [word for word in found if not _AMONG_LETTERS.search(word)]
        eastern = [c for word in found for c in word if c.isalpha() and not c.isascii()]
        common = sum(_is_common(c, *_COMMON[letters]) for c in eastern)
        known = sum(any(each in word for each in words) for word in found)
        return common / max(1, len(eastern)) + known / max(1, len(found))
    own = {*letters, *letters.upper(), *"€£§°–—’‘“”„«»…\u00a0№"}
    # Only Latin letters stand beside those of ASCII in one word.
    own |= set(string.ascii_letters) if min(letters) < "\u0250" else set()
    fits: int = sum(
        all(c in own or (c.isascii() and not c.isalpha()) for c in word)
        and (word.islower() or word.istitle() or word.isupper() or word == word.swapcase())
        for word in found
    )
    known = sum(word.lower() in words for word in found)
    return fits / len(found) + known / len(found) if fits == len(found) or known else fits / len(found) / 2


def _is_common(character: str, encoding: str, last: int) -> bool:
    """Return whether a character is among the common ones of a language, which its encoding has first."""
    try:
        code = character.encode(encoding)
    except UnicodeEncodeError:
        return False
    # Letters of Japan are in the encodings of China, too; narrow ones are what other encodings look like.
    name = unicodedata.name(character, "")
    is_kana = "HIRAGANA" in name or "KATAKANA" in name
    fits = encoding == "euc_jp" and not name.startswith("HALFWIDTH") if is_kana else True
    return fits and len(code) == 2 and code[0] <= last


# -- rows and columns without data


#: Digits of other scripts, with the marks of decimals and thousands of Arabic, and those of ASCII.
_DIGITS: Final = (
    "".join(chr(zero + digit) for zero in (0x660, 0x6F0, 0x966, 0xE50, 0xFF10) for digit in range(10)) + "٫٬"
)
_ASCII: Final = "0123456789" * 5 + ".,"
_FOREIGN: Final = re.compile(f"[{_DIGITS}]")
#: Words for the halves of a day behind a time.
_HALF_DAYS: Final = {
    half: rf"(\d[:.٫]\d\d)\s?({'|'.join(evidence.WORDS[of])})$"
    for half, of in (("AM", "morning"), ("PM", "afternoon"))
}


def tidied(connection: duckdb.DuckDBPyConnection, source: Source, said: list[str]) -> Source:
    """Return a table without repeated headers, totals and notes below, which are said."""
    texts = [name for name, kind in source.types.items() if kind == "VARCHAR"]
    if not texts or not source.rows:
        return source
    source = _with_labels(connection, _without_types(connection, source), said)
    texts = [name for name, kind in source.types.items() if kind == "VARCHAR"]
    is_header = " AND ".join(
        f"coalesce(trim({quoted(name)}) = {literal(name.strip())}, false)" for name in texts
    )
    words = ", ".join(map(source.word, source.columns))
    outer = connection.execute(
        f"SELECT {quoted(ROW)}, {words} FROM {source.relation} "
        f"WHERE {quoted(ROW)} = (SELECT min({quoted(ROW)}) FROM {source.relation}) "
        f"OR {quoted(ROW)} > (SELECT max({quoted(ROW)}) FROM {source.relation}) - {_LAST_ROWS}"
    ).fetchall()
    shown = dict(zip(source.columns, [*zip(*outer, strict=True)][1:], strict=False))
    replaced: dict[str, str] = {}
    for name in texts:
        cells = [*filter(None, shown.get(name, ()))]
        if any(map(_FOREIGN.search, cells)):
            replaced[name] = f"translate({quoted(name)}, {literal(_DIGITS)}, {literal(_ASCII)})"
        for pattern in _AROUND:
            if cells and all(re.match(pattern, cell) for cell in cells):
                replaced[name] = f"regexp_replace({quoted(name)}, {literal(pattern)}, '\\1')"
        for half, pattern in _HALF_DAYS.items():
            if any(re.search(pattern, cell) for cell in cells):
                sql = replaced.get(name, quoted(name))
                replaced[name] = f"regexp_replace({sql}, {literal(pattern)}, '\\1 {half}')"
    if replaced:
        listed = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in replaced.items())
        source = sources.selected(connection, source, f"SELECT * REPLACE ({listed}) FROM {source.relation}")
    notes = {row: note for row, *cells in outer if (note := _note_in(cells))}
    totals = [row for row, *cells in outer if row not in notes and _is_total(cells)]
    ((headers,),) = connection.execute(f"SELECT count(*) FROM {source.relation} WHERE {is_header}").fetchall()
    if 0 < headers + len(totals) + len(notes) < source.rows:
        counts = ((headers, "repeated headers"), (len(totals), "totals"))
        said += [f"{display.counted(count, word)} left out" for count, word in counts if count]
        is_other = f"{quoted(ROW)} IN ({', '.join(map(str, [*totals, *notes])) or 'NULL'}) IS TRUE"
        query = f"SELECT * FROM {source.relation} WHERE NOT ({is_header} OR {is_other})"
        source = sources.selected(connection, source, query)
    source = _without_marks(connection, source, texts)
    texts_below = [*notes.values()]
    if source.unreadable.num_rows:
        ((end,),) = connection.execute(f"SELECT max({quoted(ROW)}) FROM {source.relation}").fetchall()
        is_note = pc.and_(
            pc.starts_with(source.unreadable["reason"], "1 cell "), pc.greater(source.unreadable["row"], end)
        )
        found = source.unreadable.filter(is_note)["reason"].to_pylist()
        texts_below += [reason.partition(": ")[2].strip("'\"") for reason in found]
        source = replace(source, unreadable=source.unreadable.filter(pc.invert(is_note)))
    said += _left_out(texts_below, "notes", "below the table")
    return source


def _without_marks(connection: duckdb.DuckDBPyConnection, source: Source, texts: Sequence[str]) -> Source:
    """Leave cells of numbers empty that have a mark for none, such as a point, as Stata and SAS write it."""
    marks, found = (
        ", ".join(map(literal, evidence.WORDS["none"])),
        {name: source.word(name) for name in texts},
    )
    # Few columns have a mark. Numbers of these alone are looked at.
    for test in ("bool_or({0})", f"bool_and({{0}} OR regexp_full_match({{1}}, {literal(_NUMBER)}))"):
        tests = ", ".join(test.format(f"lower({word}) IN ({marks})", word) for word in found.values())
        cells = connection.execute(f"SELECT {tests} FROM {source.relation}").fetchall()[0]
        found = {name: found[name] for name, is_found in zip(found, cells, strict=True) if is_found}
        if not found:
            return source
    kept = "CASE WHEN lower({1}) NOT IN ({2}) THEN {0} END AS {0}"
    listed = ", ".join(kept.format(quoted(name), word, marks) for name, word in found.items())
    return sources.selected(connection, source, f"SELECT * REPLACE ({listed}) FROM {source.relation}")


def _with_labels(connection: duckdb.DuckDBPyConnection, source: Source, said: list[str]) -> Source:
    """Add labels below the header, such as the questions of a survey, to the names of their columns."""
    words = ", ".join(map(source.word, source.columns))
    query = f"SELECT {words} FROM {source.relation} ORDER BY {quoted(ROW)} LIMIT {_MOST_LABELS}"
    names, count = {name: name for name in source.columns}, 0
    for row in connection.execute(query).fetchall():
        cells = {name: " ".join(cell.split()) for name, cell in zip(names, row, strict=True) if cell}
        same = [name for name, cell in cells.items() if _letters(cell) == _letters(name)]
        are_objects = bool(cells) and all(cell[0] == "{" and cell[-1] == "}" for cell in cells.values())
        if not (are_objects if count else _FEW_PAIRS < len(same) < len(names)):
            break
        if not count:
            names |= {name: f"{name}: {cell}" for name, cell in cells.items() if name not in same}
        count += 1
    if not count:
        return source
    said.append(f"{display.counted(count, 'rows')} of labels below the header left out")
    listed = ", ".join(f"{quoted(name)} AS {quoted(called)}" for name, called in names.items())
    where = f"WHERE {quoted(ROW)} >= {count}"
    return sources.selected(
        connection, source, f"SELECT {quoted(ROW)}, {listed} FROM {source.relation} {where}"
    )


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _without_types(connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Leave out a first row with the types of the columns, and read instants in the zones that it names."""
    cells = [f"CAST({quoted(name)} AS VARCHAR)" for name in source.columns]
    query = f"SELECT {', '.join(cells)} FROM {source.relation} WHERE {quoted(ROW)} = 0"
    kinds = next(iter(connection.execute(query).fetchall()), ())
    if not kinds or not all(kind and _TYPE.fullmatch(kind) for kind in kinds):
        return source
    changed = []
    for name, kind in zip(source.columns, kinds, strict=True):
        zone = re.search(r"'(\w+/\w+)'", kind)
        if zone is not None:
            at = f"timezone({literal(zone[1])}, TRY_CAST({quoted(name)} AS TIMESTAMP)) AT TIME ZONE 'UTC'"
            changed.append(f"strftime({at}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {quoted(name)}")
    replaced = f" REPLACE ({', '.join(changed)})" if changed else ""
    query = f"SELECT *{replaced} FROM {source.relation} WHERE {quoted(ROW)} > 0"
    return sources.selected(connection, source, query)


def _is_total(cells: Sequence[str | None]) -> bool:
    """Return whether a row begins with a word for the sum of others and has empty cells."""
    filled = [cell for cell in cells if cell not in {None, "--", "-"}]
    first = next(filter(None, cells[:2]), "")
    is_word = _TOTAL.match(first) is not None or evidence.weight("value", first.rstrip(":")) > _TELLS
    return len(filled) <= len(cells) * 3 // 4 and is_word


def _note_in(cells: Sequence[str | None]) -> str | None:
    """Return the words of a row whose other cells are empty."""
    filled = [cell for cell in cells if cell]
    return filled[0] if len(filled) == 1 < len(cells) - 1 and re.search(r"\w \w", filled[0]) else None


def _without_index(connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Leave out columns without a name that number the rows or have no value, and copies of others."""
    copies = [
        name for name in source.columns if name.rpartition(".")[0] in source.columns and name[-1:].isdigit()
    ]
    apart = "bool_and({} IS NOT DISTINCT FROM {})".format
    equal = [apart(source.text(name), source.text(name.rpartition(".")[0])) for name in copies]
    query = f"SELECT {', '.join(equal)} FROM {source.relation}"
    cells = connection.execute(query).fetchall()[0] if copies else ()
    gone = [name for name, is_copy in zip(copies, cells, strict=False) if is_copy]
    for name in source.columns:
        if name.startswith("Unnamed: "):
            number = f"TRY_CAST({source.word(name)} AS DOUBLE)"
            least = f"min({number} - {quoted(ROW)})"
            is_index = (
                f"count({source.word(name)}) = 0 OR (count({number}) = count(*) AND {least} = "
                f"max({number} - {quoted(ROW)}))"
            )
            ((found,),) = connection.execute(f"SELECT {is_index} FROM {source.relation}").fetchall()
            gone += [name] if found else []
    if not gone or len(gone) == len(source.columns):
        return source
    listed = ", ".join(map(quoted, gone))
    return sources.selected(connection, source, f"SELECT * EXCLUDE ({listed}) FROM {source.relation}")
