"""Collectors: what they accept is in parts once, and what is loaded from parts is what a service collects."""

import sqlite3
import threading
from contextlib import closing
from datetime import datetime, timedelta

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attrib_ds as at
from attrib_ds import schema
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.records import parts
from attrib_ds.records.parts import Folder
from attrib_ds.service import Service
from attrib_ds.service.collection import collector as collectors
from attrib_ds.service.collection.collector import Collector
from attrib_ds.service.store.queue import Queue

DEAD = f"{1:032}"
NOON = datetime(2026, 11, 20, 12)
SPRING = "https://shop.example/?utm_source=google&utm_medium=cpc&utm_campaign=spring"
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012}"


def record(number, tracker, *, minute=None, page="https://shop.example/", day=0, **more):
    date = NOON + timedelta(minutes=number if minute is None else minute)
    return {
        "id": uuid(number), "trackerId": tracker, "serverDate": date, "ingestedAt": date + timedelta(days=day),
        "timezoneOffset": -60, "isBot": False, "truncated": False, "userAgent": AGENT, "pageUrl": page,
        "referrer": None, "hitType": "pageview", "address": None, **more,
    }  # fmt: skip


#: A known browser that comes back by a campaign; one that agrees on its second page, and sends its first one
#: again; one whose page knew of the consent; a pixel; a filtered address.
RECORDS = [
    record(1, "anna"),
    record(2, "anna", page=SPRING),
    record(3, "day.5f p-1", page=SPRING),
    record(3, "ben day.5f", page=SPRING),
    record(4, "ben day.5f", page="https://shop.example/boots", referrer="https://shop.example/"),
    record(5, "day.6a p-2", page=SPRING),
    record(6, "carl day.6a", page="https://shop.example/hats", referrer="https://shop.example/"),
    record(7, "hit.7"),
    record(8, "dora", address="203.0.113.7"),
    record(9, "eve", page="https://shop.example/?q=" + "x" * 2_000),
]


def settings(**more):
    return lambda: {"trafficFilters": ["address:203.0.113.0/24"], **more}


def collect(to, records, **more):
    with closing(
        Collector("shop", Folder.open(to, argument="to"), journals=to / "journals", read=settings(**more))
    ) as collector:
        for each in [collector.start_hit(each) for each in records]:
            each.result(10)


def parts_of(to):
    return sorted((to / "hits").rglob("*.parquet"))


def state(shop):
    """Return what a project has of hits and users, without ids that are drawn."""
    service = shop.transport
    with service._store.cursor() as cursor:
        hits = cursor.execute(
            "SELECT hits.id, hits.trackerId, sessionId, hits.nodeId, hits.trafficFilterId, hits.isBot, "
            "interactions.hitCount, min(hits.id) OVER (PARTITION BY interactions.userId) AS person "
            "FROM hits JOIN interactions ON sessionId = interactions._id ORDER BY hits.id"
        ).fetchall()
        trackers = cursor.execute(
            "SELECT list(value ORDER BY value) FROM identities GROUP BY userId ORDER BY ALL"
        ).fetchall()
    return hits, trackers


@pytest.fixture
def shop():
    with at.connect("shop", path=":memory:") as shop:
        at.admin.update_settings(shop, traffic_filters=["address:203.0.113.0/24"])
        yield shop


def test_parts_become_what_the_service_collects(tmp_path, shop):
    collect(tmp_path, RECORDS)
    loaded = at.load(shop, hits=tmp_path / "hits")
    assert loaded.rejected.empty
    assert loaded.counts["hits"] == 9
    with closing(Service.open("shop", ":memory:")) as live:
        other = at.Project("shop", live)
        at.admin.update_settings(other, traffic_filters=["address:203.0.113.0/24"])
        for each in RECORDS:
            live.start_hit(each).result(10)
        live._hits.settle()
        assert state(shop) == state(other)
    hits, trackers = state(shop)
    # By hand: the visit that began without consent is the browser's that agreed.
    assert [(hit[1], hit[7]) for hit in hits[2:6]] == [
        ("ben", uuid(3)), ("ben", uuid(3)), ("carl", uuid(5)), ("carl", uuid(5))
    ]  # fmt: skip
    assert len(trackers) == 6
    assert at.admin.check(shop).empty


