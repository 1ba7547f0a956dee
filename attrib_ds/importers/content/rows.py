"""Which rows of a table of conversions count: statuses, flags, kinds of rows and states of one record."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb

from attrib_ds import display
from attrib_ds.errors import InvalidRequest, warn
from attrib_ds.importers.content import evidence
from attrib_ds.records import written_values
from attrib_ds.records.sources import COMPUTED, Source, cases, literal, quoted

_STATES: Final = Path(__file__).with_name("states.tsv").read_text(encoding="utf-8").splitlines()[2:]
_STAGES: Final = Path(__file__).with_name("stages.tsv").read_text(encoding="utf-8").splitlines()[2:]
_ENDS: Final = {"won": "ended", "lost": "ended"}
#: What whole words may be classes of.
_WHOLE: Final = {"status": "status", "outcome": "status", "mail": "mail"}
#: Letters of a word without its vowels.
_ABBREVIATION: Final = re.compile("[A-Z][B-DF-HJ-NP-TV-Z]{2,4}")
#: Different words of a column of statuses, at most; those of one that no name tells.
_MOST_WORDS, _MOST_UNNAMED, _MOST_SAID = 200, 12, 10
#: Rows whose words are read at once.
_FEW_ROWS: Final = 1_000
YES: Final = evidence.WORDS["yes"]
NO: Final = (*evidence.WORDS["no"], *evidence.WORDS["none"], "")
#: Values of flags of rows that do not count, by role, and the word for those. Those without are instants.
_FLAGS: Final = {
    "test": (YES, "test"),
    "live": (evidence.WORDS["no"], "not live"),
    "undone": (YES, ""),
    "refund": (YES, ""),
    "undone_at": ((), ""),
    "refunded_at": ((), ""),
}
#: Marks that mean no if other rows have a mark for yes. Without one, they may mean yes or no.
_CROSSES: Final = frozenset("✗✘✕✖×❌")
#: Amounts with decimals.
_MONEY: Final = r"\D{0,4}\d[\d., ]*[.,]\d\d\D{0,4}"
#: Instants that databases write for none.
_NO_INSTANT: Final = "^(0000|0001|1[89]00-01-01|1970-01-01)"
#: What turns a state into its opposite: a word before it, or a syllable that it begins with.
_NOT: Final = re.compile(
    r"\b(?:not|nicht|non|niet|no|nao|nie|ej|inte|ikke|ei|ne|nem|nu a|не|нет|ні|sin|sans|senza|sem|bez|ohne"
    r"|pas|utan|uten|zonder|δεν|μη|לא|لم|غير|khong|chua|tidak|belum) "
    r"|\b(?:un|on|im|in|non|nie|ne|o|не)(?=\w)|[未不]"
)
#: Words for a part of an order.
_PARTLY: Final = re.compile(
    r"\b(part(ly|ial(ly)?)?|partiel\w*|teil(weise)?|parcial\w*|parzial\w*|gedeeltelijk|deels|delvis|czesciow\w+"
    r"|kismi|kismen|частичн\w+|частково|osittain|castecne|reszben)\b|一部|部分|부분"
)
#: Words around a state in the name of a column of yes and no.
_AROUND: Final = frozenset(["is", "ist", "est", "esta", "order", "payment", "заказ"])
#: Names, joined, of states of countries, and of other parts of addresses.
_REGION: Final = re.compile("(shipping|billing|customer)?(state|estado|stato|etat|stan)")
_REGION_CODE: Final = re.compile("[A-Z]{2}")
_ADDRESS: Final = re.compile(
    "city|zip|postal|address|country|plz|cidade|ciudad|ville|citta|pais|paese|miasto|kod"
)
#: Seconds since 1970, or parts of a second.
_COUNT, _HAS_DIGIT = re.compile(r"\d{10,}"), re.compile(r"\d")
#: Statuses without words.
_STATUS_CODE: Final = re.compile(r"\d{1,4}|[A-Z]\d?")
#: Column with the first instant of a record.
FIRST: Final = quoted(f"{COMPUTED}first")
#: Which state of a record is the later one.
_RANKS: Final = {"unpaid": 0, "pending": 0, "done": 1, "partly refunded": 2, "undone": 3}
#: Words for an end that does not follow a payment.
_UNRANKED: Final = re.compile(
    "fail|fehlgeschlag|echec|falhou|misslyck|basarisiz|rechaz|recusad|rifiutat|geweigerd|nekad|odrzuc"
    "|declin|refus|abgelehnt|mislukt|echou|fallid|expire|失敗|失败|nieudan"
)


@dataclass
class Counted:
    """The rows that count.

    Attributes
    ----------
    left_out : dict of str to str
        SQL of the condition of the rows that are left out, by the word for them.
    kind : str
        SQL of the kind of a row: sale, authorization, refund or void; empty if all are sales.
    spared : str
        SQL of the condition of rows that a status of refunds does not leave out: refunds themselves, and what
        was refunded in part.
    others : list of str
        What else is said of the rows.
    columns : set of str
        Columns that were read.
    """

    left_out: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    spared: str = "false"
    others: list[str] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)


@cache
def _stages() -> dict[tuple[str, str], str]:
    """Return the classes of whole statuses and events of mails, by what they are classes of."""
    rows = (line.split("\t") for line in _STAGES)
    return {
        ("mail" if name in {"seen", "unseen"} else "status", " ".join(evidence.words_of(word))): name
        for name, words in rows
        for word in words.split("|")
    }


@cache
def _patterns(of: str) -> list[tuple[str, re.Pattern[str]]]:
    rows = (line.split("\t") for line in _STATES)
    return [(name, re.compile(words)) for each, name, words in rows if each == of]


@cache
def class_of(of: str, word: str) -> str | None:
    """Return the class of a word of a column of statuses or of kinds.

    Examples
    --------
    >>> [class_of("status", word) for word in ("Storniert", "Partially refunded", "betaald", "blue")]
    ['undone', 'partly refunded', 'done', None]
    >>> [class_of("status", word) for word in ("non payé", "Unshipped", "not refunded", "Invoice paid")]
    ['unpaid', 'pending', 'done', 'done']
    >>> class_of("status", "Partially reversed")
    'partly refunded'
    >>> [class_of("kind", word) for word in ("Capture", "chargeback", "MerchantPayout")]
    ['sale', 'refund', 'fee']
    >>> [class_of("mail", word) for word in ("Geöffnet", "nicht geöffnet", "Délivré", "unread", "Spring")]
    ['seen', 'unseen', 'unseen', 'unseen', None]
    >>> [class_of("mail", word) for word in ("CLK", "SNT", "SPR")], class_of("status", "RFND")
    (['seen', 'unseen', None], 'undone')
    """
    folded = " ".join(evidence.words_of(word))
    # Codes of regions are like short words.
    name = None if _REGION_CODE.fullmatch(word) else _stages().get((_WHOLE.get(of, ""), folded))
    if name:
        return {"won": "done", "lost": "undone"}.get(name, name) if of != "outcome" else _ENDS.get(name)
    opposite = _opposite(folded) if of == "status" else None
    if of == "mail" and (denial := _NOT.match(folded)) and class_of(of, folded[denial.end() :]) == "seen":
        return "unseen"
    name = opposite or next((name for name, pattern in _patterns(of) if pattern.search(folded)), None)
    if name is None and of in _WHOLE and _ABBREVIATION.fullmatch(word):
        # Such as CLK, whose letters clicked has in this order.
        spelled = re.compile(".*".join(word.lower()))
        found = {class_of(of, each) for each in evidence.WORDS["event"] if spelled.match(each)} - {None}
        name = found.pop() if len(found) == 1 else None
    return "partly refunded" if name == "undone" and _PARTLY.search(folded) else name


def are_states(words: Iterable[str | None]) -> bool:
    """Return whether a few words are all statuses, whatever the name of their column."""
    found = {word for word in words if word}
    return len(found) < _MOST_UNNAMED and all(class_of("status", word) for word in found)


def unseen_of(words: Iterable[str | None], *, is_named: bool = False) -> list[str]:
    """Return the events of mails that nobody saw; none unless others were seen, and few words are others."""
    classes = {word: class_of("mail", word) for word in words if word}
    known = list(filter(None, classes.values()))
    are_events = {*known} == {"seen", "unseen"} and (is_named or 4 * len(known) >= 3 * len(classes))
    return [word for word, name in classes.items() if name == "unseen" and are_events]


def _opposite(folded: str) -> str | None:
    """Return the class of a status that denies another one, such as not paid; None if it denies none."""
    ((_, settled),) = _patterns("settled")
    for denial in _NOT.finditer(folded):
        is_syllable = denial[0].isascii() and not denial[0].endswith(" ")
        for word in folded[denial.end() :].split()[: 1 if is_syllable else None]:
            if settled.match(word):
                return "unpaid"
            name = class_of("status", word)
            if is_syllable and not any(
                each == name == "done" and pattern.match(word) for each, pattern in _patterns("status")
            ):
                break
            if name in {"done", "undone"}:
                return "pending" if name == "done" else "done"
    return None


def _names_state(column: str) -> bool:
    """Return whether the name of a column is a state of rows that count, such as paid."""
    words = [word for word in evidence.words_of(column) if word not in _AROUND]
    return len(words) == 1 and class_of("status", words[0]) == "done"


class Rows:
    """The rows of a table of conversions, to be divided by what its columns say of them.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the table.
    source : Source
        The table.
    used : collection of str
        Columns with another role.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, source: Source, used: Iterable[str]) -> None:
        self.connection = connection
        self.source = source
        self.columns = [name for name in source.columns if name not in {*used}]
        self._words: dict[str, list[str] | None] = {}
        #: Columns of what happened to orders, which look like their statuses.
        self.events: set[str] = set()
        #: Whether the instants of the rows are those of their end, which pending rows only expect.
        self.are_ends = False

    def scalar(self, sql: str) -> Any:
        """Return an aggregate of all rows."""
        return self.connection.execute(f"SELECT {sql} FROM {self.source.relation}").fetchall()[0][0]

    def words(self, column: str) -> list[str] | None:
        """Return the different words of a column, None if they are too many."""
        if self.source.rows <= _FEW_ROWS and not self._words:
            words = ", ".join(map(self.source.word, self.source.columns))
            rows = self.connection.execute(f"SELECT {words} FROM {self.source.relation}").fetchall()
            sets = [{*cells} - {None} for cells in zip(*rows, strict=True)] or [set()] * len(
                self.source.columns
            )
            self._words = {
                name: sorted(found) if len(found) <= _MOST_WORDS else None
                for name, found in zip(self.source.columns, sets, strict=True)
            }
        if column not in self._words:
            rows = self.connection.execute(
                f"SELECT DISTINCT {self.source.word(column)} FROM {self.source.relation} LIMIT "
                f"{_MOST_WORDS + 2}"
            ).fetchall()
            found = sorted(word for (word,) in rows if word is not None)
            self._words[column] = found if len(found) <= _MOST_WORDS else None
        return self._words[column]

    def few_words(self, column: str) -> list[str]:
        """Return the different words of a column; none if they are many, or instants."""
        words = self.words(column) or []
        are_instants = all(map(_COUNT.fullmatch, words)) or any(map(written_values.looks_like_instant, words))
        return [] if are_instants or len(words) > _MOST_UNNAMED else words

    def named(self, role: str) -> list[str]:
        """Return the columns whose names speak for a role."""
        return [name for name in self.columns if evidence.weight(role, name) > 0]

    def classes(self, of: str) -> list[tuple[str, dict[str, str | None]]]:
        """Return the columns of statuses or kinds, with the class of each of their words."""
        found: list[tuple[str, dict[str, str | None]]] = []
        named = self.named(of)
        # Answers that people write in a form are not statuses.
        others = [
            name for name in self.columns if name not in named and evidence.weight("message", name) <= 0
        ]
        for column in [*named, *others]:
            words = self.words(column)
            if not words or (column not in named and len(words) > _MOST_UNNAMED):
                continue
            classes = {word: class_of(of, word) for word in words}
            if of == "kind" and column in self.events:
                found.insert(0, (column, {word: _event_of(word) for word in words}))
                continue
            if of == "status" and _are_flags(words) and (column in named or _names_state(column)):
                # Such as captured and is_paid.
                other = class_of("status", f"not {column}") or "pending"
                classes = {word: "done" if word.lower() in YES else other for word in words}
            # Beside sales, a credit gives money back; beside debits, it is a payment.
            is_back = of == "kind" and "sale" in classes.values()
            credited = {*words} & {"credit", "Credit", "CREDIT"} if is_back else set()
            classes |= dict.fromkeys(credited, "refund")
            known = [name for name in classes.values() if name]
            of_money = {"authorization", "refund", "void"} | ({"fee", "offer"} if column in named else set())
            of_money |= {"step"} if column in named and "sale" in known else set()
            # Beside a word for refunds, words that are not known are kinds of sales.
            if of == "kind" and column in named and {*known} & {"refund", "void"}:
                classes = {word: "refund" if word in credited else _event_of(word) for word in classes}
                known = list(filter(None, classes.values()))
            # A file of nothing but commissions has one for each sale.
            is_kind = of == "kind" and {*known} & of_money and len(known) == len(classes)
            is_kind = is_kind and {*known} != {"fee"}
            # Without a name, words that are all statuses are those.
            is_kind = is_kind and (
                column in named
                or (
                    evidence.weight("status", column) <= 0
                    and not all(class_of("status", word) for word in words)
                )
            )
            # Without a name three in four words must be known, one that leaves out and one that does not.
            is_status = of == "status" and (
                2 * len(known) >= len(classes) or "undone" in known
                if column in named
                else 4 * len(known) >= 3 * len(classes)
                and {*known} not in ({"pending", "undone"}, {"pending"}, {"undone"})
                and (len(known) == len(classes) or len({*known}) > 1)
            )
            if is_kind or is_status:
                found.append((column, classes))
        return found

    def find_events(self, identity: str, value: str) -> None:
        """Find columns of events: the refund of an order has another amount than its payment."""
        amount = self.source.word(value)
        kinds = dict(self.classes("kind"))
        for column, classes in [each for each in self.classes("status") if each[0] not in kinds]:
            done = [each for each, name in classes.items() if name == "done"]
            back = [each for each, name in classes.items() if name == "undone" and _is_refund(each)]
            word = f"regexp_matches({amount}, '[1-9]') AND {self.source.word(column)}"
            paid, refunded = (
                f"min({amount}) FILTER ({word} IN ({_listed(words)}))" for words in (done, back)
            )
            orders = f"SELECT 1 FROM {self.source.relation} GROUP BY {self.source.word(identity)}"
            if done and back and self.scalar(f"EXISTS ({orders} HAVING {paid} <> {refunded})"):
                self.events.add(column)

    def flagged(self, counted: Counted) -> None:
        """Leave out rows of tests, and those with a flag or an instant of their end.

        A refund does not end an order of which an amount remains.
        """
        for role, (yes, said) in _FLAGS.items():
            for column in [name for name in self.named(role) if name not in counted.columns]:
                word, words = self.source.word(column), self.words(column) if yes else None
                is_set = f"lower({word}) IN ({_listed(yes)})"
                if not yes:
                    is_set = f"(lower({word}) IN ({_listed(NO)}) OR regexp_matches({word}, '{_NO_INSTANT}'))"
                    is_set += " IS FALSE"
                is_instant = rf"regexp_matches({word}, '\d{{2}}.*\d{{2}}')"
                are_instants = f"coalesce(bool_and({is_instant}) FILTER ({is_set}), false)"
                if role == "undone" and self._are_marks(column):
                    is_set, words = f"{word} IS NOT NULL", [*yes]
                are_flags = _are_flags(words) if yes else self.scalar(are_instants)
                counted.columns |= {column} if are_flags else set()
                if are_flags or any(each.lower() in yes and each[0] != "1" for each in words or ()):
                    spared = f" AND ({counted.spared}) IS NOT TRUE" if role.startswith("refund") else ""
                    self._leave_out(counted, said or column, is_set + spared)

    def _are_marks(self, column: str) -> bool:
        """Return whether a column marks few rows, with any word or instant, and is blank in most others."""
        words = self.words(column) or NO
        is_blank = bool(self.scalar(f"2 * count({self.source.word(column)}) < count(*)"))
        return is_blank and not any(
            each.lower() in NO
            or class_of("status", each) not in {None, "undone"}
            or (each.lower() not in YES and written_values.looks_like_amount(each))
            for each in words
        )

    def _doubtful(self, counted: Counted) -> dict[str, list[str]]:
        """Return the most frequent values that are neither yes nor no, by the column of flags."""
        found = {}
        known = _listed({*YES, *NO} - _CROSSES)
        for role, column in [(each, name) for each in _FLAGS for name in self.named(each)]:
            word = self.source.word(column)
            if column in counted.columns or evidence.weight("reason", column) > 0:
                continue
            rows = self.connection.execute(
                f"SELECT {word} FROM {self.source.relation} WHERE lower({word}) NOT IN ({known}) "
                f"GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {_MOST_SAID}"
            ).fetchall()
            words = [each for (each,) in rows]
            if evidence.weight("conversion", column) > 0 and all(map(_HAS_DIGIT.search, words)):
                # The id of another row, such as that of the sale of a refund.
                continue
            # Beside a refund, numbers are amounts.
            are_numbers = all(map(written_values.looks_like_amount, words))
            is_clear = role in {"undone", "refund"} and not are_numbers
            is_amount = role == "refund" and any(map(written_values.looks_like_amount, words))
            if words and not is_amount and (is_clear or evidence.names_level(role, column)):
                found[column] = words
        return found

    def by_status(self, counted: Counted, own: Mapping[str, bool]) -> None:
        """Leave out rows whose status says that they were undone, and count those that are pending."""
        kept_words = {each.casefold(): keep for each, keep in own.items()}
        undecided: dict[str, list[str]] = {}
        for column, each, name, keep in self._statuses():
            counted.columns.add(column)
            word = self.source.word(column)
            if not kept_words.get(each.casefold(), keep):
                is_sure = each.casefold() in kept_words or class_of("kind", each) == "void"
                spared = "false" if is_sure else counted.spared
                said = f"with {column} {each}" if _are_flags([each]) else each
                self._leave_out(counted, said, f"{word} = {literal(each)} AND ({spared}) IS NOT TRUE")
            elif name != "done":
                undecided.setdefault(column, []).append(each)
        for column, words in undecided.items():
            for each in words[:_MOST_SAID]:
                counted.others.append(f"{self._number(column, each):,} {each} counted")
        of_status = [name for name in self.named("status") if name not in counted.columns]
        unknown = {name: self._unknown(name) for name in of_status} | self._doubtful(counted)
        for column, statuses in unknown.items():
            self._by_unknown(counted, column, statuses, own)
        for column in [name for name in self.columns if name not in counted.columns]:
            doubted = [each for each in self.few_words(column) if class_of("status", each) == "undone"]
            if doubted and evidence.weight("reason", column) <= 0:
                counted.others.append(f"{column} {', '.join(doubted)} counted")
        no_reason = [*NO, *(each for each, keep in kept_words.items() if keep)]
        for column in [name for name in self.named("reason") if name not in counted.columns]:
            # A reason tells that its row ended, unless every row has one.
            word = self.source.word(column)
            if self.scalar(f"count({word}) < count(*)"):
                counted.columns.add(column)
                self._leave_out(counted, f"with {column}", f"lower({word}) NOT IN ({_listed(no_reason)})")

    def _statuses(self) -> Iterator[tuple[str, str, str | None, bool]]:
        """Yield each status with its column, its class and whether its rows count."""
        for column, classes in self.classes("status"):
            is_deal = _are_of_deals(classes)
            for each, name in classes.items():
                # A deal that is neither won nor lost is open.
                is_open = name != "done" if is_deal else self.are_ends and name == "pending"
                yield column, each, name, not is_open and name not in {"undone", "unpaid"}

    def has_deals(self) -> bool:
        """Return whether the rows are deals, which are won or lost."""
        return any(_are_of_deals(classes) for _, classes in self.classes("status"))

    def choices(self) -> dict[str, tuple[int, bool]]:
        """Return the number of rows of each status or code, and whether they count."""
        kinds = {column for column, _ in self.classes("kind")[:1]}
        found = [(column, each, keep) for column, each, _, keep in self._statuses() if column not in kinds]
        known = {column for column, *_ in found} | kinds
        for column in [name for name in self.named("status") if name not in known]:
            found += [(column, each, True) for each in self._unknown(column)]
        return {each: (self._number(column, each), keep) for column, each, keep in found}

    def _number(self, column: str, word: str) -> int:
        return int(self.scalar(f"count(*) FILTER ({self.source.word(column)} = {literal(word)})"))

    def _unknown(self, column: str) -> list[str]:
        """Return the values of a column of statuses that says nothing; none of regions of addresses."""
        words = self.few_words(column)
        are_codes = all(map(_STATUS_CODE.fullmatch, words))
        names = ["".join(evidence.words_of(name)) for name in self.source.columns]
        is_region = _REGION.fullmatch("".join(evidence.words_of(column))) and (
            any(map(_ADDRESS.search, names)) or all(map(_REGION_CODE.fullmatch, words))
        )
        are_amounts = all(map(written_values.looks_like_amount, words)) and not (
            are_codes and evidence.weight("value", column) <= evidence.weight("status", column)
        )
        return [] if is_region or are_amounts or (are_codes and len(words) == 1) else words

    def _by_unknown(
        self, counted: Counted, column: str, statuses: Sequence[str], own: Mapping[str, bool]
    ) -> None:
        """Leave out the rows with the statuses that the caller names; warn of those that nobody explains."""
        word = self.source.word(column)
        for each in statuses:
            if not own.get(each, True):
                self._leave_out(counted, each, f"{word} = {literal(each)}")
        if statuses and not {*statuses} & {*own}:
            counts = ", ".join(f"{each} in {self._number(column, each):,}" for each in statuses)
            said = f"in {column!r} do not say which rows are paid, and all count: {counts} rows"
            if column in self.named("status") and counted.columns & {*self.named("status")}:
                counted.others.append(f"the statuses {said}")
            else:
                warn(
                    f"the statuses {said}. Leave out those that do not count, as with "
                    f"statuses={{{statuses[0]!r}: False}}"
                )
        counted.columns |= {column} if statuses else set()

    def by_kind(self, counted: Counted, *, has_values: bool) -> None:
        """Tell sales, authorizations, refunds and voids apart, and leave out fees, offers and steps before.

        Without values, only sales count.
        """
        for column, classes in self.classes("kind")[:1]:
            counted.columns.add(column)
            word = self.source.word(column)
            names = {each: literal(str(name)) for each, name in classes.items()}
            counted.kind = cases(word, names, "'sale'") if has_values else ""
            for each, name in classes.items():
                if name in {"fee", "offer", "step"} or (name != "sale" and not has_values):
                    self._leave_out(counted, each, f"{word} = {literal(each)}")
        for column in [name for name in self.named("kind") if name not in counted.columns]:
            words = self.few_words(column)
            if len(words) > 1 and not all(class_of("status", each) for each in words):
                counted.columns.add(column)
                counted.others += [f"each {column} counted: {', '.join(words)}"]

    def _leave_out(self, counted: Counted, said: str, condition: str) -> None:
        if self.scalar(f"count(*) FILTER ({condition})"):
            counted.left_out[said] = condition

    def latest_states(
        self, identity: str, counted: Counted, refunds: Sequence[str], at: str = ""
    ) -> str | None:
        """Return SQL of the rows that are the latest state of their record; None if each has one row.

        The column ``FIRST`` has the first of the instants ``at`` of the changes of each record.

        Raises
        ------
        InvalidRequest
            If nothing tells which of two states is later.
        """
        key = self.source.word(identity)
        if self.scalar(f"count({key}) = count(DISTINCT {key})"):
            return None
        statuses = self.classes("status")
        changes = self.named("change")
        apart = {name for name, _ in statuses} | {
            *changes,
            *refunds,
            *self.named("refunded_at"),
            *self.named("remaining"),
        }
        if not apart or counted.kind:
            return None
        state = f"hash({', '.join(self.source.text(name) for name in sorted(apart))})"
        # Ids of the rows of a log tell nothing of the record.
        apart |= {
            name
            for name in self.source.columns
            if name not in {identity, *apart}
            and self.scalar(
                f"count(DISTINCT {self.source.word(name)}) = count(*) AND "
                f"bool_and(regexp_full_match({self.source.word(name)}, '{_MONEY}')) IS NOT TRUE"
            )
        }
        same = [name for name in self.source.columns if name not in apart]
        record = f"hash({', '.join(self.source.text(name) for name in same)})"
        ranks = " + ".join(
            [_rank_sql(self.source.word(name), classes) for name, classes in statuses] or ["0"]
        )
        relation, of_change = self.source.relation, "CAST(NULL AS TIMESTAMP)"
        if changes:
            word = self.source.word(changes[0])
            of_change = written_values.instants(self.connection, relation, word, dayfirst=None).sql
        whole = f"hash({', '.join(self.source.text(name) for name in self.source.columns)})"
        groups = (
            f"SELECT {key} AS id, {record} AS record, count(*) AS n, count(DISTINCT {whole}) AS states, "
            f"count(DISTINCT {ranks}) AS ranks, count(DISTINCT {of_change}) AS changes, "
            f"count(DISTINCT {state}) AS said, "
            f"bool_or({ranks} IS NULL) AS unranked FROM {relation} WHERE {key} IS NOT NULL GROUP BY ALL "
            "HAVING n > 1 AND states = n AND said > 1"
        )
        unclear = self.connection.execute(
            f"SELECT min(id) FILTER (changes < n AND (ranks < n OR unranked)), count(*) FROM ({groups})"
        ).fetchall()[0]
        if unclear[0] is not None:
            raise InvalidRequest(
                f"conversions: {unclear[0]!r} has several rows with different statuses, and neither a date "
                "of change nor the order of the statuses tells which is the latest; leave one row of each",
                field="conversion",
            )
        if not unclear[1]:
            return None
        counted.others.append(
            f"{display.counted(unclear[1], 'records')} in several states, of which the latest counts"
        )
        order = f"{of_change} DESC NULLS LAST, {ranks} DESC"
        is_latest = f"row_number() OVER (PARTITION BY {key}, {record} ORDER BY {order}) = 1"
        first = f", min({at}) OVER (PARTITION BY {key}, {record}) AS {FIRST}" if at else ""
        return (
            f"SELECT *{first} FROM {relation} QUALIFY {key} IS NULL "
            f"OR ({key}, {record}) NOT IN (SELECT (id, record) FROM ({groups})) OR {is_latest}"
        )


