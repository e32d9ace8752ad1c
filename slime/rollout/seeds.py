"""A seed for every request, from the run's seed and the sample alone, so that a rerun samples the same tokens."""

from __future__ import annotations

import hashlib


def request_seed(rollout_seed: int, name: str, index: int | None, position: int) -> int:
    """The ``sampling_seed`` of one request.

    It depends on neither time, engine nor concurrency. Two samples of one prompt get unrelated seeds, and so do two
    turns of one sample; a request that is made again gets the same.

    Args:
        rollout_seed: ``--rollout-seed``.
        name: what is sampled for: "rollout", or "eval" and the data set.
        index: number of the sample in the run.
        position: tokens before the first one that is sampled.

    Returns:
        An integer in [0, 2**63).
    """
    words = f"{rollout_seed}/{name}/{index}/{position}"
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest()) >> 1
