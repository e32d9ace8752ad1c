"""How an engine writes an answer, under each combination of PD, HiCache and EAGLE: eight pictures that all differ."""

from __future__ import annotations

from dataclasses import dataclass

from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.figure import Figure

WIDTH, HEIGHT, LOW = 440, 168, 94
TOP, HIGH, CELL = 26, 62, 26
DRAFTED = 3
"""Draft tokens that are drawn; an ellipsis stands for more."""


@dataclass(frozen=True)
class Serving:
    """Which parts of serving are on."""

    pd: bool
    hicache: bool
    speculative: bool

    @property
    def id(self) -> str:
        """A name for ids in the page."""
        return "-".join(name for name in ("pd", "hicache", "speculative") if getattr(self, name)) or "plain"

    def when(self) -> dict[str, list[bool]]:
        """The values of the choices that this stands for."""
        return {name: [getattr(self, name)] for name in ("pd", "hicache", "speculative")}

    def phases(self, language: Language) -> list[str]:
        """What happens, one sentence a phase, in the order of the classes p0, p1, ... of the picture."""
        keys = ["serve_prefill_cached" if self.hicache else "serve_prefill"]
        keys += ["serve_transfer"] if self.pd else []
        keys += ["serve_draft", "serve_verify", "serve_commit"] if self.speculative else ["serve_decode"]
        return [word(language, key) for key in keys]


ALL = [
    Serving(pd, hicache, speculative)
    for pd in (False, True)
    for hicache in (False, True)
    for speculative in (False, True)
]


def draw(serving: Serving, language: Language) -> Figure:
    """Return the picture of one combination."""
    parts = [
        name for name, on in (("PD", serving.pd), ("HiCache", serving.hicache), ("EAGLE", serving.speculative)) if on
    ]
    title = word(language, "serve_title", parts=" + ".join(parts) or word(language, "serve_plain"))
    height = HEIGHT if serving.hicache or serving.speculative else LOW
    figure = Figure(WIDTH, height, title, " ".join(serving.phases(language)))
    _pools(figure, serving, language)
    _caches(figure, serving, language)
    _tokens(figure, serving, language)
    return figure


def _pools(figure: Figure, serving: Serving, language: Language) -> None:
    """One pool that does both, or two with the KV cache on its way between them."""
    if not serving.pd:
        figure.phase = " ".join(f"p{at}" for at in range(len(serving.phases(language))))
        figure.box("rollout", 4, TOP, WIDTH - 8, HIGH)
        figure.phase = "p0"
        figure.text("label", 74, TOP - 8, "prefill")
        figure.phase = " ".join(f"p{at}" for at in range(1, len(serving.phases(language))))
        figure.text("label", 330, TOP - 8, "decode")
        return
    figure.phase = "p0"
    figure.box("prefill", 4, TOP, 136, HIGH)
    figure.text("label", 74, TOP - 8, "prefill")
    figure.phase = "p1"
    figure.arrow("kv", 146, TOP + HIGH // 2, 236, TOP + HIGH // 2, "KV")
    figure.text("small", 191, TOP + HIGH // 2 + 18, "Mooncake · RDMA")
    figure.phase = " ".join(f"p{at}" for at in range(2, len(serving.phases(language))))
    figure.box("decode", 242, TOP, WIDTH - 246, HIGH)
    figure.text("label", 338, TOP - 8, "decode")


def _caches(figure: Figure, serving: Serving, language: Language) -> None:
    """The prefix cache on the GPU, and the host's tier below it: under PD it belongs to prefill alone."""
    figure.phase = "p0"
    figure.box("cache", 12, TOP + 16, 120, 30, word(language, "serve_gpu_cache"))
    if not serving.hicache:
        return
    figure.line("host", 74, TOP + HIGH + 4, 74, TOP + HIGH + 14)
    figure.cylinder(14, TOP + HIGH + 16, 120, 34, word(language, "serve_host_cache"))


def _tokens(figure: Figure, serving: Serving, language: Language) -> None:
    """What decoding writes: one token after the other, or a draft, its verification and what is kept of it."""
    first = 2 if serving.pd else 1
    y, left = TOP + 18, 250
    if not serving.speculative:
        figure.phase = f"p{first}"
        for at in range(4):
            figure.box("token", left + at * (CELL + 16), y, CELL, CELL, f"t{at + 1}")
            if at < 3:
                figure.arrow(
                    "kv",
                    left + at * (CELL + 16) + CELL + 1,
                    y + CELL // 2,
                    left + (at + 1) * (CELL + 16) - 1,
                    y + CELL // 2,
                )
        return
    figure.phase = f"p{first}"
    for at in range(DRAFTED):
        figure.box("samples", left + at * (CELL + 6), y, CELL, CELL, f"d{at + 1}")
    figure.text("note", left + DRAFTED * (CELL + 6) + 2, y + 18, "…")
    figure.text("small", left + 150, y + 17, word(language, "serve_drafts"))
    figure.phase = f"p{first + 1}"
    below = TOP + HIGH + 12
    for at in range(DRAFTED):
        x, is_right = left + at * (CELL + 6), at < DRAFTED - 1
        figure.arrow("kv", x + CELL // 2, y + CELL + 2, x + CELL // 2, below + 2)
        figure.text("label" if is_right else "label wrong", x + CELL // 2, below + 14, "✓" if is_right else "✗")
    figure.text("small", left + 150, below + 12, word(language, "serve_verified"))
    figure.phase = f"p{first + 2}"
    for at in range(DRAFTED):
        figure.box(
            "token", left + at * (CELL + 6), below + 22, CELL, CELL, f"d{at + 1}" if at < DRAFTED - 1 else f"t{at + 1}"
        )
    figure.text("small", left + 150, below + 39, word(language, "serve_kept"))
