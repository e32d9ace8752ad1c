"""Routing replay: what records the experts, and which engines report them for every token."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.errors import ConfigError
from slime.config.flags import Text
from slime.config.rule import Finding, Rule
from slime.config.serving_groups import disaggregated, serving_groups

_OWN, _SAMPLER = "--use-routing-replay", "--use-rollout-routing-replay"


def check_routing_replay(config: Config) -> Iterator[Finding]:
    """There is a choice of experts to replay, and it is that of every token."""
    flag = _SAMPLER if config.use_rollout_routing_replay else _OWN
    if not (config.use_routing_replay or config.use_rollout_routing_replay):
        return
    if config.loss_type == "sft_loss":
        yield Finding(
            f"{flag} replays the experts of an earlier pass, and --loss-type sft_loss has none: nothing was sampled",
            f"drop {flag}",
            (flag, "--loss-type"),
        )
    elif flag == _SAMPLER:
        yield from _check_engines(config)
    else:
        yield from _check_recording(config)


def _check_recording(config: Config) -> Iterator[Finding]:
    for other, given in (
        ("--use-rollout-logprobs", config.use_rollout_logprobs),
        ("--disable-compute-advantages-and-returns", config.disable_compute_advantages_and_returns),
    ):
        if given:
            yield Finding(
                f"{_OWN} records the experts in the pass that computes the old log-probabilities, and {other} leaves "
                "that pass out",
                f"give {_SAMPLER}, which takes the sampler's experts, or drop {other}",
                (_OWN, other),
            )


def _check_engines(config: Config) -> Iterator[Finding]:
    if config.sglang_enable_hierarchical_cache:
        yield Finding(
            f"{_SAMPLER} reads the experts from where a token's KV cache lies, and --sglang-enable-hierarchical-cache "
            "brings cached prefixes back to other places: their experts would be those of other tokens",
            "drop --sglang-enable-hierarchical-cache",
            (_SAMPLER, "--sglang-enable-hierarchical-cache"),
        )
    if config.sglang_chunked_prefill_size == -1:
        yield Finding(
            f"with {_SAMPLER} the engine keeps room for the experts of one chunk of a prompt, and "
            "--sglang-chunked-prefill-size -1 has no chunks: a long prompt would end it",
            "give a number of tokens, 8192 for example",
            (_SAMPLER, "--sglang-chunked-prefill-size"),
        )
    if _disaggregated(config):
        yield Finding(
            f"{_SAMPLER} needs the experts of every token, and a decode engine does not know those of the prompt, "
            "which a prefill engine routed",
            "serve without engines for prefill alone",
            (_SAMPLER, "--prefill-num-servers", "--sglang-config"),
        )


def _disaggregated(config: Config) -> bool:
    try:
        return disaggregated(serving_groups(config))
    except ConfigError:
        return False  # the rule of the serving pool says what is wrong with them


RULES = (
    Rule(
        id="routing-replay",
        source="sglang#26975, sglang#26860, sglang#23885",
        title=Text("路由重放有完整的专家可以重放", "Routing replay has the experts of every token"),
        why=Text(
            "没有记录专家的一遍计算，或引擎只知道一部分 token 的专家，训练就会走错专家，而比率看上去仍然正常。",
            "Without a pass that records the experts, or with an engine that knows those of some tokens only, training "
            "goes through wrong experts, and the ratios look right all the same.",
        ),
        cfg=check_routing_replay,
    ),
)
