"""JSON values that a parser is fuzzed with: usual ones, and numbers and texts at the edges."""

from hypothesis import strategies as st

from attrib_ds.records.json_records import decode

#: As JSON text.
NUMBERS = (
    "0 -0 1 -1 1.0 1e0 -1.0 2.0 0.5 1e17 1e18 1e19 1e25 1e300 1e400 -1e400 1e999999999 -1e999999999 1e-999999999 "
    f"0e999999999 1e99999999999999999999 9223372036854775807 9223372036854775808 {'9' * 400} {'9' * 4_300} "
    f"1.{'3' * 5_000} 0.{'0' * 500}1"
).split()
TEXTS = [
    "", "a", " ", "1", "1_000", "0x10", "007", "-0", "NaN", "Infinity", "1e999999999", "١٢٣", "\0", "\ud800", "é" * 200,
    "2025-01-31", "2025-01-31T12:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", "9" * 5_000, "shop",
    "5f0c0ffee0ddba11ad0be123", "../..", "%00", "asc", "ASC", "(" * 600, "a{1000}",
]  # fmt: skip


def json_values(names=()):
    """Return a strategy of JSON values as :func:`decode` returns them; ``names`` are likely keys."""
    numbers = st.sampled_from(NUMBERS).map(lambda text: decode(text.encode()))
    texts = st.sampled_from(TEXTS) | st.text(max_size=10)
    if names:
        texts |= st.sampled_from(list(names))
    leaves = st.none() | st.booleans() | numbers | texts
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=8,
    )
