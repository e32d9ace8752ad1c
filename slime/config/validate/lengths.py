"""Lengths in tokens: prompt, response, context, micro-batch, engine."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule

# SGLang's own default of --max-prefill-tokens: for that many tokens of one prefill it keeps memory free. Without chunks
# it still admits a longer prompt, alone and in one piece.
SGLANG_PREFILL_TOKENS = 16384


def check_token_budget(config: Config) -> Iterator[Finding]:
    """Packing by tokens has a budget, and the longest sample fits it."""
    limit = config.max_tokens_per_gpu
    if config.use_dynamic_batch_size and limit is None:
        yield Finding(
            "--use-dynamic-batch-size needs --max-tokens-per-gpu: it fills each micro-batch up to that many tokens",
            "prompt plus response of one sample is the least that makes sense",
            ("--max-tokens-per-gpu",),
            severity="error",
        )
    if limit is not None and not config.use_dynamic_batch_size:
        yield Finding(
            f"--max-tokens-per-gpu {limit} has no effect without --use-dynamic-batch-size",
            "add --use-dynamic-batch-size",
            ("--max-tokens-per-gpu",),
        )
    if config.balance_by_flops and not config.use_dynamic_batch_size:
        yield Finding(
            "--balance-by-flops balances dynamic micro-batches, and micro-batches have a fixed size",
            "add --use-dynamic-batch-size",
            ("--balance-by-flops", "--use-dynamic-batch-size"),
            severity="error",
        )
    longest, ranks = config.rollout_max_context_len, config.context_parallel_size
    if longest is None or not config.use_dynamic_batch_size:
        return
    for flag, budget in (
        ("--max-tokens-per-gpu", limit),
        ("--log-probs-max-tokens-per-gpu", config.log_probs_max_tokens_per_gpu),
    ):
        if budget is not None and longest > budget * ranks:
            yield Finding(
                f"one sample of up to {longest} tokens does not fit {flag} {budget} x CP {ranks} = {budget * ranks}: "
                "it becomes a micro-batch of its own, above the limit",
                f"give {flag} {-(-longest // ranks)} or shorter samples",
                (flag,),
            )


def check_lengths(config: Config) -> Iterator[Finding]:
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
            yield Finding(
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
            yield Finding(
                f"{flag} {limit} is below --rollout-max-context-len {context}: the engine would refuse long samples",
                f"give {flag} {context}",
                (flag,),
            )


def check_prefill(config: Config) -> Iterator[Finding]:
    """Without chunks, the longest prompt is no longer than what the engine keeps memory for."""
    chunk, longest = config.sglang_chunked_prefill_size, config.rollout_max_prompt_len
    if chunk is not None and chunk <= 0 and longest is not None and longest > SGLANG_PREFILL_TOKENS:
        yield Finding(
            f"--sglang-chunked-prefill-size {chunk} turns chunking off, and a prompt of up to {longest} tokens would "
            "be "
            f"computed in one piece: the engine keeps memory free for {SGLANG_PREFILL_TOKENS}",
            "give --sglang-chunked-prefill-size 8192, or leave the flag out",
            ("--sglang-chunked-prefill-size", "--rollout-max-prompt-len"),
        )


def check_continued_length(config: Config) -> Iterator[Finding]:
    """A continued response still fits the context."""
    prompt, response, context = (
        config.rollout_max_prompt_len,
        config.rollout_max_response_len,
        config.rollout_max_context_len,
    )
    if not config.partial_rollout or prompt is None or context is None:
        return
    if config.custom_generate_function_path is not None and context < prompt + 2 * response:
        yield Finding(
            f"--partial-rollout continues responses, and {config.custom_generate_function_path} may ask for "
            f"{response} more tokens on top of {response}: {prompt} + 2 x {response} is above the context of {context}",
            "let the function ask for --rollout-max-response-len less what the sample has already; the default "
            "generation does",
            ("--partial-rollout", "--rollout-max-context-len"),
        )


def check_over_sampling(config: Config) -> Iterator[Finding]:
    """A refill holds at least one round's prompts."""
    refill = config.over_sampling_batch_size
    if refill is not None and refill < config.rollout_batch_size:
        yield Finding(
            f"--over-sampling-batch-size {refill} is below --rollout-batch-size {config.rollout_batch_size}: one "
            "refill "
            "would never fill a round",
            f"give at least {config.rollout_batch_size}",
            ("--over-sampling-batch-size",),
        )


RULES = (
    Rule(
        id="token-budget",
        row=28,
        source="slime#1839",
        severity="warning",
        title=Text("最长的样本装得进一个 micro-batch", "The longest sample fits one micro-batch"),
        why=Text(
            "超出上限的样本独占一个 micro-batch，它的显存没有人算过；以前这里只有一句 This should never happen。",
            "A sample above the limit becomes a micro-batch of its own, whose memory nobody reckoned with; it used to "
            "end "
            "in “This should never happen”.",
        ),
        cfg=check_token_budget,
    ),
    Rule(
        id="lengths",
        row=29,
        source="verl#1627, verl#673, SkyRL#333, prime-rl#863, prime-rl#699",
        title=Text("prompt 加回答不超过上下文", "Prompt and response fit the context"),
        why=Text(
            "超出引擎或模型的上下文时，请求会在运行途中被 400 拒绝，或者只剩 0 个 token 可以生成。",
            "Beyond the context of engine or model, requests are refused with 400 in mid-run, or 0 tokens are left to "
            "generate.",
        ),
        cfg=check_lengths,
    ),
    Rule(
        id="prefill",
        row=30,
        source="trl#3788, verl#140",
        severity="warning",
        title=Text("不分块的 prefill 算得下最长的 prompt", "A prefill without chunks can compute the longest prompt"),
        why=Text(
            "关闭分块之后，长 prompt 会一次算完。别的引擎拒绝启动；SGLang 照收，但没有为它留显存。",
            "With chunking off, a long prompt is computed in one piece. Other engines refuse to start; SGLang admits "
            "it "
            "without having kept memory for it.",
        ),
        cfg=check_prefill,
    ),
    Rule(
        id="continued-length",
        row=31,
        source="slime#2260",
        severity="warning",
        title=Text("续写的回答仍在上下文之内", "A continued response still fits the context"),
        why=Text(
            "续写时要从预算中减去已经生成的 token，否则引擎以 400 拒绝请求。默认的生成会减，自定义函数未必。",
            "When a response is continued, what it has already counts against the budget, or the engine answers 400. "
            "The "
            "default generation subtracts it; a function of your own may not.",
        ),
        cfg=check_continued_length,
    ),
    Rule(
        id="over-sampling",
        title=Text("一次补充至少够一轮", "One refill is at least a round"),
        why=Text(
            "补充的组数小于一轮的 prompt 数时，每一轮都要多等一次。",
            "With refills smaller than a round, every round waits for a second one.",
        ),
        cfg=check_over_sampling,
    ),
)
