"""The log of opportunities, by user."""

import pytest

import attrib_ds as at
from attrib_ds.contract.interactions import OPPORTUNITY


@pytest.fixture
def shop():
    with at.connect("my-shop", path=":memory:") as project:
        at.experiments.create_holdout(project, "banner", node_id="spring", share=0.5)
        yield project


def report(shop, number, tracker, *, withheld, day, holdout="banner", node="spring"):
    shop.send(
        "create_event_sync",
        event_type=OPPORTUNITY,
        nonce=f"n-{number}",
        tracker_id=tracker,
        event_date=f"2026-05-{day:02}T12:00:00Z",
        data={"holdout": holdout, "node": node, "withheld": withheld},
    )


def test_users_count_by_their_first_opportunity(shop):
    # Anna's second opportunity was withheld after the share had grown; Ben's alone is of another holdout.
    report(shop, 1, "anna", withheld=False, day=1)
    report(shop, 2, "anna", withheld=True, day=3)
    report(shop, 3, "carl", withheld=True, day=2)
    report(shop, 4, "ben", withheld=True, day=2, holdout="popup")
    log = at.experiments.list_opportunities(shop, holdout="banner")
    assert log["date"].dt.day.tolist() == [1, 2, 3]
    assert log["withheld"].tolist() == [False, True, False]
    assert log["user_id"].nunique() == 2
    later = at.experiments.list_opportunities(shop, holdout="banner", since="2026-05-02")
    assert later["withheld"].tolist() == [True, True]


def test_opportunities_follow_users_who_are_merged(shop):
    report(shop, 1, "phone", withheld=True, day=1)
    report(shop, 2, "laptop", withheld=False, day=2)
    phone, laptop = at.experiments.list_opportunities(shop, holdout="banner")["user_id"]
    at.admin.merge_users(shop, phone, laptop)
    log = at.experiments.list_opportunities(shop, holdout="banner")
    assert log["user_id"].tolist() == [phone, phone]
    assert log["withheld"].tolist() == [True, True]


def test_a_name_that_was_used_again_for_another_node_is_kept_apart(shop):
    report(shop, 1, "anna", withheld=False, day=1)
    report(shop, 2, "anna", withheld=True, day=2, node="autumn")
    log = at.experiments.list_opportunities(shop, holdout="banner")
    assert log[["node_id", "withheld"]].values.tolist() == [["spring", False], ["autumn", True]]
