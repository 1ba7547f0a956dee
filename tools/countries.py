"""Write the countries whose currency or time zone has a name that others have, too.

Their names are in English and in their own languages, from CLDR by Babel, which Sphinx installs.
Usage: python tools/countries.py
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.core import get_global
from babel.numbers import get_currency_symbol

RECORDS: Final = Path(__file__).parents[1] / "attrib_ds/records"
_HEAD: Final = "# Countries whose currency or time zone has a name that others have, too (Unicode CLDR).\n"
#: Signs that several currencies share.
_SIGNS: Final = {"$", "kr", "¥", "￥", "rs", "₨"}


def languages_of(code: str) -> list[str]:
    """Return the official languages of a country, and English."""
    spoken = get_global("territory_languages").get(code, {})
    kinds = {"official", "de_facto_official"}
    return ["en", *(name for name, each in spoken.items() if each["official_status"] in kinds)]


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield the code, the currency, its sign and the names of each country."""
    zones = (RECORDS / "zones.tsv").read_text(encoding="utf-8").splitlines()[2:]
    in_zones = {code for zone in zones for code in zone.split("\t")[2].split()}
    aliases = get_global("territory_aliases").items()
    long = {of[0]: name for name, of in aliases if len(name) == 3 and name.isalpha()}
    for code, currencies in sorted(get_global("territory_currencies").items()):
        present = [each for each, _, end, is_tender in currencies if end is None and is_tender]
        if len(present) != 1 or len(code) != 2:
            continue
        names, signs = [code, long.get(code, ""), Locale("en").territories[code]], set()
        for language in languages_of(code):
            try:
                locale = Locale.parse(f"{language}_{code}")
            except UnknownLocaleError:
                continue
            names.append(locale.territories.get(code, ""))
            signs.add(get_currency_symbol(present[0], locale).lower().rstrip("."))
        if code == "US":
            names += ["united states of america", "u.s.", "u.s.a."]
        shared = sorted(signs & _SIGNS)
        if shared or code in in_zones:
            names = [name.lower() for name in dict.fromkeys(names) if name]
            yield code, present[0], " ".join(shared), "|".join(names)


if __name__ == "__main__":
    table = "\n".join("\t".join(row) for row in [("code", "currency", "signs", "names"), *rows()])
    (RECORDS / "countries.tsv").write_text(f"{_HEAD}{table}\n", encoding="utf-8")
