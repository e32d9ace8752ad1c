"""A generation function in which the model may call a calculator before it answers.

The model writes ``calc(07+35+12)`` and ends its turn; the calculator's answer comes back as a message of the tool, and
the model goes on. What the model sampled trains; what the template and the tool put in between is masked.
"""

from __future__ import annotations

import re
from typing import Any

from slime.data.sample import Sample, Status
from slime.rollout.context import current

CALL = re.compile(r"calc\((\d{1,4}(?:\+\d{1,4}){0,7})\)")
MAX_TURNS = 3


def calculate(expression: str) -> str:
    """The calculator: adds whole numbers. Other text never reaches it, because `CALL` does not match."""
    return str(sum(int(number) for number in expression.split("+")))


async def generate(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    """One trajectory; see `--custom-generate-function-path`."""
    context = current()
    messages = context.begin(sample)
    for _ in range(MAX_TURNS):
        answer = await context.generate(sample, sample.tokens, sampling_params)
        context.append(sample, answer)
        text = context.response_text(answer)
        call = CALL.fullmatch(text)
        if sample.status is not Status.COMPLETED or call is None:
            return sample  # the final answer, or the length limit, or the end of the round
        messages.append({"role": "assistant", "content": text})
        context.add_messages(sample, messages, [{"role": "tool", "content": calculate(call[1])}])
        messages.append({"role": "tool", "content": calculate(call[1])})
    sample.status = Status.TRUNCATED  # it only ever called
    return sample
