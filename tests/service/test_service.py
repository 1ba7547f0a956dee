"""The service as the client's transport sees it."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import duckdb
import pytest
from support.service_records import order, send, table, visit

from attrib_ds import schema
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import InvalidRequest, NotSupported, ProjectInUse, ServiceFailure, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.loading import REJECTED


@pytest.fixture
def service(tmp_path):
    opened = Service.open("shop", tmp_path / "shop.duckdb")
    yield opened
    opened.close()


def test_address_and_currency(service, tmp_path):
    assert service.address == str(tmp_path / "shop.duckdb")
    assert service.currency == "EUR"


def test_a_new_project_may_have_another_currency(tmp_path):
    made = Service.open("shop", tmp_path / "new.duckdb", currency="NOK")
    assert made.currency == "NOK"
    made.close()


def test_loading_answers_with_counts_and_rejected_rows(service):
    answer = send(
        service, "load_records", resource="interactions", source=table(visit(1), visit(2, userId=None))
    )
    assert answer.value == {"interactions": 1, "implicit_nodes": 1}
    assert answer.read().schema == REJECTED
    assert answer.read()["reason"].to_pylist() == ["userId: is missing"]


def test_an_operation_that_is_not_built_is_named(service):
    declared = replace(OPERATIONS["list_nodes"], name="foretell")
    with pytest.raises(NotSupported, match="foretell: "):
        service.send(declared, build(declared, project_id="shop"))


def test_another_project_is_refused(service):
    declared = OPERATIONS["list_nodes"]
    with pytest.raises(InvalidRequest, match="'other' is not the project of this service .'shop'"):
        service.send(declared, build(declared, project_id="other"))


def test_tables_for_attribution_are_lazy_and_current(service):
    tables = service.tables()
    read = {"interactions", "events", "metrics", "nodes", "outlays", "metric_history", "rates"}
    assert {name for name in read if getattr(tables, name) is not None} == read
    assert tables.nodes.columns == tuple(schema.NODE.names)
    count = tables.interactions.count()
    assert count.to_pyarrow().as_py() == 0
    send(service, "load_records", resource="interactions", source=table(visit(1), visit(2, nodeId="b")))
    assert count.to_pyarrow().as_py() == 2
    send(service, "load_records", resource="events", source=table(order(1)))
    events, metrics = tables.events, service.tables().metrics
    joined = events.join(metrics, events["_id"] == metrics.eventId)
    assert joined.count().to_pyarrow().as_py() == 1


@pytest.mark.large
@pytest.mark.slow
def test_threads_read_tables_at_the_same_time(service):
    visits = [visit(i, nodeId=f"n{i % 7}") for i in range(2_000)]
    send(service, "load_records", resource="interactions", source=table(*visits))

    def count(number):
        interactions = service.tables().interactions
        return interactions.filter(interactions.nodeId == f"n{number % 7}").count().to_pyarrow().as_py()

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(count, range(21)))
    assert sum(counts[:7]) == 2_000
    assert counts == counts[:7] * 3


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_closing_while_others_read_and_write_breaks_nothing(tmp_path, turn):
    path = tmp_path / "shop.duckdb"
    service = Service.open("shop", path)
    written, enough = [], threading.Event()

    def write(number):
        for each in range(10_000):
            visits = [visit(1_000_000 * number + 10 * each + i) for i in range(3)]
            send(service, "load_records", resource="interactions", source=table(*visits))
            written.append(3)
            if len(written) > 5 * turn:
                enough.set()

    def read(_):
        while True:
            send(service, "interaction_insights", group="nodeId")
            service.tables().interactions.count().to_pyarrow()

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(write, number) for number in range(2)]
        running += [pool.submit(read, number) for number in range(2)]
        assert enough.wait(60)
        service.close()
    for each in running:
        assert isinstance(each.exception(), Unavailable)
    again = Service.open("shop", path)
    assert send(again, "search_interactions", limit=0).total == sum(written)
    again.close()


def test_a_file_that_the_database_has_closed_is_opened_again(service):
    send(service, "load_records", resource="interactions", source=table(visit(1)))
    with pytest.raises(ServiceFailure, match="database failed"), service._shared_access():
        raise duckdb.FatalException("cannot checkpoint")
    # What would not wait is refused until somebody who can wait has opened the file.
    assert service._start(Future) is None
    assert send(service, "search_interactions").read().num_rows == 1
    assert service._start(Future) is not None


def test_a_project_in_memory_is_never_opened_again():
    """It would be empty."""
    with closing(Service.open("shop", ":memory:")) as service:
        send(service, "load_records", resource="interactions", source=table(visit(1)))
        with pytest.raises(ServiceFailure), service._shared_access():
            raise duckdb.FatalException("cannot checkpoint")
        assert send(service, "search_interactions").read().num_rows == 1


def test_closing_lets_go_of_the_file_even_while_tables_are_held(service, tmp_path):
    tables = service.tables()
    tables.nodes.count().to_pyarrow().as_py()
    service.close()
    service.close()
    with pytest.raises(Unavailable, match="the project is closed"):
        send(service, "list_nodes")
    reading = Service.open("shop", tmp_path / "shop.duckdb", read_only=True)
    assert send(reading, "list_nodes").total == 0
    with pytest.raises(NotSupported, match="read_only=True"):
        send(reading, "load_records", resource="nodes", source=table(visit(1)).select(["_id"]))
    with pytest.raises(ProjectInUse):
        Service.open("shop", tmp_path / "shop.duckdb")
    reading.close()
