"""Groups of servers that the runtime starts today, and what stands between the client and them."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import REGISTRY, Config
from slime.config.errors import ConfigError
from slime.config.flags import Text, value_text
from slime.config.rule import Finding, Rule
from slime.config.serving_groups import ServingGroup, disaggregated, serving_groups
from slime.config.underneath import SGLANG_PREFIX

_FILE = "--sglang-config"


def check_groups_run(config: Config) -> Iterator[Finding]:
    """Every group of engines is of a kind that runs."""
    try:
        groups = serving_groups(config)
    except ConfigError:
        return  # the rule of the serving pool says what is wrong with them
    flag = _FILE if config.sglang_config is not None else "--prefill-num-servers"
    if disaggregated(groups):
        if config.device == "cpu":
            yield Finding(
                "prefill and decode engines hand their KV cache over from GPU to GPU, and --device is cpu",
                "use regular engines",
                (flag, "--device"),
            )
        else:
            yield Finding(
                "prefill and decode engines are planned: they are placed and their arguments are complete, but no run "
                "has shown them",
                "use regular engines",
                (flag,),
            )
    for group in groups if config.sglang_config is not None else ():
        yield from _check_group(group)


def _check_group(group: ServingGroup) -> Iterator[Finding]:
    where = f"the model {group.model} of {_FILE}"
    if group.kind == "encoder":
        yield Finding(f"{where}: encoder engines are planned", "leave the group out", (_FILE,))
    each = "--rollout-num-gpus-per-engine"
    if REGISTRY.planned(each, str(group.gpus_per_engine)):
        yield Finding(
            f"{where}: engines of {group.gpus_per_engine} GPUs are planned",
            f"give num_gpus_per_engine {', '.join(REGISTRY[each].only or ())}",
            (_FILE, each),
        )
    for name, value in group.overrides.items():
        one = REGISTRY[SGLANG_PREFIX + name]
        items = value if one.many else (value,)
        off = one.switch and value is False and not one.default
        if not off and any(one.planned(None if item is True else value_text(item)) for item in items):
            yield Finding(
                f"{where} overrides {name.replace('-', '_')}, which is planned: the runtime does not run it yet",
                "leave it out",
                (_FILE, one.name),
            )


def check_router(config: Config) -> Iterator[Finding]:
    """A router that runs already is named whole, and keeps its own policy."""
    address = ("--sglang-router-ip", "--sglang-router-port")
    if (config.sglang_router_ip is None) != (config.sglang_router_port is None):
        given, lacks = address if config.sglang_router_port is None else address[::-1]
        yield Finding(f"{given} is given without {lacks}", "give both, or neither", address)
    if config.sglang_router_ip is not None and config.router_policy is not None:
        yield Finding(
            f"--router-policy {config.router_policy} is that of a router which is started here, and "
            f"--sglang-router-ip {config.sglang_router_ip} names one that runs already, with a policy of its own",
            "drop one of them",
            ("--router-policy", "--sglang-router-ip"),
        )


RULES = (
    Rule(
        id="serving-groups",
        title=Text("引擎的分组是能运行的那几种", "The groups of engines are of kinds that run"),
        why=Text(
            "prefill 与 decode 分离要在 GPU 之间传 KV 缓存；还没有运行过的分组，要在占用 GPU 之前拒绝。",
            "With prefill and decode apart, the KV cache travels between GPUs; a group that has not been shown to run "
            "is refused before it takes GPUs.",
        ),
        cfg=check_groups_run,
    ),
    Rule(
        id="router",
        title=Text("路由器的地址完整，策略归启动它的一方", "A router is named whole, and its starter sets its policy"),
        why=Text(
            "只有地址没有端口就连不上；已有的路由器不会按这里的策略分配请求，指定了也没有作用。",
            "An address without a port cannot be reached; a router that runs already does not take a policy from here.",
        ),
        cfg=check_router,
    ),
)
