"""Fill the tables of visits and conversions with the rows of users' own files."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.errors import InputWarning, InvalidRequest, warn
from attrib_ds.importers.journeys import CONVERSIONS, VISITS, create_table
from attrib_ds.importers.own_columns import LEVEL_NAMES
from attrib_ds.importers.own_table import OwnTable
from attrib_ds.records.sources import ROW, literal, quoted

if TYPE_CHECKING:
    import duckdb


_SOURCE: Final = ("source", "medium", "campaign")
#: Fields of a traffic source that the columns of a node can fill.
NODE_FIELDS: Final = ("node", "levels", *LEVEL_NAMES)


def create_visits(connection: duckdb.DuckDBPyConnection, points: pa.Table) -> None:
    """Create the table ``visits`` from touchpoints."""
    connection.register("points", points)
    # Identical touchpoints are distinct visits.
    fields = [name for name in NODE_FIELDS if name in points.column_names]
    person = _person(points)
    order = f"row_number() OVER (PARTITION BY {person}, {', '.join(fields)}, date ORDER BY row)"
    of_fields = ", ".join(f"coalesce({name}, '')" for name in fields)
    key = f"concat_ws(chr(31), {person}, {of_fields}, epoch_us(date), {order})"
    columns: dict[str, str] = dict.fromkeys(VISITS, "NULL") | {
        "visit_key": "'id ' || touch" if "touch" in points.column_names else f"'as ' || {key}",
        "device": "device" if "device" in points.column_names else "NULL",
        "account": '"user"',
        "started": "date",
        "ended": "date",
        "is_bot": "false",
    }
    columns |= {name: name for name in fields}
    if "referrer" in points.column_names:
        # A visit without UTM parameters comes from the site that links here.
        host = r"regexp_extract(lower(referrer), '^(?:[a-z][a-z0-9+.-]*://)?([^/?#:]+)', 1)"
        is_referred = "coalesce(source, medium, campaign) IS NULL AND referrer IS NOT NULL"
        missing = [f"CAST(NULL AS VARCHAR) AS {name}" for name in _SOURCE if name not in fields]
        selected = ", ".join(["*", *missing])
        points_with_source = f"FROM (SELECT {selected} FROM points)"
        columns |= {
            "source": f"CASE WHEN {is_referred} THEN {host} ELSE source END",
            "medium": f"CASE WHEN {is_referred} THEN 'referral' ELSE medium END",
            "referrer": "referrer",
        }
    else:
        points_with_source = "FROM points"
    create_table(connection, "visits", VISITS, columns, points_with_source)
    connection.unregister("points")


def create_conversions(
    connection: duckdb.DuckDBPyConnection, events: pa.Table, reference: str, *, is_end: bool
) -> None:
    """Create the table ``conversions``; days count until their end if ``is_end``."""
    connection.register("events", events)
    person = _person(events)
    order = f"row_number() OVER (PARTITION BY {person}, date ORDER BY row)"
    key = f"concat_ws(' ', {person}, strftime(date, '%Y-%m-%dT%H:%M:%S.%fZ'), nullif({order}, 1))"
    present = events.column_names
    columns: dict[str, str] = dict.fromkeys(CONVERSIONS, "NULL") | {
        "source_id": "conversion" if "conversion" in present else key,
        "kind": literal(reference),
        "device": "device" if "device" in present else "NULL",
        "account": '"user"',
        "occurred": "date + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND" if is_end else "date",
        "amount": "value" if "value" in present else "NULL",
        "currency": "currency" if "currency" in present else "NULL",
    }
    create_table(connection, "conversions", CONVERSIONS, columns, "FROM events")
    connection.unregister("events")


def _person(rows: pa.Table) -> str:
    """Return SQL for the user, or else the device."""
    return "coalesce(\"user\", 'device ' || device)" if "device" in rows.column_names else '"user"'


_LEVELS: Final = "levels"
_MAX_SHOWN: Final = 3


def merge_case(rows: pa.Table, *, name: str) -> pa.Table:
    """Write the names of nodes that :func:`folded` makes one as the most frequent of them, with a warning.

    Parameters
    ----------
    rows : pyarrow.Table
        With some of the fields of a traffic source.
    name : str
        Name of the file or frame in the warning.
    """
    merged: list[dict[str, int]] = []
    for field in NODE_FIELDS:
        if field not in rows.column_names:
            continue
        position = rows.column_names.index(field)
        encoded = pc.dictionary_encode(rows[field]).combine_chunks()
        words = encoded.dictionary.to_pylist()
        tally = pc.value_counts(encoded.indices.drop_null())
        counts = dict(zip(tally.field(0).to_pylist(), tally.field(1).to_pylist(), strict=True))
        times = [counts.get(index, 0) for index in range(len(words))]
        if field == _LEVELS:
            spelled = _of_levels(words, times, merged)
        else:
            frequencies = Counter(dict(zip(words, times, strict=True)))
            chosen = _chosen(frequencies, merged)
            spelled = [chosen.get(word, word) for word in words]
        if spelled != words:
            column = pa.array(spelled, pa.string()).take(encoded.indices)
            rows = rows.set_column(position, field, column)
    if merged:
        _warn(merged, name)
    return rows


def folded(name: str) -> str:
    """Return a name without differences of case; accented letters are one character each."""
    return unicodedata.normalize("NFC", name).casefold()


def like_known(node_ids: Iterable[str], known: Collection[str]) -> list[str]:
    """Return ids of nodes, as another table spells them if :func:`folded` makes them one."""
    by_fold: dict[str, str] = {}
    for node_id in sorted(known):
        by_fold.setdefault(folded(node_id), node_id)
    return [node_id if node_id in known else by_fold.get(folded(node_id), node_id) for node_id in node_ids]


def _of_levels(words: list[str], times: list[int], merged: list[dict[str, int]]) -> list[str]:
    """Return lists of names, level by level as the most frequent spelling."""
    names = [json.loads(word) for word in words]
    frequencies: dict[int, Counter[str]] = {}
    for levels, count in zip(names, times, strict=True):
        for depth, level in enumerate(levels):
            if level is not None:
                frequencies.setdefault(depth, Counter())[level] += count
    chosen = {depth: _chosen(counted, merged) for depth, counted in frequencies.items()}
    spelled = []
    for word, levels in zip(words, names, strict=True):
        others = [chosen.get(depth, {}).get(level, level) for depth, level in enumerate(levels)]
        spelled.append(word if others == levels else json.dumps(others, ensure_ascii=False))
    return spelled


def _chosen(frequencies: Mapping[str, int], merged: list[dict[str, int]]) -> dict[str, str]:
    """Return the spelling of each name that has several; the first one in the alphabet of equally many."""
    by_fold: dict[str, dict[str, int]] = {}
    for word, count in frequencies.items():
        by_fold.setdefault(folded(word), {})[word] = count
    chosen: dict[str, str] = {}
    for spellings in by_fold.values():
        if len(spellings) > 1:
            ranked = dict(sorted(spellings.items(), key=lambda item: (-item[1], item[0])))
            merged.append(ranked)
            chosen |= dict.fromkeys(ranked, next(iter(ranked)))
    return chosen


def _warn(merged: list[dict[str, int]], name: str) -> None:
    shown = "; ".join(
        ", ".join(f"{word!r} ({count:,})" for word, count in spellings.items())
        for spellings in merged[:_MAX_SHOWN]
    )
    others = len(merged) - _MAX_SHOWN
    more = f"; and {others:,} others" if others > 0 else ""
    warn(
        f"in {name}, names of nodes that differ by case only are read as one, with the most frequent "
        f"spelling: {shown}{more}. ignore_case=False, or --no-ignore-case in the command, keeps them apart",
        InputWarning,
    )


def add_up(table: OwnTable, events: pa.Table, rejected: pd.DataFrame) -> tuple[pa.Table, pd.DataFrame]:
    """Return one row per conversion: the sum of the values of its rows, at the earliest date.

    A conversion of which a row was rejected is rejected as a whole, because its sum would be too small.
    """
    if "conversion" not in events.column_names:
        raise InvalidRequest(
            f"aggregate: {table.name} has no column that looks like the conversion; name the "
            "column with their ids with columns={'conversion': COLUMN}, or --conversion COLUMN in the "
            "command",
            field="conversion",
        )
    table.connection.register("lines", events)
    names = [name for name in ("currency", "user", "device") if name in events.column_names]
    mixed = " OR ".join(f'count(DISTINCT "{name}") > 1' for name in names)
    broken = table.connection.execute(
        f"SELECT conversion FROM lines GROUP BY conversion HAVING {mixed} ORDER BY conversion LIMIT 1"
    ).fetchall()
    if broken:
        raise InvalidRequest(
            f"aggregate: the rows of conversion {broken[0][0]!r} are of several users or in several "
            "currencies; allowed: one of each",
            field="conversion",
        )
    partial = _partial(table, rejected)
    columns = ['min(row) AS row, min("user") AS "user", min(date) AS date, conversion']
    columns += ["round(fsum(value), 6) AS value"] if "value" in events.column_names else []
    columns += ["min(device) AS device"] if "device" in events.column_names else []
    columns += ["min(currency) AS currency"] if "currency" in events.column_names else []
    of_partial = f"conversion IN ({', '.join(map(literal, partial)) or 'NULL'})"
    summed = table.connection.execute(
        f"SELECT {', '.join(columns)} FROM lines WHERE coalesce(NOT {of_partial}, true) "
        "GROUP BY conversion ORDER BY row"
    ).to_arrow_table()
    left_out = table.connection.execute(
        f"SELECT row, 'another row of the conversion ' || conversion || ' cannot be read' AS reason "
        f"FROM lines WHERE {of_partial} ORDER BY row"
    ).to_arrow_table()
    table.connection.unregister("lines")
    if not left_out.num_rows:
        return summed, rejected
    others = pd.DataFrame(
        {"file": table.name, "row": left_out["row"].to_pylist(), "reason": left_out["reason"].to_pylist()}
    ).astype(rejected.dtypes.to_dict())
    return summed, pd.concat([rejected, others], ignore_index=True)


def _partial(table: OwnTable, rejected: pd.DataFrame) -> list[str]:
    """Return the ids of the conversions of rejected rows."""
    rows = ", ".join(str(row) for row in rejected["row"].dropna())
    if not rows:
        return []
    word = table.source.word(str(table.columns["conversion"]))
    found = table.connection.execute(
        f"SELECT DISTINCT {word} AS id FROM {table.source.relation} "
        f"WHERE {quoted(ROW)} IN ({rows}) AND id IS NOT NULL ORDER BY id"
    ).fetchall()
    return [id for (id,) in found]
