"""Files of earlier formats, kept as SQL: they open, with a copy as they were beside them."""

from pathlib import Path

import duckdb
import pandas as pd
import pytest
from support.service_records import uuid

import attrib_ds as at
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.store import tables
from attrib_ds.service.store.migration import OLDEST

FORMATS = sorted(Path(__file__).with_name("formats").glob("format-*.sql"))


def earlier(folder, kept, *more):
    """Write the file of an earlier format."""
    file = folder / "shop.duckdb"
    with duckdb.connect(file) as connection:
        connection.execute(kept.read_text())
        for statement in more:
            connection.execute(statement)
    return file


def test_g245_every_format_is_kept():
    assert [int(kept.stem.rpartition("-")[2]) for kept in FORMATS] == list(range(OLDEST, tables.VERSION))


@pytest.mark.slow
@pytest.mark.parametrize("kept", FORMATS, ids=lambda kept: kept.stem)
def test_a_file_of_an_earlier_format_opens_with_all_it_held(tmp_path, kept, caplog):
    file = earlier(tmp_path, kept)
    with pytest.raises(Unavailable, match="open it once for writing"):
        at.connect("shop", path=file, read_only=True)
    before = file.read_bytes()
    with at.connect("shop", path=file) as shop:
        assert "was brought up to date" in caplog.text
        (visit,) = at.search_interactions(shop)["_id"]
        assert visit == f"{1:024x}"
        order = at.get_event(shop, at.search_events(shop)["_id"].item())
        assert order["statistics.turnover.amount"] == 90.5
        (buyer,) = at.search_users(shop, columns=["fields.email"], where=at.user("eventCount") == 1)["_id"]
        assert at.get_user(shop, buyer)["eventCount"] == 1
        assert at.list_nodes(shop)["name"].tolist()[:1] == ["N"]
        assert at.admin.check(shop).empty
        orders = pd.DataFrame({"eventType": ["order"], "nonce": ["new"], "data.email": ["Anna@example.com"]})
        sent = at.send_events(shop, orders)
        assert sent["status"].tolist() == ["processed"]
        assert at.get_user(shop, buyer)["eventCount"] == 2
    # The copy is the file as it was, and opening once more changes nothing.
    copy = file.with_name(f"shop.{kept.stem}.duckdb")
    assert copy.read_bytes() == before
    assert copy.stat().st_mode & 0o077 == 0
    copy.unlink()
    at.connect("shop", path=file, read_only=True).close()
    assert not copy.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kept", FORMATS, ids=lambda kept: kept.stem)
def test_hits_that_waited_in_the_file_become_sessions(tmp_path, kept):
    columns = "id, trackerId, serverDate, timezoneOffset, isBot, userAgent, pageUrl, hitType"
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
    values = (
        f"'{uuid(2)}', 't', '2025-02-01 10:00:00', 0, false, '{agent}', 'https://shop.example/', 'pageview'"
    )
    file = earlier(tmp_path, kept, f"INSERT INTO pending_hits ({columns}) VALUES ({values})")
    # Closing waits until the hits are in sessions.
    at.connect("shop", path=file).close()
    with at.connect("shop", path=file, read_only=True) as shop:
        assert len(at.search_interactions(shop, since="2025-02-01")) == 1


def test_what_cannot_be_brought_up_to_date_stays_as_it_was(tmp_path, monkeypatch):
    file = earlier(tmp_path, FORMATS[-1])
    before = file.read_bytes()
    monkeypatch.setattr("shutil.copyfile", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(Unavailable, match="cannot be brought up to date: .*No space left.*; it is as it was"):
        at.connect("shop", path=file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "format" in path.name] == []
    with pytest.raises(InvalidRequest, match="holds the project 'shop'"):
        at.connect("other-shop", path=file)
    assert file.read_bytes() == before
