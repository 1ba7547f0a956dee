"""Finds the values of user fields in what events and interactions say of their users."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import ibis
import ibis.expr.datatypes as dt

from attrib_ds.service.users.vocabulary import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.service.users.vocabulary import UserField, Vocabulary

#: What keys look like; other members of ``userData`` are no fields.
_KEY: Final = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"
#: Letters that fold into several, those of them that are in use.
_LONGER: Final = ("ß", "ŉ", "ǰ", "ﬀ", "ﬁ", "ﬂ", "ﬃ", "ﬄ", "ﬅ", "ﬆ", "և", "ﬓ", "ﬔ", "ﬕ", "ﬖ", "ﬗ")
#: One past the last letter that folds into another one.
_LAST_FOLDED: Final = 0x1E944


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def json_extract_path(text: str, path: str) -> dt.JSON:
    """Return a part of JSON text; the JSON null is not the missing value."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def json_extract_path_text(text: str, path: str) -> str:  # type: ignore[empty-body]
    """Return a part of JSON text, text without its quotes; the JSON null is missing."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def json_keys(text: str) -> dt.Array(dt.string):  # type: ignore[valid-type]
    """Return the keys of the object that JSON text holds."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def to_json(value) -> dt.JSON:  # type: ignore[no-untyped-def]
    """Write a value as JSON."""


def field_values(
    backend: Backend, users: ir.Table, vocabulary: Vocabulary, *, keys: Iterable[str] | None = None
) -> ir.Table:
    """Return the values of user fields.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    users : ibis.Table
        With the column ``_id``: whose values.
    vocabulary : Vocabulary
        Of the project.
    keys : iterable of str, optional
        The fields; all by default.

    Returns
    -------
    ibis.Table
        One row per value, in no order: ``userId``, ``key``, ``type``, ``current`` and ``raw`` (JSON),
        ``date`` (naive, in UTC), ``invalid``, ``anonymized``, ``discriminant``, ``placing`` (whether it
        tells the most probable location), ``source`` (``event`` or ``interaction``) and ``sourceId``.
        Of equal values of a field that follow each other directly only the first is there.
    """
    given = given_values(backend, users, vocabulary, keys=keys)
    in_order = ibis.window(group_by=["userId", "key"], order_by=["date", "sourceId", "source"])
    same = ["current", "type", "anonymized", "invalid"]
    compared = given.mutate(
        **{f"{name} before": given[name].cast("string").lag().over(in_order) for name in same},
        position=ibis.row_number().over(in_order),
    )
    repeats = [compared[name].cast("string").identical_to(compared[f"{name} before"]) for name in same]
    is_new = (compared.position == 0) | ~(repeats[0] & repeats[1] & repeats[2] & repeats[3])
    return compared.filter(is_new).drop("position", *(f"{name} before" for name in same))


def given_values(
    backend: Backend, users: ir.Table, vocabulary: Vocabulary, *, keys: Iterable[str] | None = None
) -> ir.Table:
    """Return the values of user fields as often as they were given, which takes less time to find.

    For the parameters and the columns see :func:`field_values`.
    """
    wanted = None if keys is None else list(dict.fromkeys(keys))
    return _of_events(backend, users, vocabulary, wanted).union(
        _of_interactions(backend, users, vocabulary, wanted)
    )


def reduced(values: ir.Table, mode: str) -> ir.Table:
    """Return one value per user and field (G-105).

    Parameters
    ----------
    values : ibis.Table
        From :func:`field_values`.
    mode : {"latest", "earliest", "alphabetical"}
        The last or the first value, or that of the smallest text.

    Returns
    -------
    ibis.Table
        Some of the rows.
    """
    if mode == "latest":
        order = [values.date.desc(), values.sourceId.desc(), values.source.desc()]
    else:
        order = [values.date.asc(), values.sourceId.asc(), values.source.asc()]
    if mode == "alphabetical":
        text = text_of(values.current)
        order = [folded(text).asc(), text.asc(), *order]
    window = ibis.window(group_by=[values.userId, values.key], order_by=order)
    numbered = values.mutate(place=ibis.row_number().over(window))
    return numbered.filter(numbered.place == 0).drop("place")


def as_entry(values: ir.Table) -> ir.JSONValue:
    """Return the JSON of each value, as the resource nests it (R077)."""
    return to_json(
        ibis.struct(
            {
                "type": values.type,
                "current": values.current,
                "raw": values.raw,
                "date": instant_text(values.date),
                "invalid": values.invalid,
                "anonymized": values.anonymized,
                "discriminant": values.discriminant,
                "from": ibis.struct({"type": values.source, "id": values.sourceId}),
            }
        )
    )


def instant_text(instant: ir.TimestampValue) -> ir.StringValue:
    """Write an instant in UTC as :func:`attrib_ds.instants.format` does (G-036)."""
    text = instant.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return ibis.ifelse(text.endswith("000"), text.left(23), text) + "Z"


def text_of(current: ir.JSONValue) -> ir.StringValue:
    """Return what a value says as text: an address of a location, otherwise the text or its JSON."""
    text = current.cast("string")
    return ibis.coalesce(
        json_extract_path_text(text, "$.formattedAddress"), json_extract_path_text(text, "$")
    )


def folded(text: ir.StringValue) -> ir.StringValue:
    """Return text in the form in which letters compare whatever their case (G-106)."""
    letters, forms = _singly_folded()
    lowered = text.lower().translate(letters, forms)
    for letter in _LONGER:
        lowered = lowered.replace(letter, letter.casefold())
    # Most text has none of these letters, and is a hundred times quicker to fold.
    return ibis.ifelse(text.re_search("[^\\x00-\\x7F]"), lowered, text.lower())