def test_parts_are_read_once_also_late_ones(tmp_path, shop):
    collect(tmp_path, RECORDS[:2])
    assert at.load(shop, hits=tmp_path / "hits").counts == {
        "parts": 1, "hits": 2, "interactions": 2, "implicit_nodes": 3,
    }  # fmt: skip
    assert at.load(shop, hits=str(tmp_path / "hits")).counts == {"parts": 0}
    # A day that was read already.
    collect(tmp_path, [record(10, "anna", minute=-5), RECORDS[0]])
    again = at.load(shop, hits=tmp_path / "hits")
    assert (again.counts["parts"], again.counts["hits"], again.counts["interactions"]) == (1, 1, 0)
    assert again.rejected.empty


def test_a_part_that_cannot_be_read_is_named_and_read_later(tmp_path, shop, monkeypatch):
    monkeypatch.setattr("attrib_ds.service.loading.load._ROWS_OF_PARTS", 1)
    collect(tmp_path, RECORDS[:1])
    broken = tmp_path / "hits" / "zz.parquet"
    broken.write_bytes(b"PAR1")
    with pytest.raises(InvalidRequest, match=r"zz\.parquet' is not a readable Parquet file"):
        at.load(shop, hits=tmp_path / "hits")
    # What came before it is loaded, and known.
    pq.write_table(collectors.part_rows([json_of(RECORDS[7])], project_id="shop"), broken)
    assert at.load(shop, hits=tmp_path / "hits").counts["parts"] == 1
    assert len(state(shop)[0]) == 2


def test_parts_whose_columns_have_other_types_are_loaded_and_wrong_ones_are_named(tmp_path, shop):
    rows = collectors.part_rows([json_of(RECORDS[0])], project_id="shop")
    folder = tmp_path / "hits"
    folder.mkdir()
    pq.write_table(rows, folder / "a.parquet")
    others = {"trackerId": pa.array([17]), "hitId": pa.array([RECORDS[1]["id"]])}
    for name, column in others.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    pq.write_table(rows, folder / "b.parquet")
    assert at.load(shop, hits=folder).counts["hits"] == 2
    pq.write_table(rows.append_column("colour", pa.array(["red"])), folder / "c.parquet")
    with pytest.raises(InvalidRequest, match=r"'colour' is not known.*\(parts: '.*c\.parquet'\)"):
        at.load(shop, hits=folder)


def json_of(each):
    return each | {name: each[name].isoformat() for name in ("serverDate", "ingestedAt")}


def test_parts_that_fail_to_load_are_not_known(tmp_path, shop, monkeypatch):
    collect(tmp_path, RECORDS[:1])
    monkeypatch.setattr(
        "attrib_ds.service.collection.hits.collect", lambda *_, **__: (_ for _ in ()).throw(Unavailable("no"))
    )
    with pytest.raises(Unavailable):
        at.load(shop, hits=tmp_path / "hits")
    monkeypatch.undo()
    assert at.load(shop, hits=tmp_path / "hits").counts["hits"] == 1


def test_parts_are_by_day_of_receipt_and_have_one_schema(tmp_path):
    collect(tmp_path, [record(1, "anna"), record(2, "anna", day=1), record(3, "anna", day=1)])
    assert [part.parent.name for part in parts_of(tmp_path)] == ["day=2026-11-20", "day=2026-11-21"]
    tables = [pq.ParquetFile(part).read() for part in parts_of(tmp_path)]
    assert [table.num_rows for table in tables] == [1, 2]
    assert all(table.schema.equals(schema.RAW_HIT) for table in tables)
    assert tables[1]["hitId"].to_pylist() == [uuid(2), uuid(3)]
    # Nothing is left in the journal, so it is gone.
    assert list((tmp_path / "journals" / "shop").iterdir()) == []


class Breaking(Folder):
    """A folder that fails after a part of some days was written, as a connection does."""

    days = ("2026-11-20", "2026-11-21")

    def write(self, name, rows):
        super().write(name, rows)
        if any(day in name for day in self.days):
            raise Unavailable("broken")


class BreakingLater(Breaking):
    days = ("2026-11-21",)


def hits_of(part):
    return pq.ParquetFile(part).read()["hitId"].to_pylist()


