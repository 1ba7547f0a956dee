"""Columns that may have a role, by their names and values, the best first."""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations, permutations, product
from typing import Final

import numpy as np

from attrib_ds import errors
from attrib_ds.importers.columns import COMMON_NAMES, folded
from attrib_ds.importers.content import evidence, rows
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.records import sources

#: Kinds of values that the columns of a role have.
_KINDS: Final = {
    "date": ("instant", "count"),
    **dict.fromkeys(("value", "refund", "quantity", "spend"), ("amount",)),
}
#: Names, folded, of amounts that are used if no other column has one.
_WEAK: Final = {"subtotal", *evidence.WORDS["piece"]}
#: What is left of an amount, and what the buyer pays.
_NET, _GROSS = {"net", "netto", "neto", "nett"}, {"gross", "brutto", "bruto", "brut"}
_MOSTLY, _NEARLY_ALL = 0.9, 0.95
#: Rows that show a rule, and columns that are compared.
_LEAST_ROWS, _MOST_RIVALS, _MOST_ORDERS, _MOST_PARTS, _CENT = 4, 6, 1_000, 3, 0.011
#: Names, folded, of ids of transactions and clicks; those of orders go before them.
_OF_CLICK, _OF_ORDER = re.compile("transaction|click|commission"), re.compile("order|bestell|auftrag")
#: Points of a name of amounts that decides alone.
_CLEAR: Final = 7
#: A word before a number.
_NUMBERED: Final = re.compile(r"([^\W\d_]{3,})[-_ :#.]*\d+$")
#: Seconds by which an instant and its day are less apart, in any time zone.
TWO_DAYS: Final = 172_800
#: The year 2005, and the length of a day and of a year, in seconds.
_FIRST_SECOND, _DAY, _YEAR = 1_104_537_600, 86_400, 31_536_000


def candidates(table: OwnTable, role: str) -> list[str]:
    """Return the columns of a role in the format, else by their names and values, the best first."""
    own = table.in_format(role)
    if role == "conversion":
        own = [name for name in own if not _is_name(name) or _may_be_conversion(table, name)]
    named = table.with_names(COMMON_NAMES[role])
    if own:
        return own
    if role == "time":
        return _clocks(table, named)
    if role == "conversion":
        return _ids(table, named)
    if role == "node":
        return [name for name in named if not table.profile[name].holds("runtime")]
    if role == "user" and not named:
        return [each.name for each in table.people.candidates() if _are_called_people(each)]
    return _suited(table, role, named) if role in _KINDS else named


def _clocks(table: OwnTable, named: Sequence[str]) -> list[str]:
    """Return the columns of times of day."""
    clocks = [
        each.name
        for each in table.profile.values()
        if each.holds("clock") or (each.holds("digits of a clock") and evidence.weight("date", each.name) > 0)
    ]
    return list(dict.fromkeys([*named, *clocks]))


def _ids(table: OwnTable, named: Sequence[str]) -> list[str]:
    """Return the columns of ids of conversions."""
    columns = [each for each in table.profile.values() if each.filled]
    points = {
        each.name: weight
        for each in columns
        if (weight := evidence.weight("conversion", each.name)) > 0
        # Numbers of orders may begin with the day.
        if each.may_be_id("email") or each.holds("float")
        if weight > 5 or 2 * each.distinct >= each.filled
        if not (each.holds("amount") and _names_amount(each.name))
    }
    ids = dict.fromkeys([*named, *sorted(points, key=lambda name: -points[name])])
    known = sorted(filter(partial(_may_be_conversion, table), ids), key=partial(_is_weak_id, table))
    if known and _OF_CLICK.match(folded(known[0])):
        unique = {each.name for each in columns if each.distinct == each.rows}
        known.sort(key=lambda name: name not in unique or not _OF_ORDER.match(folded(name)))
    # The number of a line has that of its order in its name.
    orders = [name for name in known if _is_whole(table, name, known[0])]
    return [*orders, *(name for name in known if name not in orders)]


def _is_whole(table: OwnTable, whole: str, line: str) -> bool:
    """Return whether a column has ids of orders beside one of their lines: fewer, and a part of its name."""
    names = {*evidence.words_of(whole)} < {*evidence.words_of(line)}
    names = names or (evidence.EASTERN.search(whole) is not None and whole in line)
    return names and 1 < table.profile[whole].distinct < table.profile[line].distinct


