"""Parts of a folder: which files are found, and what of them is read."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.parts import Folder, Part, is_folder

ROWS = pa.table({"id": ["a", "b"]})


def found(folder, below=""):
    return [part.path.removeprefix(f"{folder.path}/") for part in folder.find(below)]


def test_whole_parquet_files_of_a_folder_are_its_parts(tmp_path):
    folder = Folder.open(tmp_path, argument="hits")
    for name in (
        "b.parquet",
        "day=1/c.parquet",
        "a.parquet",
        ".x.parquet.part",
        "_x.parquet",
        "_new/d.parquet",
        ".git/e.parquet",
    ):
        folder.write(name, ROWS)
    (tmp_path / "notes.txt").write_text("none of them")
    (tmp_path / "f.parquet").mkdir()
    assert found(folder) == ["a.parquet", "b.parquet", "day=1/c.parquet"]
    assert found(folder, "day=1") == ["day=1/c.parquet"]
    assert found(folder, "nowhere") == []
    path = tmp_path / "a.parquet"
    assert folder.find()[0] == Part(f"local:{path}", str(path), path.stat().st_size)


def test_links_of_a_folder_to_itself_are_not_followed_again(tmp_path):
    folder = Folder.open(tmp_path, argument="hits")
    folder.write("day=2025-01-31/a.parquet", ROWS)
    for name in ("again", "loop"):
        (tmp_path / "day=2025-01-31" / name).symlink_to(tmp_path)
    elsewhere = tmp_path / "_elsewhere"
    Folder.open(elsewhere, argument="hits").write("b.parquet", ROWS)
    (tmp_path / "linked").symlink_to(elsewhere)
    assert found(folder) == ["day=2025-01-31/a.parquet", "linked/b.parquet"]


def test_columns_that_a_part_lacks_are_null(tmp_path):
    folder = Folder.open(tmp_path, argument="hits")
    folder.write("a.parquet", ROWS)
    failures = []
    wanted = pa.schema({"id": pa.string(), "page": pa.string()})
    read = pa.Table.from_batches(folder.batches(folder.find(), wanted, failures))
    assert read.to_pydict() == {"id": ["a", "b"], "page": [None, None]}
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidRequest, match="b.parquet' is not a readable Parquet file") as caught:
        list(folder.batches(folder.find(), wanted, failures))
    assert failures == [caught.value]


def test_a_url_or_a_folder_is_one(tmp_path):
    file = tmp_path / "a.parquet"
    file.touch()
    assert [is_folder(place) for place in (tmp_path, "s3://hits", file, tmp_path / "new")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_part_has_its_name_once_its_content_is_on_the_disk(tmp_path, monkeypatch):
    folder, flushed, flush = Folder.open(tmp_path, argument="hits"), [], os.fsync

    def note(handle):
        flushed.append((os.fstat(handle).st_ino, os.fstat(handle).st_size, found(folder)))
        flush(handle)

    monkeypatch.setattr(os, "fsync", note)
    folder.write("day=1/a.parquet", ROWS)
    (part,) = folder.find()
    content, *folders = flushed
    assert content == (Path(part.path).stat().st_ino, part.size, [])
    # Then its name, and that of its folder.
    assert [inode for inode, *_ in folders] == [each.stat().st_ino for each in (tmp_path / "day=1", tmp_path)]
