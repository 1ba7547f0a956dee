"""Normalised values by the type of their field (G-052, R052 to R054)."""

from contextlib import suppress
from decimal import Decimal

import email_validator
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attrib_ds.service.events.validation import NAMES, InvalidValue, country_code, is_missing, normalise
from attrib_ds.service.events.validation import Conventions as Settings

SETTINGS = Settings("EUR", ("FR", "GB"))

READ = [
    ("string", "  Caf\u0065\u0301 ", "Café"),
    ("message", " a\nb ", "a\nb"),
    ("email", " Anna.Smith@Example.COM ", "Anna.Smith@example.com"),
    ("email", "anna@bücher.example", "anna@bücher.example"),
    ("phone", "06 12 34 56 78", "+33612345678"),
    ("phone", "+44 20 7946 0018", "+442079460018"),
    ("phone", "020 7946 0018", "+442079460018"),
    ("number", 5, 5),
    ("number", " -1.50 ", Decimal("-1.50")),
    ("number", "1e3", Decimal(1000)),
    ("currency", 12.5, {"amount": Decimal("12.5"), "currency": "EUR"}),
    ("currency", {"amount": 3, "currency": "NOK"}, {"amount": Decimal(3), "currency": "NOK"}),
    ("boolean", "true", True),
    ("boolean", 0, False),
    ("boolean", True, True),
    ("date", "2025-01-31T13:00:00+01:00", "2025-01-31T12:00:00.000Z"),
    ("url", " https://example.com:8080/a?b=c#d ", "https://example.com:8080/a?b=c#d"),
    ("country", "fr", "FR"),
    ("country", "united  kingdom", "GB"),
    ("state", 1, 1),
]


def test_valid_values():
    for kind, sent, current in READ:
        found = normalise(kind, sent, SETTINGS)
        assert found == current, (kind, sent)
        assert isinstance(found, type(current)), (kind, sent)


REFUSED = [
    ("string", 5),
    ("string", "x" * 1_025),
    ("message", "x" * 65_537),
    ("email", "anna"),
    ("email", "anna@gmail"),
    ("email", "anna@-x-.com"),
    ("email", ["anna@example.com"]),
    ("phone", "12"),
    ("phone", "+33 1"),
    ("phone", 33612345678),
    ("number", True),
    ("number", "five"),
    ("number", "1_000"),
    ("number", "nan"),
    ("number", "1e400"),
    ("number", 10**400),
    ("currency", "5"),
    ("currency", {"amount": 5}),
    ("currency", {"currency": "EUR"}),
    ("currency", {"amount": 5, "currency": "euro"}),
    ("currency", 10**18),
    ("currency", Decimal("0.0000001")),
    ("boolean", "yes"),
    ("boolean", 2),
    ("date", "2025-01-31"),
    ("date", 1738324800),
    ("url", "example.com"),
    ("url", "ftp://example.com"),
    ("url", "https://"),
    ("url", "https://exa mple.com"),
    ("url", "https://example.com:99999999"),
    ("url", "https://example.com/" + "x" * 8_192),
    ("country", "Atlantis"),
    ("country", "XX"),
    ("state", 2),
    ("state", True),
    ("state", "1"),
    ("state", 0.5),
    ("location", "Paris"),
    ("location", {"city": "Paris"}),
    ("location", {"countryCode": "XX"}),
    ("location", {"coordinates": [181, 0]}),
    ("location", {"coordinates": [0, 91]}),
    ("location", {"coordinates": [1]}),
    ("location", {"location": "somewhere"}),
]


@pytest.mark.parametrize(("kind", "sent"), REFUSED)
def test_invalid_values(kind, sent):
    with pytest.raises(InvalidValue):
        normalise(kind, sent, SETTINGS)


def test_a_national_number_needs_a_country():
    with pytest.raises(InvalidValue):
        normalise("phone", "06 12 34 56 78", Settings("EUR"))


def test_r053_r054_a_location_has_all_of_its_parts_and_longitude_first():
    sent = {
        "address": " 1 rue de Rivoli ",
        "longitude": 2.36,
        "latitude": 48.85,
        "countryCode": "fr",
        "city": "Paris",
    }
    assert normalise("location", sent, SETTINGS) == {
        "formattedAddress": "1 rue de Rivoli",
        "location": {"type": "Point", "coordinates": [2.36, 48.85]},
        "extra": {
            "confidence": 0,
            "placeId": None,
            "premise": None,
            "subpremise": None,
            "neighborhood": None,
            "establishment": None,
        },
        "administrativeLevels": {},
        "city": "Paris",
        "zipcode": None,
        "streetName": None,
        "streetNumber": None,
        "country": "France",
        "countryCode": "FR",
    }
    whole = {"location": {"type": "Point", "coordinates": [2, 48]}}
    assert normalise("location", whole, SETTINGS)["location"]["coordinates"] == [2, 48]


def test_g054_null_and_blank_text_are_missing():
    for value, missing in [(None, True), (" \t", True), ("", True), (0, False), ({}, False)]:
        assert is_missing(value) is missing, (value, missing)


KINDS = [
    "string",
    "message",
    "email",
    "phone",
    "location",
    "number",
    "boolean",
    "date",
    "url",
    "country",
    "state",
    "currency",
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(st.sampled_from(KINDS), ANYTHING)
def test_anything_is_read_or_refused(kind, value):
    with suppress(InvalidValue):
        normalise(kind, value, SETTINGS)


@pytest.mark.slow
@given(st.sampled_from(["string", "message", "country", "boolean"]), st.text(max_size=50))
def test_normalising_again_changes_nothing(kind, value):
    try:
        once = normalise(kind, value, SETTINGS)
    except InvalidValue:
        return
    assert normalise(kind, once, SETTINGS) == once


def test_every_country_is_found_by_code_and_by_name():
    assert len(NAMES) == 249
    assert all(len(code) == 2 and country_code(name) == code for code, name in NAMES.items())


def by_the_library(text):
    try:
        address = email_validator.validate_email(text, check_deliverability=False, test_environment=True)
    except email_validator.EmailNotValidError:
        return None
    return f"{address.local_part}@{address.domain.lower()}"


PARTS = st.text("abZ09._+-@ \"'é", max_size=20) | st.sampled_from(["a" * 70, "a.b", "x" * 58])
DOMAINS = st.sampled_from(
    ["example.com", "Example.CO.uk", "localhost", "test", "a-.com", "-a.com", "a..b.com", "x" * 64 + ".com",
     "bücher.example", "[127.0.0.1]", "", "1.2", "foo.invalid", "xn--bcher-kva.example", "a_b.com", " a.com"]
)  # fmt: skip


@given(PARTS, DOMAINS | PARTS)
@example("a" * 60, "b" * 63 + ".com")
@example("anna.", "example.com")
@example(".anna", "example.com")
def test_emails_are_read_as_the_library_reads_them(local, domain):
    text = f"{local}@{domain}".strip()
    expected = by_the_library(text)
    if expected is None:
        with pytest.raises(InvalidValue):
            normalise("email", text, SETTINGS)
    else:
        assert normalise("email", text, SETTINGS) == expected
