"""The secret by which a visitor is recognised lasts for a day, and leaves nothing."""

import json
from contextlib import closing
from datetime import UTC, datetime

from attrib_ds import instants
from attrib_ds.service.collection.daily_visitors import DailySalt, tracker_of
from attrib_ds.service.store.store import Store

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
HOME = "203.0.113.7"


def test_g239_the_salt_lasts_for_a_day_of_the_project(monkeypatch):
    now = {"is": datetime(2025, 7, 1, tzinfo=UTC)}
    monkeypatch.setattr(instants, "now", lambda: now["is"])
    with closing(Store.open(":memory:", "shop", timezone="Europe/Paris")) as store:

        def visitor(when, *, is_new_process=False):
            nonlocal salt
            now["is"] = datetime.fromisoformat(when).replace(tzinfo=UTC)
            salt = DailySalt("shop", "Europe/Paris") if is_new_process else salt
            if salt.visitor(HOME, FIREFOX) is None:
                salt.renew(store)
            return salt.visitor(HOME, FIREFOX)

        def stored():
            with store.cursor() as cursor:
                return cursor.execute("SELECT value FROM settings WHERE name = 'visitorSalt'").fetchall()

        salt = DailySalt("shop", "Europe/Paris")
        # In summer, midnight in Paris is 22:00 UTC.
        first = visitor("2025-07-01T22:00:00")
        assert visitor("2025-07-02T21:59:59", is_new_process=True) == first
        ((before,),) = stored()
        second = visitor("2025-07-02T22:00:00")
        assert second != first
        ((after,),) = stored()
        assert json.loads(after)[0] == "2025-07-03"
        assert before != after
        salt.destroy_past(store)
        assert stored() == [(after,)]
        now["is"] = datetime(2025, 7, 5, tzinfo=UTC)
        salt.destroy_past(store)
        assert stored() == []
        # The process has forgotten it too: not even a clock that is put back makes it count again.
        now["is"] = datetime(2025, 7, 2, 22, tzinfo=UTC)
        assert salt.visitor(HOME, FIREFOX) is None


def test_g239_a_browser_without_an_id_is_known_by_its_visitor_of_the_day_or_its_page():
    cases = {
        ("p-1", "day.5f"): "day.5f p-1",
        ("p-1", None): "page.p-1 p-1",
        (None, "day.5f"): "day.5f",
        (None, None): "hit.7",
    }
    assert {case: tracker_of(case[0], visitor=case[1], hit_id="7") for case in cases} == cases