def _suited(table: OwnTable, role: str, named: Sequence[str]) -> list[str]:
    """Return the columns whose values suit a role: of common names, of other names, and weak ones."""
    columns = [each for each in table.profile.values() if each.filled]
    if role == "value":
        # Instants, flags and columns of zeros are not amounts.
        columns = [
            each
            for each in columns
            if not each.holds("flag") and not (each.holds("count") and evidence.weight("date", each.name) > 0)
            if each.has_amounts
        ]
    found = evidence.ranked(columns, role, _KINDS[role])
    if role == "value":
        # Numbers of orders are amounts only if nothing else is one.
        amounts = [
            each for each in found if table.profile[each[1]].has_decimals or not _names_id_only(each[1])
        ]
        found = amounts if any(points > 0 for points, _ in amounts) else found
    fitting = {name for _, name in found}
    known = [name for name in named if name in fitting]
    if role == "date":
        looser = [name for points, name in found if points > 0 and name not in known]
        return list(dict.fromkeys([*_dates(table, found, known, looser), *named]))
    weak = [name for name in known if role == "value" and folded(evidence.currency_at_end(name)[0]) in _WEAK]
    if role == "value" and any(_GROSS & {*evidence.words_of(name)} for name in fitting):
        weak += [name for name in known if _NET & {*evidence.words_of(name)}]
    strong = [name for name in known if name not in weak]
    looser = [name for points, name in found if points > (5 if weak else 0) and name not in known]
    if role == "value":
        strong, looser = _values(table, strong, looser, weak)
    return list(dict.fromkeys([*strong, *looser, *weak, *named]))


def _dates(
    table: OwnTable, found: Sequence[tuple[int, str]], strong: Sequence[str], looser: Sequence[str]
) -> list[str]:
    """Return columns of instants: those of the end of deals, of common names, and the one made first."""
    if not looser and not strong:
        # One column of instants needs no name.
        unnamed = [name for points, name in found if points == 0]
        looser = [
            name
            for name in unnamed
            if evidence.weight("conversion", name) <= 0
            and any(map(table.profile[name].holds, ("instant", "moment")))
        ] or [name for _, name in found if evidence.weight("change", name) > 0]
        looser = looser or [name for name in unnamed if _rises(table, name)]
        alone = [name for _, name in found if table.profile[name].holds("instant")]
        looser = looser or (alone if len(alone) == 1 and _is_past(table, alone[0]) else [])
    if any(table.profile[name].holds("instant") for name in [*strong, *looser]):
        # Ids may count seconds, too.
        strong, looser = (
            [name for name in names if table.profile[name].holds("instant") or not _names_id(name)]
            for names in (strong, looser)
        )
    if table.argument == "conversions":
        # A click comes before its conversion.
        later = [name for name in [*strong, *looser] if evidence.weight("click", name) <= 0]
        strong, looser = (
            [name for name in names if name in later or not later] for names in (strong, looser)
        )
    strong = sorted(strong, key=lambda name: table.profile[name].is_constant)
    looser = _first_made(table, looser) if not strong else looser
    return [*_closed(table, [name for _, name in found]), *strong, *looser]


