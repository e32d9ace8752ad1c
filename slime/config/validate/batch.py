"""Batch sizes and lengths."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.validate.arithmetic import nearest_divisors, nearest_multiples


def validate_global_batch(config: Config) -> Iterator[Problem]:
    """The samples of a round make whole optimizer steps, so none is generated for nothing."""
    samples, batch = config.samples_per_rollout, config.global_batch_size
    flags = ("--rollout-batch-size", "--n-samples-per-prompt", "--global-batch-size")
    product = f"{config.rollout_batch_size} prompts x {config.n_samples_per_prompt} answers = {samples} samples"
    if batch == 0 or batch > samples:
        yield Problem(
            "cfg",
            f"{product} a round do not fill one --global-batch-size of {batch}: no step would ever be taken",
            f"give a --global-batch-size of at most {samples}",
            flags,
        )
    elif samples % batch:
        yield Problem(
            "cfg",
            f"{product} a round do not divide into steps of {batch}: {samples % batch} would be dropped every round",
            f"give --global-batch-size {nearest_divisors(samples, batch)}",
            flags,
        )


def validate_steps(config: Config) -> Iterator[Problem]:
    """``--num-steps-per-rollout`` agrees with the global batch size."""
    steps = config.num_steps_per_rollout
    if steps is None:
        return
    samples, batch = config.samples_per_rollout, config.global_batch_size
    if samples % steps:
        yield Problem(
            "cfg",
            f"--num-steps-per-rollout {steps} does not divide the {samples} samples of a round",
            f"give {nearest_divisors(samples, steps)}",
            ("--num-steps-per-rollout",),
        )
    elif samples // steps != batch:
        yield Problem(
            "cfg",
            f"--num-steps-per-rollout {steps} makes steps of {samples // steps} samples, "
            f"--global-batch-size says {batch}",
            "give one of the two",
            ("--num-steps-per-rollout", "--global-batch-size"),
        )


def validate_data_parallel(config: Config) -> Iterator[Problem]:
    """Every data-parallel rank gets the same number of samples of a step, and of micro-batches."""
    batch, ranks = config.global_batch_size, config.data_parallel_size
    if ranks == 0 or batch == 0:
        return  # the world or the batch is refused by its own rule
    if batch % ranks:
        legal = ranks if batch < ranks else nearest_multiples(batch, ranks)
        yield Problem(
            "cfg",
            f"--global-batch-size {batch} does not divide among {ranks} data-parallel ranks "
            f"({config.train_gpus} GPUs / {config.model_parallel_size} per copy)",
            f"give --global-batch-size {legal}",
            ("--global-batch-size",),
        )
    elif not config.use_dynamic_batch_size and (batch // ranks) % config.micro_batch_size:
        yield Problem(
            "cfg",
            f"--micro-batch-size {config.micro_batch_size} does not divide the {batch // ranks} samples of a rank",
            f"give {nearest_divisors(batch // ranks, config.micro_batch_size)}, or --use-dynamic-batch-size",
            ("--micro-batch-size",),
        )


def validate_dynamic_batch(config: Config) -> Iterator[Problem]:
    """Packing by tokens needs the number of tokens, and the number is read by packing alone."""
    limit = config.max_tokens_per_gpu
    if config.use_dynamic_batch_size and limit is None:
        yield Problem(
            "cfg",
            "--use-dynamic-batch-size needs --max-tokens-per-gpu: it fills each micro-batch up to that many tokens",
            flags=("--max-tokens-per-gpu",),
        )
    if limit is not None and not config.use_dynamic_batch_size:
        yield Problem(
            "cfg",
            f"--max-tokens-per-gpu {limit} has no effect without --use-dynamic-batch-size",
            "add --use-dynamic-batch-size",
            ("--max-tokens-per-gpu",),
            severity="warning",
        )
    if config.balance_by_flops and not config.use_dynamic_batch_size:
        yield Problem("cfg", "--balance-by-flops balances dynamic micro-batches", "add --use-dynamic-batch-size")
    longest = config.rollout_max_context_len
    capacity = (limit or 0) * config.context_parallel_size
    if config.use_dynamic_batch_size and limit is not None and longest is not None and longest > capacity:
        yield Problem(
            "cfg",
            f"one sample of up to {longest} tokens does not fit --max-tokens-per-gpu {limit} "
            f"x CP {config.context_parallel_size} = {capacity}: it becomes a micro-batch of its own, above the limit",
            f"give --max-tokens-per-gpu {-(-longest // config.context_parallel_size)} or shorter samples",
            ("--max-tokens-per-gpu",),
            severity="warning",
        )


def validate_lengths(config: Config) -> Iterator[Problem]:
    """Prompt and response fit the context, and the context fits the engine."""
    prompt, response, context = (
        config.rollout_max_prompt_len,
        config.rollout_max_response_len,
        config.rollout_max_context_len,
    )
    if context is None or prompt is None:
        return
    # A prompt limit of context - 1 is the derived one: the engine then clamps the response to what is left.
    clamped = config.origins.get("rollout_max_prompt_len") == "derived"
    for name, length in (("rollout", response), ("eval", config.eval_max_response_len)):
        needed = length + (1 if clamped else prompt)
        if needed > context:
            yield Problem(
                "cfg",
                f"a prompt of {needed - length} and a --{name}-max-response-len of {length} tokens make {needed}, "
                f"above --rollout-max-context-len {context}",
                f"give a context of {needed}, or a response of at most {context - (needed - length)}",
                (f"--{name}-max-response-len", "--rollout-max-context-len"),
            )
    for flag, limit in (
        ("--sglang-context-length", config.sglang_context_length),
        ("--sglang-max-total-tokens", config.sglang_max_total_tokens),
    ):
        if limit is not None and limit < context:
            yield Problem(
                "cfg",
                f"{flag} {limit} is below --rollout-max-context-len {context}: the engine would refuse long samples",
                f"give {flag} {context}",
                (flag,),
            )


def validate_over_sampling(config: Config) -> Iterator[Problem]:
    """A refill holds at least one round's prompts."""
    refill = config.over_sampling_batch_size
    if refill is not None and refill < config.rollout_batch_size:
        yield Problem(
            "cfg",
            f"--over-sampling-batch-size {refill} is below --rollout-batch-size {config.rollout_batch_size}",
            f"give at least {config.rollout_batch_size}",
            ("--over-sampling-batch-size",),
        )
