"""Spellings of exact values, and near misses: spellings of other values. Nothing here asks the code under test."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Case:
    """A response, its gold answer, and the family that it belongs to."""

    family: str
    grader: str
    response: str
    gold: Any
    metadata: dict[str, Any] | None = None


def boxed(answer: str) -> str:
    return rf"<think>x</think> The answer is \boxed{{{answer}}}."


def integer_spellings(value: int) -> list[str]:
    """Spellings of an integer, LaTeX and plain."""
    sign, size = ("-" if value < 0 else ""), abs(value)
    grouped = f"{size:,}"
    found = [
        f"{value}", f" {value} ", f"${value}$", rf"\({value}\)", rf"\[{value}\]", f"$${value}$$", f"{value}.",
        f"{value}.0", f"{value}.00", rf"\text{{{value}}}", rf"\mathbf{{{value}}}", rf"\boxed{{{value}}}",
        f"x={value}", f"x = {value}", rf"{value}\text{{ cm}}", rf"{value}\,\mathrm{{cm}}", f"{value} cm",
        rf"{value}\text{{ apples}}", rf"{value}^\circ", rf"{value}^{{\circ}}", f"{value}°",
        rf"{value} \text{{ degrees}}", f"{value} degrees", rf"{value}\%", f"{value}%",
        rf"\frac{{{value * 3}}}{{3}}", rf"\dfrac{{{value * 7}}}{{7}}", f"{value * 2}/2",
        rf"\frac{{{-value}}}{{-1}}", f"{sign}{grouped}", sign + grouped.replace(",", "{,}"),
        sign + grouped.replace(",", r"\,"), sign + grouped.replace(",", r"\!,"), f"{value}e0",
        rf"{value} \times 10^{{0}}", f"\\left({value}\\right)", f"({value})", f"{{{value}}}",
        rf"\displaystyle {value}", f"{value}\\\\", f"**{value}**", rf"{value}\;", rf"~{value}".replace("~", r"\ "),
        str(value).translate(str.maketrans("-0123456789", "−０１２３４５６７８９")),
    ]  # fmt: skip
    if value > 0:
        found += [
            f"+{value}",
            f"0{value}",
            rf"\${value}",
            f"${value}",
            rf"{value} \text{{ dollars}}",
            rf"\sqrt{{{value * value}}}",
        ]
    if value % 1000 == 0 and value:
        found += [f"{value // 1000}e3", rf"{value // 1000} \times 10^{{3}}", rf"{value // 1000}\cdot 10^3"]
        found += [f"{value // 1000} thousand", rf"{value // 1000}\text{{ thousand}}"]
    return found


def fraction_spellings(value: Fraction) -> list[str]:
    """Spellings of a fraction that is no integer."""
    top, bottom = value.numerator, value.denominator
    sign, size = ("-" if value < 0 else ""), abs(value)
    found = [
        f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}", rf"\dfrac{{{top}}}{{{bottom}}}",
        rf"\tfrac{{{top}}}{{{bottom}}}", rf"\cfrac{{{top}}}{{{bottom}}}", rf"\frac {{{top}}} {{{bottom}}}",
        rf"{sign}\frac{{{abs(top)}}}{{{bottom}}}", rf"\frac{{{-top}}}{{{-bottom}}}",
        rf"\frac{{{5 * top}}}{{{5 * bottom}}}", f"{3 * top}/{3 * bottom}", rf"$\frac{{{top}}}{{{bottom}}}$",
        rf"x = \frac{{{top}}}{{{bottom}}}", rf"{top} / {bottom}", rf"\left(\frac{{{top}}}{{{bottom}}}\right)",
        rf"\frac{{{top}}}{{{bottom}}}\text{{ hours}}", rf"{sign}\frac{{1}}{{{bottom}}}\cdot {abs(top)}",
        rf"{{{top} \over {bottom}}}", rf"\text{{{top}/{bottom}}}",
    ]  # fmt: skip
    if 0 < abs(top) < 10 and bottom < 10:
        found += [
            rf"{sign}\frac{abs(top)}{bottom}",
            rf"{sign}\frac {abs(top)} {bottom}",
            rf"{sign}\frac{{{abs(top)}}}{bottom}",
        ]
    if size > 1:
        whole, rest = divmod(abs(top), bottom)
        found += [rf"{sign}{whole}\frac{{{rest}}}{{{bottom}}}", f"{sign}{whole} {rest}/{bottom}"]
        found += [rf"{sign}{whole} \frac{{{rest}}}{{{bottom}}}"]
    if (places := _decimal_places(bottom)) is not None:
        digits = f"{abs(top) * 10**places // bottom:0{places + 1}d}"
        decimal = f"{digits[:-places]}.{digits[-places:]}"
        found += [f"{sign}{decimal}", f"{sign}{decimal}0", rf"\text{{{sign}{decimal}}}", f"x={sign}{decimal}"]
        found += [rf"{sign}{decimal}\text{{ kg}}", rf"{sign}{decimal} \times 10^0", f"{sign}{decimal}e0"]
        if size < 1:
            found.append(f"{sign}{decimal[1:]}")
    return found


def _decimal_places(bottom: int) -> int | None:
    return next((places for places in range(1, 13) if 10**places % bottom == 0), None)


UNITS = {
    "cm": "cm", "apples": "apples", "circ": "degree", "°": "degree", "degree": "degree", "%": "percent", "kg": "kg",
    "hours": "hours", "dollars": "dollar", r"\$": "dollar",
}  # fmt: skip


def unit(spelling: str) -> str:
    """The unit that a spelling carries, "" if none; two different units are two different answers."""
    if spelling.startswith("$") and not spelling.endswith("$"):
        return "dollar"
    return next((name for mark, name in UNITS.items() if mark in spelling), "")


def spellings(value: Fraction) -> list[str]:
    """Spellings of any value."""
    return integer_spellings(value.numerator) if value.denominator == 1 else fraction_spellings(value)


def near_misses(value: Fraction, rng: random.Random) -> list[str]:
    """Spellings of other values, close to this one in their looks."""
    others = [value + 1, value - 1, -value, value * 10, value / 10, value + Fraction(1, 10**9), 1 - value, value * 2]
    others += [Fraction(value.numerator + 1, value.denominator), Fraction(value.numerator, value.denominator + 1)]
    if value:
        others.append(1 / value)
    # 50% is both 50 and 1/2, so these two are no near misses.
    return [rng.choice(spellings(other)) for other in others if other not in (value, 100 * value, value / 100)]


def random_value(rng: random.Random) -> Fraction:
    """An integer or a fraction, small or large."""
    if rng.random() < 0.6:
        return Fraction(rng.choice([rng.randint(-20, 20), rng.randint(-(10**6), 10**6), rng.randint(1, 50) * 1000]))
    return Fraction(rng.randint(-60, 60), rng.choice([2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 25, 100, 137]))