def _values(
    table: OwnTable, strong: Sequence[str], looser: Sequence[str], weak: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return columns of amounts, the total of the others first, and looser ones without taxes."""
    total = _total(table, [*strong, *looser, *weak], is_named=bool(strong))
    best = [*strong] if total is None else [total, *strong]
    if table.format is not None or table.argument != "conversions":
        return best, [*looser]
    others = [name for name in looser if name not in table.amounts.money.totals.taxes] or [*looser]
    whole = _repeated_total(table, [*dict.fromkeys([*best, *others])][:_MOST_RIVALS])
    if whole is not None:
        return [whole, *best], others
    rivals = best if total is None else []
    rivals = rivals or ([] if weak or best else others)
    if len(rivals) > 1 and (whole := _paid_and_due(table, rivals[:2])):
        return [whole, *best], others
    if len(rivals) > 1:
        check_equal(table, "value", rivals)
    return best, others


def _paid_and_due(table: OwnTable, rivals: Sequence[str]) -> str | None:
    """Return the one of two amounts that is the other one and a third column in every row."""
    with suppress(errors.InvalidRequest):
        for whole, part in permutations(rivals):
            for rest in table.amounts.money.sample:
                total, *parts = (
                    table.amounts.number("value", name, is_count=False) for name in (whole, part, rest)
                )
                apart = f"abs({total} - {parts[0]} - {parts[1]})"
                are_parts = " AND ".join(f"count(DISTINCT {each}) > 1" for each in parts)
                if rest not in rivals and table.scalar(
                    f"coalesce(max({apart}) < {_CENT} AND {are_parts}, false)"
                ):
                    return whole
    return None


def _total(table: OwnTable, named: Sequence[str], *, is_named: bool) -> str | None:
    """Return the total of the amounts, unless a well named one is not within it."""
    if table.argument != "conversions" or table.format is not None:
        return None
    if named and evidence.weight("value", named[0]) > _CLEAR:
        return None
    whole = [
        name
        for name in table.amounts.money.totals.copies
        if named and named[0] in table.amounts.money.totals.copies[name]
    ]
    if whole and evidence.weight("value", whole[0]) > 0:
        return whole[0]
    points = {name: evidence.weight("value", name) for name in table.amounts.money.totals.outermost}
    best = [name for name in points if points[name] == max(points.values())]
    if len(best) != 1:
        return None
    is_likely = not is_named and points[best[0]] >= max(
        map(partial(evidence.weight, "value"), named), default=0
    )
    is_within = bool(named) and named[0] in {best[0], *table.amounts.money.totals.parts[best[0]]}
    return best[0] if not named or is_within or is_likely else None


def _repeated_total(table: OwnTable, amounts: Sequence[str]) -> str | None:
    """Return the total of an order that its lines repeat: their sum, with shipping and less discounts."""
    own = next(map(table.word, candidates(table, "conversion")), "NULL")
    if table.adds_up or len(amounts) < 2 or table.scalar(f"count(DISTINCT {own}) = count({own})"):
        return None
    beside = [*filter(lambda at: evidence.weight("value", at) < -1, table.amounts.money.sample)][:_MOST_PARTS]
    with suppress(errors.InvalidRequest):
        numbers = [table.amounts.number("value", name, is_count=False) for name in [*amounts, *beside]]
        sums = ", ".join(f"max({each}), max({each}) - min({each}), fsum({each})" for each in numbers)
        query = f"SELECT {sums} FROM {table.relation} WHERE {own} IS NOT NULL GROUP BY {own}"
        query += f" ORDER BY count(*) DESC, {own} LIMIT {_MOST_ORDERS}"
        orders = np.array(table.connection.execute(query).fetchall(), float).T
        one, span, whole = (orders[at::3] for at in range(3))
        once = np.nan_to_num(np.where(span > 0, whole, one))[len(amounts) :]
        signs = np.array([-1.0 if evidence.weight("deducted", name) < 0 else 1.0 for name in beside])
        parts = [*(signs[:, None] * once)]
        ways = [each for size in range(len(parts) + 1) for each in combinations(filter(np.any, parts), size)]
        for extras, (total, line) in product(reversed(ways), permutations(range(len(amounts)), 2)):
            apart = np.abs(one[total] - whole[line] - sum(extras))
            if not ((span[total] > 0) | (apart >= _CENT)).any() and 2 * (apart < _CENT).sum() > len(apart):
                return amounts[total]
    return None


def _is_past(table: OwnTable, column: str) -> bool:
    """Return whether instants are of this century and not to come, unlike those of births or dues."""
    at = f"epoch({table.instants.moment(column)})"
    is_past = f"min({at}) > {_FIRST_SECOND} AND max({at}) < epoch(now()) + {_DAY}"
    if not table.scalar(f"coalesce({is_past}, true)"):
        return False
    table.say(f"the date is {column}, the only column of instants")
    return True


def _rises(table: OwnTable, column: str) -> bool:
    """Return whether numbers are seconds since 1970 that rise, or fall, from row to row."""
    roles = ("user", "conversion", "value", "quantity")
    if not table.profile[column].holds("long") or any(evidence.weight(role, column) > 0 for role in roles):
        return False
    number = f"TRY_CAST({table.word(column)} AS BIGINT)"
    steps = (
        f"SELECT {number} AS second, second - lag(second) OVER (ORDER BY {sources.quoted(sources.ROW)}) "
        f"AS step FROM {table.relation}"
    )
    rises = (
        f"min(second) > {_FIRST_SECOND} AND max(second) < epoch(now()) + {_YEAR} "
        f"AND (min(step) >= 0 OR max(step) <= 0) "
        f"AND count(DISTINCT step) >= {_LEAST_ROWS} - 1 AND max(second) - min(second) > {_DAY}"
    )
    ((found,),) = table.connection.execute(f"SELECT coalesce({rises}, false) FROM ({steps})").fetchall()
    if found:
        table.say(f"{column} rises from row to row: seconds since 1970")
    return bool(found)


def _first_made(table: OwnTable, columns: Sequence[str]) -> list[str]:
    """Return columns of instants, the one that tells when something was made first.

    It is the one that no other one is before in nearly every row: payments and changes follow.
    """
    columns = sorted(columns, key=lambda name: table.profile[name].is_constant)
    if len(columns) < 2:
        return columns
    points = [evidence.weight("date", name) for name in columns]
    # A clear name decides alone.
    best = [name for name, each in zip(columns, points, strict=True) if each > 5 or points[0] < 6]
    held = [table.profile[name] for name in best if not table.profile[name].is_constant][:_MOST_RIVALS]
    held = [each for each in held if each.filled >= _MOSTLY * max(each.filled for each in held)]
    at = {each.name: table.instants.moment(each.name) for each in held}
    days = {name for name, moment in at.items() if table.instants.are_days(moment)}
    # Dates of persons repeat with them.
    most = max((each.distinct for each in held), default=0)
    rivals = [each.name for each in held if each.name in days or 4 * each.distinct >= 3 * most]
    first = [
        name
        for name in rivals
        if all(
            is_before(table, at[name], at[other], by_day=bool(days & {name, other}))
            for other in rivals
            if other != name
        )
    ]
    if not first:
        check_equal(table, "date", columns)
        # Of names that say as much, one with the time of day goes first.
        equal = {name for name, each in zip(columns, points, strict=True) if each == points[0]}
        return sorted(columns, key=lambda name: name not in equal or name in {*rivals[:1]} & days)
    first.sort(key=lambda name: name in days)
    return [*first[:1], *(name for name in columns if name != first[0])]


def _closed(table: OwnTable, columns: Sequence[str]) -> list[str]:
    """Return the columns of instants of the end of deals, if the rows are deals."""
    closed = [name for name in columns if evidence.weight("closed", name) > 0]
    has_choice = table.argument == "conversions" and table.format is None and len(columns) > 1 and closed
    return closed if has_choice and rows.Rows(table.connection, table.source, ()).has_deals() else []


def is_before(table: OwnTable, first: str, second: str, *, by_day: bool) -> bool:
    """Return whether an instant, or its day, is at most another one in nearly every row of several."""
    if by_day:
        first, second = (f"date_trunc('day', {each})" for each in (first, second))
    is_before = f"avg(CAST({first} <= {second} AS INT)) >= {_NEARLY_ALL} AND count({first} <= {second})"
    return bool(table.scalar(f"coalesce({is_before} >= {_LEAST_ROWS}, false)"))


def _may_be_conversion(table: OwnTable, column: str) -> bool:
    """Return whether a column may have ids of conversions; names that repeat are none."""
    values = table.profile[column]
    least = values.filled if _is_name(column) else values.filled / 2
    return not _is_weak_id(table, column) or values.distinct >= least


def _is_weak_id(table: OwnTable, column: str) -> bool:
    """Return whether a column has ids that may be of something else, or words without numbers."""
    has_numbers = f"bool_and(regexp_matches({table.word(column)}, '[0-9]'))"
    return evidence.weight("conversion", column) == 0 or not table.scalar(f"coalesce({has_numbers}, true)")


def check_equal(table: OwnTable, role: str, columns: Sequence[str]) -> None:
    """Refuse two columns whose names speak for a role alike and whose values differ."""
    first, second = columns[:2]
    copies = table.amounts.money.totals.copies.get(first, ())
    if evidence.weight(role, first) != evidence.weight(role, second) or second in copies:
        return
    words = [table.word(name) for name in (first, second)]
    if role == "date":
        # The same instants in two ways of writing, or without their times of day.
        apart = " - ".join(f"epoch({table.instants.moment(name)})" for name in (first, second))
        if table.scalar(f"coalesce(max(abs({apart})) < {TWO_DAYS}, false)") and any(
            table.instants.are_days(table.instants.moment(name)) for name in (first, second)
        ):
            return
        words = [f"date_trunc('second', {table.instants.moment(name)})" for name in (first, second)]
    else:
        words = [f"coalesce(CAST(TRY_CAST({word} AS DOUBLE) AS VARCHAR), {word})" for word in words]
    is_own = role == "date" and table.argument == "conversions"
    called = "conversion_date" if is_own else role
    # A column may lack what the first one has.
    if table.scalar(f"bool_or({words[1]} IS NOT NULL AND {' IS DISTINCT FROM '.join(words)})"):
        raise errors.InvalidRequest(
            f"{table.argument}: {table.name} has two columns that may be the {role}, {first!r} and "
            f"{second!r}; say which with columns={{{called!r}: {first!r}}} or "
            f"columns={{{called!r}: {second!r}}}",
            field=role,
        )


def _names_amount(column: str) -> bool:
    """Return whether the name of a column is that of an amount of a conversion, such as a fee."""
    amount, identity = (partial(evidence.weight, role) for role in ("value", "conversion"))
    last = evidence.words_of(column)[-1]
    return amount(column) > identity(column) or (amount(last) != 0 and identity(last) <= 0)


def _are_called_people(column: evidence.Column) -> bool:
    """Return whether all values begin with one word for people, such as cust-17."""
    words = {found and found[1] for found in map(_NUMBERED.match, filter(None, column.values))}
    return len(words) == 1 and all(word and evidence.weight("user", word) > 0 for word in words)


def _names_id_only(column: str) -> bool:
    return evidence.weight("conversion", column) > 0 and not _names_amount(column)


def _names_id(column: str) -> bool:
    return evidence.weight("conversion", column) >= evidence.weight("date", column)


def _is_name(column: str) -> bool:
    return evidence.words_of(column)[-1:] == ["name"]
