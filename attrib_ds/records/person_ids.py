"""Ids of people and devices that are placeholders, such as ``(not set)``, or that a float has rounded."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from attrib_ds import errors
from attrib_ds.display import counted, printable

#: Floats represent every integer up to this power of two exactly, by their number of bytes.
EXACT: Final = {2: 11, 4: 24, 8: 53}
#: What programs write where they know no id, in any case.
_WORDS: Final = (
    "nan", "None", "<NA>", "#N/A", "n/a", "-", "null", "nil", "undefined", "[object Object]", "(not set)",
    "(none)", "[deleted]", "redacted",
)  # fmt: skip
#: Others, of R, Hive, spreadsheets and tag managers.
_OTHERS: Final = (
    "na", "n.a.", "nat", r"\n", "--", "?", "not set", "not available", "not provided", "unset", "#null!",
    "#ref!", "#value!", "#name?", "#div/0!", "#num!", "#calc!", "#error!", "k.a.", "k. a.", "n. a.",
)  # fmt: skip
#: Words that may be ids, but not in brackets.
_BRACKETED: Final = ("deleted", "unknown", "anonymous", "guest", "empty", "blank", "missing", "data deleted")
#: Placeholders where many rows share them; a single person may have each of them.
SHARED: Final = ("guest", "anonymous", "unknown", "test", "true", "false", "0", "-1")
#: Those of them that are ids where all others are small integers, and placeholders in any number where not.
_INTEGERS: Final = ("0", "-1")
SMALL_INTEGER: Final = r"^-?\d{1,6}$"
#: Tools that hide addresses hash the words too.
_HASHES: Final = sorted(
    {
        hashlib.new(method, written.encode(), usedforsecurity=False).hexdigest()
        for word in ("", *_WORDS)
        for written in (word, word.lower(), word.upper())
        for method in ("md5", "sha1", "sha256")
    }
)
#: What programs write for one part of an id, and the version of a cookie before it, as in GA1.2.undefined.
_PART: Final = "(undefined|null|nan|none)"
_PARTS: Final = rf"([a-z]{{2,3}}[.]?[0-9]([.][0-9])*[.]undefined|{_PART})([-._:|@]{_PART})*"
#: Names of variables that a template did not fill in, such as {{user_id}}, [USER_ID] or %user_id%, and
#: words in the place of data, such as <test lead: dummy data>.
_TEMPLATE: Final = (
    r"([{]{2}|[#$%][{]|(%7b){2})[^{}]*(}|%7d)+|%{1,2}[a-z_.: -]+%{1,2}|[{\[][a-z]+([_.][a-z]+)+[}\]]|<%.*%>"
    r"|<[^<>@]* [^<>@]*>"
)
#: What may stand around an id: quotes, and spaces that engines do not trim.
_AROUND: Final = "[\t\u00a0\u2002\u2003\u2009\u202f\u3000\u200b\u200c\u200d\u2060\ufeff\"' ]*"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word.lower()) for word in words)


_BARE: Final = _any_of((*_WORDS, *_OTHERS))
_IN_BRACKETS: Final = rf"[(\[<{{]({_BARE}|{_any_of(_BRACKETED)})[)\]>}}]"
#: In folded, trimmed text: the words and their hashes, ids of zeros or of f alone, and addresses that cannot
#: exist. The regular expressions of all engines read it alike, and none is slower than a list of the hashes.
_PATTERN: Final = (
    f"^{_AROUND}({_BARE}|{_IN_BRACKETS}|{_PARTS}|{_TEMPLATE}"
    r"|[{]?(0x)?((0-?){16,}|(f-?){16,})[}]?|[^@]*@([^@]*[.])?invalid"
    f"|{'|'.join(_HASHES)})?{_AROUND}$"
)
#: Numbers that were floats: with an exponent, or beyond 2^53 with a decimal point behind all of their digits.
_EXPONENT: Final = "[0-9]([.,][0-9]+[eE][+]?|[eE][+])"
_LONG: Final = "(9(00[7-9]|0[1-9][0-9]|[1-9][0-9]{2})[0-9]{12}|[1-9][0-9]{16,})[.,]0+"
ROUNDED: Final = f"^({_EXPONENT}[0-9]{{2}}|{_LONG})$"
#: Those of them that are beyond 2^53.
LOST: Final = f"^({_EXPONENT}(1[6-9]|[2-9][0-9])|{_LONG})$"
#: Rows of a table below which no share is taken, and the share of them.
FEW: Final = 100
_SHARE: Final = 0.1


def is_nobody(text: str) -> bool:
    """Return whether an id is always a placeholder.

    Examples
    --------
    >>> [is_nobody(text) for text in ("(Not Set)", "00000000-0000-0000-0000-000000000000", " ", "nancy")]
    [True, True, True, False]
    """
    return re.search(_PATTERN, text.strip().lower()) is not None


def nobody(value: Any) -> Any:
    """Return whether text is always a placeholder, as an Ibis expression."""
    return value.strip().lower().re_search(_PATTERN)


def nobody_sql(word: str) -> str:
    """Return SQL of DuckDB for whether text is always a placeholder."""
    pattern = _PATTERN.replace("'", "''")
    return f"regexp_matches(lower(trim({word})), '{pattern}')"


def shared(counts: Mapping[str, int], rows: int, *, are_integers: bool | None) -> list[str]:
    """Return the words of ``SHARED`` that are placeholders in a table, from the number of rows of each.

    Parameters
    ----------
    counts : mapping of str to int
        Number of rows by word.
    rows : int
        Number of rows of the table.
    are_integers : bool or None
        Whether all other ids of the column are small integers; None if there are no others.

    Examples
    --------
    >>> shared({"guest": 20, "0": 30}, 100, are_integers=True)
    ['guest']
    >>> shared({"guest": 2, "0": 1}, 10, are_integers=False)
    ['0']
    """
    are_many = {word: rows >= FEW and count >= _SHARE * rows for word, count in counts.items()}
    if are_integers is not None:
        are_many |= {word: not are_integers for word in _INTEGERS if word in counts}
    return [word for word in counts if are_many[word]]


def strangers(connection: Any, relation: str, column: str, *, email: str | None = None) -> list[str]:
    """Return the words of ``SHARED`` that are placeholders in a table of DuckDB.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the table.
    relation : str
        The table.
    column : str
        SQL for the ids as trimmed text.
    email : str, optional
        SQL for the e-mail addresses beside them.
    """
    words = ", ".join(f"'{word}'" for word in SHARED)
    addresses = "0" if email is None else f"count(DISTINCT {email})"
    found = connection.execute(
        f"SELECT lower({column}), count(*), {addresses} FROM {relation} WHERE lower({column}) IN ({words}) "
        "GROUP BY 1 ORDER BY 1"
    ).fetchall()
    if not found:
        return []
    ((rows, are_integers),) = connection.execute(
        f"SELECT count(*), bool_and(regexp_matches({column}, '{SMALL_INTEGER}')) "
        f"FILTER (lower({column}) NOT IN ({words}) AND NOT {nobody_sql(column)}) FROM {relation}"
    ).fetchall()
    several = [word for word, _, count in found if count > 1]
    few = {word: count for word, count, _ in found if word not in several}
    return several + shared(few, rows, are_integers=are_integers)


def warn_of_crowds_in(connection: Any, relation: str, person: str, *, place: str, column: str) -> None:
    """Warn of each user who has a tenth of the rows of a table of DuckDB, and at least 100.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the table.
    relation : str
        The table.
    person : str
        SQL for the ids, NULL where they stand for nobody.
    place, column : str
        Names of the table and the column in the warning.
    """
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()
    if rows >= FEW:
        many = f"count(*) >= {max(FEW, _SHARE * rows)}"
        counts = connection.execute(
            f"SELECT {person} AS person, count(*) FROM {relation} GROUP BY 1 "
            f"HAVING {many} AND person IS NOT NULL"
        ).fetchall()
        warn_of_crowds(place, column, dict(counts), rows)


def merges(size: int) -> str:
    """Return the complaint about ids that are too large for a float of this size in bytes."""
    return f"holds floats above 2^{EXACT[size]}, in which different ids are one"


def inexact(argument: str, column: str, value: float, *, size: int = 8) -> errors.InvalidRequest:
    """Return the error of an id that is a float too large to tell it from its neighbours."""
    kind: Any = {2: np.float16, 4: np.float32, 8: np.float64}[size]
    # Right above the bound, every other float stands for itself alone.
    pairs = ((int(value) + low, int(value) + low + 1) for low in (0, -1, -2, 1))
    first, other = next(pair for pair in pairs if kind(pair[0]) == kind(pair[1]))
    return errors.InvalidRequest(
        f"{argument}: {column!r} {merges(size)}: {first} and {other} are both {float(kind(first))!r}. Export "
        f"and read the column as text, such as pd.read_csv(…, dtype={{{column!r}: 'str'}})",
        field=argument,
    )


def lost(argument: str, column: str, example: str) -> errors.InvalidRequest:
    """Return the error of text ids that were floats too large to tell them from their neighbours."""
    return errors.InvalidRequest(
        f"{argument}: {column!r} has ids that were numbers above 2^53, whose last digits are lost: "
        f"{printable(example)} may stand for several ids. Export the data anew, with that column as text",
        field=argument,
    )


def warn_of_nobody(place: str, column: str, count: int, example: str) -> None:
    """Warn of rows whose id is a placeholder; they count as rows without an id."""
    errors.warn(
        f"{place}: {counted(count, 'rows')} with a placeholder in {column!r}, such as "
        f"{printable(repr(example))}: they count as missing, so that different people are not merged"
    )


def check_rounded(place: str, column: str, count: int, example: str, lost_id: str | None) -> None:
    """Warn of ids that a spreadsheet has rounded, such as 1.23E+12: several may be one; refuse lost ones."""
    if lost_id is not None:
        raise lost(place, column, lost_id)
    if count:
        errors.warn(
            f"{place} has {counted(count, 'rows')} with an id such as {printable(example)} in {column!r}: a "
            "spreadsheet has rounded it, so different ids may look the same. Export the file again, or open "
            "it with that column as text"
        )


def warn_of_crowds(place: str, column: str, counts: Mapping[str, int], rows: int) -> None:
    """Warn of each user who has a tenth of the rows of a table, and at least 100."""
    for user, count in sorted(counts.items()):
        if count >= max(FEW, _SHARE * rows):
            errors.warn(
                f"{place}: {printable(repr(user))} in {column!r} has {count:,} of {counted(rows, 'rows')} "
                "and counts as one person. If it stands for unknown people, make it null"
            )
