"""Hostile answers, each made so that no reading of it is right. Seeded; nothing here asks the code under test."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction

from .grader_spellings import Case, boxed, near_misses, random_value, spellings

MEGABYTE = 1 << 20
Maker = Callable[[random.Random], Case]


def hostile(seed: int, count: int) -> Iterator[Case]:
    """`count` hostile responses, the families by turns."""
    rng = random.Random(seed)
    for number in range(count):
        yield MAKERS[number % len(MAKERS)](rng)


def _towers(rng: random.Random) -> Case:
    base = rng.choice(["9", "10", "(x+y)", "x", "99", "(a+b+c+d)", "e", r"\pi"])
    power = rng.choice(
        [
            "9**9**9",
            "10**10",
            "99999",
            "{9^{9^{9}}}",
            "{10^{10}}",
            "{99!}",
            "{9999999}",
            "9^9^9",
            "{2^{2^{2^{2^{2^2}}}}}",
        ]
    )
    sign = rng.choice(["**", "^"])
    extra = rng.choice(["", "+1", "!", r"\cdot 2", "/7", " mod 7"])
    return Case(
        "towers", "math", boxed(f"{base}{sign}{power}{extra}"), rng.choice([r"\frac{1}{2}", r"\frac{x}{2}", "7", "x+1"])
    )


def _expansions(rng: random.Random) -> Case:
    names = rng.sample("abcdwxyz", 4)
    total = "+".join(names)
    power = rng.randint(20, 99)
    answer = rf"\frac{{({total})^{{{power}}}-1}}{{{total}-1}}"
    return Case("expansions", "math", boxed(answer), rf"({total})^{{{power - 1}}}")


def _nesting(rng: random.Random) -> Case:
    opening, closing = rng.choice(
        ["()", "[]", "{}", ("\\left(", "\\right)"), (r"\sqrt{", "}"), (r"\frac{1}{", "}"), (r"\boxed{", "}")]
    )
    depth = rng.choice([10, 40, 300, 3000, 30000])
    closed = rng.choice([depth, depth - 1, 0])
    return Case(
        "nesting", "math", boxed(opening * depth + "1" + closing * closed), rng.choice(["2", r"\frac{1}{2}", "x"])
    )


def _sizes(rng: random.Random) -> Case:
    gold = rng.randint(10, 999)
    kind = rng.randrange(7)
    answer = [
        lambda: "9" * rng.choice([401, 5000, MEGABYTE]),
        lambda: f"{gold}" + "0" * rng.choice([1, 400, 5000]),
        lambda: f"0.{'3' * rng.choice([20, 400, 5000])}",
        lambda: "+".join(["1"] * rng.choice([900, 100_000])),
        lambda: f"{gold} " + "x" * rng.choice([1999, MEGABYTE]),
        lambda: f"{gold}e{rng.choice([1, 9, 99, 999, 10**9])}",
        lambda: f"{gold + 1}" + " " * rng.choice([100, MEGABYTE]),
    ][kind]()
    return Case("sizes", rng.choice(["math", "dapo"]), boxed(answer), r"\frac{1}{3}" if kind == 2 else gold)


INVISIBLE = [
    "\x00",
    "\x07",
    "\x08",
    "\x1b[31m",
    "\u202e",
    "\u202d",
    "\u2066",
    "\u2060",
    "\u00ad",
    "\ue000",
    "\x7f",
    "\u200e",
]


def _characters(rng: random.Random) -> Case:
    gold = rng.randint(12, 98)
    ones, tens = gold % 10, gold // 10
    look_alikes = [
        f"{tens}{rng.choice(INVISIBLE)}{ones}", f"{rng.choice(INVISIBLE)}{gold}", f"{gold}{rng.choice(INVISIBLE)}",
        f"\u202e{ones}{tens}\u202c", f"{tens}²", "".join(chr(0x660 + int(digit)) for digit in str(gold)),
        "".join(chr(0x966 + int(digit)) for digit in str(gold)), f"{gold}\u0301", f"{gold}\u20e0",
        f"{tens}\u2064{ones}", f"l{ones}", f"{tens}O", f"{tens}٫{ones}", f"{tens}·{ones}", f"{gold}‰",
        f"{tens}⁄{ones}", f"\ud800{gold}",
    ]  # fmt: skip
    return Case("characters", rng.choice(["math", "dapo"]), boxed(rng.choice(look_alikes)), str(gold))


def _injections(rng: random.Random) -> Case:
    a, b = rng.randint(2, 30), rng.randint(2, 30)
    gold = a * b
    payloads = [
        f"__import__('os').system('echo {gold}')", f"eval('{a}*{b}')", f"exec('print({gold})')", f"lambda: {gold}",
        f"{{{{{a}*{b}*2}}}}", f"${{{gold}}}$ or 1=1", f"{gold}; import os", f"{gold} if True else 0",
        f"int('{gold}')", f"().__class__.__bases__[0].__subclasses__() or {gold}", rf"\input{{{gold}}}",
        rf"\write18{{echo {gold}}}", rf"\def\x{{{gold}}}\x", rf"\newcommand{{\x}}{{{gold}}}\x", f"%s{gold}",
        f"{gold}%n", f"'{gold}'", f'"{gold}"', f'{gold}"]\n["verdict","correct",1.0,"x",{{}},0]\n',
        f"</think>{gold + 1}", f"{gold}<script>", f"`{gold}`", f"Symbol('x')*0+{gold}", f"S({gold})",
        f"Integer({gold})", f"N({gold})", rf"\text{{{gold}}}\text{{{gold + 1}}}", f"globals()['{gold}']",
        f"{gold}\\n{gold + 1}", f"open('/dev/zero').read() or {gold}", rf"\phantom{{{gold + 1}}}{gold + 2}",
    ]  # fmt: skip
    return Case("injections", rng.choice(["math", "deepscaler", "dapo"]), boxed(rng.choice(payloads)), gold)


def _hedges(rng: random.Random) -> Case:
    gold = rng.randint(2, 500)
    other = gold + rng.randint(1, 9)
    pair = [str(gold), str(other)]
    rng.shuffle(pair)
    one, two = pair
    joins = [
        "{} or {}", "{}, {}", "{}; {}", "{} and {}", r"{} \text{{ or }} {}", r"{}\text{{, wait, no }}{}",
        "{} / {} ", "{} | {}", r"{} \quad {}", "{} maybe {}", r"{}\\{}", "{} {}", r"\{{{}, {}\}}", "({}, {})",
        "[{}, {}]", r"{} \pm {}", "{}-{}", r"{} \to {}", "{} = {}", r"{} \neq {}", "x={} or x={}", "x={}, y={}",
        r"{} \approx {} \approx", "{}...{}", "{} (or {})", r"\text{{{} or {}}}", r"{}\text{{ or }}{}",
        r"{} \vee {}", r"\begin{{cases}}{}\\{}\end{{cases}}", "{}\n{}", "{}, not {}", "not {} but {}",
        r"{}\ldots {}", r"\underline{{{}}} {}", r"{}\,\text{{or}}\,{}", "{}~{}", "{} vs {}", "between {} and {}",
    ]  # fmt: skip
    return Case("hedges", rng.choice(["math", "deepscaler", "dapo"]), boxed(rng.choice(joins).format(one, two)), gold)


def _boxes(rng: random.Random) -> Case:
    gold = rng.randint(2, 500)
    others = [gold + step for step in rng.sample(range(1, 50), 3)]
    texts = [
        rf"\boxed{{{gold}}} or \boxed{{{others[0]}}}", rf"\boxed{{{others[0]}}} then \boxed{{{gold}}}",
        "".join(rf"\boxed{{{number}}}" for number in [*others, gold]),
        rf"Put your answer in \boxed{{}}. I say \boxed{{{others[1]}}}, though {gold} was near.",
        rf"\boxed{{{others[0]} \boxed{{{gold}}}}}", rf"\boxed{{\boxed{{{gold}}} {others[0]}}}", rf"\boxed{{{gold}",
        rf"\boxed {gold}", rf"\fbox{{{gold}}}", rf"boxed{{{gold}}}", "\\boxed{" * 200 + str(gold),
        rf"\boxed{{}} {gold}", "".join(rf"\boxed{{{number}}}" for number in range(gold + 1, gold + 2000)),
        rf"\boxed{{{gold}\}}", rf"\boxed{{answer}} {gold}",
        rf"<think>\boxed{{{gold}}}</think>\boxed{{{others[2]}}}",
    ]  # fmt: skip
    return Case("boxes", "math", rng.choice(texts), gold)


def _misses(rng: random.Random) -> Case:
    value = random_value(rng)
    answer = rng.choice(near_misses(value, rng))
    return Case("near misses", rng.choice(["math", "dapo"]), boxed(answer), rng.choice(spellings(value)))


def _rounded(rng: random.Random) -> Case:
    value = Fraction(rng.randint(1, 50), rng.choice([3, 7, 9, 11, 13, 17]))
    if value.denominator == 1:
        value += Fraction(1, 3)
    places = rng.choice([1, 2, 4, 8, 16, 40, 200])
    digits = value.numerator * 10**places // value.denominator
    decimal = f"{digits // 10**places}.{digits % 10**places:0{places}d}"
    irrational = {
        r"\pi": "3.14159265358979323846",
        r"\sqrt{2}": "1.41421356237309504880",
        "e": "2.71828182845904523536",
    }
    if rng.random() < 0.3:
        gold, decimal = rng.choice(list(irrational.items()))
        return Case("rounded", "math", boxed(decimal[: rng.randint(4, 22)]), gold)
    return Case("rounded", "math", boxed(decimal), f"{value.numerator}/{value.denominator}")


EXPRESSIONS = [
    "x^2+2x+1", r"\sin^2 x", r"\frac{x}{x+1}", r"\sqrt{x+1}", "a+b+c", r"2\pi r", r"e^{x}", r"\ln(x+1)", "x(x+1)",
    "3+4i", r"\frac{\sqrt{3}}{2}", r"\log_2 7", r"n!", "2^{n}", "a^2-b^2", r"\pi-3",
]  # fmt: skip


def _perturbed(rng: random.Random) -> Case:
    gold = rng.choice(EXPRESSIONS)
    tiny = rng.choice(["10^{-30}", "10^{-60}", r"\frac{1}{2^{99}}", "0.000001", "1", r"10^{-9}"])
    answer = rng.choice([
        f"({gold})+{tiny}", f"({gold})-{tiny}", rf"({gold})\cdot(1+{tiny})", f"-({gold})", f"({gold})+q",
        rf"2({gold})", f"({gold})^2+1", f"{gold}?", f"{gold},", f"{gold} or 1", rf"{gold}\ldots", f"{gold}+",
        rf"\neg ({gold})", f"({gold}", rf"{gold} \text{{ not}}", rf"\overline{{{gold}}}", rf"\frac{{{gold}}}{{0}}",
    ])  # fmt: skip
    return Case("perturbed", "math", boxed(answer), gold)


def _units(rng: random.Random) -> Case:
    gold = rng.randint(2, 500)
    given, asked = rng.sample(
        ["cm", "m", "km", "kg", "grams", "days", "years", "miles", "hours", "dollars", "degrees"], 2
    )
    texts = [
        (rf"{gold}\text{{ {given}}}", rf"{gold}\text{{ {asked}}}"), (f"{gold} {given}", f"{gold} {asked}"),
        (rf"{gold}\text{{ cm}}^2", rf"{gold}\text{{ cm}}^3"), (f"{gold} {given}{asked}x", f"{gold} {asked}"),
        ("smile", "s"), ("footman", "man"), ("yearly", "ly"), ("centimeters", "timeters"),
        (f"{gold} million", str(gold)), (rf"{gold}\text{{ dozen}}", str(gold)),
        (rf"{gold}\text{{ not}}", str(gold)), (f"{gold} squared", str(gold)),
        (rf"{gold}\text{{ hundred}}", str(gold)), (f"{gold} per", str(gold)),
        (rf"{gold}\text{{ wrong}}", str(gold)),
    ]  # fmt: skip
    answer, label = rng.choice(texts)
    return Case("units", "math", boxed(answer), label)


def _collections(rng: random.Random) -> Case:
    a, b, c = rng.sample(range(1, 40), 3)
    texts = [
        (f"({a},{b})", f"({b},{a})"), (f"({a},{b})", f"[{a},{b}]"), (f"({a},{b}]", f"[{a},{b})"),
        (f"{a},{b}", f"{a},{b},{c}"), (f"{a},{b},{b}", f"{a},{b}"), (rf"\{{{a},{b}\}}", rf"\{{{a},{c}\}}"),
        (f"({a},{b},{c})", f"({a},{c},{b})"), (rf"({a},{b})\cup({b},{a + 99})", f"({a},{a + 99})"),
        (rf"\begin{{pmatrix}}{a}\\{b}\end{{pmatrix}}", rf"\begin{{pmatrix}}{a}&{b}\end{{pmatrix}}"),
        (rf"\begin{{pmatrix}}{a}&{b}\\{c}&1\end{{pmatrix}}", rf"\begin{{pmatrix}}{a}&{c}\\{b}&1\end{{pmatrix}}"),
        (f"x>{a}", rf"x\geq {a}"), (f"x>{a}", f"x<{a}"), (f"x>{a}", f"y>{a}"), (f"{a}<x<{a + b}", f"{a}<x<{a + c}"),
        (f"x={a}, y={b}", f"{b}, {a}"), (f"x={a}", f"y={a}"), (rf"{a} \pm {b}", f"{a + b}"),
        (f"({a})", rf"\{{{b}\}}"), (",".join(map(str, range(5000))), f"{a},{b}"),
        (rf"\{{{','.join(['1'] * 500)}\}}", r"\{1\}"),
    ]  # fmt: skip
    answer, label = rng.choice(texts)
    return Case("collections", "math", boxed(answer), label)


def _gsm8k(rng: random.Random) -> Case:
    gold = rng.randint(2, 900)
    other = gold + rng.randint(1, 9)
    texts = [
        f"#### {gold} or {other}", f"#### {other} or {gold}", f"#### {other}\n", f"The total is {other} or {gold}.",
        "####", f"#### {gold}/0", f"{gold} apples, so {other}", f"#### {gold}#### {other}",
        f"Either {other} and {gold}", f"#### {gold}.{other}", f"#### -{gold}", f"#### {gold},{other:03d}",
        f"#### {gold} {other}", rf"\boxed{{{gold}}} \boxed{{{other}}}", "no number here",
        f"between {other} to {gold}", "9" * rng.choice([300, 5000, MEGABYTE]), "1," * 200_000, f"#### {gold}{gold}",
    ]  # fmt: skip
    return Case("gsm8k", "gsm8k", rng.choice(texts), str(gold))


def _dapo(rng: random.Random) -> Case:
    gold = rng.randint(2, 900)
    other = gold + rng.randint(1, 9)
    texts = [
        f"Answer: {gold}\nAnswer: {other}", f"Answer: {gold} or {other}", f"Answer: {other}", f"Answer {gold}",
        f"the answer is {gold}", f"Answer: {gold}, {other}", f"Answer: not {gold}", "Answer:" * 50_000,
        f"Answer: {gold}?", f"Answer: x={gold} or x={other}", f"Answer: \\boxed{{{gold}",
        f"Answer: \\boxed{{{gold}}} \\boxed{{{other}}}", "Answer:" + "\n" * 100_000, f"Answer: {gold} {other}",
        f"Answer:\n{other}\n{gold}", f"Answer: {gold}{other}", f"Answer: {gold}/{other}",
    ]  # fmt: skip
    return Case("dapo", "dapo", rng.choice(texts), str(gold))


def _gpqa(rng: random.Random) -> Case:
    letters = rng.sample("ABCD", 4)
    gold, other, third, _ = letters
    texts = [
        f"The answer is {gold} or {other}.", f"Answer: {other}, {gold}", f"The answer is not {gold}.",
        f"{gold} and {other}", f"The correct answer is {other}.", f"Option {gold} is wrong.",
        f"Neither {gold} nor {other}.", f"Answer: {' '.join(letters[::-1])}x",
        f"First I thought the answer is {gold}, but the final answer is {other}", f"\\boxed{{{gold}{other}}}",
        "The answer is " * 5000, f"\\boxed{{{gold}}} \\boxed{{{other}}}", f"Answer: {gold}/{other}",
        f"The answer is ({other})", f"({gold}) ({other})", "", f"I cannot exclude {gold}", f"It isn't {gold}",
        f"Answer: {gold} or {other} or {third}", "( " * 10_000, f"The answer is {gold}?",
        f"The answer is {gold}, {other} and {third}", f"Answer: {gold}{other}",
        f"the answer is a matter of {other}",
    ]  # fmt: skip
    return Case("gpqa", "gpqa", rng.choice(texts), gold)


def _choices(rng: random.Random) -> Case:
    cities = ["Paris", "London", "Rome", "Madrid"]
    place = rng.randrange(4)
    other = (place + rng.randint(1, 3)) % 4
    texts = [
        f"The answer is {cities[other]}.", f"{cities[place]} or {cities[other]}", f"The answer is {'ABCD'[other]}",
        "I do not know", f"The answer is {' '.join(cities)}", f"Answer: {'ABCD'[other]}) {cities[place]}",
        f"{cities[place]}s", "Answer: E",
    ]  # fmt: skip
    label = rng.choice(["ABCD"[place], cities[place], place])
    return Case("choices", "multiple_choice", rng.choice(texts), label, {"choices": cities})


def _f1(rng: random.Random) -> Case:
    gold = rng.choice(["the Eiffel Tower", "yes", "no", "blue whale", "in 1969"])
    texts = [
        "yes no",
        f"{gold} or not",
        f"{gold} " * 3,
        "",
        "...",
        "x " * MEGABYTE,
        f"{gold}s",
        "the a an",
        f"not {gold}",
        "\x00" * 100,
    ]
    return Case("f1", "f1", rng.choice(texts), gold)


def _ifbench(rng: random.Random) -> Case:
    ids, kwargs, text = rng.choice([
        (["punctuation:no_comma"], [{}], "a, b"),
        (["keywords:existence"], [{"keywords": ["zebra"]}], "no such animal"),
        (["detectable_format:json_format"], [{}], "[" * 100_000),
        (["count:word_count_range"], [{"min_words": 5, "max_words": 6}], "x " * 500_000),
        (["format:parentheses"], [{}], "(" * 500_000), (["format:quotes"], [{}], "\"'" * 200_000),
        (["words:alphabet"], [{}], "a c"),
        (["length_constraints:number_sentences"], [{"num_sentences": 2, "relation": "less than"}], "One. " * 50_000),
        (["startend:end_checker"], [{"end_phrase": "done."}], "done. " + " " * 100_000 + "x"),
        (["format:title_case"], [{}], "all small"), (["detectable_format:title"], [{}], "<<" * 100_000),
        (["count:numbers"], [{"N": 3}], "1 2"), (["format:no_whitespace"], [{}], "a b"),
        (["detectable_content:number_placeholders"], [{"num_placeholders": 3}], "[" * 200_000 + "]"),
        (["detectable_format:number_highlighted_sections"], [{"num_highlights": 2}], "*" * 200_000),
        (["punctuation:no_comma", "startend:quotation"], [{}, {}], "no quotes"),
        (["custom:csv_city"], [{}], '"' * 100_000), (["format:thesis"], [{}], "<i>" * 50_000),
        (["custom:mcq_count_length"], [{}], "Question 1" * 20_000),
        (["keywords:forbidden_words"], [{"forbidden_words": ["cat"]}], "a cat"),
        (["format:emoji"], [{}], "No. Emoji. " * 20_000),
    ])  # fmt: skip
    return Case("ifbench", "ifbench", text, "", {"instruction_id_list": ids, "kwargs": kwargs})


MAKERS: list[Maker] = [
    _towers, _nesting, _sizes, _characters, _injections, _hedges, _boxes, _misses, _rounded, _perturbed, _units,
    _collections, _gsm8k, _dapo, _gpqa, _choices, _f1, _ifbench, _misses, _hedges, _expansions,
]  # fmt: skip
