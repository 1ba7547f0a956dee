"""Columns of amounts, quantities, refunds and currencies, and the SQL of their values."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from attrib_ds import errors
from attrib_ds.contract.identifiers import NO_SIGN, SIGNS
from attrib_ds.importers.columns import COMMON_NAMES, Named, folded
from attrib_ds.importers.content import evidence, minor_units, rows
from attrib_ds.importers.tables.candidates import candidates, check_equal
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import find_column
from attrib_ds.records import sources
from attrib_ds.records.written_values import currency_called, currency_of

_CURRENCY: Final = "|".join(["[A-Za-z]{3}", *SIGNS])
#: Names of numbers that are not amounts of money.
NO_AMOUNT: Final = re.compile(
    r"^(?!.*incl?[^a-z]).*(id|ids|nr|no|number|code|zip|plz|phone|fax|quantity|qty|count|items|year|month|day|hour|lat|lon|sku|age"
    r"|vat|tax|shipping|discount|rate|percent|time|date|timestamp|units)$|^(.*[^a-z])?ts$"
)

_ROUND: Final = re.compile(r"\d0([.,]00?)?\D*$")


def find_value(table: OwnTable, named: Mapping[str, Named], *, has_own_table: bool) -> str | None:
    """Return the column of the amounts: by its name, or as the only one with decimals.

    Raises
    ------
    InvalidRequest
        If two columns have decimals and no name tells which is the amount.
    """
    column = find_column(table, "value", named, required=False)
    if column is not None or table.format is not None or not has_own_table:
        return column
    amounts = [table.profile[name] for name in table.amounts.money.sample]
    amounts = [each for each in amounts if each.has_amounts and not NO_AMOUNT.match(each.name.casefold())]
    found = [each.name for each in amounts if each.has_decimals and not each.holds("float")]
    found = [name for name in found if name not in table.amounts.money.totals.taxes]
    clear = [name for name in found if evidence.weight("value", name) == 0]
    if clear:
        if len(clear) > 1:
            check_equal(table, "value", clear)
        return clear[0]
    if not found and rows.Rows(table.connection, table.source, ()).has_deals():
        found = [each.name for each in amounts if _are_round(each)]
    if len(found) != 1:
        return None
    table.say(f"the value is {found[0]}, the only column of amounts")
    return found[0]


def _are_round(column: evidence.Column) -> bool:
    """Return whether most numbers are round, as what people expect of deals is, and ids are not."""
    numbers = [value for value in column.values if value and value.strip("0.,")]
    return 2 * sum(bool(_ROUND.search(number)) for number in numbers) > len(numbers)


def find_quantity(table: OwnTable, named: Mapping[str, Named], amount: str | None) -> str | None:
    """Return the column of the quantity that a price is to be multiplied with.

    A named column of values is not multiplied, unless a column of quantities is named too.
    """
    if "quantity" in named:
        return find_column(table, "quantity", named)
    is_of_piece = (
        folded(amount or "") in evidence.WORDS["piece"] or evidence.weight("unit", amount or "-") > 0
    )
    if amount is None or "value" in named or not is_of_piece:
        return None
    return find_column(table, "quantity", named, required=False)


def find_currency(table: OwnTable, named: Mapping[str, Named], amount: str | None) -> str | None:
    """Return the column of the currency of an amount: ``<amount>_currency`` before other names."""
    if "currency" in named:
        return find_column(table, "currency", named)
    known = candidates(table, "currency")
    endings = ("currency", "currencycode")
    if amount is not None and len(evidence.currencies_in(amount)) == 1:
        return None
    others = [name for name in table.source.columns if folded(name).endswith(endings) and name not in known]
    own = [column for column in others if amount and folded(column).startswith(folded(amount))]
    held = table.profile
    called = [name for name in held if evidence.weight("currency", name) > 0 and _may_be_currency(held[name])]
    others += [name for name in held if held[name].holds("currency") and name not in {*known, *others}]
    for column in dict.fromkeys([*own, *known, *called, *others]):
        # Columns of amounts have similar names.
        if table.is_filled(column) if column in {*known, *called} else _are_currencies(table, column):
            return column
    return next(iter(known), None)


def _may_be_currency(column: evidence.Column) -> bool:
    """Return whether a column has words; a value date, which has a like name in banks, has none."""
    return column.filled > 0 and not any(map(column.holds, ("instant", "amount", "float")))


def _are_currencies(table: OwnTable, column: str) -> bool:
    """Return whether all values are currencies, or look like their codes."""
    word = table.word(column)
    others = table.scalar(f"list(DISTINCT {word}) FILTER (NOT regexp_full_match({word}, '{_CURRENCY}'))")
    return all(map(currency_called, others or ())) and table.is_filled(column)


def remaining_columns(table: OwnTable) -> list[str]:
    """Return the columns of what remains of an amount after refunds."""
    return [
        each.name
        for each in table.profile.values()
        if each.holds("amount") and evidence.weight("remaining", each.name) > 0
    ]


def refund_columns(table: OwnTable) -> list[str]:
    """Return the columns of amounts that were given back, unless another one has what remains."""
    names = [
        *table.with_names(COMMON_NAMES["refund"]),
        *(name for name in table.source.columns if evidence.weight("refund", name) > 0),
        *(name for name in table.source.columns if _names_refund(name)),
    ]
    amounts = [name for name in dict.fromkeys(names) if table.profile[name].holds("amount")]
    flags = [
        name
        for name in amounts
        if table.scalar(f"coalesce(bool_and({table.word(name)} IN ('0', '1')), true)")
    ]
    return [] if remaining_columns(table) else [name for name in amounts if name not in flags]


def _names_refund(column: str) -> bool:
    """Return whether the name of a column is a state of what was given back, such as returned (EUR)."""
    name, code = evidence.currency_at_end(column)
    kinds = {rows.class_of("kind", word) for word in evidence.words_of(name)}
    is_undone = code is not None and rows.class_of("status", name) == "undone"
    return (is_undone and kinds == {None}) or ("refund" in kinds and "fee" not in kinds)


def find_minor_units(table: OwnTable, value: str, currency: str | None, code: str | None) -> None:
    """Find whether values, and the refunds beside them, are in minor units, and say it."""
    texts = [name for name in table.source.columns if table.types[name] == "VARCHAR" and name != value]
    if table.format is not None or not minor_units.tell(table.connection, table.source, value, texts):
        return
    unit = sources.literal(code or "") if currency is None else table.word(currency)
    for column in (value, *refund_columns(table), *remaining_columns(table)):
        if column == value or minor_units.are_whole(table.connection, table.source, column):
            table.amounts.minor[column] = minor_units.divisor(unit)
            table.amounts.divided[column] = "in minor units"
    table.say(f"{value} is in minor units, such as cents, and divided by 100 (JPY and the like by 1)")


def take_number(
    table: OwnTable,
    role: str,
    column: str | None,
    *,
    minimum: float | None = None,
    optional_if: str = "false",
    default: str = "NULL",
    is_count: bool = False,
) -> None:
    """Select a column of numbers.

    Cells may be empty where the SQL condition ``optional_if`` holds; they are ``default``.
    """
    if column is None:
        return
    number = table.amounts.number(role, column, is_count=is_count)
    allowed = f"isfinite({number})" + ("" if minimum is None else f" AND {number} >= {minimum}")
    complaint = "is not a number" if minimum is None else f"is not a number of at least {minimum:g}"
    is_left_out = f"({table.word(column)} IS NULL AND {optional_if})"
    table.columns[role] = column
    table.select[role] = f"CASE WHEN {is_left_out} THEN {default} WHEN {allowed} THEN {number} END"
    table.reject(f"NOT {is_left_out} AND ({allowed}) IS DISTINCT FROM true", column, complaint)


def take_values(
    table: OwnTable, named: Mapping[str, Named], value: str | None, code: str | None, *, may_be_minor: bool
) -> str | None:
    """Select the values of conversions, less what was given back; return the column of their currency."""
    quantity, unit = find_quantity(table, named, value), find_currency(table, named, value)
    know_currencies(table, unit, code)
    if value is None:
        return unit
    if may_be_minor:
        find_minor_units(table, value, unit, code)
    if quantity is not None:
        take_product(table, value, quantity)
    else:
        take_number(table, "value", value, optional_if="true")
    take_rest(table, value)
    take_less(table, named)
    return unit


def take_product(table: OwnTable, price: str, quantity: str) -> None:
    """Select prices times quantities as the values; a price without a quantity is rejected."""
    take_number(table, "value", price, optional_if="true")
    is_free = f"{table.word(price)} IS NULL"
    take_number(table, "quantity", quantity, optional_if=is_free, is_count=True)
    # Prices and quantities are decimal numbers, so that their product is one too.
    table.select["value"] = f"round(({table.select['value']}) * ({table.select.pop('quantity')}), 6)"


def take_rest(table: OwnTable, value: str) -> None:
    """Take what remains of an amount after refunds, if a column has it, in place of the amount."""
    if table.format is not None or "value" not in table.select:
        return
    words = evidence.words_of(value)
    of_debit = ["debit" if word == "credit" else word for word in words]
    of_debit = ["withdrawn"] if words == ["paid", "in"] else of_debit
    for name in table.source.columns if of_debit != words else ():
        if evidence.words_of(name) == of_debit:
            debit = table.amounts.number("value", name, is_count=False)
            table.select["value"] = f"coalesce({table.select['value']}, -abs({debit}))"
    for name in remaining_columns(table):
        rest = table.amounts.number("value", name, is_count=False)
        # A total is adjusted only where something was given back.
        given = f"nullif({rest}, 0)" if "adjusted" in evidence.words_of(name) else rest
        table.select["value"] = f"coalesce({given}, {table.select['value']})"
        table.less = name
        break


def take_less(table: OwnTable, named: Mapping[str, Named]) -> None:
    """Subtract the refunds of a named column, or of one that has them, from the values."""
    found = [name for name in refund_columns(table) if name not in table.columns.values()][:1]
    if "refund" in named:
        found = [str(find_column(table, "refund", named))] if named["refund"] else []
    for column in found if "value" in table.select else ():
        take_number(table, "refund", column, optional_if="true", default="0")
        if "refund" not in named and (gross := _gross_of(table)):
            del table.select["refund"], table.columns["refund"]
            table.say(f"{table.columns['value']} is {gross} less {column}")
            break
        table.less = column
        is_back = f"coalesce({table.select['value']}, 0) = 0 AND {table.select['refund']} <> 0"
        if table.scalar(f"coalesce(bool_or({is_back}), false)"):
            # Refunds in rows of their own have no value.
            table.select["kind"] = f"CASE WHEN {is_back} THEN 'refund' ELSE 'sale' END"
        value, refund = table.select["value"], f"abs({table.select.pop('refund')})"
        table.select["value"] = f"round(({value}) - {refund}, 6)"
        if "refund" not in named:
            table.given_back = f"coalesce({refund} > 0 AND {table.select['value']} = 0, false)"


def _gross_of(table: OwnTable) -> str | None:
    """Return the column of amounts before refunds, if the values are these amounts less the refunds."""
    value, refund = table.select["value"], table.select["refund"]
    for each in table.profile.values():
        if each.name not in table.columns.values() and each.holds("amount"):
            with suppress(errors.InvalidRequest):
                gross = table.amounts.number("value", each.name, is_count=False)
                is_rest = f"coalesce(abs({gross} - abs({refund}) - {value}) < 0.005, false)"
                if table.scalar(f"coalesce(bool_and({is_rest}) FILTER ({refund} <> 0), false)"):
                    return each.name
    return None


def know_currencies(table: OwnTable, column: str | None, code: str | None) -> None:
    """Let amounts be in the currencies of a column, or of a code where it has none."""
    words = [] if column is None else table.scalar(f"list(DISTINCT {table.word(column)})") or []
    table.amounts.currencies = {
        code for code in [*map(currency_called, filter(None, words)), code] if code is not None
    }


def take_currency(table: OwnTable, column: str | None, code: str | None) -> None:
    """Select a column of currencies, required beside spend unless a code stands for missing ones.

    Raises
    ------
    InvalidRequest
        If the name of the column of amounts, or text around the rows, has two currencies and nothing tells
        which.
    """
    if column is None:
        amount = table.columns.get("value", table.columns.get("spend"))
        own, default = None, code and sources.literal(code)
        if isinstance(amount, str):
            own = table.amounts.read[amount].currency if amount in table.amounts.read else None
            of_name = evidence.currencies_in(amount)
            choices = of_name or table.currencies_around
            if len(choices) > 1 and not own and not code:
                place = f"the column {amount!r}" if of_name else "the text around the rows"
                either = " or ".join(f"currency={each!r}" for each in choices)
                raise errors.InvalidRequest(
                    f"{table.argument}: {place} of {table.name} names several currencies; say with {either} "
                    "which all amounts are in, or add a column with the currency of each row",
                    field="currency",
                )
            if len(of_name) == 1:
                default = sources.literal(of_name[0])
            elif own is None and code is None:
                default = _by_place(table, amount)
        if own or default:
            table.select["currency"] = f"coalesce({own or 'NULL'}, {default or 'NULL'})"
        return
    table.columns["currency"] = column
    word = table.word(column)
    words = table.scalar(f"list(DISTINCT {word}) FILTER ({word} IS NOT NULL)") or []
    codes = {
        each: sources.literal(known)
        for each in sorted(words)
        if (known := currency_called(each, code)) is not None
    }
    own = sources.cases(word, codes, "CAST(NULL AS VARCHAR)")
    table.select["currency"] = own if code is None else f"coalesce({own}, {sources.literal(code)})"
    amount = table.select.get("value", table.select.get("spend"))
    if amount is not None:
        is_unknown = f"{word} IS NOT NULL AND {own} IS NULL AND {amount} IS NOT NULL"
        table.reject(is_unknown, column, f"is not {NO_SIGN}; pass currency= to say which they mean")
        if code is None and "spend" in table.select:
            table.reject(f"{word} IS NULL AND {amount} IS NOT NULL", column, "is missing")


def _by_place(table: OwnTable, amount: str) -> str | None:
    """Return SQL of the currency of a sign that several share, by the only country of the rows, and say it.

    Dates that begin with the month are American. Elsewhere, dollars may be those of the United States, too.
    """
    marks = table.scalar(rf"list(DISTINCT regexp_replace({table.word(amount)}, '[-+\d\s.,''’()]', '', 'g'))")
    marks = [mark for mark in {*(marks or ()), evidence.sign_in(amount)} if mark]
    if len(marks) != 1:
        return None
    orders = {each.order for each in table.instants.read.values()} - {None}
    beside = table.instants.beside
    countries = {*table.instants.countries} or {*(beside.countries if beside else ())}
    shown = f"the country is {', '.join(countries)}"
    if marks == ["$"] and orders == {"mdy"}:
        countries, shown = {"US"}, "dates begin with the month"
    if marks == ["$"] and {*countries} != {"US"}:
        return None
    codes = [currency_of(country, marks[0].lower().rstrip(".")) for country in countries]
    if len(codes) != 1 or codes[0] is None:
        return None
    table.say(f"amounts in {marks[0]} are read as {codes[0]}, as {shown}")
    return sources.literal(codes[0])
