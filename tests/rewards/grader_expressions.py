"""Random rational expressions: written in many ways, and evaluated exactly with fractions, which is the reference."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

UNKNOWNS = "xyab"


@dataclass(frozen=True)
class Tree:
    """A number, an unknown, or two trees joined by ``+ - * /``, or a tree to a power."""

    kind: str
    left: Tree | None = None
    right: Tree | None = None
    number: int = 0


def random_tree(rng: random.Random, depth: int) -> Tree:
    """A tree of at most this depth."""
    if depth == 0 or rng.random() < 0.2:
        return Tree(rng.choice(UNKNOWNS)) if rng.random() < 0.6 else Tree("number", number=rng.randint(1, 12))
    kind = rng.choice("++-**/^")
    left = random_tree(rng, depth - 1)
    if kind == "^":
        return Tree("^", left, number=rng.choice([2, 2, 3, -1]))
    return Tree(kind, left, random_tree(rng, depth - 1))


def mutated(tree: Tree, rng: random.Random) -> Tree:
    """The tree with one leaf, power or operation changed."""
    if tree.left is None or (tree.right is not None and rng.random() < 0.2):
        if tree.kind == "number":
            return Tree("number", number=tree.number + rng.choice([1, -1, 7]))
        if tree.left is None:
            return Tree(rng.choice([one for one in UNKNOWNS if one != tree.kind]))
        return Tree(rng.choice([one for one in "+-*" if one != tree.kind]), tree.left, tree.right)
    if tree.right is None:
        return Tree("^", mutated(tree.left, rng), number=tree.number)
    if rng.random() < 0.5:
        return Tree(tree.kind, mutated(tree.left, rng), tree.right)
    return Tree(tree.kind, tree.left, mutated(tree.right, rng))


def value(tree: Tree, point: dict[str, Fraction]) -> Fraction | None:
    """The exact value; None where it divides by zero."""
    if tree.kind == "number":
        return Fraction(tree.number)
    if tree.left is None:
        return point[tree.kind]
    left = value(tree.left, point)
    if tree.right is None:
        return None if left is None or (left == 0 and tree.number < 0) else left**tree.number
    right = value(tree.right, point)
    if left is None or right is None or (tree.kind == "/" and right == 0):
        return None
    return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "/": lambda: left / right}[
        tree.kind
    ]()


_rng = random.Random(5)
POINTS = [
    {name: Fraction(_rng.randint(-(10**6), 10**6), _rng.randint(1, 10**3)) for name in UNKNOWNS} for _ in range(8)
]


def defined(tree: Tree) -> bool:
    """Whether it has a value at all; ``1/(x-x)`` has none."""
    return all(value(tree, point) is not None for point in POINTS)


def same(one: Tree, other: Tree) -> bool:
    """Whether two trees agree at eight random points: at these degrees they are equal then."""
    return all(value(one, point) == value(other, point) for point in POINTS)


def written(tree: Tree, rng: random.Random) -> str:
    """One way to write the tree down; sums and products may change their order."""
    space = rng.choice(["", " "])
    if tree.kind == "number":
        number = tree.number
        return rng.choice(
            [f"{number}", f"{number}", f"{number}.0", rf"\frac{{{2 * number}}}{{2}}", f"({number})", f"{{{number}}}"]
        )
    if tree.left is None:
        return rng.choice([tree.kind, tree.kind, f"{{{tree.kind}}}"])
    left = written(tree.left, rng)
    if tree.right is None:
        base = left if tree.left.left is None and "." not in left and "\\" not in left else _in_brackets(left, rng)
        power = str(tree.number)
        return base + (rng.choice([f"^{{{power}}}", f"**{power}"]) if tree.number > 0 else f"^{{{power}}}")
    right = written(tree.right, rng)
    if tree.kind in "+*" and rng.random() < 0.5:
        left, right = right, left
    if tree.kind == "+":
        return f"{left}{space}+{space}{right}"
    if tree.kind == "-":
        return f"{left}{space}-{space}{_in_brackets(right, rng)}"
    if tree.kind == "/":
        if rng.random() < 0.7:
            return rng.choice([r"\frac", r"\dfrac"]) + f"{{{left}}}{{{right}}}"
        return f"({left}){space}/{space}({right})"
    if (
        _simple(tree.left)
        and _simple(tree.right)
        and rng.random() < 0.5
        and left[-1] not in "0123456789"
        and right[0].isalpha()
    ):
        return left + right  # xy, x^{2}y
    if left.isdigit() and right.isalpha() and rng.random() < 0.7:
        return left + right  # 2x
    return f"({left})" + rng.choice([r"\cdot ", "*", r" \times ", ""]) + f"({right})"


def _simple(tree: Tree) -> bool:
    """An unknown, or a positive power of one."""
    return tree.kind in UNKNOWNS or (
        tree.kind == "^" and tree.number > 0 and tree.left is not None and tree.left.kind in UNKNOWNS
    )


def _in_brackets(text: str, rng: random.Random) -> str:
    return rng.choice([f"({text})", rf"\left({text}\right)", f"[{text}]" if "[" not in text else f"({text})"])
