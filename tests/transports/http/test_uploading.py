"""Raw hits loaded into a remote project: the same as into an embedded one, each portion once."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attrib_ds as at
from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import AttribError, Forbidden, InvalidRequest, NotSupported
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import running
from attrib_ds.service.loading import load

SPRING = "https://shop.example/?utm_source=google&utm_medium=cpc&utm_campaign=spring"
HITS = pd.DataFrame(
    {
        "trackerId": ["anna", "anna", "ben", None, "carl", "carl"],
        "date": [f"2026-01-0{day}T12:00:00Z" for day in (1, 2, 2, 3, 3, 4)],
        "pageUrl": [SPRING, "https://shop.example/", SPRING, SPRING, "boots", "https://shop.example/hats"],
    }
)


@pytest.fixture
def served(tmp_path):
    at.connect("shop", path=tmp_path / "shop.duckdb").close()
    with running(tmp_path) as url:
        yield tmp_path, url


def connect(served, *scopes):
    home, url = served
    create_key(home, home / f"{scopes[0]}.json", projects=["shop"], scopes=scopes)
    return at.connect("shop", url=url, key=home / f"{scopes[0]}.json")


def test_portions_are_loaded_as_one_table_is(served, monkeypatch):
    monkeypatch.setattr("attrib_ds.transports.http.uploading._ROWS", 2)
    with connect(served, "hits:write", "interactions:read") as shop:
        remote = at.load(shop, hits=HITS)
        visits = at.search_interactions(shop, columns=["startDate", "nodeId", "hitCount"], sort="startDate")
    with at.connect("shop", path=":memory:") as embedded:
        local = at.load(embedded, hits=HITS)
        columns = ["startDate", "nodeId", "hitCount"]
        same = at.search_interactions(embedded, columns=columns, sort="startDate")
    assert remote.counts == local.counts
    assert remote.counts["hits"] == 4
    pd.testing.assert_frame_equal(remote.rejected, local.rejected)
    assert remote.rejected["row"].tolist() == [3, 4]
    pd.testing.assert_frame_equal(visits.drop(columns="_id"), same.drop(columns="_id"))


def test_a_portion_that_comes_again_is_answered_as_the_first_time(served, tmp_path):
    assert OPERATIONS["send_hits"].idempotent
    file = tmp_path / "hits.parquet"
    pq.write_table(pa.Table.from_pandas(HITS, preserve_index=False), file)
    portion = {"portion_id": "00000000-0000-4000-8000-00000000000A", "source": file}
    with connect(served, "hits:write", "interactions:read", "admin") as shop:
        first = shop.send("send_hits", **portion).value
        assert at.admin.list_audit(shop)["operation"].tolist() == ["send_hits"]
        assert first["counts"]["hits"] == 4
        assert shop.send("send_hits", **portion).value == first
        assert at.search_interactions(shop, limit=0).attrs["total"] == 4
        # The same hits in another portion are known by their content.
        again = shop.send("send_hits", **portion | {"portion_id": "00000000-0000-4000-8000-00000000000b"})
        assert again.value["counts"]["hits"] == 0


def test_parts_of_a_folder_and_lines_that_cannot_be_read(served, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, rows in (("a", HITS.iloc[:3]), ("b", HITS.iloc[3:])):
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / f"{name}.parquet")
    lines = tmp_path / "hits.ndjson"
    lines.write_text(
        '{"trackerId": "dora", "date": "2026-01-05T12:00:00Z", "pageUrl": "https://a.example/"}\n{\n'
    )
    with connect(served, "hits:write") as shop:
        loaded = at.load(shop, hits=folder)
        assert (loaded.counts["hits"], loaded.rejected["row"].tolist()) == (4, [4, 5])
        loaded = at.load(shop, hits=lines)
        assert (loaded.counts["hits"], loaded.rejected["row"].tolist()) == (1, [2])


def test_what_is_refused(served, monkeypatch):
    with connect(served, "interactions:read") as shop, pytest.raises(Forbidden):
        at.load(shop, hits=HITS)
    with connect(served, "hits:write") as shop:
        with pytest.raises(NotSupported, match="load_records: not available for a remote project"):
            at.load(shop, nodes=pd.DataFrame({"_id": ["a"]}))
        with pytest.raises(NotSupported, match="AccessLog is read where the project is"):
            at.load(shop, hits=at.hits.AccessLog("access.log", site="https://shop.example"))
        with pytest.raises(NotSupported, match="looks addresses up"):
            at.load(shop, hits=HITS, geo="places.mmdb")
        monkeypatch.setattr("attrib_ds.service.http.dispatch._MOST_BYTES", 100)
        with pytest.raises(AttribError, match="too large; allowed: 100 bytes"):
            at.load(shop, hits=HITS)
    home, _ = served
    assert not list(home.glob(".*.upload*"))


def test_a_portion_has_a_bound_of_rows_and_of_bytes_before_compression(served, tmp_path):
    file = tmp_path / "hits.parquet"
    one = pa.Table.from_pandas(HITS.iloc[:1], preserve_index=False)
    with connect(served, "hits:write") as shop:
        for rows, page, status in ((20_001, "a", 413), (700, "a" * 100_000, 413), (1_002, "a", None)):
            many = pa.table(
                [pa.array([None] * rows, pa.string()), *([one[1][0].as_py()] * rows, [page] * rows)],
                one.column_names,
            )
            pq.write_table(many, file, use_dictionary=False, compression="zstd")
            send = {"portion_id": f"00000000-0000-4000-8000-{rows:012}", "source": file}
            if status:
                with pytest.raises(
                    InvalidRequest, match=r"rows and .* bytes before compression; allowed: 20,000 and"
                ):
                    shop.send("send_hits", **send)
            else:
                answer = shop.send("send_hits", **send).value
                assert (len(answer["rejected"]), answer["counts"]["unlisted_rejected"]) == (1_000, 2)
    home, _ = served
    assert not list(home.glob(".*.upload*"))


def test_texts_of_rejected_rows_are_cut(tmp_path):
    file = tmp_path / "hits.parquet"
    pq.write_table(
        pa.table({"trackerId": ["a"], "date": ["never"], "pageUrl": ["a"], "hitId": ["x" * 5_000]}), file
    )
    with at.connect("shop", path=":memory:") as shop:
        portion = {"portion_id": "00000000-0000-4000-8000-00000000000a", "source": file}
        (row,) = shop.send("send_hits", **portion).value["rejected"]
    assert row["id"] == "x" * 1_000
    assert "date" in row["reason"]


def test_a_portion_that_comes_again_while_it_is_loaded_is_loaded_once(tmp_path, monkeypatch):
    file = tmp_path / "hits.parquet"
    pq.write_table(pa.Table.from_pandas(HITS, preserve_index=False), file)
    portion = {"portion_id": "00000000-0000-4000-8000-00000000000a", "source": file}
    checked, answers = load._open, []

    def open_after_another(*arguments, **options):
        if not answers:
            answers.append(None)
            answers[0] = shop.send("send_hits", **portion).value
        return checked(*arguments, **options)

    monkeypatch.setattr(load, "_open", open_after_another)
    with at.connect("shop", path=":memory:") as shop:
        second = shop.send("send_hits", **portion).value
        assert second == answers[0]
        assert second["counts"]["hits"] == 4
        assert shop.send("send_hits", **portion).value == second
