"""The page on large checks has the checks of ``release.py``."""

from reliability.release import CHECKS, PAGE, ROW


def test_each_check_has_a_row_with_its_command():
    rows = {row["name"]: row[0] for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    assert list(rows) == list(CHECKS)
    for name, row in rows.items():
        assert row.startswith(f"| {name} | `python {CHECKS[name]}` | "), row
