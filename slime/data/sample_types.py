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

    @property
    def accept_rate(self) -> float:
        """Accepted over drafted tokens; 0 when nothing was drafted."""
        return self.spec_accept_token_num / self.spec_draft_token_num if self.spec_draft_token_num else 0.0

    @property
    def accept_length(self) -> float:
        """Generated tokens a verification; 0 when nothing was verified."""
        return self.completion_token_num / self.spec_verify_ct if self.spec_verify_ct else 0.0


@dataclass(slots=True)
class PrefixCacheInfo:
    """How much of the prompts of one sample the engine's prefix cache held, summed over its generation calls."""

    cached_tokens: int = 0
    total_prompt_tokens: int = 0

    @property
    def hit_rate(self) -> float:
        """Cached over all prompt tokens; 0 without prompts."""
        return self.cached_tokens / self.total_prompt_tokens if self.total_prompt_tokens else 0.0
