"""Figures of groups, clips, weights and ages."""

from __future__ import annotations

from functools import partial

from sphinx_slime_lab import formulas
from sphinx_slime_lab.figures.base import WIDTH, Axes, Drawn, pick
from sphinx_slime_lab.locale import Language
from sphinx_slime_lab.render.figure import Figure

GROUP = 8
LOW, HIGH = 0.2, 0.28
"""Clip distances that the lab's shells write."""


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\u2212") if abs(value) > 5e-4 else "0"


def groups(language: Language) -> Drawn:
    """Advantages of right and wrong answers, for every number of right answers of eight."""
    title = pick(
        language, "一组八个回答：答对几个，优势就是多少", "A group of eight: advantages by the number of right answers"
    )
    says = pick(
        language,
        "蓝色向上为正确回答的优势，橙色向下为错误回答的优势；答对越少，正确回答的优势越大。",
        "Blue, upwards: right answers; orange, downwards: wrong ones. The rarer the right, the larger their advantage.",
    )
    figure = Figure(WIDTH, 196, title, says)
    axes = Axes(figure, (0, 9), (-2.6, 2.6), bottom=168)
    axes.frame(range(1, 8), (-2, -1, 0, 1, 2), pick(language, "答对", "right"), "A")
    rows = []
    for right in range(GROUP + 1):
        good = formulas.advantage(right, GROUP - right, 1) if right else None
        bad = formulas.advantage(right, GROUP - right, 0) if right < GROUP else None
        for value, kind in ((good, "train"), (bad, "rollout")):
            if value:
                x, zero = axes.at(right, 0)
                _, y = axes.at(right, value)
                figure.box(kind, x - 8, min(zero, y), 16, abs(zero - y))
        spread = formulas.group_std(right, GROUP - right)
        rows.append((str(right), f"{spread:.4f}", *("—" if one is None else _signed(one) for one in (good, bad))))
    heads = [
        pick(language, "答对", "right"),
        pick(language, "样本标准差", "sample deviation"),
        pick(language, "正确回答的 A", "A of right answers"),
        pick(language, "错误回答的 A", "A of wrong answers"),
    ]
    return Drawn(figure, heads, rows)


def clip(language: Language) -> Drawn:
    """The clipped objective of one token over its ratio, for both signs of the advantage."""
    title = pick(language, "PPO 裁剪目标随 ρ 的变化", "PPO's clipped objective over the ratio ρ")
    says = pick(
        language,
        f"A = +1（蓝色）到 {1 + HIGH:g} 后变平，A = −1（橙色）在 {1 - LOW:g} 之前是平的：平的地方没有梯度。",
        f"A = +1 (blue) is flat beyond {1 + HIGH:g}, A = −1 (orange) below {1 - LOW:g}: flat means no gradient.",
    )
    figure = Figure(WIDTH, 190, title, says)
    axes = Axes(figure, (0, 2), (-2, 1.5), bottom=162)
    axes.frame((0, 0.5, 1, 1.5, 2), (-2, -1, 0, 1), "ρ", "")
    for sign, cls in ((1, "weight"), (-1, "kv")):
        axes.curve(cls, partial(formulas.clipped, sign=sign, low=LOW, high=HIGH), (0, 1 - LOW, 1 + HIGH, 2))
    axes.name("note", 1.62, 1.36, "A = +1")
    axes.name("note", 1.72, -1.3, "A = −1")
    ratios = (0.5, 0.8, 1.0, 1.28, 1.5, 2.0)
    rows = [(f"{one:g}", *(_signed(formulas.clipped(one, sign, LOW, HIGH)) for sign in (1, -1))) for one in ratios]
    return Drawn(figure, ["ρ", "A = +1", "A = −1"], rows)


def weights(language: Language) -> Drawn:
    """The weights of TIS and IcePop over the ratio of trainer and sampler."""
    title = pick(language, "TIS 与 IcePop 的权重", "Weights of TIS and IcePop")
    says = pick(
        language,
        "TIS（蓝色粗线）在 2 处封顶；IcePop（橙色细线）在 0.5 到 2 之间等于比率，区间外为 0。",
        "TIS (blue, thick) stays at 2 above 2; IcePop (orange, thin) is the ratio between 0.5 and 2 and 0 outside.",
    )
    figure = Figure(WIDTH, 168, title, says)
    axes = Axes(figure, (0, 4), (0, 2.4), bottom=140)
    axes.frame((0, 0.5, 1, 2, 3, 4), (1, 2), "w", "f(w)")
    axes.curve("weight", formulas.truncated, (0, 2, 4))
    axes.curve("kv", formulas.icepop, (0, 0.5, 2, 4))
    axes.name("note", 3.2, 2.1, "TIS")
    axes.name("note", 3.2, 0.1, "IcePop")
    ratios = (0.25, 0.5, 1.0, 1.5, 2.0, 4.0)
    rows = [(f"{one:g}", f"{formulas.truncated(one):g}", f"{formulas.icepop(one):g}") for one in ratios]
    return Drawn(figure, ["w = p / q", "TIS", "IcePop"], rows)


def ages(language: Language) -> Drawn:
    """Shares of samples by age, for three mean times between first token and training."""
    title = pick(language, "样本年龄的分布", "How old samples are")
    says = pick(
        language,
        "从第一个 token 到被训练，平均跨过 0.4、1.25、2.5 个更新间隔时，各年龄的样本占多少。",
        "Shares by age when first token and training lie 0.4, 1.25 and 2.5 update intervals apart.",
    )
    figure = Figure(WIDTH, 168, title, says)
    axes = Axes(figure, (-0.5, 4), (0, 1), bottom=140)
    axes.frame((0, 1, 2, 3), (0.5, 1), pick(language, "年龄", "age"), "")
    means = (0.4, 1.25, 2.5)
    for column, (mean, kind) in enumerate(zip(means, ("train", "rollout", "samples"), strict=True)):
        for age in range(4):
            share = formulas.age_share(age, mean)
            if share:
                x, y = axes.at(age, share)
                figure.box(kind, x - 30 + column * 20, y, 18, axes.bottom - y)
    rows = [(f"{mean:g}", *(f"{formulas.age_share(age, mean):.0%}" for age in range(4))) for mean in means]
    heads = [
        pick(language, "平均间隔", "mean intervals"),
        *(pick(language, f"年龄 {one}", f"age {one}") for one in range(4)),
    ]
    return Drawn(figure, heads, rows)
