"""What the columns of a table hold, by their names and by their values."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import duckdb

from attrib_ds.contract.identifiers import code_of
from attrib_ds.importers.columns import inner
from attrib_ds.records import written_values
from attrib_ds.records.sources import ROW, Source, quoted

_NAMES: Final = Path(__file__).with_name("names.tsv").read_text(encoding="utf-8").splitlines()[2:]
_WHOLE: Final = Path(__file__).with_name("headers.tsv").read_text(encoding="utf-8").splitlines()[2:]
#: How much whole names, joined, speak for a role.
_HEADERS: Final = {
    (role, name): int(points)
    for role, points, names in (line.split("\t") for line in _WHOLE)
    for name in names.split("|")
}
_LISTS: Final = Path(__file__).with_name("words.tsv").read_text(encoding="utf-8").splitlines()[2:]
#: Values by what they are.
WORDS: Final = {of: tuple(words.split()) for of, _, words in (line.partition("\t") for line in _LISTS)}
_SAMPLE: Final = 1_000
_LONGEST_NAME, _LONGEST_WORD, _LONGEST_CODE = 4, 6, 3
#: Words before what an amount has within it, and before what it has not.
_INCLUDING: Final = re.compile("in[ck]l(uding|usive)?|inc|c|com|con|avec|mit|med|met|cu|vc|with")
_WITH_TAX: Final = re.compile(
    r"\bs (?=dph|pdv|ddv)|(?<=[a-z][ _])(tax|vat|gst|mwst|iva|tva|btw)[ _.]*(?=in[ck]|ex[ck])", re.IGNORECASE
)
_EXCLUDING: Final = re.compile(
    "ex[ck]l(uding|usive)?|ex|ekskl?|eks|u|uden|uten|utan|sem|sin|sans|hors|ohne|zonder|bez|fara|senza|without"
)
#: Words in names that say nothing.
_STOP_WORDS: Final = frozenset(
    ["d", "l", "de", "la", "del", "di", "da", "do", "des", "du", "the", "of", "ym", "s"]
)
EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
#: A name before the address of a person.
_NAME_AND_EMAIL: Final = re.compile(r"[^@<(]*[<(] *[^@<(\s]+@[^@\s]+\.[^@\s]+ *[>)]")
_ADDRESS: Final = re.compile(r"https?://[^/ ]")
#: IP addresses.
_NETWORK: Final = re.compile(r"(\d{1,3}\.){3}\d{1,3}|(?=.*:.*:)[0-9a-f:]{3,39}(?<!:\d\d)", re.I)
_CODE: Final = re.compile(
    r"\{?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\}?|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.I
)
_PHONE: Final = re.compile(
    r"\+[\d ()/.-]+|\(?0\d*[ ()/.-][\d ()/.-]+|\(\d{2,4}\) ?[\d .-]+|\d{3}[-.]\d{3}[-.]\d{4}"
)
#: Numbers of cards and accounts, whose digits stand in groups.
_GROUPED: Final = re.compile(r"(?=(\d[ \u00a0-]?){8})\d{2,}([ \u00a0-]\d{2,})+")
_FLOAT_ID: Final = re.compile(r"-?\d+(\.0)?")
_CLOCK: Final = re.compile(
    r"([01]?\d|2[0-3])(:[0-5]\d){1,2}(\.\d+)?( ?[AaPp]\.?[Mm]\.?)?( ?([A-Z]{3,4}|Z|[+-]\d\d:?\d\d))?"
    r"|\d\d\.\d\d\.\d\d"
)
_MOST: Final = 0.9
#: Rows from which on one value in all of them tells nothing.
_FEW_ROWS: Final = 4
#: Kinds of values that cannot be ids.
_NO_IDS: Final = (
    *("instant", "clock", "address", "path", "currency", "medium", "source", "tagged", "pair", "network"),
)
#: Voicing marks of Japanese letters. Unlike accents, they are kept.
_VOICED: Final = "\u3099\u309a"
#: What may stand before the name of a level.
_BEFORE_LEVEL: Final = re.compile(
    "^(?:(?:utm|session|traffic(?:source(?=source|medium|campaign))?|marketing|mkt|visit|lead|campaign(?=source|medium)|acquisition|attribution|hs|analytics|original|latest"
    "|first|last|sign(?:ificant)?|crossdevice|touch|manual|collected|src)+)?"
)
#: Words for a name, before or behind that of a level.
_OF_NAME: Final = re.compile(
    "^(?:nombre|nome|nom|naam|name|nazwa|navn|namn|titel|bezeichnung)|(?:name|naam|namn|navn|adi|titel|名称?)$"
)
#: Objects with a source, medium and name of visits.
_OF_VISITS: Final = re.compile("utm|source|traffic|campaign|attribution|referr|acquisition|marketing|track")
#: Names of rows with the sum of others, in lower case.
TOTAL: Final = (
    r"((grand|overall|(deleted|removed) items?) )?(sub-?)?(totals?|(gesamt)?summe|gesamt(ergebnis)?|totale"
    r"|totaux|totaal|totalt|suma|razem|toplam|合計|合计|总计)( of .*| ?:.*| -.*)?"
)
#: Where the names of objects, tables and columns end in one name.
_SEGMENTS: Final = re.compile(r"[.\[\]>:]|\s-\s")
#: Words of languages that have no blanks between them.
EASTERN: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Column:
    """A column of a table, by a sample of its rows.

    Attributes
    ----------
    name : str
        Its name.
    rows : int
        Number of rows of the sample.
    filled : int
        Number of values in the sample.
    shares : dict of str to float
        Share of the values of each kind.
    distinct : int
        Number of different values.
    has_decimals : bool
        Whether some values are numbers with decimals or the sign of a currency.
    values : list of str or None
        The sample.
    """

    name: str
    rows: int
    filled: int
    shares: dict[str, float]
    distinct: int
    has_decimals: bool
    values: list[str | None]

    def holds(self, kind: str) -> bool:
        """Return whether nearly all values are of a kind."""
        return self.filled > 0 and self.shares[kind] >= _MOST

    @property
    def is_constant(self) -> bool:
        """Whether all rows have one value, such as the instant of an export or the seller of each sale."""
        return self.distinct == 1 and self.rows >= _FEW_ROWS

    @property
    def has_amounts(self) -> bool:
        """Whether some values have another digit than zero, as those of a column in use do."""
        return not self.is_constant or any(re.search("[1-9]", value) for value in self.values if value)

    def may_be_id(self, *others: str) -> bool:
        """Return whether the values may be ids: not amounts, instants or words, nor of other kinds."""
        has_amounts = self.holds("amount") and self.has_decimals
        return self.filled > 0 and not has_amounts and not any(map(self.holds, (*_NO_IDS, *others)))


def _looks_like_phone(text: str) -> bool:
    """Return whether text is a number of a telephone, by its sign or by blanks, brackets and dashes in it."""
    digits = sum(map(str.isdigit, text))
    return (
        _PHONE.fullmatch(text) is not None and 7 < digits < 16 and not written_values.looks_like_instant(text)
    )


def _unit_of(text: str) -> int | None:
    unit = written_values.count_since_1970(text)
    # A whole number may be a day of Excel, but is more often another number.
    return None if unit is None or (unit == written_values.DAYS and text.isdigit()) else unit


def _is_currency(text: str) -> bool:
    """Return whether text is a currency whatever its column is called; fr and won may be something else."""
    is_clear = len(text) > _LONGEST_CODE or not text.isascii()
    return code_of(text) is not None or (is_clear and written_values.currency_called(text) is not None)


KINDS: Final[dict[str, Callable[[str], object]]] = {
    "instant": written_values.looks_like_instant,
    "count": lambda text: _unit_of(text) is not None,
    "moment": lambda text: len(text) > 10 and _unit_of(text) is not None,
    "amount": written_values.looks_like_amount,
    "flag": lambda text: text in {"0", "1"},
    "long": lambda text: len(text) > 4,
    "clock": _CLOCK.fullmatch,
    "digits of a clock": re.compile(r"([01]?\d|2[0-3])([0-5]\d){2}").fullmatch,
    "email": lambda text: EMAIL.fullmatch(text) or _NAME_AND_EMAIL.fullmatch(text),
    "address": _ADDRESS.match,
    "path": lambda text: text.startswith("/"),
    "phone": _looks_like_phone,
    "network": _NETWORK.fullmatch,
    "code": _CODE.fullmatch,
    "grouped": lambda text: _GROUPED.fullmatch(text) and not written_values.looks_like_instant(text),
    "float": _FLOAT_ID.fullmatch,
    "currency": _is_currency,
    "medium": lambda text: text.lower() in WORDS["medium"],
    "source": lambda text: text.lower() in WORDS["source"],
    "runtime": lambda text: text.lower() in WORDS["runtime"],
    "tagged": lambda text: "utm_source=" in text,
    "pair": lambda text: " / " in text and text.rpartition(" / ")[2].lower() in WORDS["medium"],
}


def profiled(connection: duckdb.DuckDBPyConnection, source: Source) -> dict[str, Column]:
    """Return the columns of a table, by a sample of its rows that does not depend on chance."""
    words = ", ".join(map(source.word, source.columns))
    step = max(1, source.rows // _SAMPLE)
    # Every second row of an export may be of another kind.
    is_in = f"hash({quoted(ROW)}) % {step} = 0"
    rows = connection.execute(f"SELECT {words} FROM {source.relation} WHERE {is_in}").fetchall()
    columns = zip(*rows, strict=True) if rows else [()] * len(source.columns)
    return {
        name: _column(name, [None if value is None else str(value) for value in values])
        for name, values in zip(source.columns, columns, strict=True)
    }


def _column(name: str, sample: list[str | None]) -> Column:
    values = [value for value in sample if value is not None]
    distinct = {*values}
    kinds = {value: [bool(test(value)) for test in KINDS.values()] for value in distinct}
    tallies = [sum(kinds[value][at] for value in values) for at in range(len(KINDS))]
    shares = {kind: tally / max(1, len(values)) for kind, tally in zip(KINDS, tallies, strict=True)}
    has_decimals = any(re.search(r"[.,]\d{1,2}(?!\d)|[^\d\s.,'’()+-]", value) for value in distinct)
    return Column(name, len(sample), len(values), shares, len(distinct), has_decimals, sample)


def words_of(name: str) -> list[str]:
    """Return the words of a name, without case and accents.

    Examples
    --------
    >>> words_of("ym:s:UTMSource"), words_of("Date d'achat"), words_of("Währg")
    (['utm', 'source'], ['date', 'achat'], ['wahrg'])
    """
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", inner(name)) if c in _VOICED or not unicodedata.combining(c)
    )
    plain = unicodedata.normalize("NFKC", plain).translate(
        {ord(letter): plain for letter, plain in zip("łŁıøØđĐ", "lLioOdD", strict=True)}
    )
    split = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", plain)
    words = re.findall(r"[^\W_]+", split.casefold())
    kept = [word for word in words if word not in _STOP_WORDS]
    return kept or words


#: A name with a currency: after a blank or in brackets, also the wide ones of Japanese.
_WITH_CURRENCY: Final = re.compile(
    r"(.+?)(?:[ _]([A-Za-z]{3})|[ _]?[(\[（]([^\d\s]{1,4})[)\]）]|,? ([^\w\s]|руб\.?|грн\.?)"
    r"|(?<=[a-z])(?!ALL)([A-Z]{3}))"
)


#: Currencies anywhere in a name.
_CODES: Final = re.compile(r"(?<![^\W_])(?:[A-Z]{3}|usd|eur|gbp|jpy|chf)(?![^\W_])|[€£]")


@cache
def currency_at_end(column: str) -> tuple[str, str | None]:
    """Return the name of a column without the currency at its end, and the code of that.

    Examples
    --------
    >>> [currency_at_end(column) for column in ("Amount spent (USD)", "revenue_eur", "Brutto €", "number")]
    [('Amount spent', 'USD'), ('revenue', 'EUR'), ('Brutto', 'EUR'), ('number', None)]
    """
    match = _WITH_CURRENCY.fullmatch(column)
    code = written_values.code_beside(next(filter(None, match.groups()[1:]))) if match else None
    return (column, None) if match is None or code is None else (match[1].strip(), code)


def sign_in(column: str) -> str | None:
    """Return the sign at the end of the name of a column, if several currencies share it.

    Examples
    --------
    >>> sign_in("Total ($)"), sign_in("Total (€)")
    ('$', None)
    """
    match = _WITH_CURRENCY.fullmatch(column)
    word = next(filter(None, match.groups()[1:]), "") if match else ""
    return word if written_values.is_shared(word) else None


@cache
def currencies_in(column: str) -> list[str]:
    """Return the codes of the currencies in the name of a column, the one at its end first.

    Examples
    --------
    >>> [currencies_in(column) for column in ("Cost USD (EUR)", "cost_usd_eur", "Cost EUR/USD", "ALL costs")]
    [['EUR', 'USD'], ['EUR', 'USD'], ['EUR', 'USD'], []]
    """
    at_end = currency_at_end(column)[1]
    others = [written_values.code_beside(word) for word in _CODES.findall(column)]
    found = [*dict.fromkeys(code for code in [at_end, *others] if code is not None)]
    return found if at_end is not None or len(found) > 1 else []


#: Two codes with a comma, a stroke or a short word, such as or, between them.
_EITHER: Final = re.compile(r"\b([A-Z]{3})(?=(?: ?[,/] ?| \w{1,5} )([A-Z]{3})\b)")


def choice_of_currencies(text: str) -> list[str]:
    """Return the codes of currencies that text names beside one another.

    Examples
    --------
    >>> choice_of_currencies("Totals in SEK, NOK or DKK"), choice_of_currencies("ALL TOP clients, in EUR")
    (['SEK', 'NOK', 'DKK'], [])
    """
    pairs = [pair for pair in _EITHER.findall(text) if all(map(written_values.code_beside, pair))]
    return [*dict.fromkeys(code for pair in pairs for code in pair)]


#: Letters of Cyrillic as Latin ones without accents, as most lists of names have them.
_LATIN: Final = str.maketrans(
    dict(zip("абвгдђежзијклмнопрстћуфхцчшѕы", "abvgddezzijklmnoprstcufhccszy", strict=True))
    | {"љ": "lj", "њ": "nj", "џ": "dz", "й": "i", "ѓ": "g", "ќ": "k", "щ": "st", "ъ": "a", "ь": ""}
)


@cache
def weight(role: str, name: str) -> int:
    """Return how much the name of a column speaks for a role; at most 0 if it does not.

    Examples
    --------
    >>> weight("value", "Order total (EUR)"), weight("value", "Tax total"), weight("date", "Bestellt am")
    (7, -3, 6)
    >>> [weight("value", name) for name in ("Bedrag (excl. btw)", "Total c/ IVA", "total_tax_incl")]
    [5, 6, 6]
    """
    # What an order costs is all of its amounts.
    plain = name.removeprefix("costs." if role == "value" else "")
    words = words_of(_WITH_TAX.sub(lambda found: "" if found[1] else "incl ", plain))
    # What an amount includes, or does not, says nothing against it.
    words = words[: next((at for at, word in enumerate(words) if at and _INCLUDING.fullmatch(word)), None)]
    words = words[
        : next((at + 1 for at, word in enumerate(words) if at and _EXCLUDING.fullmatch(word)), None)
    ]
    parts = {
        "".join(words[start : start + length])
        for start in range(len(words))
        for length in range(1, _LONGEST_NAME + 1)
    }
    for word in filter(EASTERN.search, words):
        parts |= {word[at : at + size] for at in range(len(word)) for size in range(2, _LONGEST_WORD + 1)}
    parts |= {part.translate(_LATIN) for part in parts}
    best, worst, joined = 0, 0, "".join(words)
    whole = {joined}
    for each, points, pattern, is_whole in _weights():
        if each == role and points > best and any(map(pattern.fullmatch, whole if is_whole else parts)):
            best = points
        elif each == role and points < 0 and any(map(pattern.match, parts)):
            worst = min(worst, points)
    return max(best + worst, _HEADERS.get((role, joined), best + worst))


@cache
def _weights() -> list[tuple[str, int, re.Pattern[str], bool]]:
    rows = (line.split("\t") for line in _NAMES if line)
    return [
        (role, int(points), re.compile(f"(?:{words.removeprefix('=')})"), words.startswith("="))
        for roles, points, words in rows
        for role in roles.split()
    ]


def names_level(level: str, name: str) -> bool:
    """Return whether the whole name of a column is that of a level of nodes.

    Examples
    --------
    >>> [names_level("source", name) for name in ("Quelle", "trafficSource", "visit.origem", "data_source")]
    [True, True, True, False]
    >>> names_level("campaign", "Nazwa kampanii"), names_level("campaign", "Kampagnenname")
    (True, True)
    """
    names = {name, next(filter(str.strip, reversed(_SEGMENTS.split(name))), name)}
    joined = {"".join(words_of(each)) for each in names}
    joined |= {each.translate(_LATIN) for each in joined}
    joined |= {_BEFORE_LEVEL.sub("", each) for each in joined}
    joined |= {_OF_NAME.sub("", each) for each in joined}
    return any((level, each) in _HEADERS for each in joined) or any(
        role == level and points > 0 and any(map(pattern.fullmatch, joined))
        for role, points, pattern, _ in _weights()
    )


def of_level(level: str, names: Sequence[str]) -> list[str]:
    """Return the columns whose names are those of a level of nodes, those that end in its word first.

    A name beside a source and a medium is that of the campaign.

    Examples
    --------
    >>> names = ["#", "traffic_source.name", "traffic_source.medium", "traffic_source.source", "user.name"]
    >>> [of_level(level, names) for level in ("source", "campaign")]
    [['traffic_source.source'], ['traffic_source.name']]
    """
    beside: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        *before, last = words_of(name) or [name]
        beside.setdefault(tuple(before), {})[last] = name
    campaigns = [
        name
        for before, parts in beside.items()
        for last, name in parts.items()
        if _OF_NAME.fullmatch(last) and _OF_VISITS.search("".join(before[-2:]))
        if all(any(names_level(each, word) for word in parts) for each in ("source", "medium"))
    ]
    found = [each for each in names if names_level(level, each) and each not in campaigns]
    found.sort(key=lambda each: ("utm" not in words_of(each), not names_level(level, words_of(each)[-1])))
    return [*campaigns, *found] if level == "campaign" else found


#: Roles whose columns do not tell where visits come from.
_OTHER_ROLES: Final = ("other", "user", "conversion", "status", "kind", "reason")
#: Words without blanks that have digits, as codes do.
_HAS_DIGIT: Final = re.compile(r"(?=.*\d)\S+")
_LONGEST, _MOST_WORDS = 60, 12


def may_be_node(column: Column, *allowed: str) -> bool:
    """Return whether a column may tell where visits come from: few or repeated words of no other kind.

    Names of kinds and messages speak against it, unless they are ``allowed``.
    """
    kinds = [kind for kind in KINDS if kind not in {"long", "medium", "source", "pair"}]
    words = {value for value in column.values if value}
    codes = sum(map(bool, map(_HAS_DIGIT.fullmatch, words)))
    return (
        1 < column.distinct <= max(_MOST_WORDS, column.filled // 2)
        and 2 * column.filled > column.rows
        and 2 * codes < len(words)
        and max(map(len, words)) <= _LONGEST
        and not any(map(column.holds, kinds))
        and not {word.lower() for word in words} <= {*WORDS["yes"], *WORDS["no"]}
        and (
            any(weight(role, column.name) > 0 for role in allowed)
            or not any(weight(role, column.name) > 0 for role in _OTHER_ROLES)
        )
    )


def ranked(columns: Sequence[Column], role: str, kinds: Sequence[str]) -> list[tuple[int, str]]:
    """Return the columns whose values fit a role, and the weight of their names, the best first."""
    fitting = [each for each in columns if any(each.holds(kind) for kind in kinds)]
    first = {each.name: any(each.holds(kind) for kind in kinds[:1]) for each in fitting}
    names = sorted(first, key=lambda name: (-weight(role, name), not first[name]))
    return [(weight(role, name), name) for name in names]
