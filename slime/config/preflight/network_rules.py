"""The rules about the network. Their checks are in `network`."""

from __future__ import annotations

from slime.config.flags import Text
from slime.config.preflight import network
from slime.config.rule import Rule

RULES = (
    Rule(
        id="shared-gpus",
        row=12,
        source="trl#3706, trl#3762, trl#3424",
        title=Text("外部引擎与训练端不在同一张 GPU 上", "External engines and trainer are not on one GPU"),
        why=Text(
            "本机上已有的引擎占着训练要用的 GPU 时，NCCL 会报 Duplicate GPU detected。",
            "When an engine on this machine holds the trainer's GPUs, NCCL says “Duplicate GPU detected”.",
        ),
        host=network.check_shared_gpus,
    ),
    Rule(
        id="proxies",
        row=65,
        source="slime#1026",
        title=Text("代理不经手运行内部的请求", "A proxy is not asked for the run's own addresses"),
        why=Text(
            "设了代理而 no_proxy 不含本机地址时，路由器找不到引擎。",
            "With a proxy set, and no_proxy without this machine's addresses, the router cannot reach its engines.",
        ),
        host=network.check_proxies,
    ),
    Rule(
        id="rdma",
        row=67,
        source="sglang#23342, sglang#10560, Mooncake#851, vllm#44919",
        title=Text("PD 分离有可用的 RDMA", "Prefill and decode have a working RDMA link"),
        why=Text(
            "网卡不在、链路未通、不能锁定内存，或者主机名解析到回环地址时，请求会一直挂起，GPU 空闲。",
            "Without the device, an active link, pinned memory and a host name with an address, requests hang on idle "
            "GPUs.",
        ),
        host=network.check_rdma,
    ),
    Rule(
        id="interfaces",
        row=68,
        source="ray#30333",
        title=Text("环境变量指定的网卡存在", "Interfaces that variables name are there"),
        why=Text(
            "写死的 eth0 在另一台机器上不存在，进程组便找不到 socket。",
            "An eth0 that was baked in is not there on another machine, and process groups find no socket.",
        ),
        host=network.check_interfaces,
    ),
    Rule(
        id="external-engines",
        row=75,
        source="trl#3736, trl#3467",
        title=Text("外部引擎可以连通，也连得回来", "External engines can be reached, and can reach back"),
        why=Text(
            "引擎还没准备好，或者训练端的主机名只在本机有意义，权重组就建不起来。",
            "When an engine is not ready, or the trainer's host name means something on its own machine alone, the "
            "weight "
            "group cannot be formed.",
        ),
        host=network.check_external_engines,
    ),
    Rule(
        id="ports",
        title=Text("指定的端口空闲", "Ports that were chosen are free"),
        why=Text(
            "端口被占时，引擎要到加载完权重才会失败。",
            "With a busy port the engine fails after loading its weights.",
        ),
        host=network.check_ports,
    ),
)
