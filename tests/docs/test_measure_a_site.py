"""The page on measuring a site names what there is."""

import re
from pathlib import Path

from attrib_ds.contract.settings import UpdateSettings
from attrib_ds.service.http import tracker

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "measure-a-site.md").read_text(encoding="utf-8")
FOLDER = Path(tracker.__file__).parent


def test_the_page_lists_the_attributes_of_the_script():
    script = (FOLDER / "t.js").read_text(encoding="utf-8")
    names = re.search(r"const \{ (.*) \} = script\.dataset", script)[1].split(", ")
    assert sorted(re.findall(r"^\| `data-(\w+)", PAGE, flags=re.MULTILINE)) == sorted(names)


def test_settings_and_calls_of_the_page_exist():
    settings = {"allowedOrigins", "respectGpc", "respectDnt", "trafficFilters"}
    assert all(f"`{name}`" in PAGE or f"{name}=" in PAGE for name in settings)
    assert settings <= set(UpdateSettings.model_fields)
    types = (FOLDER / "attrib.d.ts").read_text(encoding="utf-8")
    calls = set(re.findall(r"attrib\.(\w+)\(", PAGE))
    assert calls == {"consent", "event", "trackerId"}
    assert all(f"  {call}(" in types for call in calls)
