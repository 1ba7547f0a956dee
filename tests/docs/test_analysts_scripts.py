"""The three scripts of an analyst are short, run as they are written, and do what their pages say."""

import re
from pathlib import Path

import openpyxl
import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
SCRIPTS = ["weekly-report.md", "segments.md", "crm-conversions.md", "questions.md"]


def blocks_of(page, language="python"):
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_a_script_has_at_most_ten_lines():
    for page in SCRIPTS:
        lines = [line for line in blocks_of(page)[0].splitlines() if line.strip()]
        assert len(lines) <= 10, page


@pytest.mark.slow
@pytest.mark.parametrize("page", SCRIPTS)
def test_its_python_runs_as_it_is_written(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for content in blocks_of(page, "text"):
        Path("deals.csv").write_text(content, encoding="utf-8")
    names = {}
    exec(compile("\n".join(blocks_of(page)), page, "exec"), names)
    names["shop"].close()
    printed = capsys.readouterr().out
    if page == "weekly-report.md":
        sheets = openpyxl.load_workbook("weekly.xlsx")
        assert sheets.sheetnames == ["Credits", "Weeks"]
        header = [cell.value for cell in sheets["Weeks"][1]]
        assert header[:3] == ["model", "week", "start"]
        assert header[-4:] == ["spend", "cpa", "roas", "is_partial"]
        assert "Last 7 days" in Path("weekly.html").read_text(encoding="utf-8")
    elif page == "segments.md":
        assert "Paid Search" in printed
    elif page == "questions.md":
        # What the page says of its numbers: opens are first touch, and closes last touch.
        of_model = names["credits"].groupby(["model", "node_id"])["conversions"].sum()
        roles = names["roles"].set_index("node_id")
        for role, model in (("opens", "first_touch"), ("closes", "last_touch")):
            assert roles[role].to_dict() == pytest.approx(of_model[model].to_dict())
        assert names["months"]["low"].notna().all()
        assert printed.count("returning") == 1
        sheets = openpyxl.load_workbook("report.xlsx")
        assert sheets.sheetnames[:2] == ["Overview", "Credit"]
    else:
        assert "Contact in row 2" in printed
        # Noah's 900 EUR: display and search; Jonas's 450.50 EUR: display, twice search, twice organic.
        credited = names["credits"].set_index("node_name")["value"]
        paid = {"Display": 450 + 90.1, "Paid Search": 450 + 180.2, "Organic Search": 180.2}
        assert credited[credited > 0].to_dict() == pytest.approx(paid)
