"""Batch sizes: rounds into steps, steps into ranks, ranks into micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slime.config.config import Config
from slime.config.rule import Finding
from slime.config.validate.arithmetic import counted, nearest_divisors, nearest_multiples

GROUP_ESTIMATORS = ("grpo", "gspo", "cispo", "rloo", "reinforce_plus_plus_baseline")
_ROUND = ("--rollout-batch-size", "--n-samples-per-prompt", "--global-batch-size")


def check_padding(config: Config) -> Iterator[Finding]:
    """The packed length of a rank divides as sequence parallelism, context parallelism and FP8 want."""
    tensor, multiplier = config.tensor_model_parallel_size, config.data_pad_size_multiplier
    need, reasons = 1, []
    if config.context_parallel_size > 1:
        need, reasons = 2, ["2 for the two halves of context parallelism"]
    if config.sequence_parallel and tensor > 1:
        need = math.lcm(need, 2, tensor)
        reasons.append(f"{tensor} for sequence parallelism")
    if config.fp8_format is not None:
        shards = tensor if config.sequence_parallel else 1
        need = math.lcm(need, 16 * shards)
        reasons.append(f"{16 * shards} for FP8, whose kernels take rows in sixteens")
    if (tensor * multiplier) % need:
        legal = need // math.gcd(need, tensor)
        yield Finding(
            f"--data-pad-size-multiplier {multiplier} x TP {tensor} pads a rank's tokens to multiples of "
            f"{tensor * multiplier}; they have to be multiples of {need} ({', '.join(reasons)})",
            f"give {nearest_multiples(multiplier, legal)}; 128 fits all",
            ("--data-pad-size-multiplier",),
        )


def check_whole_steps(config: Config) -> Iterator[Finding]:
    """The samples of a round make steps of one size."""
    samples, batch = config.samples_per_rollout, config.global_batch_size
    if batch and samples > batch and samples % batch:
        over = samples % batch
        yield Finding(
            f"{_round(config)} a round do not divide into steps of {batch}: the last step of every round would take "
            "the "
            f"{over} of {samples} that are left over as well, {batch + over} in all",
            f"give --global-batch-size {nearest_divisors(samples, batch)}",
            _ROUND,
        )


def check_one_step(config: Config) -> Iterator[Finding]:
    """A round fills at least one step."""
    samples, batch = config.samples_per_rollout, config.global_batch_size
    if batch > samples:
        yield Finding(
            f"{_round(config)} a round do not fill one --global-batch-size of {batch}: no step would ever be whole",
            f"give a --global-batch-size of at most {samples}",
            _ROUND,
        )


def check_steps_per_rollout(config: Config) -> Iterator[Finding]:
    """``--num-steps-per-rollout`` agrees with the global batch size."""
    steps = config.num_steps_per_rollout
    if steps is None or steps > config.samples_per_rollout:
        return
    samples, batch = config.samples_per_rollout, config.global_batch_size
    if samples % steps:
        yield Finding(
            f"--num-steps-per-rollout {steps} does not divide the {samples} samples of a round",
            f"give {nearest_divisors(samples, steps)}",
            ("--num-steps-per-rollout",),
        )
    elif samples // steps != batch:
        yield Finding(
            f"--num-steps-per-rollout {steps} makes steps of {samples // steps} samples, "
            f"--global-batch-size says {batch}",
            "give one of the two",
            ("--num-steps-per-rollout", "--global-batch-size"),
        )


def check_train_iters(config: Config) -> Iterator[Finding]:
    """The run takes at least one optimizer step, and the learning rate reaches its value before the last."""
    if not config.global_batch_size:
        return
    steps = config.train_iters
    rounds = counted(config.num_rollout, "round")
    inputs = f"{rounds} x {_product(config)} / a global batch of {config.global_batch_size}"
    if steps < 1:
        yield Finding(
            f"{inputs} = {steps} optimizer steps: the run would train nothing",
            f"give a --global-batch-size of at most {config.samples_per_rollout}",
            ("--num-rollout", *_ROUND),
        )
    elif config.lr_warmup_iters >= steps:
        yield Finding(
            f"--lr-warmup-iters {config.lr_warmup_iters} covers all {steps} steps of the run ({inputs}): "
            f"--lr {config.lr} is never reached",
            f"give --lr-warmup-iters below {steps}, or more rounds",
            ("--lr-warmup-iters", "--num-rollout"),
            severity="warning",
        )


def check_whole_groups(config: Config) -> Iterator[Finding]:
    """A step holds whole groups."""
    batch, group = config.global_batch_size, config.n_samples_per_prompt
    grouped = config.advantage_estimator in GROUP_ESTIMATORS
    if grouped and batch and config.steps_per_rollout > 1 and batch % group:
        yield Finding(
            f"steps of {batch} samples cut groups of {group} in two: the second half of a group trains a policy that "
            "the first half has changed already",
            f"give --global-batch-size {nearest_multiples(batch, group)}",
            ("--global-batch-size", "--n-samples-per-prompt"),
        )


def check_derived_batches(config: Config) -> Iterator[Finding]:
    """No derived batch is zero: each step has a sample, each rank has one of it."""
    batch, ranks, steps = config.global_batch_size, config.data_parallel_size, config.num_steps_per_rollout
    if steps is not None and steps > config.samples_per_rollout:
        yield Finding(
            f"--num-steps-per-rollout {steps} is above the {config.samples_per_rollout} samples of a round: a step "
            "would have 0 samples",
            f"give at most {config.samples_per_rollout}",
            ("--num-steps-per-rollout",),
        )
    elif 0 < batch < ranks:
        yield Finding(
            f"--global-batch-size {batch} has no sample for some of the {_ranks(config)}",
            f"give at least {ranks}",
            ("--global-batch-size",),
        )


def check_equal_shares(config: Config) -> Iterator[Finding]:
    """Micro-batches of fixed size: each rank has the same number of samples of a step."""
    batch, ranks, micro = config.global_batch_size, config.data_parallel_size, config.micro_batch_size
    # Packing by tokens gives ranks their share of any number of samples.
    if config.use_dynamic_batch_size or ranks == 0 or batch < micro * ranks or batch % ranks == 0:
        return
    idle = ranks - batch % ranks
    yield Finding(
        f"--global-batch-size {batch} does not divide among {_ranks(config)}: {idle} of them would compute a copy that "
        "counts nothing while the others train their last sample",
        f"give --global-batch-size {nearest_multiples(batch, ranks)}, or --use-dynamic-batch-size",
        ("--global-batch-size", "--use-dynamic-batch-size"),
    )


def check_micro_batches(config: Config) -> Iterator[Finding]:
    """Micro-batches of fixed size divide a rank's samples."""
    batch, ranks, micro = config.global_batch_size, config.data_parallel_size, config.micro_batch_size
    if config.use_dynamic_batch_size or ranks == 0 or batch < micro * ranks or batch % ranks:
        return
    if (batch // ranks) % micro:
        yield Finding(
            f"--micro-batch-size {micro} does not divide the {batch // ranks} samples of a rank: the last micro-batch "
            "of "
            f"a step would have {(batch // ranks) % micro}",
            f"give {nearest_divisors(batch // ranks, micro)}, or --use-dynamic-batch-size",
            ("--micro-batch-size",),
        )


def check_one_micro_batch(config: Config) -> Iterator[Finding]:
    """Each rank fills at least one micro-batch of fixed size."""
    batch, ranks, micro = config.global_batch_size, config.data_parallel_size, config.micro_batch_size
    if not config.use_dynamic_batch_size and ranks and ranks <= batch < micro * ranks:
        yield Finding(
            f"--global-batch-size {batch} is below --micro-batch-size {micro} x {_ranks(config)} = {micro * ranks}: no "
            "micro-batch would ever be full",
            f"give --micro-batch-size {max(batch // ranks, 1)}, or a global batch of {micro * ranks}",
            ("--global-batch-size", "--micro-batch-size"),
        )


def check_balanced_round(config: Config) -> Iterator[Finding]:
    """A round that is balanced over the ranks has a sample for each of them."""
    samples, ranks = config.samples_per_rollout, config.data_parallel_size
    if (config.balance_data or config.balance_by_flops) and samples < ranks:
        flag = "--balance-data" if config.balance_data else "--balance-by-flops"
        yield Finding(
            f"{flag} shares the work out among {_ranks(config)}, and {_round(config)} a round are fewer",
            f"give a --rollout-batch-size of at least {-(-ranks // config.n_samples_per_prompt)}",
            (flag, "--rollout-batch-size", "--n-samples-per-prompt"),
        )


def check_round_feeds_ranks(config: Config) -> Iterator[Finding]:
    """A round has at least one sample for each rank."""
    samples, ranks = config.samples_per_rollout, config.data_parallel_size
    if not (config.balance_data or config.balance_by_flops) and samples < ranks:
        yield Finding(
            f"{_round(config)} a round are fewer than the {_ranks(config)}: some rank would wait for ever for its "
            "share",
            f"give a --rollout-batch-size of at least {-(-ranks // config.n_samples_per_prompt)}",
            ("--rollout-batch-size", "--n-samples-per-prompt"),
        )


def _round(config: Config) -> str:
    return f"{_product(config)} = {counted(config.samples_per_rollout, 'sample')}"


def _product(config: Config) -> str:
    return f"{counted(config.rollout_batch_size, 'prompt')} x {counted(config.n_samples_per_prompt, 'answer')}"


def _ranks(config: Config) -> str:
    copies = f"{config.train_gpus} GPUs / {config.model_parallel_size} per copy"
    return f"{config.data_parallel_size} data-parallel ranks ({copies})"
