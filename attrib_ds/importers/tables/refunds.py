"""Refunds in rows of their own: the sale that each belongs to, and what remains of it.

A refund has the id of its sale. If it has not, its sale is the one whose id another column shares or names,
else one of the same person that was worth as much or more.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import display, sql_results
from attrib_ds.importers.content import rows
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.records import sources

_MOSTLY: Final = 0.9
#: Amounts below zero.
BELOW: Final = r"^\W*[-−–].*\d|^\(|\d\s*-\s*$"


def shared_id(table: OwnTable, identity: str, value: str | None) -> str:
    """Return the column of ids that refunds share with their sales."""
    others = [name for name in candidates(table, "conversion") if name != identity and table.is_filled(name)]
    kinds = rows.Rows(table.connection, table.source, []).classes("kind")[:1]
    if not others or not (kinds or value):
        return identity
    back = [word for _, of in kinds for word, kind in of.items() if kind in {"refund", "void"}]
    words = ", ".join(map(sources.literal, back)) or "NULL"
    signs = [f"regexp_matches({table.word(value)}, '{BELOW}')"] if value else []
    is_back = " OR ".join([*signs, *(f"{table.word(column)} IN ({words})" for column, _ in kinds)])
    shares = {}
    for name in (identity, *others):
        word = table.word(name)
        sold = f"SELECT {word} FROM {table.relation} WHERE ({is_back}) IS NOT TRUE AND {word} IS NOT NULL"
        shares[name] = _share(table, is_back, word, f"{word} IN ({sold})")
    best = max(shares, key=lambda name: shares[name])
    return best if shares[identity] < 1 - _MOSTLY and shares[best] >= _MOSTLY else identity


def take_references(table: OwnTable, identity: str) -> None:
    """Give refunds the id of the sale that another column names."""
    is_back = f"{table.select.get('kind', 'NULL')} IN ('refund', 'void')"
    is_back = f"({is_back}) IS TRUE OR ({table.select.get('value', 'NULL')} < 0) IS TRUE"
    own = table.word(identity)
    if not table.scalar(f"coalesce(bool_or({is_back}), false)"):
        return
    for each in [each for each in table.unused() if each.may_be_id("email", "flag")]:
        word = table.word(each.name)
        is_known = f"{word} IN (SELECT {own} FROM {table.relation}) AND {word} <> {own}"
        if _share(table, is_back, word, is_known) >= _MOSTLY:
            known = f"CASE WHEN ({is_back}) AND {is_known} THEN {word} ELSE {own} END"
            table.select["conversion"] = table.stored(known, "VARCHAR")
            table.say(f"refunds belong to the {identity} in {each.name}")
            return


def _share(table: OwnTable, is_back: str, word: str, is_known: str) -> float:
    """Return the share of the refunds with an id whose id is that of a sale."""
    has_sale = f"CAST(coalesce({is_known}, false) AS INT)"
    return float(table.scalar(f"coalesce(avg({has_sale}) FILTER (({is_back}) AND {word} IS NOT NULL), 0)"))


def net_of_refunds(table: OwnTable, events: pa.Table, *, adds_up: bool) -> pa.Table:
    """Return conversions less the refunds in rows of their own, and say what was done.

    An authorization and a sale with the same id are one payment. A void cancels its id. Refunds and amounts
    below zero are subtracted from the sale with their id, if there is only one, unless the rows of an id are
    added up later.
    """
    has_kinds, has_ids = ("kind" in events.column_names), ("conversion" in events.column_names)
    # A value that is below zero once its refund is subtracted is not a refund itself.
    if not has_kinds and (table.less or not pc.any(pc.less(events["value"], 0)).as_py()):
        return events
    payments = events if has_kinds else events.append_column("kind", pa.repeat("sale", events.num_rows))
    if not has_ids:
        payments = payments.append_column("conversion", pc.cast(events["row"], pa.string()))
    table.connection.register("payments", payments)
    table.connection.register("payments", sql_results.read_arrow(table.connection, _with_sales(payments)))
    one = "(sales = 1 OR (sales = 0 AND has_hold))"
    is_subtracted = "false" if adds_up else f"(is_back AND {one})"
    is_lost = "(is_back AND sales = 0 AND NOT has_hold)"
    marked = _marked()
    ((back, lost, double, void),) = table.connection.execute(
        f"{marked} SELECT count(*) FILTER ({is_subtracted}), count(*) FILTER ({is_lost}), "
        "count(*) FILTER (is_double), count(DISTINCT conversion) FILTER (is_taken_back) FROM marked"
    ).fetchall()
    if not (has_kinds or back or lost):
        return events
    said = [
        (back, "refunds", "subtracted"),
        (lost, "refunds", "without a sale left out"),
        (double, "authorizations", "beside a payment left out"),
        (void, "conversions", "taken back"),
    ]
    if notes := ", ".join(f"{display.counted(count, noun)} {fate}" for count, noun, fate in said if count):
        table.say(notes)
    is_gone = f"is_taken_back OR is_void OR is_double OR {is_subtracted} OR {is_lost}"
    rest = (
        "value" if adds_up else f"CASE WHEN NOT is_back AND {one} THEN round(value + back, 6) ELSE value END"
    )
    net = sql_results.read_arrow(
        table.connection,
        f"{marked} SELECT * REPLACE ({rest} AS value) FROM marked WHERE NOT coalesce({is_gone}, false) "
        "ORDER BY row",
    )
    return net.select([name for name in events.column_names if name != "kind"])


def _with_sales(payments: pa.Table) -> str:
    """Return a query of payments in which refunds without a sale of their id have that of a sale.

    It is a sale of the same person that was worth as much or more: the one whose id is part of theirs, else
    one of the same amount, else the latest before them.
    """
    columns = {*payments.column_names}
    same = [f'back."{name}" = sold."{name}"' for name in ("user", "device") if name in columns]
    alike = "back.currency IS NOT DISTINCT FROM sold.currency" if "currency" in columns else "true"
    is_back = "value < 0 OR kind = 'refund'"
    rank = (
        "(strpos(coalesce(back.conversion, ''), sold.conversion) > 0, "
        "abs(abs(back.value) - sold.value) < 0.005, sold.date <= back.date, sold.date, "
        "sold.value, sold.conversion)"
    )
    return (
        f"WITH back AS (SELECT * FROM payments WHERE {is_back}), "
        f"sold AS (SELECT * FROM payments WHERE ({is_back}) IS NOT TRUE "
        "AND kind IN ('sale', 'authorization')), "
        f"found AS (SELECT back.row, arg_max(sold.conversion, {rank}) AS id FROM back JOIN sold "
        f"ON ({' OR '.join(same) or 'false'}) AND {alike} WHERE sold.conversion IS NOT NULL AND "
        "abs(back.value) <= sold.value + 0.005 AND NOT EXISTS (SELECT 1 FROM sold AS own "
        "WHERE own.conversion = back.conversion) GROUP BY ALL) "
        "SELECT payments.* REPLACE (coalesce(found.id, payments.conversion) AS conversion) FROM payments "
        "LEFT JOIN found USING (row) ORDER BY row"
    )


def _marked() -> str:
    """Return SQL of payments, ``marked`` by what they are and by the others of their id."""
    of_id = "OVER (PARTITION BY conversion)"
    has_id, is_sale = "conversion IS NOT NULL", "NOT is_back AND NOT is_hold"
    return (
        "WITH signed AS (SELECT * REPLACE (CASE WHEN kind = 'refund' THEN -abs(value) ELSE value END "
        "AS value), kind = 'refund' OR value < 0 AS is_back, kind = 'void' AS is_void, "
        "kind = 'authorization' AS is_hold FROM payments), "
        f"marked AS (SELECT *, {has_id} AND bool_or(is_void) {of_id} AS is_taken_back, "
        f"is_hold AND {has_id} AND (bool_or({is_sale} AND NOT is_void) {of_id} "
        "OR row_number() OVER (PARTITION BY conversion, is_hold ORDER BY row) > 1) AS is_double, "
        f"{has_id} AND bool_or(is_hold) {of_id} AS has_hold, "
        f"CASE WHEN {has_id} THEN count(*) FILTER ({is_sale}) {of_id} ELSE 0 END AS sales, "
        f"coalesce(sum(CASE WHEN is_back THEN value END) {of_id}, 0) AS back FROM signed)"
    )
