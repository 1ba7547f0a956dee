"""Columns of nodes: channels, sources with their campaigns, or pages with their referrers."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from attrib_ds import errors
from attrib_ds.importers.columns import COMMON_NAMES, Named, folded, names_of
from attrib_ds.importers.content import evidence, rows
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import checked, find_column, rows_of_kind, take_word
from attrib_ds.records import export_tables, sources
from attrib_ds.traffic.channel_rules import COLUMN_NAMES
from attrib_ds.traffic.sources import CLICK_IDS

#: Columns that make a node together, by the level that they name.
LEVEL_NAMES: Final[dict[str, Sequence[str]]] = {
    level: COLUMN_NAMES.get(level) or COMMON_NAMES[level]
    for level in ("source", "medium", "campaign", "adset", "ad", "keyword")
}
_LEVELS: Final = {folded(name): level for level, names in LEVEL_NAMES.items() for name in names}
#: Names, folded, of columns with the first page of a visit, whose rows are not page views.
_OF_VISITS: Final = {"landingpage", "firstpage", "entrypage"}
_HALF: Final = 0.5
_HOST: Final = re.compile(r"(?!\d+\.\d+\.)[\w-]+(\.[\w-]+)+(:\d+)?")
#: Words before a source or channel that is not one of visits.
_OTHER_SOURCES: Final = frozenset(["data", "event", "file", "import", "payment", "record", "sales"])


def find_node(
    table: OwnTable, named: Mapping[str, Named], *, required: bool = True, called: str = "node"
) -> list[str]:
    """Return the columns of a node: those named, one of nodes, those of a source, or one of its parts.

    A column with one value in all rows gives way to one with the answers or publishers of the rows.
    """
    found = _named_node(table, named, required=required, called=called)
    if "node" in named or table.format is not None or table.argument == "spend":
        return found
    if found and all(table.profile[name].is_constant for name in found):
        others = _answers([each for each in table.profile.values() if 1 < each.distinct < each.filled])
        if others:
            table.levels.clear()
            table.say(f"the node is {others[0]}, as {found[0]} is the same in all rows")
            return others
    return found


def _named_node(table: OwnTable, named: Mapping[str, Named], *, required: bool, called: str) -> list[str]:
    given = named.get("node")
    if given is not None:
        table.levels.clear()
        columns = names_of(given)
        if not 1 <= len(columns) <= len(LEVEL_NAMES) or len(set(columns)) < len(columns):
            raise errors.InvalidRequest(
                f"node: {given!r} is not allowed; allowed: one column, or up to {len(LEVEL_NAMES)} "
                "different ones from the highest level down"
            )
        return [checked(table, "node", column, called) for column in columns]
    if table.format is not None and isinstance(table.format.roles.get("node"), list):
        return table.in_format("node")
    of_nodes = candidates(table, "node")
    filled = list(filter(table.is_filled, of_nodes))
    if filled:
        return _with_others(table, filled[0])
    of_levels = [table.with_names(LEVEL_NAMES[level]) for level in ("source", "medium", "campaign")]
    # Web, app and the like say which device sent an event; they are not traffic sources.
    of_levels = [[name for name in names if not table.profile[name].holds("runtime")] for names in of_levels]
    parts = [column for columns in of_levels for column in list(filter(table.is_filled, columns))[:1]]
    if not of_nodes and (len(parts) < len(LEVEL_NAMES) or table.levels):
        by_content = _levels_by_content(table)
        if len(by_content) > len(parts):
            return by_content
    present = [column for columns in of_levels for column in columns[:1]]
    has_referrer = any(map(table.is_filled, table.with_names(COLUMN_NAMES["referrer"])))
    if len(parts) < 2 and len(present) > 1 and has_referrer:
        # Visits without a campaign come from their referrer.
        parts = present
    if len(parts) > 1:
        return parts
    # A campaign alone is a node of visits, but not of spend, which has the path to it.
    alone = parts if table.argument == "touchpoints" else []
    found = table.best([*candidates(table, "part_of_node"), *of_nodes, *alone])
    if not found and required and table.argument == "touchpoints":
        found = left_over(table)
    found = found or find_column(table, "node", named, required=required, called=called)
    return [] if found is None else [found]


def left_over(table: OwnTable) -> str | None:
    """Return the only column that may tell where visits come from by its values, and say it."""
    free = [each for each in table.unused() if not rows.unseen_of({*each.values})]
    words = [each.name for each in free if evidence.may_be_node(each)]
    # The category or the name of a message, in a log of mails.
    words = words or [each.name for each in free if evidence.may_be_node(each, "kind", "message")]
    # What people did with a mail tells less than which one it was.
    words = [name for name in words if name not in _events_of_mails(table)] or words
    found = [name for name in words if not _is_of_people(table, name)]
    if len(found) != 1:
        return None
    table.say(f"the node is {found[0]}, the only other column of words")
    return found[0]


def _events_of_mails(table: OwnTable) -> list[str]:
    """Return the columns of what happened to mails, such as opened beside clicked."""
    read = rows.Rows(table.connection, table.source, ())
    words = {name: read.few_words(name) for name in table.source.columns}
    classes = {name: [rows.class_of("mail", each) for each in found] for name, found in words.items()}
    return [name for name, found in classes.items() if all(found) and found.count("seen") > 1]


def _is_of_people(table: OwnTable, column: str) -> bool:
    """Return whether a column has a name for each person, or one word for all rows of a person."""
    user = table.columns.get("user", table.columns.get("device"))
    if not isinstance(user, str):
        return False
    person, word = table.word(user), table.word(column)
    is_in = f"FILTER ({word} IS NOT NULL)"
    people, words, pairs, rows = table.scalar(
        f"[count(DISTINCT {person}) {is_in}, count(DISTINCT {word}), "
        f"count(DISTINCT ({person}, {word})) {is_in}, count({word})]"
    )
    return bool(people > 2 and pairs == people and (words == people or 2 * rows >= 3 * people))


def _with_others(table: OwnTable, channel: str) -> list[str]:
    """Return a column of channels with one of campaigns; beside one of sources, it is below that."""
    filled = list(filter(table.is_filled, table.source.columns))
    found = {
        level: [name for name in table.with_names(LEVEL_NAMES[level]) if name in filled]
        or [name for name in evidence.of_level(level, filled) if name != channel]
        for level in ("source", "medium", "campaign")
    }
    if evidence.weight("node", channel) <= 0:
        return [channel]
    is_level = table.argument != "spend" and evidence.names_level("node", channel)
    if is_level and found["source"] and not found["medium"]:
        found["medium"] = [channel]
        first = {names[0]: level for level, names in found.items() if names}
        # The rules for channels know standard media only; other names stay levels of their own.
        table.levels |= first if table.profile[channel].shares["medium"] > _HALF else {}
        return [*first]
    return [channel, *([] if found["source"] or found["medium"] else found["campaign"][:1])]


def _levels_by_content(table: OwnTable) -> list[str]:
    """Return the columns of a node by less common names and by the words in them, from the root down."""
    columns = [each for each in table.profile.values() if each.filled and not each.holds("instant")]
    channel = [each.name for each in columns if evidence.names_level("node", each.name)]
    if channel:
        return _with_others(table, channel[0])
    levels = ("source", "medium", "campaign")
    by_name = {
        level: [name for name in table.with_names(LEVEL_NAMES[level]) if table.is_filled(name)]
        or evidence.of_level(level, [each.name for each in columns])
        for level in levels
    }
    if not any(by_name.values()):
        by_name = {
            level: [
                each.name for each in columns if each.shares.get(level, 0) > _HALF and not _is_state(each)
            ]
            for level in levels
        }
        free = [each for each in columns if each.name not in table.used()]
        if table.argument == "conversions":
            # A name of an order is that of a buyer or a product.
            free = [each for each in free if evidence.weight("other", each.name) <= 0]
        rest = [each.name for each in free if each.shares["source"] == 0 and _may_be_campaign(each)]
        if len(rest) == 1 and by_name["source"] and not by_name["campaign"]:
            by_name["campaign"] = rest
    if not any(by_name.values()):
        # Such as the source of an enquiry.
        free = [each for each in columns if each.distinct > 1 and not each.holds("runtime")]
        words = {each.name: evidence.words_of(each.name) for each in free if not each.holds("amount")}
        nouns = {
            name: of[-1]
            for name, of in words.items()
            if len(of) > 1 and not _OTHER_SOURCES & {of[-2], of[-1], *of[:2]}
        }
        # Many languages have the noun first.
        first = {name: words[name][0] for name in nouns if _may_be_campaign(table.profile[name])}
        for name in [
            name for of in (nouns, first) for name, word in of.items() if evidence.names_level("node", word)
        ][:1]:
            return _with_others(table, name)
        by_name = {
            level: [
                name
                for of in (nouns, first)
                for name, word in of.items()
                if evidence.names_level(level, word)
            ]
            for level in levels
        }
    if not any(by_name.values()):
        return _answers(columns)
    for level in levels[:2]:
        # Such as a medium under a name that is not known.
        by_name[level] = by_name[level] or [
            each.name
            for each in columns
            if each.shares[level] > _HALF and each.name not in by_name["campaign"] and not _is_state(each)
        ]
    if by_name["source"] and by_name["campaign"] and not by_name["medium"]:
        # A word between a source and a campaign is the level between them.
        at = sorted(table.source.columns.index(by_name[level][0]) for level in ("source", "campaign"))
        inside = table.source.columns[at[0] + 1 : at[1]]
        by_name["medium"] = [
            name for name in inside if len(inside) == 1 and _may_be_campaign(table.profile[name])
        ]
    found: list[str] = []
    for level in levels:
        for name in [name for name in by_name[level] if name not in found][:1]:
            found.append(name)
            table.levels[name] = level
    if [table.levels[name] for name in found] == ["source"]:
        # Networks without campaigns have publishers and their placements.
        found += [
            each.name
            for each in columns
            if each.name not in found
            and evidence.weight("placement", each.name) > 0
            and not each.holds("amount")
        ]
    return found


def _answers(columns: Sequence[evidence.Column]) -> list[str]:
    """Return the column of answers to how someone heard of a shop, or else of links, codes or publishers."""
    points = {
        each.name: [evidence.weight(role, each.name) for role in ("question", "link", "placement")]
        for each in columns
        if not each.holds("amount")
    }
    best = max(points, key=lambda name: points[name], default=None)
    return [best] if best is not None and any(points[best]) else []


def split_pairs(table: OwnTable) -> None:
    """Make two columns of one with a source and a medium, such as ``google / cpc``, beside a campaign."""
    pairs = [each.name for each in table.profile.values() if each.holds("pair")]
    parts = [*table.with_names(LEVEL_NAMES["source"]), *table.with_names(LEVEL_NAMES["medium"])]
    if len(pairs) != 1 or parts or candidates(table, "node") == pairs or table.format is not None:
        return
    word = table.word(pairs[0])
    halves = f"split_part({word}, ' / ', 1) AS source, split_part({word}, ' / ', 2) AS medium"
    query = f"SELECT * EXCLUDE ({sources.quoted(pairs[0])}), {halves} FROM {table.relation}"
    table.replace_rows(query)
    table.say(f"{pairs[0]} read as source and medium")


def split_ends(table: OwnTable) -> tuple[list[str], list[str]]:
    """Make two rows of one with two touches, and return the columns of the node and of the instant.

    The names of their columns differ by one word, such as first and last.
    """
    words = {name: evidence.words_of(name) for name in table.source.columns}
    pairs: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for first, second in combinations(table.source.columns, 2):
        apart = [each for each in zip(words[first], words[second], strict=False) if each[0] != each[1]]
        if len(apart) == 1 and len(words[first]) == len(words[second]) > 1:
            (one, first), (other, second) = sorted(zip(apart[0], (first, second), strict=True))
            pairs.setdefault((one, other), []).append((first, second))
    if table.format is not None or candidates(table, "touch"):
        return [], []
    for apart_by, found in pairs.items():
        held = {each: [table.profile[name] for name in each] for each in found}
        dates = [each for each in found if all(of.holds("instant") for of in held[each])]
        nodes = [
            each
            for each in found
            if not any(of.holds("instant") or of.holds("amount") for of in held[each])
            and any(
                evidence.names_level(level, word) for level in ("node", "source") for word in words[each[0]]
            )
        ]
        if len(dates) != 1 or len(nodes) != 1 or evidence.weight("conversion", " ".join(apart_by)) > 0:
            continue
        both = (node, date) = nodes[0], dates[0]
        gone = ", ".join(sources.quoted(name) for each in both for name in each)
        parts = [
            f"SELECT * EXCLUDE ({gone}), "
            + ", ".join(f"{sources.quoted(each[at])} AS {sources.quoted(' / '.join(each))}" for each in both)
            + f" FROM {table.relation} WHERE {table.word(node[at])} IS NOT NULL"
            for at in (0, 1)
        ]
        table.replace_rows(" UNION ".join(parts))
        table.say(f"each row has two touchpoints, of {' and '.join(node)}")
        return [" / ".join(node)], [" / ".join(date)]
    return [], []


def find_views(table: OwnTable, named: Mapping[str, Named]) -> tuple[str, str | None] | None:
    """Return the columns of the page and of the referrer in a table of page views; None of others.

    Paths of pages are views if the referrers are addresses, or an event in the rows says so.
    """
    if table.format is not None:
        own = [table.in_format(role) for role in ("page", "referrer")]
        return (own[0][0], next(iter(own[1]), None)) if table.format.views else None
    if "node" in named or any(map(table.is_filled, candidates(table, "node"))) or _events_of_mails(table):
        return None
    addresses = [each.name for each in table.profile.values() if each.shares["address"] > _HALF]
    referrers = _referrers(table)
    pages = [name for name in table.with_names(COMMON_NAMES["page"]) if name not in referrers]
    page = next((name for name in pages if name in addresses), None)
    others = [name for name in addresses if name not in {page, *pages, *referrers}]
    referrer = next((name for name in [*referrers, *others] if table.is_filled(name)), None)
    if page is None and referrer in referrers:
        # A page is on the site of some of the referrers.
        host = "nullif(regexp_extract(lower({}), '//(www[.])?([^/:?#]+)', 2), '')".format
        is_own = f"bool_or({host(table.word(referrer))} = {{}}) IS TRUE".format
        page = next((name for name in others if table.scalar(is_own(host(table.word(name))))), None)
    paths = [name for name in pages if table.profile[name].shares["path"] > _HALF]
    are_views = bool(paths) and (
        referrer in addresses or rows_of_kind(table, evidence.WORDS["view"]) is not None
    )
    page = page or (paths[0] if are_views else None)
    # Addresses with parameters of campaigns tell where visits come from, better than words alone do.
    tagged = [each.name for each in table.profile.values() if each.shares["tagged"]]
    are_better = any(table.profile[name].shares["tagged"] > _HALF for name in tagged) and not any(
        evidence.names_level(level, name) for level in LEVEL_NAMES for name in table.source.columns
    )
    has_parts = any(name not in referrers for name in candidates(table, "part_of_node"))
    if page is None and not has_parts and (are_better or not _levels_by_content(table)):
        page = min(tagged, key=lambda name: name not in addresses, default=None)
        referrer = referrer if page and (page not in addresses or referrer in referrers) else None
        if page is not None and page not in addresses:
            # Parameters without an address, as in the logs of servers.
            word, column = table.word(page), sources.quoted(page)
            query = f"CASE WHEN {word}[1] NOT IN ('/', '?') THEN '/?' ELSE '' END || {word} AS {column}"
            table.replace_rows(f"SELECT * REPLACE ({query}) FROM {table.relation}")
    others = [*CLICK_IDS, *LEVEL_NAMES["source"], *LEVEL_NAMES["medium"]]
    if page is not None and referrer is None and not tagged and not table.with_names(others):
        # Pages alone tell nothing of where visits come from; words beside them may.
        may_tell = any(
            _may_be_campaign(each) or evidence.names_level("campaign", each.name)
            for each in table.profile.values()
            if each.name != page
        )
        page = None if may_tell and rows_of_kind(table, evidence.WORDS["view"]) is None else page
    is_of_visits = page is not None and folded(page) in _OF_VISITS and bool(candidates(table, "part_of_node"))
    return None if page is None or is_of_visits else (page, referrer)


def _referrers(table: OwnTable) -> list[str]:
    """Return the columns of referrers, whose names may have words around that one."""
    return table.with_names(COLUMN_NAMES["referrer"]) or [
        each.name
        for each in table.profile.values()
        if each.shares["address"] > _HALF
        and any(word.startswith("refer") for word in evidence.words_of(each.name))
    ]


def take_node(table: OwnTable, columns: Sequence[str]) -> None:
    """Select the columns of a node, as the fields of a traffic source that they name."""
    if len(columns) == 1:
        take_word(table, "node", columns[0])
        return
    table.columns["node"] = list(columns)
    levels = [table.levels.get(column) or level_of(column) for column in columns]
    words = [table.word(column) for column in columns]
    if None in levels or len(set(levels)) < len(levels):
        # The names of a user's own levels.
        table.select["levels"] = f"CAST(to_json([{', '.join(words)}]) AS VARCHAR)"
        return
    table.select |= {str(level): word for level, word in zip(levels, words, strict=True)}
    for referrer in _referrers(table)[:1]:
        table.columns["referrer"] = referrer
        table.select["referrer"] = table.word(referrer)
    others = [each.name for each in table.unused() if _is_other_source(each)]
    if others and table.format is None and any("utm" in folded(column) for column in columns):
        # Visits without parameters have a source of another kind, such as organic.
        table.columns["other_source"] = others[0]
        known = ", ".join([*words, table.select.get("referrer", "NULL")])
        source = table.select.get("source", "NULL")
        table.select["source"] = f"if(coalesce({known}) IS NULL, {table.word(others[0])}, {source})"
        table.say(f"{others[0]} is the source of visits without parameters")


def _is_other_source(values: evidence.Column) -> bool:
    """Return whether a column that is not of a first touch tells most sources beside parameters of pages."""
    is_of_first = re.search("utm|first|initial|original", folded(values.name))
    are_known = values.shares["medium"] + values.shares["source"] > _HALF
    return are_known and not is_of_first and evidence.names_level("source", values.name)


def take_views(table: OwnTable, page: str, referrer: str | None) -> None:
    """Select what of page views tells where their visit came from."""
    of_campaigns = [name for name in table.source.columns if "utm" in evidence.words_of(name)]
    words = {
        level: table.word(column)
        for level, names in LEVEL_NAMES.items()
        for column in list(
            filter(table.is_filled, [*table.with_names(names), *evidence.of_level(level, of_campaigns)])
        )[:1]
    }
    clicks = {name: table.word(column) for name in CLICK_IDS for column in table.with_names([name])}
    address, hosts = table.word(page), [table.word(each.name) for each in table.unused() if _is_host(each)]
    came_from = "NULL" if referrer is None else f"lower({table.word(referrer)})"
    # Servers have names of their own, which no referrer has.
    hosts = [host for host in hosts if table.scalar(f"bool_or(contains({came_from}, '//' || lower({host})))")]
    if hosts:
        # A path is on the site that another column of the request names.
        address = f"CASE WHEN starts_with({address}, '/') THEN '//' || {hosts[0]} END || {address}"
        address = f"coalesce({address}, {table.word(page)})"
    table.columns |= {"page": page} if referrer is None else {"page": page, "referrer": referrer}
    table.select |= {level: words.get(level, "CAST(NULL AS VARCHAR)") for level in LEVEL_NAMES}
    table.select |= {
        "landing": export_tables.with_parameters(f"coalesce({address}, '')", clicks),
        "came_from": "CAST(NULL AS VARCHAR)" if referrer is None else table.word(referrer),
        "is_derived": f"{words.get('campaign', 'NULL')} IS NULL AND "
        f"coalesce(lower({words.get('medium', 'NULL')}) IN ('organic', 'referral', '(none)'), false)",
    }


def _is_host(column: evidence.Column) -> bool:
    """Return whether a column has the host of the site that was asked for."""
    words = {*evidence.words_of(column.name)}
    return bool(words & {"host", "hostname", "vhost"}) and all(
        map(_HOST.fullmatch, filter(None, column.values))
    )


def has_address(table: OwnTable) -> str:
    """Return SQL for the rows with a page, a referrer or parameters, which other events lack."""
    clicks = [table.word(column) for name in CLICK_IDS for column in table.with_names([name])]
    page = table.word(str(table.columns["page"]))
    known = [page, table.select["came_from"], *(table.select[level] for level in LEVEL_NAMES), *clicks]
    return f"coalesce({', '.join(known)}) IS NOT NULL"


def warn_of_unused(table: OwnTable) -> None:
    """Warn of words that may tell where visits come from, beside a campaign alone or unknown names."""
    node = table.columns.get("node", [])
    levels = [level_of(name) for name in names_of(node)]
    unused = [
        each.name
        for each in table.unused()
        if evidence.weight("user", each.name) <= 0
        and (each.holds("medium") or each.holds("source") or _may_be_campaign(each))
    ]
    if table.format is None and unused and (table.levels or levels == ["campaign"] or None in levels[1:]):
        errors.warn(
            f"{table.argument}: {table.name} has columns that are not used: {', '.join(unused)}; "
            "if they tell where visits come from, name them with reading=Reading(columns={'node': [...]})"
        )


def level_of(column: str) -> str | None:
    """Return the level of a node that a column names, or None."""
    return _LEVELS.get(folded(column))


def _may_be_campaign(values: evidence.Column) -> bool:
    """Return whether a column has words that several rows share, and nothing that is known."""
    kinds = [kind for kind in evidence.KINDS if kind not in {"float", "long"}]
    return 1 < values.distinct < values.filled and not (_is_state(values) or any(map(values.holds, kinds)))


def _is_state(values: evidence.Column) -> bool:
    """Return whether a column says what became of its rows."""
    is_named = any(evidence.weight(role, values.name) > 0 for role in ("status", "reason"))
    return is_named or rows.are_states(values.values)