def name_ends(columns: Iterable[str]) -> bool:
    """Return whether columns of instants have those of the end of rows, such as the closing date of deals."""
    return any(evidence.weight("closed", name) > 0 for name in columns)


def _is_refund(word: str) -> bool:
    return class_of("kind", word) == "refund"


def _event_of(word: str) -> str:
    """Return the kind of an event of an order, such as a failed payment."""
    kind = class_of("kind", word)
    if kind is not None and kind != "sale":
        return kind
    return "step" if class_of("status", word) in {"undone", "unpaid"} else "sale"


def _are_of_deals(words: Iterable[str]) -> bool:
    """Return whether statuses are those of deals, which are won or lost."""
    return any(class_of("outcome", word) for word in words)


def _are_flags(words: Sequence[str] | None) -> bool:
    """Return whether words are yes or no."""
    found = {word.lower() for word in words or ()}
    return found <= {*YES, *NO} and not found <= _CROSSES


def _rank_sql(word: str, classes: Mapping[str, str | None]) -> str:
    ranks = {
        each: str(_RANKS[name])
        for each, name in classes.items()
        if name and not _UNRANKED.search(" ".join(evidence.words_of(each)))
    }
    return cases(word, ranks, "CAST(NULL AS INTEGER)")


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(literal, words))
