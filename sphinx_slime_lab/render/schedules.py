"""The four schedules as lanes: who generates and who trains at the same time. Widths are no durations."""

from __future__ import annotations

from collections.abc import Callable

from docutils import nodes

from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.figure import Figure
from sphinx_slime_lab.render.tables import table

WIDTH, LANE, HIGH, LEFT, TURN = 440, 32, 22, 84, 86
SCHEDULES = ("sync", "partial", "async", "distributed")


def draw(schedule: str, language: Language) -> Figure:
    """Return the lanes of one schedule."""
    lanes = 3 if schedule == "distributed" else 2
    figure = Figure(
        WIDTH,
        lanes * LANE + 14,
        word(language, f"schedule_{schedule}"),
        word(language, f"schedule_{schedule}_says"),
    )
    _DRAW[schedule](figure, language)
    return figure


def facts(language: Language) -> nodes.table:
    """Return what each schedule means for waiting and for the age of samples."""
    rows = [
        (
            word(language, f"schedule_{one}"),
            word(language, f"schedule_{one}_says"),
            word(language, f"schedule_{one}_age"),
        )
        for one in SCHEDULES
    ]
    heads = [word(language, key) for key in ("schedule", "schedule_waits", "schedule_age")]
    return table(heads, rows, (22, 46, 32), "schedules")


def _y(lane: int) -> int:
    return 6 + lane * LANE


def _names(figure: Figure, language: Language, *names: str) -> None:
    """Name the lanes; names belong to every phase."""
    figure.phase = "p0 p1 p2"
    for lane, name in enumerate(names):
        figure.text("note", 4, _y(lane) + HIGH - 7, word(language, name))


def _taking_turns(figure: Figure, language: Language, *, is_partial: bool) -> None:
    _names(figure, language, "schedule_rollout", "schedule_train")
    for turn in range(3):
        x = LEFT + turn * 118
        figure.phase = "p0"
        figure.box("rollout", x, _y(0), 56, HIGH, f"v{turn}")
        if is_partial and turn < 2:
            figure.phase = "p0 p2"
            figure.box("samples", x + 38, _y(0) + 3, 18, HIGH - 6)
            figure.arrow("samples", x + 58, _y(0) + HIGH // 2, x + 116, _y(0) + HIGH // 2)
        figure.phase = "p1"
        figure.box("train", x + 58, _y(1), 42, HIGH, f"v{turn}")
        figure.phase = "p2"
        if turn < 2:
            figure.arrow("weights", x + 109, _y(1) + HIGH, x + 109, _y(0) + HIGH + 2)
            figure.line("weights", x + 101, _y(1) + HIGH, x + 109, _y(1) + HIGH)


def _sync(figure: Figure, language: Language) -> None:
    _taking_turns(figure, language, is_partial=False)


def _partial(figure: Figure, language: Language) -> None:
    _taking_turns(figure, language, is_partial=True)


def _at_once(figure: Figure, lanes: int) -> None:
    """Draw rollout lanes that never wait over a training lane that starts one batch later.

    While a step runs, rollout still has the weights from before it: the second batch is as old as the first.
    """
    figure.phase = "p0 p1 p2"
    for lane in range(lanes):
        shift = lane * 26
        for turn in range(4):
            start = LEFT + turn * TURN + (shift if turn else 0)
            end = min(LEFT + (turn + 1) * TURN + shift, WIDTH - 4)
            figure.box("rollout", start, _y(lane), end - start - 2, HIGH, f"v{max(0, turn - 1)}")
    figure.phase = "p1 p2"
    for turn in range(3):
        figure.box("train", LEFT + (turn + 1) * TURN + 12, _y(lanes), TURN - 16, HIGH, f"v{turn} → v{turn + 1}")


def _async(figure: Figure, language: Language) -> None:
    _names(figure, language, "schedule_rollout", "schedule_train")
    _at_once(figure, 1)
    figure.phase = "p2"
    for turn in (2, 3):
        x, middle = LEFT + turn * TURN + 5, _y(1) + HIGH // 2
        figure.line("weights", x - 9, middle, x, middle)
        figure.arrow("weights", x, middle, x, _y(0) + HIGH + 2)


def _distributed(figure: Figure, language: Language) -> None:
    _names(figure, language, "schedule_rollout_1", "schedule_rollout_2", "schedule_train")
    _at_once(figure, 2)
    figure.phase = "p0"
    for lane in (0, 1):
        figure.line("samples", LEFT, _y(lane + 1) - 4, WIDTH - 6, _y(lane + 1) - 4)


_DRAW: dict[str, Callable[[Figure, Language], None]] = {
    "sync": _sync,
    "partial": _partial,
    "async": _async,
    "distributed": _distributed,
}
