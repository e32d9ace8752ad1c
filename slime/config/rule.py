"""How one preflight rule is declared: what it is called, why it exists, where it was learnt, and its checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slime.config.errors import Level, Problem, Severity
from slime.config.flags import Text

if TYPE_CHECKING:
    from slime.config.config import Config
    from slime.config.preflight.inputs import Inputs

LEVELS: tuple[Level, ...] = ("cfg", "hf", "data", "host")

# The projects of the public threads, by the short names under which the rules cite them.
_REPOSITORIES = {
    "slime": "THUDM/slime", "verl": "volcengine/verl", "sglang": "sgl-project/sglang", "vllm": "vllm-project/vllm",
    "trl": "huggingface/trl", "NeMo-RL": "NVIDIA-NeMo/RL", "OpenRLHF": "OpenRLHF/OpenRLHF", "ray": "ray-project/ray",
    "open-r1": "huggingface/open-r1", "ROLL": "alibaba/ROLL", "SkyRL": "NovaSky-AI/SkyRL",
    "prime-rl": "PrimeIntellect-ai/prime-rl", "torchtitan": "pytorch/torchtitan", "miles": "radixark/miles",
    "DAPO": "BytedTsinghua-SIA/DAPO", "Mooncake": "kvcache-ai/Mooncake",
}  # fmt: skip
_THREAD = re.compile(r"(?P<project>[\w.-]+)#(?P<number>\d+)")


@dataclass(frozen=True)
class Finding:
    """What a check says: the message with its numbers and the reason, the nearest legal values, the flags involved.

    ``severity`` is that of the rule unless it is given.
    """

    message: str
    hint: str = ""
    flags: tuple[str, ...] = ()
    severity: Severity | None = None


FlagCheck = Callable[["Config"], Iterable[Finding]]
InputCheck = Callable[["Inputs"], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """One way in which a run fails, and the check that finds it first.

    A rule has one check for each level at which it looks, or says why it needs none: ``prevented`` names what makes
    the failure impossible here, ``absent`` names the feature that the runtime does not have.

    Attributes:
        id: stable name; findings carry it and the reference page links to it.
        title: what must hold.
        why: what happens otherwise.
        source: public threads in which it was learnt, as ``project#number``.
        row: its number in the list of known failures; None for a rule of this project's own.
        severity: of its findings, unless a finding says otherwise.
        cfg: needs the flags alone.
        hf: reads the checkpoint folder.
        data: reads the prompt files and tries grader and hooks.
        host: probes this machine and the cluster.
    """

    id: str
    title: Text
    why: Text
    source: str = ""
    row: int | None = None
    severity: Severity = "error"
    cfg: FlagCheck | None = field(default=None, repr=False)
    hf: InputCheck | None = field(default=None, repr=False)
    data: InputCheck | None = field(default=None, repr=False)
    host: InputCheck | None = field(default=None, repr=False)
    prevented: Text | None = None
    absent: Text | None = None

    def __post_init__(self) -> None:
        if sum((bool(self.levels), self.prevented is not None, self.absent is not None)) != 1:
            raise ValueError(f"rule {self.id}: give checks, or prevented, or absent")

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which it looks, in their order; empty when nothing is checked."""
        return tuple(level for level in LEVELS if getattr(self, level) is not None)

    @property
    def threads(self) -> list[tuple[str, str]]:
        """The public threads of ``source`` with their addresses: ``("slime#1818", "https://...")``."""
        found = (
            (match[0], _REPOSITORIES.get(match["project"]), match["number"]) for match in _THREAD.finditer(self.source)
        )
        # GitHub leads from an issue's address to the pull request of that number.
        return [(text, f"https://github.com/{name}/issues/{number}") for text, name, number in found if name]

    def problems(self, level: Level, findings: Iterable[Finding]) -> Iterator[Problem]:
        """The findings of one of its checks, as problems."""
        for one in findings:
            yield Problem(level, one.message, one.hint, one.flags, one.severity or self.severity, self.id)
