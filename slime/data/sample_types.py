"""The small types of a sample: its status, its error, and the counters that an engine reports with it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.StrEnum):
    """Where a sample stands. `str` values are what `Sample.to_dict` writes."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


class SampleError(ValueError):
    """A sample breaks its contract; the message names the sample, the field and the numbers."""


@dataclass(slots=True)
class SpecInfo:
    """Speculative decoding of one sample, summed over its generation calls. Tokens; `spec_verify_ct` are steps."""

    spec_accept_token_num: int = 0
    spec_draft_token_num: int = 0
    spec_verify_ct: int = 0
    completion_token_num: int = 0


@dataclass(slots=True)
class PrefixCacheInfo:
    """How much of the prompts of one sample the engine's prefix cache held, summed over its generation calls."""

    cached_tokens: int = 0
    total_prompt_tokens: int = 0
