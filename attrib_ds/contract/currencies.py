"""The currency codes of ISO 4217 (G-226).

List one (in force) and list three (withdrawn) of the maintenance agency, SIX, as of 1 February 2026, from the
data set https://github.com/datasets/currency-codes, which is in the public domain (PDDL).
"""

from __future__ import annotations

from typing import Final

_IN_FORCE: Final = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD "
    "CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL "
    "GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW "
    "KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD "
    "NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP "
    "SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS "
    "VED VES VND VUV WST XAD XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF XPT XSU XTS XUA XXX YER "
    "ZAR ZMW ZWG"
)
_WITHDRAWN: Final = (
    "ADP AFA ALK ANG AOK AON AOR ARA ARP ARY ATS AYM AZM BAD BEC BEF BEL BGJ BGK BGL BGN BOP BRB BRC BRE "
    "BRN BRR BUK BYB BYR CHC CSD CSJ CSK CUC CYP DDM DEM ECS ECV EEK ESA ESB ESP FIM FRF GEK GHC GHP GNE "
    "GNS GQE GRD GWE GWP HRD HRK IEP ILP ILR ISJ ITL LAJ LSM LTL LTT LUC LUF LUL LVL LVR MGF MLF MRO MTL "
    "MTP MVQ MXP MZE MZM NIC NLG PEH PEI PES PLZ PTE RHD ROK ROL RUR SDD SDP SIT SKK SLL SRG STD SUR TJR "
    "TMM TPE TRL UAK UGS UGW USS UYN UYP VEB VEF VNC XEU XFO XFU XRE YDD YUD YUM YUN ZAL ZMK ZRN ZRZ ZWC "
    "ZWD ZWL ZWN ZWR"
)

#: Codes in force, and those withdrawn, which old amounts have.
CURRENCIES: Final = frozenset(f"{_IN_FORCE} {_WITHDRAWN}".split())
#: Pattern of all codes.
PATTERN: Final = "|".join(sorted(CURRENCIES))
#: What a message says is expected.
EXPECTED: Final = "a currency of ISO 4217, such as 'EUR'"

#: Codes of the signs that stand for one currency; $, ¥ and kr stand for several.
SIGNS: Final = {
    "€": "EUR",
    "£": "GBP",
    "₹": "INR",
    "₺": "TRY",
    "₴": "UAH",
    "₦": "NGN",
    "₪": "ILS",
    "₫": "VND",
    "฿": "THB",
    "zł": "PLN",
    "Kč": "CZK",
}
#: Advice for signs.
NO_SIGN: Final = f"{EXPECTED}; the sign € means 'EUR', but $, ¥ and kr mean several"


def code_of(word: str) -> str | None:
    """Return the code that a word of a user stands for, or None.

    Examples
    --------
    >>> [code_of(word) for word in ("EUR", " eur", "€", "$", "euro")]
    ['EUR', 'EUR', 'EUR', None, None]
    """
    code = SIGNS.get(word.strip(), word.strip().upper())
    return code if code in CURRENCIES else None
