"""What outlives the process (R049, R087, R116, R197, R203), and what reaches attribution (R228)."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from conformance import restarting
from conformance.restarting import ID, Restarting
from conformance.shop import computed, email, eventually, metrics, node, send_event, table, visit
from conformance.transports import load

from attrib_ds import attribute, connect, conversion_paths
from attrib_ds.service import Service

ALL = {
    "since": "1990-01-01T00:00:00Z",
    "until": "2100-01-01T00:00:00Z",
    "groupBy": "project",
    "interval": "monthOfYear",
}


@pytest.fixture(scope="module")
def killed(transport, tmp_path_factory):
    """A project whose service was killed right after its last answer, and what had been answered."""
    home = tmp_path_factory.mktemp(f"killed-{transport.name}")
    program = [sys.executable, restarting.__file__, transport.name, str(home)]
    paths = {
        "PYTHONPATH": ":".join(
            str(record) for record in (Path(__file__).parents[1], Path(__file__).parents[2])
        )
    }
    done = subprocess.run(program, capture_output=True, timeout=120, env=paths, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    service = Restarting(transport.name, home)
    yield service.start(), json.loads(done.stdout)
    service.stop()


@pytest.fixture
def own(transport, tmp_path):
    """A service of one project, which the test stops and starts."""
    service = Restarting(transport.name, tmp_path)
    yield service
    service.stop()


def ends(project, ids):
    """Say what became of each event, once something did of all."""

    def look():
        trash = {record["_id"] for record in project.send("list_trashed_events").ok()["data"]}
        found = ["trashed" if id in trash else project.send("get_event", {"id": id}).status for id in ids]
        return found if 404 not in found else None

    return eventually(look)


def total(project, key="event-count"):
    records = project.send("event_insights", body={**ALL, "metrics": [key]}).ok()
    return sum(record["values"][key] for record in records)


@pytest.mark.slow
def test_r116_r203_accepted_events_are_processed_after_a_kill(killed):
    project, answers = killed
    assert ends(project, answers["ids"]) == [200 if number % 4 else "trashed" for number in range(24)]
    for id, body in zip(answers["ids"], answers["bodies"], strict=True):
        assert project.send("get_raw_event", {"id": id}).ok()["data"] == body["data"]


@pytest.mark.slow
def test_r203_processed_events_survive_a_kill(killed):
    project, answers = killed
    assert metrics(project, answers["state"])["confirmed"]["data"]["current"] == 1
    assert metrics(project, answers["state"])["turnover"]["data"]["current"] == {
        "amount": 5,
        "currency": "EUR",
    }


@pytest.mark.slow
def test_r197_a_repeat_after_a_kill_is_the_same_event(killed):
    project, answers = killed
    ends(project, answers["ids"])
    before = total(project)
    for operation in ("create_event", "create_event_sync"):
        for id, body in list(zip(answers["ids"], answers["bodies"], strict=True))[1:4]:
            assert project.send(operation, body=body).ok() == id
    assert total(project) == before == 19
    assert total(project, "turnover") == 18 + 5


@pytest.mark.slow
def test_r087_counters_equal_a_recount_after_a_kill(killed):
    """Of 24 events every fourth is trashed, all of them of one of two persons."""
    project, answers = killed
    ends(project, answers["ids"])
    counts = {}
    for number, id in enumerate(answers["ids"]):
        if number % 4:
            counts.setdefault(computed(project, id)["userId"], []).append(number)
    assert sorted(map(len, counts.values())) == [6, 12]
    for user_id, numbers in counts.items():
        user = project.send("get_user", {"id": user_id}).ok()
        assert user["eventCount"] == len(numbers)
        assert user["metrics"]["turnover"]["sum"] == len(numbers)


@pytest.mark.slow
def test_r087_r197_counters_survive_a_restart(own):
    project = own.start()
    mail = email()
    ids = [send_event(project, mail, nonce=f"n-{amount}", data={"turnover": amount}) for amount in (1, 2, 3)]
    place = {"id": computed(project, ids[0])["userId"]}
    before = project.send("get_user", place).ok()
    assert before["metrics"]["turnover"]["sum"] == 6
    project = own.restart()
    assert project.send("get_user", place).ok() == before
    assert send_event(project, mail, nonce="n-2", data={"turnover": 2}) == ids[1]
    assert project.send("get_user", place).ok()["eventCount"] == 3


@pytest.mark.slow
def test_r228_the_amount_is_credited_to_the_sources_of_the_event(own):
    """Anna came by an ad, then by a letter, and bought for 10, which became 90.30."""
    mail = email()
    nodes = [node("ads"), node("letter"), node("direct", "channel")]
    project = own.start(nodes=table(*nodes))
    id = send_event(project, mail)
    anna = computed(project, id)["userId"]
    own.stop()
    visits = [
        visit(1, "2025-01-10T00:00:00Z", userId=anna),
        visit(2, "2025-01-20T00:00:00Z", userId=anna, nodeId="letter"),
    ]
    with closing(Service.open(ID, own.file)) as opened:
        load(opened, ID, interactions=table(*visits))
    project = own.start()
    for value in (10, 90.3):
        place = {"id": id, "storageKey": "turnover"}
        project.send("update_event_statistic", place, body={"value": value}).ok()
    own.stop()
    with connect(ID, path=own.file, read_only=True) as shop:
        paths = conversion_paths(shop, event_type="order", statistic="turnover")
        credits = attribute(paths, ["first", "last", "linear", "position", "time-decay"])
    sums = credits.groupby("model")["value"].sum()
    assert sums.round(9).eq(90.3).all(), credits
    linear = credits[credits["model"] == "linear"].set_index("node_id")["value"]
    assert linear.round(9).to_dict() == {"ads": 45.15, "letter": 45.15}
