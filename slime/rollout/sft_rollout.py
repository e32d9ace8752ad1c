"""Supervised data as rounds: conversations become samples with token-exact masks, and no engine is asked."""

from __future__ import annotations

from typing import Any

from slime.data.conversation import supervised_samples
from slime.data.source import DataSource
from slime.rollout.data_setup import chat_template
from slime.rollout.machinery import machinery
from slime.rollout.outputs import RolloutFnTrainOutput


def generate_rollout(
    args: Any, rollout_id: int, data_source: DataSource, evaluation: bool = False
) -> RolloutFnTrainOutput:
    """A round of ``--rollout-batch-size`` conversations, for ``--loss-type sft_loss``.

    Args:
        args: the run's configuration.
        rollout_id: number of the round.
        data_source: conversations; each group is one.
        evaluation: not for this function; held-out prompts are answered by ``--eval-function-path``.

    Returns:
        One group a conversation. A template that rewrites history cuts a conversation into several samples.

    Raises:
        ConversationError: a conversation cannot be encoded exactly.
    """
    text = machinery().text
    template = chat_template(args, text.tokenizer, text.stop_token_ids)
    groups = data_source.get_groups(args.rollout_batch_size)
    return RolloutFnTrainOutput(
        [[piece for sample in group for piece in supervised_samples(sample, template)] for group in groups]
    )
