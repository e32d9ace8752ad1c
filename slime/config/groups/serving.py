"""SGLang: the server's own flags with the prefix ``--sglang-``, and the flags that describe a group of servers."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import flag, planned

# Of sglang-router 0.3.2.
ROUTER_POLICIES = ("random", "round_robin", "cache_aware", "power_of_two", "manual")


@dataclass(frozen=True)
class ServingFlags:
    """Flags of the SGLang server. None means that the server's own default stands."""

    sglang_server_concurrency: int = flag(
        512, "每个引擎同时处理的请求数", "requests in flight per engine", minimum=1, maximum=8192
    )
    sglang_port: int | None = flag(
        None,
        "引擎监听的端口，多个引擎依次加一；不写则自动选空闲端口",
        "port of the engine, one more for each further engine; left out, free ports are chosen",
        minimum=1024,
        maximum=65535,
        source="own",
    )
    sglang_mem_fraction_static: float | None = flag(
        None,
        "权重和 KV 缓存占用的显存比例",
        "fraction of the memory for weights and KV cache",
        above=0,
        maximum=1,
        source="sglang",
    )
    sglang_context_length: int | None = flag(
        None, "引擎的上下文长度", "context length of the engine, in tokens", minimum=2, source="sglang"
    )
    sglang_max_total_tokens: int | None = flag(
        None, "KV 缓存的 token 总数", "tokens in the KV cache", minimum=1, source="sglang"
    )
    sglang_max_running_requests: int | None = flag(
        None, "引擎同时运行的请求数", "requests that the engine runs at once", minimum=1, source="sglang"
    )
    sglang_dtype: str | None = flag(
        None,
        "引擎的权重精度；默认与训练端相同：CPU 上 float32，GPU 上 bfloat16",
        "precision of the engine's weights; by default the trainer's: float32 on a CPU, bfloat16 on a GPU",
        source="sglang",
    )
    sglang_attention_backend: str | None = flag(
        None,
        "引擎的注意力实现；CPU 上默认 torch_native",
        "attention of the engine; torch_native by default on a CPU",
        only=("torch_native", "triton"),
        source="sglang",
    )
    sglang_cuda_graph_backend_decode: str | None = flag(
        None,
        "decode 阶段的 CUDA graph；disabled 为不用",
        "CUDA graphs of decoding; disabled uses none",
        only=("full", "disabled"),
        source="sglang",
    )
    sglang_cuda_graph_backend_prefill: str | None = flag(
        None,
        "prefill 阶段的 CUDA graph；disabled 为不用",
        "CUDA graphs of prefilling; disabled uses none",
        only=("disabled",),
        source="sglang",
    )
    sglang_chunked_prefill_size: int | None = flag(
        None, "一次 prefill 的最大 token 数", "tokens of one prefill chunk", minimum=-1, source="sglang"
    )
    sglang_log_level: str | None = flag(
        None,
        "引擎的日志级别",
        "log level of the engine",
        source="sglang",
    )
    sglang_watchdog_timeout: float | None = flag(
        None, "引擎的看门狗时限（秒）", "watchdog of the engine, in seconds", above=0, source="sglang"
    )
    sglang_disable_overlap_schedule: bool = planned(
        False, "关闭引擎的重叠调度；CPU 上总是关闭", "no overlapped scheduling; always off on a CPU", source="sglang"
    )
    sglang_enable_dp_attention: bool = planned(
        False, "引擎的数据并行注意力", "data-parallel attention in the engine", source="sglang"
    )
    sglang_dp_size: int | None = planned(
        None, "引擎的数据并行", "data parallelism in the engine", minimum=1, source="sglang"
    )
    sglang_enable_dp_lm_head: bool = planned(
        False, "引擎的数据并行 LM head", "data-parallel LM head in the engine", source="sglang"
    )
    sglang_moe_dense_tp_size: int | None = planned(
        None,
        "MoE 模型 dense 层的张量并行",
        "tensor parallelism of an MoE model's dense layers",
        minimum=1,
        source="sglang",
    )
    sglang_ep_size: int | None = planned(
        None, "引擎的专家并行", "expert parallelism in the engine", minimum=1, source="sglang"
    )
    sglang_moe_a2a_backend: str | None = planned(
        None,
        "引擎的专家通信",
        "all-to-all of the engine's experts",
        source="sglang",
    )
    sglang_moe_runner_backend: str | None = planned(
        None, "引擎的专家计算", "kernel of the engine's experts", source="sglang"
    )
    sglang_deepep_mode: str | None = planned(None, "DeepEP 的模式", "mode of DeepEP", source="sglang")
    sglang_page_size: int | None = planned(
        None, "KV 缓存的页大小", "page size of the KV cache", minimum=1, source="sglang"
    )
    sglang_kv_cache_dtype: str | None = planned(
        None,
        "KV 缓存的精度",
        "precision of the KV cache",
        source="sglang",
    )
    # Five names are those of SGLang 0.5.23. It was --nsa-decode-backend, --nsa-prefill-backend,
    # --mamba-scheduler-strategy, --cuda-graph-max-bs and --cuda-graph-bs in 0.5.15.
    sglang_dsa_decode_backend: str | None = planned(
        None,
        "稀疏注意力（DSA）的 decode 实现",
        "decode kernel of sparse attention (DSA)",
        source="sglang",
        since="0.5.23",
    )
    sglang_dsa_prefill_backend: str | None = planned(
        None,
        "稀疏注意力（DSA）的 prefill 实现",
        "prefill kernel of sparse attention (DSA)",
        source="sglang",
        since="0.5.23",
    )
    sglang_mamba_radix_cache_strategy: str | None = planned(
        None,
        "混合模型的状态缓存策略",
        "state-cache strategy of hybrid models",
        source="sglang",
        since="0.5.23",
    )
    sglang_mamba_ssm_dtype: str | None = planned(
        None,
        "混合模型的状态精度",
        "precision of the state of hybrid models",
        source="sglang",
    )
    sglang_mamba_full_memory_ratio: float | None = planned(
        None, "状态缓存与 KV 缓存的字节比", "bytes of state cache over bytes of KV cache", above=0, source="sglang"
    )
    sglang_cuda_graph_max_bs_decode: int | None = planned(
        None, "decode 用 CUDA graph 的最大批", "largest batch that decodes with a CUDA graph", minimum=1,
        source="sglang", since="0.5.23",
    )  # fmt: skip
    sglang_cuda_graph_bs_decode: tuple[int, ...] | None = planned(
        None, "decode 用 CUDA graph 的批大小", "batch sizes that decode with a CUDA graph", minimum=1,
        source="sglang", since="0.5.23",
    )  # fmt: skip
    sglang_speculative_algorithm: str | None = planned(
        None,
        "投机采样算法",
        "speculative decoding",
        source="sglang",
    )
    sglang_speculative_num_steps: int | None = planned(
        None, "投机采样的步数", "steps of the draft", minimum=1, source="sglang"
    )
    sglang_speculative_eagle_topk: int | None = planned(
        None, "草稿每步的分支数", "branches of the draft per step", minimum=1, source="sglang"
    )
    sglang_speculative_num_draft_tokens: int | None = planned(
        None, "一次验证的草稿 token 数", "draft tokens per verification", minimum=1, source="sglang"
    )
    sglang_speculative_draft_model_path: str | None = planned(None, "草稿模型", "draft model", source="sglang")
    sglang_speculative_draft_attention_backend: str | None = planned(
        None, "草稿模型的注意力实现", "attention of the draft model", source="sglang"
    )
    sglang_enable_deterministic_inference: bool = planned(
        False, "引擎的确定性模式", "deterministic engine", source="sglang"
    )
    sglang_enable_hierarchical_cache: bool = planned(
        False, "分层 KV 缓存（HiCache）", "hierarchical KV cache (HiCache)", source="sglang"
    )
    sglang_hicache_ratio: float | None = planned(
        None, "主机缓存与显存缓存之比", "host cache over device cache", above=0, source="sglang"
    )
    sglang_disaggregation_transfer_backend: str | None = planned(
        None,
        "PD 分离的传输",
        "transfer of PD disaggregation",
        source="sglang",
    )
    sglang_disaggregation_ib_device: str | None = planned(
        None, "PD 分离的 RDMA 网卡，逗号分隔", "RDMA devices of PD disaggregation, separated by commas", source="sglang"
    )
    sglang_tool_call_parser: str | None = planned(None, "工具调用的解析器", "parser of tool calls", source="sglang")
    sglang_reasoning_parser: str | None = planned(None, "思考内容的解析器", "parser of reasoning", source="sglang")
    sglang_router_ip: str | None = flag(
        None,
        "已有的 SGLang 路由器的地址：引擎登记到它那里，运行结束时撤出；与 --sglang-router-port 一起给出",
        "address of an SGLang router that already runs: the engines are added to it, and removed when the run ends; "
        "given together with --sglang-router-port",
    )
    sglang_router_port: int | None = flag(
        None, "已有的 SGLang 路由器的端口", "port of an SGLang router that already runs", minimum=1, maximum=65535
    )
    sglang_router_request_timeout_secs: int = flag(
        14400, "所启动的路由器的请求时限（秒）", "time limit of a request in the router that is started, in seconds",
        minimum=1,
    )  # fmt: skip
    use_distributed_post: bool = planned(
        False, "由各节点上的进程分担发送请求", "spread the posting of requests over processes on all nodes"
    )
    router_policy: str | None = flag(
        None,
        "启动 SGLang 的路由器（sglang-router），按这种策略分配请求；manual 让同一会话（一条轨迹）留在同一引擎。"
        "不写则不用路由器：客户端把请求发给在途请求最少的引擎，同一会话仍发往上次的引擎",
        "start SGLang's router (sglang-router) with this policy; manual keeps a session, that is a trajectory, on one "
        "engine. Left out, there is no router: the client sends a request to the engine with the fewest in flight, and "
        "a session to the engine that it had before",
        choices=ROUTER_POLICIES,
    )
    router_balance_abs_threshold: int = flag(
        10, "路由器判定失衡的请求数之差（策略 cache_aware）",
        "difference in requests from which the router rebalances (policy cache_aware)", minimum=0,
    )  # fmt: skip
    router_balance_rel_threshold: float = flag(
        1.2, "路由器判定失衡的请求数之比（策略 cache_aware）",
        "ratio of requests from which the router rebalances (policy cache_aware)", minimum=1,
    )  # fmt: skip
    sglang_config: str | None = flag(
        None,
        "服务组的描述文件（YAML）：若干模型，每个模型有若干组引擎（regular、prefill、decode、placeholder），"
        "每组可以覆盖 SGLang 的参数；第一个 update_weights 的模型接收训练端的权重",
        "file that describes groups of servers (YAML): models, each with groups of engines (regular, prefill, decode, "
        "placeholder) and overrides of SGLang's arguments for a group; the model with update_weights takes the "
        "trainer's weights",
    )
    prefill_num_servers: int | None = planned(
        None, "PD 分离中 prefill 引擎的个数", "prefill engines of PD disaggregation", minimum=1
    )
