"""The page on withholding at random says what is so."""

import re
from pathlib import Path

import pytest

import attrib_ds as at
from attrib_ds.contract.opportunities import OPPORTUNITY

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "withhold-at-random.md"


@pytest.mark.slow
def test_the_blocks_run_from_the_draw_to_the_effect():
    *blocks, last = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)
    with names["shop"] as shop:
        trackers = [f"t-{number}" for number in range(300)]
        drawn = at.experiments.assign(shop, trackers, holdout="banner", column="tracker_id")
        for number, row in enumerate(drawn.to_dict("records")):
            data = {"holdout": "banner", "node": row["node_id"], "withheld": row["withheld"]}
            sent = {"data": data, "tracker_id": row["tracker_id"]}
            shop.send("create_event_sync", event_type=OPPORTUNITY, nonce=f"s-{number}", **sent)
            if number % 3 == 0:
                sent["data"] = {}
                shop.send("create_event_sync", event_type="order", nonce=f"o-{number}", **sent)
        exec(last, names)
    assert names["effects"]["users"].tolist() == [300]
    assert names["effects"]["withheld"].tolist() == [drawn["withheld"].sum()]
