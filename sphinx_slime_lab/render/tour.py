"""The tour of one GRPO round: five stages with a picture each, and one table of the answers.

Without JavaScript everything stands on the page, one stage after the other; the twin ``js/src/ui/tour.js`` shows one at
a time. Numbers and sentences are the engine's, computed by the code that training uses.
"""

from __future__ import annotations

from collections.abc import Callable

from docutils import nodes

from slime.experiment.tour import Stage, Tour
from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.figure import Figure
from sphinx_slime_lab.render.parts import details
from sphinx_slime_lab.render.tables import code, table
from sphinx_slime_lab.workbench import Workbench

WIDTH, HEIGHT = 440, 128
CELL, STEP = 30, 36


def tour(bench: Workbench, uid: str) -> ours.lab_details:
    """Return the collapsed tour; ``uid`` starts the ids of its pictures."""
    language = bench.language
    shown = bench.catalog.tour()
    stages = [
        ours.lab_block(
            "",
            nodes.paragraph("", "", nodes.strong("", f"{at}. {stage.title.get(language)}")),
            _picture(shown, stage, language).node(f"{uid}-tour-{stage.id}"),
            nodes.paragraph("", _sentence(shown, stage, language)),
            kind="tour-stage",
        )
        for at, stage in enumerate(shown.stages, start=1)
    ]
    return details(
        "tour",
        word(language, "tour"),
        ours.lab_block("", *stages, kind="tour-stages"),
        answers(shown, language),
        nodes.paragraph("", shown.note.get(language)),
    )


def answers(shown: Tour, language: Language) -> nodes.table:
    """Return the answers with reward, reason and advantage."""
    heads = ["", *(word(language, key) for key in ("tour_answer", "tour_reward", "reason", "tour_advantage"))]
    rows = [
        (str(at), code(one.text), str(one.reward), one.reason.get(language), one.advantage)
        for at, one in enumerate(shown.answers, start=1)
    ]
    return table(heads, rows, (5, 40, 10, 31, 14), "answers")


def _sentence(shown: Tour, stage: Stage, language: Language) -> str:
    """Return the stage's sentence; the first stage shows the prompt itself too."""
    said = stage.text.get(language)
    return f"{shown.prompt.get(language)} — {said}" if stage.id == "prompt" else said


def _picture(shown: Tour, stage: Stage, language: Language) -> Figure:
    figure = Figure(WIDTH, HEIGHT, stage.title.get(language), _sentence(shown, stage, language))
    _DRAW[stage.id](figure, shown, language)
    return figure


def _prompt(figure: Figure, shown: Tour, language: Language) -> None:
    figure.hexagon("world", 16, 24, 128, 52, word(language, "tour_prompt"))
    figure.text("label", 80, 100, f"{word(language, 'tour_label')} {shown.label}")
    figure.arrow("samples", 152, 50, 272, 50, "chat template")
    figure.box("rollout", 280, 24, 144, 52, "SGLang")


def _answers(figure: Figure, shown: Tour, language: Language) -> None:
    figure.box("rollout", 16, 40, 112, 52, "SGLang")
    figure.arrow("samples", 136, 66, 252, 66, word(language, "tour_samples", count=len(shown.answers)))
    for at in range(len(shown.answers)):
        x, y = _cell(at, 264, 30)
        figure.box("samples", x, y, CELL, CELL, str(at + 1))


def _verifier(figure: Figure, shown: Tour, language: Language) -> None:
    for at, one in enumerate(shown.answers):
        x, y = _cell(at, 16, 30)
        figure.box("samples", x, y, CELL, CELL, str(at + 1))
        x, y = _cell(at, 284, 30)
        figure.box("right" if one.reward else "wrong", x, y, CELL, CELL, f"{'✓' if one.reward else '✗'} {one.reward}")
    figure.arrow("samples", 164, 63, 184, 63)
    figure.hexagon("world", 188, 40, 68, 46, f"= {shown.label}?")
    figure.arrow("samples", 260, 63, 280, 63)


def _grpo(figure: Figure, shown: Tour, language: Language) -> None:
    middle, height = 62, 34
    for at, one in enumerate(shown.answers):
        x = 110 + at * 40
        if one.reward:
            figure.box("train", x, middle - height, 28, height, "+")
        else:
            figure.box("train down", x, middle, 28, height, "−")
        figure.text("label", x + 14, HEIGHT - 6, str(at + 1))
    figure.line("mean", 100, middle, WIDTH - 12, middle)
    figure.text("note", 8, middle + 4, f"{word(language, 'tour_mean')} {shown.numbers['mean']}")
    figure.text("note", 8, middle - height + 12, shown.numbers["up"])
    figure.text("note", 8, middle + height - 2, shown.numbers["down"])


def _sync(figure: Figure, shown: Tour, language: Language) -> None:
    figure.box("rollout", 16, 24, 128, 52, "SGLang")
    figure.box("train", 296, 24, 128, 52, "Megatron")
    figure.arrow("samples", 152, 50, 288, 50, word(language, "tour_samples", count=len(shown.answers)))
    figure.line("weights", 360, 84, 360, 104)
    figure.line("weights", 80, 104, 360, 104)
    figure.arrow("weights", 80, 104, 80, 82)
    figure.text("label weights", 220, 122, word(language, "tour_weights"))


def _cell(at: int, x: int, y: int) -> tuple[int, int]:
    """Return the place of one answer in two rows of four."""
    return x + at % 4 * STEP, y + at // 4 * STEP


_DRAW: dict[str, Callable[[Figure, Tour, Language], None]] = {
    "prompt": _prompt,
    "answers": _answers,
    "verifier": _verifier,
    "grpo": _grpo,
    "sync": _sync,
}
