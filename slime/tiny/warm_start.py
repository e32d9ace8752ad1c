"""The supervised warm start: from random weights to a model that solves some of the problems, but far from all.

Reinforcement learning raises the probability of answers that the policy already gives now and then. A model that never
answers right has nothing to reinforce, one that always does has nothing to learn; the warm start stops in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slime.tiny.data import Problem
from slime.tiny.tokenizer import ASSISTANT, END, PAD, USER, VOCABULARY_SIZE, vocabulary

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

MAX_POSITIONS = 256


@dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start. `target` is the sampled accuracy (temperature 1) at which it stops."""

    seed: int
    target: float = 0.4
    learning_rate: float = 1e-3
    batch_size: int = 64
    max_steps: int = 600
    check_every: int = 5
    check_problems: int = 250


@dataclass(frozen=True)
class WarmStartResult:
    """What the warm start reached; accuracies are sampled at temperature 1."""

    steps: int
    loss: float
    train_accuracy: float
    held_out_accuracy: float


class WarmStartError(RuntimeError):
    """The warm start did not reach its target accuracy within its steps."""


def build_model(seed: int) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 in float32: 2 layers, hidden size 128, 4 heads over 2 key-value groups."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    ids = vocabulary()
    config = Qwen3Config(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=ids[END],
        pad_token_id=ids[PAD],
    )
    torch.manual_seed(seed)
    model: Qwen3ForCausalLM = Qwen3ForCausalLM(config).float()
    # transformers sets the padding's embedding to zero. A policy may sample that token, and then the norm of a zero
    # vector has a gradient a thousand times that of others, which drowns the rest of the batch.
    with torch.no_grad():
        model.get_input_embeddings().weight[ids[PAD]].normal_(std=config.initializer_range)
    return model


class EncodedProblems:
    """Problems as tensors: one row is the chat prompt, the answer and the end of the turn.

    Attributes:
        tokens: int64 [problems, width], padded at the end.
        targets: int64 [problems, width]; -100 (ignored by the loss) on prompt and padding, else equal to `tokens`.
    """

    def __init__(self, problems: Sequence[Problem], tokenizer: PreTrainedTokenizerFast) -> None:
        import torch

        end, pad = vocabulary()[END], vocabulary()[PAD]
        prompts = [_ids(tokenizer, f"{USER}{problem.prompt}{ASSISTANT}") for problem in problems]
        answers = [[*_ids(tokenizer, problem.answer), end] for problem in problems]
        width = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
        pairs = list(zip(prompts, answers, strict=True))
        self.tokens = torch.tensor([(p + a + [pad] * width)[:width] for p, a in pairs])
        self.targets = torch.tensor([([-100] * len(p) + a + [-100] * width)[:width] for p, a in pairs])

    def answer_losses(self, model: Qwen3ForCausalLM, rows: Sequence[int] | None = None) -> torch.Tensor:
        """Negative log-probability of every token of the answers, 0 elsewhere; float32 [rows, width - 1]."""
        from torch.nn import functional

        chosen = slice(None) if rows is None else list(rows)
        tokens, targets = self.tokens[chosen], self.targets[chosen][:, 1:]
        logits = model(tokens[:, :-1]).logits
        return functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100, reduction="none")


def _ids(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def sampled_accuracy(model: Qwen3ForCausalLM, problems: EncodedProblems, rows: Sequence[int] | None = None) -> float:
    """Expected share of right answers when each problem (of `rows`) is answered once by sampling at temperature 1.

    Exact, not an estimate: the probability that sampling gives exactly the answer is the product of its tokens'
    probabilities, so one forward pass replaces many samples.
    """
    import torch

    with torch.no_grad():
        return float((-problems.answer_losses(model, rows).sum(dim=1)).exp().mean())


def run_warm_start(
    model: Qwen3ForCausalLM,
    train: EncodedProblems,
    held_out: EncodedProblems,
    settings: WarmStart,
    report: Callable[[str], None],
) -> WarmStartResult:
    """Train `model` in place until its sampled accuracy on training problems reaches the target.

    The held-out problems are only measured, once, at the end: they decide nothing.

    Args:
        report: gets one line of progress now and then.

    Raises:
        WarmStartError: the target was not reached in `settings.max_steps` steps.
    """
    import torch

    chooser = random.Random(settings.seed)
    checked = chooser.sample(range(len(train.tokens)), settings.check_problems)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    accuracy = 0.0
    for step in range(1, settings.max_steps + 1):
        losses = train.answer_losses(model, chooser.choices(range(len(train.tokens)), k=settings.batch_size))
        loss = losses.sum() / losses.count_nonzero()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % settings.check_every:
            continue
        accuracy = sampled_accuracy(model, train, checked)
        if step % (10 * settings.check_every) == 0 or accuracy >= settings.target:
            report(f"step {step}: loss {loss.item():.3f}, sampled accuracy on training problems {accuracy:.3f}")
        if accuracy >= settings.target:
            return WarmStartResult(step, loss.item(), accuracy, sampled_accuracy(model, held_out))
    raise WarmStartError(
        f"The warm start reached a sampled accuracy of {accuracy:.3f} in {settings.max_steps} steps, below its target "
        f"{settings.target}; another --seed starts from other weights."
    )
