"""Write the pairs of letters that occur together in each language into the list of encodings.

They are from the names that CLDR has, by Babel, which Sphinx installs. Usage: python tools/letter_pairs.py
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from babel import Locale

LETTERS: Final = Path(__file__).parents[1] / "attrib_ds/importers/content/letters.tsv"
#: Kinds of names of CLDR.
_KEPT: Final = (
    *("territories", "languages", "currencies", "months", "days", "quarters", "eras", "scripts", "variants"),
    *("unit_display_names", "time_zones", "meta_zones", "day_periods", "unit_patterns", "date_fields"),
)
#: Pairs that occur once are of foreign names.
_LEAST: Final = 2


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in nested data of a language."""
    if isinstance(value, str):
        yield value
    elif hasattr(value, "values"):
        for each in value.values():
            yield from texts_in(each)


def pairs_of(language: str) -> str:
    """Return pairs of letters, one of them foreign, with 4 to 9 points; each point is twice as often."""
    data = Locale(language)._data
    names = [text for key in _KEPT if key in data for text in texts_in(data[key])]
    words = {word.lower() for name in names for word in re.findall(r"[^\W\d_]+", name)}
    counts = Counter(one + other for word in words for one, other in pairwise(f" {word} "))
    frequent = {
        pair: min(9, round(math.log2(count / counts.total() * 1e5)))
        for pair, count in sorted(counts.items())
        if count >= _LEAST and not pair.isascii()
    }
    return "".join(f"{pair}{points}" for pair, points in frequent.items())


if __name__ == "__main__":
    head, names, *rows = LETTERS.read_text(encoding="utf-8").splitlines()
    cells = [row.split("\t") for row in rows]
    filled = ["\t".join([*cell[:4], pairs_of(cell[0]) if cell[2] else ""]) for cell in cells]
    LETTERS.write_text("\n".join([head, names, *filled]) + "\n", encoding="utf-8")
