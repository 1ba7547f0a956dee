"""Sort the interval labels of insights and fill the gaps between them."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# The lowest and highest label of each seasonal interval (G-109).
SEASONS: Final = {
    "semesterOfYear": (1, 2),
    "quarterOfYear": (1, 4),
    "monthOfYear": (1, 12),
    "weekOfYear": (1, 53),
    "dayOfYear": (1, 366),
    "dayOfMonth": (1, 31),
    "dayOfWeek": (1, 7),
    "hourOfDay": (0, 23),
}
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONGEST: Final = 20_000  # labels; a stray date far away must not fill the axis with centuries of days


def _week_number(label: str) -> int:
    return (date.fromisocalendar(int(label[:4]), int(label[6:]), 1).toordinal() - 1) // 7


def _week_label(number: int) -> str:
    year, week, _ = date.fromordinal(number * 7 + 1).isocalendar()
    return f"{year:04}-W{week:02}"


def _part_number(parts: int) -> Callable[[str], int]:
    return lambda label: int(label[:4]) * parts + int(re.sub(r"^.{5}\D?", "", label)) - 1


# Pattern of a label, label to ordinal number, ordinal number to label.
_FORMATS: Final[tuple[tuple[str, Callable[[str], int], Callable[[int], str]], ...]] = (
    (r"\d{1,4}", int, str),
    (r"\d{4}-S\d", _part_number(2), lambda number: f"{number // 2:04}-S{number % 2 + 1}"),
    (r"\d{4}-Q\d", _part_number(4), lambda number: f"{number // 4:04}-Q{number % 4 + 1}"),
    (r"\d{4}-\d{2}", _part_number(12), lambda number: f"{number // 12:04}-{number % 12 + 1:02}"),
    (r"\d{4}-W\d{2}", _week_number, _week_label),
    (
        r"\d{4}-\d{2}-\d{2}",
        lambda label: date.fromisoformat(label).toordinal(),
        lambda number: date.fromordinal(number).isoformat(),
    ),
)


def complete(labels: Collection[str]) -> list[str]:
    """Return the labels in order, including intervals that insights leave out because they are empty.

    Labels of other formats (instants of custom segments) are only sorted.

    Examples
    --------
    >>> complete(["2025-W02", "2024-W51"])
    ['2024-W51', '2024-W52', '2025-W01', '2025-W02']
    >>> complete(["10", "8"])
    ['8', '9', '10']
    """
    for pattern, number_of, label_of in _FORMATS:
        if labels and all(re.fullmatch(pattern, label) for label in labels):
            try:
                numbers = {label: number_of(label) for label in labels}
            except ValueError:
                break
            low, high = min(numbers.values()), max(numbers.values())
            if high - low < _LONGEST and all(label_of(number) == label for label, number in numbers.items()):
                return [label_of(number) for number in range(low, high + 1)]
            return sorted(labels, key=lambda label: (numbers[label], label))
    return sorted(labels)


def season_of(labels: Collection[str], interval: str | None) -> tuple[list[str], list[str]]:
    """Return all labels of a seasonal interval in order, and their display names.

    Without ``interval``, labels that are exactly 1 to 7 are weekdays; other labels run from the lowest to the
    highest and are their own names.
    """
    wrong = sorted(label for label in labels if not re.fullmatch(r"\d{1,3}", label))
    if wrong:
        raise InvalidRequest(
            f"insights: interval {wrong[0]!r} is not seasonal; allowed: whole numbers, as returned for "
            f"{', '.join(SEASONS)}",
            field="insights",
        )
    present = sorted({int(label) for label in labels})
    if interval is None:
        interval = "dayOfWeek" if present == list(range(1, 8)) else None
    low, high = SEASONS[interval] if interval else (present[0], present[-1])
    if present[0] < low or present[-1] > high:
        outside = next(label for label in present if not low <= label <= high)
        raise InvalidRequest(
            f"interval: {interval!r} is not allowed because insights have the label '{outside}'; its labels "
            f"are {low} to {high}",
            field="interval",
        )
    names = {"dayOfWeek": WEEKDAYS, "monthOfYear": MONTHS}.get(interval or "")
    season = [str(label) for label in range(low, high + 1)]
    return season, list(names or season)
