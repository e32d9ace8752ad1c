"""A reward of one's own: full marks for the right sum, part of them for one that is close, and why marks were lost."""

from __future__ import annotations

import re
from typing import Any

from slime.data.sample import Sample

ANSWER = re.compile(r"\\boxed\{(\d{1,6})\}")
CLOSE = 10
"""A sum that is off by this much or more gets nothing."""


async def reward(args: Any, sample: Sample) -> dict[str, Any]:
    r"""See `--custom-rm-path`; ``--reward-key score`` trains, ``--log-reward-category fault`` is counted.

    Returns:
        ``score``: 1 for the right sum, else half a mark less the nearer it is, 0 for no sum in ``\boxed{}``.
        ``fault``: "none", "close", "wrong" or "format".
    """
    answers = ANSWER.findall(sample.response)
    if not answers:
        return {"score": 0.0, "fault": "format"}
    distance = abs(int(answers[-1]) - int(sample.label))
    if distance == 0:
        return {"score": 1.0, "fault": "none"}
    if distance < CLOSE:
        return {"score": 0.5 * (1 - distance / CLOSE), "fault": "close"}
    return {"score": 0.0, "fault": "wrong"}
