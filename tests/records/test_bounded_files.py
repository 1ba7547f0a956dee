"""Small files with huge content are refused before they fill the memory."""

import gzip
import io
import resource
import time
import zipfile

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from attrib_ds.errors import InvalidRequest
from attrib_ds.records import sources, text_files
from attrib_ds.records.sources import open_source
from attrib_ds.records.written_files import read_sheet


def opened(path):
    return open_source(duckdb.connect(), path, argument="events")


def refused(path, problem, seconds=5):
    """Check that a file is refused for a problem, soon and without much memory."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InvalidRequest, match=f"^events: .*{problem}"):
        opened(path)
    assert time.process_time() - started < seconds
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


def workbook(path, sheet, **parts):
    """Write a workbook whose first sheet has some XML."""
    pd.DataFrame({"a": [1]}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as source:
        contents = {name: source.read(name) for name in source.namelist()}
    contents["xl/worksheets/sheet1.xml"] = sheet
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as sink:
        for name, content in (contents | parts).items():
            sink.writestr(name, content)
    return path


def sheet_of(rows, dimension="A1"):
    head = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    return f'{head}<dimension ref="{dimension}"/><sheetData>{rows}</sheetData></worksheet>'


@pytest.mark.large
@pytest.mark.parametrize(
    ("rows", "dimension", "problem"),
    [
        ('<row r="1"><c r="XFD1"><v>1</v></c></row>', "A1", "column 16,384; allowed: 2,000 columns"),
        ('<row r="1"><c r="A1"><v>1</v></c></row>', "A1:ALL1048576", "more than 10,000,000 cells"),
        ('<row r="1048576"><c r="ALL1"><v>1</v></c></row>', "A1", "more than 10,000,000 cells"),
        ("<row r = '9999999999'/>", "A1", "more than 10,000,000 cells"),
        (
            '<x:row xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main" r="2e7"/>',
            "A1",
            "more than",
        ),
        ('<row r="&#57;9999999"/>', "A1", "more than 10,000,000 cells"),
        pytest.param("cells", "A1", "more than 10,000,000 cells", marks=pytest.mark.slow),
    ],
    ids=["columns", "dimension", "row", "digits", "prefix", "entity", "cells"],
)
def test_a_workbook_with_too_many_cells_is_refused(tmp_path, rows, dimension, problem):
    # Reading as many cells as are allowed takes minutes.
    seconds = 60 if rows == "cells" else 5
    if rows == "cells":
        rows = f'<row r="1">{"<c><v>1</v></c>" * 10_000_001}</row>'
    path = workbook(tmp_path / "a.xlsx", sheet_of(rows, dimension))
    assert path.stat().st_size < 2**20
    refused(path, problem, seconds)


def test_a_sheet_is_found_under_any_name_and_in_any_encoding(tmp_path):
    sheet = '<?xml version="1.0" encoding="utf-16"?>' + sheet_of('<row r="20000000"/>')
    path = workbook(tmp_path / "a.xlsx", sheet_of(""), **{"xl/other.bin": sheet.encode("utf-16")})
    refused(path, "more than 10,000,000 cells")


@pytest.mark.large
@pytest.mark.slow
def test_a_workbook_that_unpacks_to_gigabytes_is_refused(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as sink:
        for number in range(9):
            with sink.open(f"xl/part{number}.xml", "w") as part:
                for _ in range(128):
                    part.write(b" " * 2**20)
    refused(path, "bytes unpacked; allowed: 1,073,741,824")
    with zipfile.ZipFile(path, "w") as sink:
        for number in range(1_001):
            sink.writestr(f"xl/{number}", "")
    refused(path, "1,001 parts; allowed: 1,000")


def test_a_workbook_of_usual_size_is_read(tmp_path):
    path = tmp_path / "a.xlsx"
    pd.DataFrame({f"c{number}": range(50) for number in range(30)}).to_excel(path, index=False)
    assert read_sheet(path, argument="path").shape == (50, 30)


@pytest.mark.parametrize("ending", ["csv", "ndjson", "json"])
def test_a_small_file_that_decompresses_to_much_is_refused(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(text_files, "SMALL_CONTENT", 2**20)
    path = tmp_path / f"a.{ending}.gz"
    start = {"csv": b"a,b\n", "ndjson": b"", "json": b"[1"}[ending]
    row = {"csv": b"1,2\n", "ndjson": b'{"a":1}\n', "json": b",1111111"}[ending]
    path.write_bytes(gzip.compress(start + row * 4_000_000))
    refused(path, "bytes after decompression, 200 times its size")
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1_000))
    if ending == "csv":
        assert opened(path).rows == 1_000


@pytest.mark.slow
def test_a_parquet_file_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "SMALL_CONTENT", 2**20)
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({f"c{number}": [1] for number in range(2_001)}), path)
    refused(path, "2,001 columns; allowed: 2,000")
    same = pa.array(["x" * 1_000]).take(pa.array([0] * 100_000))
    parquet.write_table(pa.table({"a": same}), path, use_dictionary=False, compression="zstd")
    refused(path, "bytes in a row group; allowed: .*; write it with smaller row groups")
    nothing = pa.nulls(60_000_000, pa.bool_())
    parquet.write_table(pa.table({"a": nothing}), path, row_group_size=60_000_000)
    refused(path, "60,000,000 rows in a row group; allowed: 50,000,000")


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_parquet_file_that_repeats_a_long_text_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(sources, "_MOST_DECODED", 2**20)
    monkeypatch.setattr(text_files, "MOST_FOLD", 1)
    path = tmp_path / "a.parquet"
    for count in (1_000, 2_000):
        same = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * 1_000])
        parquet.write_table(pa.table({"a": same.cast(kind)}), path)
        if count == 1_000:
            assert opened(path).rows == count
    assert path.stat().st_size < 10_000
    refused(path, "cannot be read: its rows have more than 1,048,576 bytes; allowed is 1 times its size$")


def test_content_within_its_bound_is_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "SMALL_CONTENT", 1_000)
    path = tmp_path / "a.gz"
    for size, is_read in ((1_000, True), (1_001, False)):
        path.write_bytes(gzip.compress(b"a" * size))
        monkeypatch.setattr(text_files, "MOST_FOLD", 1)
        with text_files.open_binary(path) as file:
            if is_read:
                assert len(io.BytesIO(file.read()).getvalue()) == size
            else:
                with pytest.raises(OSError, match="1,000 bytes after decompression"):
                    file.read()