def test_of_the_parts_of_two_days_the_second_is_written_again(tmp_path):
    """A process is killed after it wrote both, and accepted another hit meanwhile."""
    folder = Folder.open(tmp_path, argument="to")
    left = collectors.PartIntake("shop", BreakingLater(*folder), tmp_path / DEAD)
    for each in [left.submit(record(1, "anna")), left.submit(record(2, "anna", day=1))]:
        each.result(10)
    with pytest.raises(Unavailable, match="broken"):
        left.settle(10)
    left.submit(record(3, "anna", day=1)).result(10)
    left.close(timeout=0)
    found = collectors.PartIntake("shop", folder, tmp_path / DEAD)
    found.resume()
    found.close()
    assert [hits_of(part) for part in parts_of(tmp_path)] == [[uuid(1)], [uuid(2)], [uuid(3)]]


@pytest.fixture
def no_thread(monkeypatch):
    """Leave the journals of other processes to the test: of two that open one at once, neither may have it."""
    monkeypatch.setattr(Collector, "_work", lambda collector: None)


class Refusing(Folder):
    """A folder that is away."""

    def write(self, name, rows):
        raise Unavailable("away")


@pytest.mark.usefixtures("no_thread")
def test_a_journal_of_another_project_is_left_to_it(tmp_path):
    folder, journals = Folder.open(tmp_path, argument="to"), tmp_path / "journals"
    with closing(Collector("shop", Refusing(*folder), journals=journals, read=settings())) as left:
        left.start_hit(RECORDS[0]).result(10)
    for project in ("other", "shop"):
        assert parts_of(tmp_path) == []
        with closing(Collector(project, folder, journals=journals, read=settings())) as collector:
            collector._adopt()
    assert [pq.ParquetFile(part).read()["projectId"].to_pylist() for part in parts_of(tmp_path)] == [["shop"]]


@pytest.mark.usefixtures("no_thread")
@pytest.mark.parametrize(("name", "hits"), [("shop.duckdb", 1), (DEAD, 0)])
def test_a_queue_of_a_project_is_no_journal(tmp_path, name, hits):
    """Its events may be all there is of them, even where its name is that of a journal."""
    (tmp_path / "shop").mkdir()
    files = [tmp_path / name, tmp_path / "shop" / name]
    for file in files:
        with closing(Queue(file, {})) as queue, queue.transaction():
            queue.put("events", "n", b"[{},{}]")
            queue.put("hits", "a", msgspec.json.encode(RECORDS[0]))
    with closing(
        Collector("shop", Folder.open(tmp_path, argument="to"), journals=tmp_path, read=settings())
    ) as collector:
        collector._adopt()
    for file, left in zip(files, (1, hits), strict=True):
        with closing(Queue(file, {})) as queue:
            assert (len(queue.first("events", 9)), len(queue.first("hits", 9))) == (1, left)


def test_a_journal_takes_bytes_as_it_takes_hits(tmp_path, monkeypatch):
    """A portion ends with the megabyte that a few long addresses fill."""
    monkeypatch.setattr("attrib_ds.service.store.queue._LARGEST_PORTION", 1_000_000)
    monkeypatch.setattr(collectors, "_MOST_BYTES", 3_000_000)
    intake = collectors.PartIntake("shop", Folder.open(tmp_path, argument="to"), tmp_path / DEAD)
    long = "https://shop.example/?q=" + "x" * 400_000
    accepted = [intake.submit(record(number, "anna", page=long)) for number in range(7)]
    for each in accepted:
        each.result(10)
    with pytest.raises(Unavailable, match=r"bytes of hits wait to be stored; try again later"):
        for number in range(7, 20):
            intake.submit(record(number, "anna", page=long)).result(10)
    intake.settle(10)
    intake.submit(record(20, "anna")).result(10)
    intake.close()
    sizes = [len(hits_of(part)) for part in parts_of(tmp_path)]
    assert max(sizes) == 3
    assert sum(sizes) >= 8


