"""Columns of the people in touchpoints and conversions: those that both files share."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.columns import COMMON_NAMES, Named, folded
from attrib_ds.importers.content import evidence
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import find_column, take_word
from attrib_ds.records import sources

_DEVICES: Final = frozenset(map(folded, COMMON_NAMES["device"]))
#: A session is a user only if nothing else is known.
_SESSION: Final = "sessionid"


def user_columns(
    tables: tuple[OwnTable, OwnTable], named: Mapping[str, Named]
) -> list[tuple[str | None, str | None]]:
    """Return the columns of the user and of the device in both tables, preferring names that they share.

    The id of a device stands beside that of a user in at least one of the tables; otherwise it is the user.
    """
    called = ("user", "conversion_user")
    if {*called, "device"} & set(named):
        return _named_users(tables, named)
    users = [_filled(table, is_device=False) for table in tables]
    devices = [_filled(table, is_device=True) for table in tables]
    emails = [table.emails() for table in tables]
    chosen: list[tuple[str | None, str | None]]
    has_guests = all(emails) and any(
        table.people.has_guests(own[0], email[0])
        for table, own, email in zip(tables, users, emails, strict=True)
        if own
    )
    if all(emails) and (has_guests or not any(_shared(columns) for columns in (users, devices))):
        chosen = [(columns[0], None) for columns in emails]
    elif not any(user and device for user, device in zip(users, devices, strict=True)):
        chosen = [(column, None) for column in _preferred([_filled(table) for table in tables])]
    else:
        chosen = [
            (device, None) if user is None and not _shared(devices) else (user, device)
            for user, device in zip(_preferred(users), _preferred(devices), strict=True)
        ]
    share = _meeting(tables, [user or device for user, device in chosen]) if all(map(any, chosen)) else 0
    if share < _LEAST_SHARE:
        met = _people_by_values(tables)
        is_better = met is not None and (not share or _meeting(tables, met) > share + _LEAST_SHARE)
        chosen = [(column, None) for column in met or ()] if is_better else chosen
    if not any(map(any, chosen)):
        _check_networks(tables)
    # If one table has addresses and the other has nobody, the other one lacks them.
    for each in sorted(range(2), key=lambda each: bool(emails[each])):
        if not any(chosen[each]):
            try:
                column = next(iter(emails[each]), None) or find_column(
                    tables[each], "user", named, called=called[each]
                )
            except InvalidRequest as error:
                raise error if any(map(any, chosen)) else _without_people(tables, error) from error
            chosen[each] = (column, None)
    return chosen


def _without_people(tables: tuple[OwnTable, OwnTable], error: InvalidRequest) -> InvalidRequest:
    """Return the error for two tables that have no name of people and share no values."""
    first, second = (table.name for table in tables)
    if first == second:
        return error
    return InvalidRequest(
        f"{error}. No column of {second} has the people of a column of {first} either; if its rows are sums "
        "without people, export the orders themselves",
        field="user",
    )


def _check_networks(tables: tuple[OwnTable, OwnTable]) -> None:
    """Refuse two tables that share only IP addresses, which do not identify people."""
    networks = [[each.name for each in table.profile.values() if each.holds("network")] for table in tables]
    for user, own in product(*networks):
        if _meeting(tables, (user, own)) >= _LEAST_SHARE:
            raise InvalidRequest(
                f"touchpoints: the files share no people, only IP addresses ({user!r} with {own!r}): several "
                "people may have one, and one person several. Add a column with an id of the person, or take "
                f"addresses for people with columns={{'user': {user!r}, 'conversion_user': {own!r}}}",
                field="user",
            )


#: Distinct people of the conversions that are looked for among the touchpoints.
_PEOPLE: Final = 2_000
#: Columns of a table in which people are looked for.
_MOST_COLUMNS: Final = 10
#: How much two columns must have in common, and more than any others.
_LEAST_SHARE, _NEARLY, _MARGIN = 0.2, 0.9, 0.05


def _meeting(tables: tuple[OwnTable, OwnTable], columns: Sequence[str | None]) -> float:
    """Return the share of the people in a column of the conversions who are in one of the touchpoints."""
    pair = [(table, str(column)) for table, column in zip(tables, columns, strict=True)]
    is_phone = _are_phones(tables, columns)
    seen, own = ((table.people.identity(name, is_phone=is_phone), table.relation) for table, name in pair)
    people = "(SELECT {} AS person FROM {})".format
    query = (
        f"WITH known AS MATERIALIZED (SELECT DISTINCT person FROM {people(*own)} WHERE person IS NOT NULL "
        f"ORDER BY person LIMIT {_PEOPLE}) SELECT coalesce((SELECT count(DISTINCT person) FROM "
        f"{people(*seen)} SEMI JOIN known USING (person)) / (SELECT count(*) FROM known), 0)"
    )
    ((share,),) = tables[0].connection.execute(query).fetchall()
    return float(share)


def _are_phones(tables: Sequence[OwnTable], columns: Sequence[str | None]) -> bool:
    """Return whether two columns have numbers of telephones, in one of them written as such."""
    held = [table.profile.get(str(column)) for table, column in zip(tables, columns, strict=True)]
    return any(each is not None and each.holds("phone") for each in held) and all(
        each is not None and (each.holds("phone") or each.holds("float")) for each in held
    )


def read_phones(tables: Sequence[OwnTable], columns: Sequence[str | None]) -> None:
    """Let two columns of numbers of telephones have the code of a country in each number."""
    if not _are_phones(tables, columns):
        return
    found = set().union(
        *(table.people.phones(str(name)) for table, name in zip(tables, columns, strict=True))
    )
    whole = {each.removeprefix("+") for each in found if each[:1] != "0"}
    at_home = {each.lstrip("0") for each in found if each[:1] != "+"}
    codes = sorted({each[:size] for each in whole for size in (1, 2, 3)})
    met = {code: [f"{code}{each}" for each in at_home if f"{code}{each}" in whole] for code in codes}
    best = max(codes, key=lambda code: len(met[code]), default="")
    with_code = met.get(best, [])
    for table, column in zip(tables, columns, strict=True):
        table.people.country_codes[str(column)] = (best if with_code else "", {*map(len, with_code)})


def people_in_common(tables: Sequence[OwnTable]) -> str:
    """Return in words how many people of the conversions are among those of the touchpoints."""
    people = [table.columns.get("user", table.columns.get("device")) for table in tables[:2]]
    if len(people) < 2 or not all(isinstance(column, str) for column in people):
        return ""
    share = _meeting((tables[0], tables[1]), [str(column) for column in people])
    return f"{share:.0%} of the people of the conversions have touchpoints"


def _people_by_values(tables: tuple[OwnTable, OwnTable]) -> tuple[str, str] | None:
    """Return the pair of columns whose values meet most; names decide between pairs that meet alike.

    Raises
    ------
    InvalidRequest
        If two pairs meet alike and no name tells which has the people.
    """
    pairs, short = [], []
    is_apart = tables[0].header != tables[1].header
    for first, second in product(*(table.people.candidates()[:_MOST_COLUMNS] for table in tables)):
        share = _meeting(tables, (first.name, second.name))
        if share >= _LEAST_SHARE:
            is_sure = first.holds("email") or first.holds("code")
            points = [max(0, evidence.weight("user", each.name)) for each in (first, second)]
            # In a single table each column matches itself, and row ids are not people.
            is_other = is_apart or first.name != second.name or first.values != second.values
            is_called = any(points) or first.holds("email")
            if not is_other and not is_called and first.distinct == first.filled:
                continue
            is_alike = is_other and evidence.words_of(first.name) == evidence.words_of(second.name)
            is_long = is_other and first.holds("long") and second.holds("long")
            pair = (share + is_sure + sum(points) / 10, first.name, second.name)
            if is_sure or is_alike or any(points) or is_long:
                pairs.append(pair)
            elif is_other and share > _NEARLY and _are_ids(first, second):
                short.append(pair)
    # Small numbers may meet by chance.
    pairs = pairs or short
    pairs.sort(reverse=True)
    if (
        len(pairs) > 1
        and pairs[0][0] - pairs[1][0] < _MARGIN
        and (pairs[0][0] < 1 + _MARGIN or _differ(tables, pairs))
    ):
        either = " or ".join(f"{first!r} with {second!r}" for _, first, second in pairs[:2])
        ways = " or ".join(
            f"columns={{'user': {first!r}, 'conversion_user': {second!r}}}" for _, first, second in pairs[:2]
        )
        raise InvalidRequest(
            f"touchpoints: the people may be those of {either}; say which with {ways}", field="user"
        )
    return pairs[0][1:] if pairs else None


def _are_ids(*columns: evidence.Column) -> bool:
    """Return whether values of two columns may be ids: repeated, of three digits or more, and no counts."""
    roles = ("value", "spend", "quantity", "date", "conversion")
    return any(each.distinct < each.filled for each in columns) and all(
        each.distinct > 2
        and all(len(value) > 2 for value in each.values if value)
        and not any(evidence.weight(role, each.name) > 0 for role in roles)
        for each in columns
    )


def _differ(tables: tuple[OwnTable, OwnTable], pairs: Sequence[tuple[float, str, str]]) -> bool:
    """Return whether the columns of the two best pairs have other people in some rows."""
    return any(
        table.scalar(
            f"bool_or({table.people.identity(first)} IS DISTINCT FROM {table.people.identity(second)})"
        )
        for table, first, second in zip(tables, pairs[0][1:], pairs[1][1:], strict=True)
        if first != second and (pairs[0][1] == pairs[1][1] or pairs[0][2] == pairs[1][2])
    )


def _named_users(
    tables: tuple[OwnTable, OwnTable], named: Mapping[str, Named]
) -> list[tuple[str | None, str | None]]:
    device = named.get("device")
    if device is not None and not any(device in table.source.columns for table in tables):
        find_column(tables[0], "device", named)
    of_conversions = {} if "user" not in named else {"user": named["user"]}
    if "conversion_user" in named:
        of_conversions["user"] = named["conversion_user"]
    chosen: list[tuple[str | None, str | None]] = []
    for table, names, role in zip(tables, (named, of_conversions), ("user", "conversion_user"), strict=True):
        own = device if isinstance(device, str) and device in table.source.columns else None
        user = find_column(table, "user", names, required=own is None, called=role)
        chosen.append((None if user == device else user, own))
    return chosen


def _shared(columns: list[list[str]]) -> bool:
    """Return whether two tables have a column of the same name."""
    return bool({*map(folded, columns[0])} & {*map(folded, columns[1])})


def _filled(table: OwnTable, *, is_device: bool | None = None) -> list[str]:
    """Return the columns with values whose names are common for users, for devices, or for both."""
    if table.format is not None and "device" in table.format.roles:
        roles = ("user", "device") if is_device is None else ("device" if is_device else "user",)
        return [column for role in roles for column in candidates(table, role) if table.is_filled(column)]
    return [
        column
        for column in candidates(table, "user")
        if is_device is None or (folded(column) != _SESSION and (folded(column) in _DEVICES) == is_device)
        if table.is_filled(column)
        # The address of a host or a seller stands in all rows.
        if not (table.profile[column].is_constant and column in table.emails()[1:])
    ]


def _preferred(columns: list[list[str]]) -> list[str | None]:
    """Return a column for each table: the first name that both have, else the first of each."""
    first, second = ({folded(column): column for column in of_table} for of_table in columns)
    for name, column in first.items():
        if name in second:
            return [column, second[name]]
    return [next(iter(of_table), None) for of_table in columns]


def take_user(table: OwnTable, user: str | None, device: str | None, *, optional: bool = False) -> None:
    """Select the columns of the user and of the device, one of which every row needs unless optional."""
    if device is None:
        take_word(table, "user", user, optional=optional)
        return
    present = {"user": user, "device": device} if user is not None else {"device": device}
    table.columns |= present
    words = {role: table.people.id_of(column) for role, column in present.items()}
    table.select |= {role: f"CAST({words.get(role, 'NULL')} AS VARCHAR)" for role in ("user", "device")}
    for column in present.values():
        table.people.warn_of_crowds(column)
    if optional:
        return
    if user is None:
        table.reject(f"{words['device']} IS NULL", device, "is a placeholder")
    else:
        missing = sources.literal(f"{user} and {device} are missing or placeholders")
        table.rules.append((f"coalesce({', '.join(words.values())}) IS NULL", missing))
