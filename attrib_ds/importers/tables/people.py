"""People in the columns of a table: which may have them, their ids, and numbers of telephones."""

import re
from typing import Final

from attrib_ds.importers.columns import folded
from attrib_ds.importers.content import evidence, rows
from attrib_ds.importers.tables.table import Table
from attrib_ds.records import person_ids, sources

#: Rows from which on a column with two values has no people.
_FEW_ROWS: Final = 10
#: Roles of columns without people.
_NO_PEOPLE: Final = ("source", "medium", "campaign", "node", "kind", "status")
#: Last digits of a number of a telephone that are dialled at home, and numbers that are compared.
_LOCAL_DIGITS, _MOST_PHONES = 8, 5_000


class People:
    """How the columns of a table are read as ids of people.

    Attributes
    ----------
    country_codes : dict of str to tuple
        Code of the country of numbers of telephones without one, and lengths with it, by their column.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._ids: dict[str, str] = {}
        self._nobody: dict[str, list[str]] = {}
        self.country_codes: dict[str, tuple[str, set[int]]] = {}

    def candidates(self) -> list[evidence.Column]:
        """Return the columns that may have people by their values, the best names first."""
        found = [
            each
            for each in self.table.profile.values()
            if each.may_be_id() or (each.holds("float") and not each.holds("instant"))
            # One value in all rows is a mode, and two in many rows are a flag or a fee.
            if each.distinct > 2 or each.filled < _FEW_ROWS
            if evidence.weight("user", each.name) > 0 or not _is_mode(each)
        ]
        return sorted(found, key=lambda each: -evidence.weight("user", each.name))

    def identity(self, column: str, *, is_phone: bool = False) -> str:
        """Return SQL by which the people of two tables are compared."""
        word = self._bare(column)
        return f"right({_digits(word)}, {_LOCAL_DIGITS})" if is_phone else _without_fraction(f"lower({word})")

    def _bare(self, column: str) -> str:
        """Return SQL for ids of people without braces, names before addresses and marks in long numbers."""
        word, values = self.table.word(column), self.table.profile[column]
        if values.holds("email") and any(value.endswith((">", ")")) for value in values.values if value):
            return f"coalesce(nullif(regexp_extract({word}, '[<(] *([^<( ]+@[^>) ]+)', 1), ''), {word})"
        if values.holds("grouped"):
            return f"regexp_replace({word}, '[ \u00a0-]', '', 'g')"
        return f"trim({word}, '{{}}')" if values.holds("code") else word

    def phones(self, column: str) -> set[str]:
        """Return different numbers of telephones of a column, with + where they begin with a country."""
        word = self.table.word(column)
        digits = _digits(word)
        number = f"CASE WHEN {_is_abroad(word)} THEN '+' || ltrim({digits}, '0') ELSE {digits} END"
        rows = self.table.connection.execute(
            f"SELECT DISTINCT {number} FROM {self.table.relation} WHERE {word} IS NOT NULL "
            f"ORDER BY 1 LIMIT {_MOST_PHONES}"
        ).fetchall()
        return {number for (number,) in rows}

    def id_of(self, column: str) -> str:
        """Return SQL for the id of a person or device, NULL where it is a placeholder."""
        if column in self._ids:
            return self._ids[column]
        word = self._bare(column)
        known = f"lower({word})" if self._ignores_case(column) else word
        if column in self.country_codes:
            code, lengths = self.country_codes[column]
            digits, listed = _digits(word), ", ".join(map(str, lengths)) or "NULL"
            has_code = (
                f"{_is_abroad(word)} OR (starts_with({digits}, '{code}') AND length({digits}) IN ({listed}))"
            )
            known = f"nullif(CASE WHEN {has_code} THEN '' ELSE '{code}' END || ltrim({digits}, '0'), '')"
        if self.table.profile[column].holds("float") and self.table.types[column] == "VARCHAR":
            known = _without_fraction(known)
        nobody = ", ".join(map(sources.literal, self._strangers(column)))
        is_nobody = person_ids.nobody_sql(word) + (f" OR lower({word}) IN ({nobody})" if nobody else "")
        self._ids[column] = self.table.stored(f"CASE WHEN NOT ({is_nobody}) THEN {known} END", "VARCHAR")
        return self._ids[column]

    def _ignores_case(self, column: str) -> bool:
        values = self.table.profile[column]
        return "mail" in folded(column) or values.holds("email") or values.holds("code")

    def _strangers(self, column: str) -> list[str]:
        """Return the words, such as guest, that stand for nobody in a column of this table."""
        if column not in self._nobody:
            self.table.source.require_exact(self.table.connection, column, self.table.argument)
            email = next((self.table.word(each) for each in self.table.emails() if each != column), None)
            self._nobody[column] = person_ids.strangers(
                self.table.connection, self.table.relation, self.table.word(column), email=email
            )
        return self._nobody[column]

    def warn_of_crowds(self, column: str) -> None:
        """Warn of each person who has a tenth of the rows of a large table."""
        person = self.id_of(column)
        person_ids.warn_of_crowds_in(
            self.table.connection, self.table.relation, person, place=self.table.argument, column=column
        )

    def has_guests(self, person: str, email: str) -> bool:
        """Return whether the ids of persons are missing for several addresses of guests."""
        is_guest = f"{self.id_of(person)} IS NULL"
        return bool(self.table.scalar(f"count(DISTINCT {self.id_of(email)}) FILTER ({is_guest}) > 1"))


def _is_mode(column: evidence.Column) -> bool:
    """Return whether a column has one value in all rows, statuses, or what its name says of a visit."""
    words = {value for value in column.values if value}
    # Ids of a single person have digits, or are addresses.
    is_one = len(words) == 1 < column.filled and not any(re.search(r"[\d@]", word) for word in words)
    return (
        is_one
        or rows.are_states(words)
        or any(evidence.names_level(role, column.name) for role in _NO_PEOPLE)
    )


def _digits(word: str) -> str:
    """Return SQL for the digits of a number of a telephone, whose 0 in brackets is for calls at home."""
    return rf"regexp_replace({word}, '\(0\)|\D', '', 'g')"


def _is_abroad(word: str) -> str:
    """Return SQL for whether a number of a telephone is written with the code of a country."""
    return rf"regexp_matches({word}, '^\s*(\+|00)')"


def _without_fraction(word: str) -> str:
    """Return SQL for text in which whole numbers have no decimal point, as pandas writes them."""
    return (
        rf"CASE WHEN ends_with({word}, '.0') THEN regexp_replace({word}, '^(-?\d+)\.0$', '\1') ELSE "
        rf"{word} END"
    )