@pytest.mark.parametrize("answer", [
    {"day": "2026-11-20", "salt": "zz"}, {"day": "2026-11-20", "salt": "ab"}, {"salt": "ab" * 32},
    {"day": 5, "salt": "ab" * 32}, {"timezone": 5}, [],
])  # fmt: skip
def test_a_wrong_answer_leaves_settings_and_salt(tmp_path, monkeypatch, caplog, answer):
    monkeypatch.setattr(collectors, "_SECONDS_BETWEEN_READS", 0)
    with closing(
        Collector("shop", Folder.open(tmp_path, argument="to"), journals=tmp_path / "j", read=settings())
    ) as collector:
        before = collector.salt, collector.cached_settings()
        collector._read = lambda: answer
        collector.renew_salt()
        assert (collector.salt, collector.cached_settings()) == before
        assert "the settings of shop cannot be read" in caplog.text
        assert "ab" * 32 not in caplog.text


def test_a_journal_that_vanishes_does_not_end_the_thread(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(collectors, "_SECONDS_TO_REFRESH", 0.01)
    monkeypatch.setattr(collectors, "_SECONDS_BETWEEN_READS", 0)
    (tmp_path / "j" / "shop").mkdir(parents=True)
    (tmp_path / "j" / "shop" / f"{DEAD}.queue").symlink_to(tmp_path / "gone")
    reads, again = [], threading.Event()
    with closing(
        Collector(
            "shop", Folder.open(tmp_path, argument="to"), journals=tmp_path / "j",
            read=lambda: reads.append(1) or (len(reads) > 3 and again.set()) or {},
        )
    ) as collector:  # fmt: skip
        assert again.wait(10)
        again.clear()
        reads.clear()
        # Any other failure with a journal is logged, and the journal is tried again.
        monkeypatch.setattr(collectors, "PartIntake", lambda *_: 1 / 0)
        (tmp_path / "gone").write_bytes(b"journal")
        assert again.wait(10)
        assert collector._thread.is_alive()
    assert "ZeroDivisionError" in caplog.text


def test_what_a_collector_is_told_is_in_no_representation(shop):
    at.admin.update_settings(shop, visitor_of_the_day=True)
    answer = shop.send("get_collector")
    assert answer.value["salt"] not in repr(answer)


def test_a_part_whose_writing_seemed_to_fail_is_written_again(tmp_path):
    """Another process finds the journal, with more hits than the part has that is there."""
    folder = Folder.open(tmp_path, argument="to")
    left = collectors.PartIntake("shop", Breaking(*folder), tmp_path / "journal")
    left.submit(RECORDS[0]).result(10)
    with pytest.raises(Unavailable, match="broken"):
        left.settle(10)
    left.submit(RECORDS[1]).result(10)
    left.close(timeout=0)
    with closing(sqlite3.connect(tmp_path / "journal.queue")) as journal:
        assert journal.execute("SELECT count(*) FROM hits").fetchone() == (2,)
    found = collectors.PartIntake("shop", folder, tmp_path / "journal")
    found.resume()
    found.close()
    assert [pq.ParquetFile(part).read()["hitId"].to_pylist() for part in parts_of(tmp_path)] == [
        [uuid(1)], [uuid(2)]
    ]  # fmt: skip
    assert not (tmp_path / "journal.queue").exists()


@pytest.mark.usefixtures("no_thread")
def test_journals_of_dead_processes_are_written_by_the_next_and_those_of_living_ones_are_not(tmp_path):
    folder, journals = Folder.open(tmp_path, argument="to"), tmp_path / "journals"
    (journals / "shop").mkdir(parents=True)
    dead = collectors.PartIntake("shop", Breaking(*folder), journals / "shop" / DEAD)
    dead.submit(RECORDS[0]).result(10)
    dead.close(timeout=0)
    living = collectors.PartIntake("shop", folder, journals / "shop" / f"{2:032}")
    with closing(Collector("shop", folder, journals=journals, read=settings())) as collector:
        collector._adopt()
        living.submit(RECORDS[1]).result(10)
    living.close()
    found = [hit for part in parts_of(tmp_path) for hit in pq.ParquetFile(part).read()["hitId"].to_pylist()]
    assert sorted(found) == [uuid(1), uuid(2)]


def test_visitors_of_the_day_need_the_salt_of_the_service(tmp_path):
    with closing(Service.open("shop", ":memory:")) as service:
        read = at.Project("shop", service).send("get_collector").value
        folder = Folder.open(tmp_path, argument="to")
        with closing(
            Collector("shop", folder, journals=tmp_path / "journals", read=lambda: read)
        ) as collector:
            visitor = collector.salt.visitor("203.0.113.7", AGENT)
            assert visitor == service.salt.visitor("203.0.113.7", AGENT) is not None
            assert collector.cached_settings().visitor_of_the_day
        # A file has no salt.
        bare = {name: value for name, value in read.items() if name not in ("day", "salt")}
        with closing(
            Collector("shop", folder, journals=tmp_path / "journals", read=lambda: bare)
        ) as collector:
            assert not collector.cached_settings().visitor_of_the_day
            assert collector.salt.visitor("203.0.113.7", AGENT) is None


def test_settings_stay_while_the_service_is_away(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(collectors, "_SECONDS_BETWEEN_READS", 0)
    answers = [{"respectGpc": False}]
    with closing(
        Collector(
            "shop", Folder.open(tmp_path, argument="to"), journals=tmp_path / "j", read=lambda: answers.pop()
        )
    ) as collector:
        monkeypatch.setattr(collector, "_read", lambda: (_ for _ in ()).throw(Unavailable("away")))
        collector.renew_salt()
        assert not collector.cached_settings().respect_gpc
        assert "the settings of shop cannot be read: away" in caplog.text
        monkeypatch.setattr(collector, "_read", lambda: {"respectGpc": True})
        collector.renew_salt()
        assert collector.cached_settings().respect_gpc


def test_wrong_settings_and_places_are_refused_at_the_start(tmp_path):
    with pytest.raises(InvalidRequest, match="'respectGCP' is not allowed.*respectGpc"):
        collect(tmp_path, [], respectGCP=True)
    with pytest.raises(InvalidRequest, match="scheme"):
        Folder.open("ftp://shop.example/hits", argument="to")


def test_columns_of_a_part_are_those_of_raw_hits():
    table = collectors.part_rows([json_of(RECORDS[4])], project_id="shop")
    (row,) = table.to_pylist()
    assert (row["trackerId"], row["otherTrackerId"], row["hitId"]) == ("ben", "day.5f", uuid(4))
    assert table.schema.field("date").type == pa.timestamp("us", tz="UTC")


def one_hit(**columns):
    return pa.table(
        {"trackerId": ["anna"], "date": ["2026-01-01T12:00:00Z"], "pageUrl": ["https://a.example/"]} | columns
    )


def test_a_large_part_is_read_in_batches_and_what_fails_then_keeps_its_kind(tmp_path, shop, monkeypatch):
    rows = 50_000
    addresses = [f"https://a.example/{number}/{'x' * 1_000}" for number in range(rows)]
    large = one_hit(trackerId=["anna"] * rows, date=["2026-01-01T12:00:00Z"] * rows, pageUrl=addresses)
    # In one row group, which nobody reads as a whole.
    pq.write_table(large, tmp_path / "large.parquet", use_dictionary=False)
    folder = Folder.open(tmp_path, argument="hits")
    least, failures = pa.total_allocated_bytes(), []
    held = max(
        pa.total_allocated_bytes()
        for batch in folder.batches(folder.find(), large.schema, failures)
        if batch.num_rows
    )
    assert held - least < large.nbytes / 2
    real, opened = parts.Folder.opened, []

    def away(*of):
        opened.append(of)
        if len(opened) > 1:
            raise Unavailable("the bucket is away")
        return real(*of)

    monkeypatch.setattr(parts.Folder, "opened", away)
    with pytest.raises(Unavailable, match="^the bucket is away$"):
        at.load(shop, hits=tmp_path)


def test_a_part_that_would_fill_the_memory_is_refused(tmp_path, shop, monkeypatch):
    pq.write_table(one_hit(), tmp_path / "one.parquet")
    monkeypatch.setattr("attrib_ds.records.sources._MOST_ROWS_OF_GROUP", 0)
    with pytest.raises(InvalidRequest, match=r"one.parquet' has 1 rows in a row group; allowed: 0"):
        at.load(shop, hits=tmp_path)


def test_each_part_is_opened_to_count_and_to_read_it(tmp_path, shop, monkeypatch):
    opened = []
    real = parts.Folder.opened
    monkeypatch.setattr(parts.Folder, "opened", lambda *of: opened.append(of) or real(*of))
    for number in range(50):
        pq.write_table(one_hit(trackerId=[f"visitor {number}"]), tmp_path / f"{number}.parquet")
    assert at.load(shop, hits=tmp_path).counts["parts"] == 50
    assert len(opened) == 100
