"""Numbers in messages: nearest legal ones, counts with their noun, bytes."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """``1 round``, ``4 rounds``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nearest_multiples(value: int, base: int) -> str:
    """The multiples of ``base`` on both sides of ``value``: ``8 or 16``."""
    below = value // base * base
    return f"{below} or {below + base}" if below else str(base)


def nearest_divisors(number: int, value: int) -> str:
    """The divisors of ``number`` on both sides of ``value``: ``4 or 8``. Above a billion they are not searched."""
    if number > 10**9:
        return f"a divisor of {number}"
    divisors = _divisors(number)
    below = [one for one in divisors if one <= value]
    above = [one for one in divisors if one > value]
    return " or ".join(str(one) for one in (*below[-1:], *above[:1]))


def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def size_text(count: float) -> str:
    """Bytes for people: ``1536`` -> ``1.5 KiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
