"""Amounts in minor units of their currency, such as cents, told by the columns beside them."""

import re
from collections.abc import Collection
from typing import Final

import duckdb

from attrib_ds.importers.content import evidence
from attrib_ds.records.sources import Source
from attrib_ds.records.written_values import THOUSANDTHS, WHOLE

#: Columns, at the end of their names, that services of payments have beside amounts in minor units.
_BESIDE: Final = tuple(frozenset(evidence.WORDS[of]) for of in ("charge", "psp"))
#: Amounts of these services: of Paddle, and of Square.
_OWN_NAME: Final = re.compile(r"(?:^|[._])(?:totals[._](?:grand_)?total|\w*_money[._]amount)$")
_DECIMALS: Final = r"(\d[\d., ]*[.,]\d\d)(?:\D|$)"
_ENOUGH: Final = 2
_SAMPLE: Final = 1_000
_MOSTLY: Final = 0.9


def are_whole(connection: duckdb.DuckDBPyConnection, source: Source, column: str) -> bool:
    """Return whether all amounts of a column are whole numbers."""
    word = source.word(column)
    sql = (
        rf"SELECT coalesce(bool_and(regexp_full_match({word}, '-?\d+(\.0)?')), false) FROM {source.relation}"
    )
    return bool(connection.execute(sql).fetchall()[0][0])


def tell(connection: duckdb.DuckDBPyConnection, source: Source, column: str, others: Collection[str]) -> bool:
    """Return whether whole amounts are in minor units: a service writes them so, or another column has both.

    Parameters
    ----------
    others : collection of str
        Columns that may repeat the amount with its decimals, such as a description.
    """
    if not are_whole(connection, source, column):
        return False
    ends = {re.split(r"[.:]", name)[-1] for name in source.columns}
    has_currency = any(re.search("currency(_?code)?$", name, re.I) for name in source.columns)
    if has_currency and (_OWN_NAME.search(column) or any(len(ends & names) >= _ENOUGH for names in _BESIDE)):
        return True
    amount = f"TRY_CAST(TRY_CAST({source.word(column)} AS DOUBLE) AS BIGINT)"
    for other in others:
        written = f"regexp_extract({source.word(other)}, '{_DECIMALS}', 1)"
        digits = rf"TRY_CAST(nullif(regexp_replace({written}, '\D', '', 'g'), '') AS BIGINT)"
        same = f"{digits} = {amount}"
        sample = f"SELECT bool_or({same}) FROM (FROM {source.relation} LIMIT {_SAMPLE})"
        if not connection.execute(sample).fetchall()[0][0]:
            continue
        ((are_same, several),) = connection.execute(
            f"SELECT count(*) FILTER ({same}) >= {_MOSTLY} * count({amount}), "
            f"count(DISTINCT {amount}) > {_ENOUGH} FROM {source.relation}"
        ).fetchall()
        if are_same and several:
            return True
    return False


def divisor(currency: str) -> str:
    """Return SQL for the minor units of one unit of a currency, which is SQL too."""
    whole, thousandths = (
        ", ".join(f"'{code}'" for code in codes) for codes in map(sorted, (WHOLE, THOUSANDTHS))
    )
    code = f"upper({currency})"
    return f"CASE WHEN {code} IN ({whole}) THEN 1 WHEN {code} IN ({thousandths}) THEN 1000 ELSE 100 END"
