"""A table with the columns that were chosen by role, the SQL of their values, and rules for its rows."""

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import errors, sql_results
from attrib_ds.importers.columns import Named, names_of
from attrib_ds.importers.content import evidence
from attrib_ds.importers.reading import in_reading
from attrib_ds.importers.tables.amounts import Amounts
from attrib_ds.importers.tables.instants import Instants
from attrib_ds.importers.tables.people import People
from attrib_ds.importers.tables.table import Table
from attrib_ds.records import frames, sources, written_values

_MAX_SHOWN: Final = 40


class OwnTable(Table):
    """A table, how its values are read, and what was chosen of it.

    Attributes
    ----------
    columns : dict of str to str or list of str
        Columns by role.
    levels : dict of str to str
        Levels of nodes by columns whose names do not tell them.
    select : dict of str to str
        SQL of what is read, by role.
    rules : list of tuple
        SQL of conditions of rows that are rejected, each with that of the reason.
    counted : dict of str to str
        What columns tell of rows that count, by column.
    less : str
        Column of refunds that the values are less.
    given_back : str
        SQL of the condition of rows whose whole value was given back.
    adds_up : bool
        Whether the user has the rows of a conversion added up.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.amounts = Amounts(self)
        self.instants = Instants(self, self.amounts)
        self.people = People(self)
        self.columns: dict[str, Named] = {}
        self.levels: dict[str, str] = {}
        self.select: dict[str, str] = {}
        self.rules: list[tuple[str, str]] = []
        self.counted: dict[str, str] = {}
        self.less = ""
        self.given_back = "false"
        self.adds_up = False

    def used(self) -> set[str]:
        """Return the columns that have a role."""
        return {name for each in self.columns.values() for name in names_of(each)}

    def unused(self) -> list[evidence.Column]:
        """Return the columns that have no role."""
        used = self.used()
        return [each for each in self.profile.values() if each.name not in used]

    def require_any(self, columns: Sequence[str]) -> None:
        """Reject rows without a value in any of some columns."""
        words = ", ".join(self.word(column) for column in columns)
        self.rules.append(
            (f"coalesce({words}) IS NULL", sources.literal(f"{' and '.join(columns)} are missing"))
        )

    def reject(self, condition: str, column: str, complaint: str, advice: str = "''") -> None:
        """Reject rows by a condition; the reason shows the value and ends with the SQL of an advice."""
        word = self.word(column)
        shown = f"left({word}, {_MAX_SHOWN}) || CASE WHEN length({word}) > {_MAX_SHOWN} THEN '…' ELSE '' END"
        problem = f"{sources.literal(f'{column} {complaint}: ')} || chr(39) || {shown} || chr(39) || {advice}"
        self.rules.append(
            (
                condition,
                f"CASE WHEN {word} IS NULL THEN {sources.literal(f'{column} is missing')} ELSE {problem} END",
            )
        )

    def count_repeated(self, where: str) -> int:
        """Return the number of valid rows that repeat another one in all columns."""
        is_invalid = " OR ".join(f"({condition})" for condition, _ in self.rules)
        columns = f"* EXCLUDE ({sources.quoted(sources.ROW)})"
        rows = f"FROM {self.relation} WHERE ({where}) AND NOT ({is_invalid})"
        distinct = f"SELECT count(*) FROM (SELECT DISTINCT {columns} {rows})"
        return int(self.connection.execute(f"SELECT count(*) - ({distinct}) {rows}").fetchall()[0][0])

    def read(self, *, where: str = "true", may_be_empty: bool = False) -> tuple[pa.Table, pd.DataFrame]:
        """Return the valid rows, and the rejected rows with the reason.

        Raises
        ------
        InvalidRequest
            If no row is valid. A file without rows is allowed if it may be empty.
        """
        reasons = ", ".join(f"CASE WHEN {condition} THEN {reason} END" for condition, reason in self.rules)
        columns = ", ".join(f"{sql} AS {role}" for role, sql in self.select.items())
        rows = sql_results.read_arrow(
            self.connection,
            f"SELECT {sources.quoted(sources.ROW)} AS row, {columns}, concat_ws('; ', {reasons}) AS reason "
            f"FROM {self.relation} WHERE {where} ORDER BY {sources.quoted(sources.ROW)}",
        )
        is_valid = pc.equal(rows["reason"], "")
        valid = rows.filter(is_valid).drop_columns("reason")
        invalid = rows.filter(pc.invert(is_valid)).select(["row", "reason"])
        unreadable = self.source.unreadable
        rejected = frames.to_pandas(pa.concat_tables([unreadable, invalid.cast(unreadable.schema)]))
        rejected["row"] += self.source.first
        rejected["reason"] = rejected["reason"].map(in_reading)
        rejected.insert(0, "file", pd.Series(self.name, index=rejected.index, dtype=frames.TEXT))
        if not valid.num_rows and (len(rejected) or not may_be_empty):
            problem = "has no rows"
            if len(rejected):
                first = written_values.clearest(rejected)
                problem = f"has no readable rows (row {first['row']}: {first['reason']})"
            raise errors.InvalidRequest(f"{self.argument}: {self.name} {problem}")
        return valid, rejected

    def samples(self, column: str, roles: Sequence[str], count: int) -> tuple[list[str], list[str]]:
        """Return the first values of a column as they stand in the file, and as they are read."""
        word = self.word(column)
        role = next((role for role in roles if role in self.select), "")
        sql = self.select.get(role, word)
        if column in self.amounts.read and role != "value":
            sql = self.amounts.read[column].sql
        if role == "date" and "is_day" in self.select:
            # A conversion of a day counts at its end.
            day = f"{self.select['is_day']} AND {sql} = date_trunc('day', {sql})"
            sql = f"CASE WHEN {day} THEN {sql} + INTERVAL 86399 SECOND ELSE {sql} END"
        read = f"strftime({sql}, '%Y-%m-%d %H:%M:%S UTC')" if role == "date" else f"CAST({sql} AS VARCHAR)"
        rows = self.connection.execute(
            f"SELECT left({word}, {_MAX_SHOWN}), left(coalesce({read}, ''), {_MAX_SHOWN}) "
            f"FROM {self.relation} WHERE {word} IS NOT NULL "
            f"ORDER BY {sources.quoted(sources.ROW)} LIMIT {count}"
        ).fetchall()
        return [before for before, _ in rows], [after for _, after in rows]
