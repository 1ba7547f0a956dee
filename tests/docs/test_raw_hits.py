"""The page on raw hits, access logs and exports says what is so."""

import re
from pathlib import Path

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "raw-hits.md"


def test_the_blocks_run_from_raw_hits_to_credits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)
    with names["shop"] as shop:
        assert len(names["log"].rejected) == 0
        # Anna's two sessions, Ben's one, the visitor of the log, and Carl of the export.
        sessions = at.search_interactions(shop).sort_values("startDate")
        assert sessions["nodeId"].tolist() == [
            "newsletter/email/january", "google/cpc", "ai-assistants/chatgpt", "google/cpc", "google/cpc",
        ]  # fmt: skip
        assert sessions["hitCount"].tolist() == [2, 1, 1, 2, 1]
        assert sessions["referrerType"].tolist() == ["campaign", "campaign", "ai", "campaign", "campaign"]
        channels = at.list_nodes(shop).set_index("_id")["channel"]
        assert channels[sessions["nodeId"]].tolist() == [
            "Email",
            "Paid Search",
            "AI Assistants",
            "Paid Search",
            "Paid Search",
        ]
        assert sessions["userId"].nunique() == 4
        hits = at.list_hits(shop, sessions["firstHitId"].iloc[0])
        assert hits["pageUrl.pathname"].tolist() == ["/", "/boots"]