def typed(current: ir.JSONValue, kind: str) -> Any:
    """Return values in the type that values of a field of some type compare in."""
    text = text_of(current)
    if kind == "number":
        return text.try_cast("float64")
    if kind == "boolean":
        return text.try_cast("boolean")
    if kind == "date":
        return text.try_cast("timestamp('UTC', 6)").cast("timestamp(6)")
    return text


def _of_events(backend: Backend, users: ir.Table, vocabulary: Vocabulary, keys: list[str] | None) -> ir.Table:
    events = backend.table("events")
    rows = events.semi_join(users, events.userId == users["_id"]).select(
        "userId", "eventDate", "eventType", "eventTypeVersion", sourceId="_id", document="user"
    )
    entries = _entries(rows, keys)
    text = entries.entry.cast("string")
    date = json_extract_path_text(text, "$.date").try_cast("timestamp('UTC', 6)").cast("timestamp(6)")
    current = json_extract_path(text, "$.current")
    raw = json_extract_path(text, "$.raw")
    version = entries.eventTypeVersion.cast("string").fill_null("")
    label = entries.eventType + " " + version + "/" + entries.key
    default = _by_key(entries.key, {key: kind for key, (kind, _) in ALWAYS.items()}, "string")
    flags = {
        name: json_extract_path_text(text, f"$.{name}").try_cast("boolean").fill_null(False)
        for name in ("invalid", "anonymized")
    }
    return entries.select(
        "userId",
        "key",
        type=json_extract_path_text(text, "$.type").fill_null(default),
        current=ibis.coalesce(current, raw),
        raw=ibis.coalesce(raw, current),
        date=date.fill_null(entries.eventDate),
        **flags,
        discriminant=_is_declared(label, vocabulary.fields, "discriminating")
        | _is_undeclared(entries, vocabulary),
        placing=_is_declared(label, vocabulary.fields, "placing"),
        source=ibis.literal("event"),
        sourceId="sourceId",
    )


def _of_interactions(
    backend: Backend, users: ir.Table, vocabulary: Vocabulary, keys: list[str] | None
) -> ir.Table:
    interactions = backend.table("interactions")
    rows = interactions.filter(interactions.userData.notnull())
    rows = rows.semi_join(users, rows.userId == users["_id"]).select(
        "userId", "startDate", sourceId="_id", document="userData", sent="rawUserData"
    )
    entries = _entries(rows, keys)
    text = json_extract_path_text(entries.entry.cast("string"), "$")
    entries = entries.filter(text.strip() != "")
    text = json_extract_path_text(entries.entry.cast("string"), "$")
    is_email = entries.key == "email"
    sent = json_extract_path(entries.sent, _pointer(entries.key))
    kinds = {key: field.type for key, field in vocabulary.fields.items()}
    certain = [key for key, field in vocabulary.fields.items() if _identifies(key, field)]
    return entries.select(
        "userId",
        "key",
        type=_by_key(entries.key, kinds, "string"),
        # Of loaded interactions nobody normalised anything.
        current=ibis.ifelse(is_email, to_json(text.strip().lower()), entries.entry),
        raw=ibis.coalesce(sent, entries.entry),
        date=entries.startDate.cast("timestamp(6)"),
        invalid=ibis.literal(False),
        anonymized=ibis.literal(False),
        discriminant=entries.key.isin(certain),
        placing=ibis.literal(False),
        source=ibis.literal("interaction"),
        sourceId="sourceId",
    )


def _entries(rows: ir.Table, keys: list[str] | None) -> ir.Table:
    """Return one row per member of the documents, those of the keys if any are named."""
    if keys is None:
        rows = rows.mutate(key=json_keys(rows.document).unnest())
        rows = rows.filter(rows.key.re_search(_KEY))
    else:
        rows = rows.mutate(key=ibis.array(keys).unnest())
    rows = rows.mutate(entry=json_extract_path(rows.document, _pointer(rows.key)))
    return rows.filter(rows.entry.notnull())


def _pointer(key: ir.StringValue) -> ir.StringValue:
    """Return a JSON pointer to a member; unlike a path, none of the keys that are filtered out breaks it."""
    return ibis.literal("/") + key


def _by_key(key: ir.StringValue, values: Mapping[str, str], otherwise: str) -> ir.StringValue:
    cases = [(key == name, ibis.literal(value)) for name, value in values.items()]
    return ibis.cases(*cases, else_=otherwise)


def _is_declared(label: ir.StringValue, fields: Mapping[str, UserField], flag: str) -> ir.BooleanValue:
    labels = sorted(f"{each}/{key}" for key, field in fields.items() for each in getattr(field, flag))
    return label.isin(labels) if labels else ibis.literal(False)


def _is_undeclared(entries: ir.Table, vocabulary: Vocabulary) -> ir.BooleanValue:
    """Say whether a field that no event type declares is one that identifies in every project."""
    declared = vocabulary.declared
    certain = [key for key, (_, is_certain) in ALWAYS.items() if is_certain and key not in declared]
    return entries.key.isin(certain) if certain else ibis.literal(False)


def _identifies(key: str, field: UserField) -> bool:
    return bool(field.discriminating) or ALWAYS.get(key, ("", False))[1]


@lru_cache(maxsize=1)
def _singly_folded() -> tuple[str, str]:
    """Return the small letters that fold into another one, and those they fold into."""
    pairs = [
        (letter, letter.casefold())
        for letter in map(chr, range(0x80, _LAST_FOLDED))
        if letter.lower() == letter != letter.casefold() and len(letter.casefold()) == 1
    ]
    return "".join(letter for letter, _ in pairs), "".join(form for _, form in pairs)
