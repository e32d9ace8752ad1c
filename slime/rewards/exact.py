"""Numbers as exact fractions: integers, decimals, fractions, mixed numbers, scientific notation. No floating point."""

from __future__ import annotations

import re
from fractions import Fraction

SIGN = r"(?P<sign>[-+]?)\s*"
PLAIN = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
GROUPED = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[-+]?[0-9]{1,3}(?: [0-9]{3})+")
DECIMAL = re.compile(rf"{SIGN}(?P<value>{PLAIN})")
SCIENTIFIC = re.compile(
    rf"{SIGN}(?P<value>{PLAIN})\s*(?:[eE]|\\(?:times|cdot)\s*10\s*\^)\s*\{{?(?P<power>[-+]?[0-9]{{1,3}})\}}?"
)
REPEATING = re.compile(rf"{SIGN}(?P<whole>[0-9]*)\.(?P<fixed>[0-9]*)\\(?:overline|bar)\s*\{{?(?P<cycle>[0-9]+)\}}?")
INTEGER_OR_DECIMAL = rf"\s*[-+]?\s*{PLAIN}\s*"
SLASHED = re.compile(rf"{SIGN}(?:(?P<whole>[0-9]+) )?(?P<top>{PLAIN})\s*/\s*(?P<bottom>{PLAIN})")
LATEX = re.compile(
    rf"{SIGN}(?P<whole>[0-9]+)?\s*\\frac\s*\{{(?P<top>{INTEGER_OR_DECIMAL})\}}\s*\{{(?P<bottom>{INTEGER_OR_DECIMAL})\}}"
)


def read_number(text: str) -> Fraction | None:
    r"""The number that canonical `text` spells, or None if it is not a plain number.

    Read are ``-42``, ``1,000``, ``1 000``, ``0.5``, ``.5``, ``1e3``, ``1.2 \times 10^{3}``, ``3/4``, ``1 3/4``,
    ``\frac{3}{4}``, ``1\frac{3}{4}``, ``0.1\overline{6}``, each with a sign. Division by zero is no number.
    """
    text = text.strip()
    if GROUPED.fullmatch(text):
        text = text.replace(",", "").replace(" ", "")
    if found := DECIMAL.fullmatch(text):
        return _signed(found["sign"], Fraction(found["value"].rstrip(".")))
    if found := SCIENTIFIC.fullmatch(text):
        return _signed(found["sign"], Fraction(found["value"].rstrip(".")) * Fraction(10) ** int(found["power"]))
    if found := REPEATING.fullmatch(text):
        fixed, cycle = found["fixed"], found["cycle"]
        # 0.1(6): what repeats is 6/9, one place further right.
        repeated = Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(fixed))
        return _signed(found["sign"], Fraction(f"{found['whole'] or 0}.{fixed or 0}") + repeated)
    found = SLASHED.fullmatch(text) or LATEX.fullmatch(text)
    if not found:
        return None
    top, bottom = (Fraction(found[name].replace(" ", "").rstrip(".")) for name in ("top", "bottom"))
    if bottom == 0:
        return None
    if found["whole"] is None:
        return _signed(found["sign"], top / bottom)
    # 1\frac{3}{4} is a mixed number; with a sign inside it would be a product.
    return _signed(found["sign"], int(found["whole"]) + top / bottom) if top >= 0 and bottom > 0 else None


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value
