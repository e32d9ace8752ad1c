"""Generation: how many samples, how long, how drawn."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import NEWER_SLIME, flag, planned


@dataclass(frozen=True)
class RolloutFlags:
    """Rounds, batch sizes (in prompts and samples), lengths (in tokens) and sampling."""

    num_rollout: int = flag(
        None, "轮数：生成一次、训练一次为一轮", "number of rounds of generating and training", minimum=1, required=True
    )
    num_epoch: int | None = planned(None, "数据集的遍数；与 --num-rollout 二选一", "passes over the data", minimum=1)
    rollout_batch_size: int = flag(
        None, "每轮的 prompt 数", "prompts per round", minimum=1, maximum=1_000_000, required=True
    )
    n_samples_per_prompt: int = flag(
        1, "每个 prompt 的回答数（组大小）", "answers per prompt (group size)", minimum=1, maximum=65_536
    )
    rollout_max_response_len: int = flag(
        None, "回答的最大 token 数", "longest response, in tokens", minimum=1, required=True
    )
    rollout_max_prompt_len: int | None = flag(
        None,
        "prompt 的最大 token 数，超过的会被丢弃；给出上下文长度时默认为其减 1",
        "longest prompt, in tokens; longer ones are dropped. With a context length it defaults to one less",
        minimum=1,
    )
    rollout_max_context_len: int | None = flag(
        None, "prompt 加回答的最大 token 数", "longest prompt plus response, in tokens", minimum=2
    )
    rollout_temperature: float = flag(1.0, "采样温度，必须大于 0", "sampling temperature, above 0", above=0)
    rollout_top_p: float = flag(
        1.0,
        "核采样的概率质量；训练目前只支持 1",
        "nucleus mass; training runs 1 alone today",
        above=0,
        maximum=1,
        only=(1,),
    )
    rollout_top_k: int = flag(
        -1,
        "只从前 k 个 token 采样；-1 为不限制",
        "sample from the k likeliest tokens; -1 means all",
        minimum=-1,
        only=(-1,),
    )
    rollout_stop: tuple[str, ...] | None = flag(None, "停止字符串", "strings that end a response")
    rollout_stop_token_ids: tuple[int, ...] | None = flag(
        None,
        "停止 token 的 id；tokenizer、generation_config 与对话模板里的结束 token 总会加入",
        "ids of tokens that end a response, besides those of tokenizer, generation_config and chat template",
        minimum=0,
    )
    rollout_skip_special_tokens: bool = flag(
        False, "回答的文本中去掉特殊 token", "leave special tokens out of the text of a response"
    )
    rollout_banned_token_ids: tuple[int, ...] | None = flag(
        None,
        "采样时排除的 token 的 id，例如 pad；对数概率会因此略高于训练端",
        "ids that are never sampled, for example pad; the sampler's log-probs rise above the trainer's by their mass",
        minimum=0,
        source="own",
    )
    truncated_samples: str = flag(
        "grade",
        "达到长度上限的回答：grade 照常评分，wrong 按没有答案计，mask 评分但不进入损失",
        "responses cut at their limit: grade = graded as they are, wrong = as if without an answer, mask = graded, but "
        "out of the loss",
        choices=("grade", "wrong", "mask"),
        source="own",
    )
    rollout_function_path: str = flag(
        "slime.rollout.generate.generate_rollout",
        "一轮采样的函数",
        "import path of the function that generates one round",
    )
    custom_generate_function_path: str | None = flag(
        None,
        "自定义生成函数：生成一个样本的整条轨迹",
        "import path of a function that makes the trajectory of a sample",
    )
    hook_timeout: float = flag(
        1800.0, "一次钩子调用的时限（秒）", "seconds that one call of a hook may take", above=0, source="own"
    )
    over_sampling_batch_size: int | None = flag(
        None, "一次补充的组数，不小于每轮的 prompt 数", "groups per refill, at least the prompts per round", minimum=1
    )
    dynamic_sampling_max_rounds: int = flag(
        20,
        "一轮最多补充的次数；仍凑不齐就报错退出",
        "refills after which a round that is still short of groups ends the run",
        minimum=1,
        source="own",
    )
    dynamic_sampling_filter_path: str | None = flag(
        None, "动态采样过滤函数", "import path of a filter that drops groups"
    )
    partial_rollout: bool = flag(
        False, "保留未完成的回答，下一轮续写", "keep unfinished responses and continue them in the next round"
    )
    mask_offpolicy_in_partial_rollout: bool = flag(
        False, "续写时把旧前缀移出损失", "leave the old prefix of a continued response out of the loss"
    )
    max_weight_staleness: int | None = flag(
        None,
        "全异步：样本最旧的 token 至多落后训练端几次权重更新；不给则不限",
        "fully async: updates that the weights behind a sample's oldest token may lie behind training; without it, any "
        "number",
        minimum=0,
        source="own",
    )
    rollout_sample_hook_path: tuple[str, ...] | None = flag(
        None, "评分前处理每个样本的函数", "import paths of functions that see each sample before its reward"
    )
    buffer_filter_path: str | None = flag(None, "从缓冲区取样本的函数", "import path of the buffer's filter")
    buffer_sort_by_staleness: bool = flag(False, "先取最旧的样本", "take the stalest samples first", since=NEWER_SLIME)
    flush_cache_interval: int = planned(
        1,
        "每隔多少次权重同步清空引擎缓存",
        "weight updates between two flushes of the engine's cache",
        minimum=1,
        since=NEWER_SLIME,
    )
    rollout_data_postprocess_path: str | None = flag(
        None, "训练数据的后处理函数", "import path of a function that post-processes training data"
    )
    rollout_sample_filter_path: str | None = flag(
        None, "决定哪些样本进入损失的函数", "import path of a function that chooses samples for the loss"
    )
    rollout_all_samples_process_path: str | None = flag(
        None, "处理全部样本的函数", "import path of a function that sees all samples"
    )
    rollout_buffer_url: str | None = planned(None, "外部样本缓冲服务的地址", "address of an external rollout buffer")
    fetch_trajectory_retry_times: int = planned(
        -1,
        "向缓冲服务取样本的重试次数；-1 为不限",
        "retries of a fetch from the rollout buffer; -1 means no limit",
        minimum=-1,
    )
    rollout_task_type: str = planned("math", "缓冲服务的任务类型", "kind of task that the rollout buffer runs")


@dataclass(frozen=True)
class EvaluationFlags:
    """Held-out evaluation. Values that are not given are those of the rollout."""

    eval_interval: int | None = flag(None, "每隔多少轮评估一次", "rounds between two evaluations", minimum=1)
    eval_prompt_data: tuple[str, ...] | None = flag(
        None, "评估集：名称 路径，可写多对", "evaluation sets: name path, one or more pairs"
    )
    eval_config: str | None = flag(None, "评估配置文件（YAML）", "file that describes the evaluation (YAML)")
    eval_function_path: str | None = flag(None, "自定义评估函数", "import path of an evaluation function")
    skip_eval_before_train: bool = flag(False, "训练前不评估", "do not evaluate before the first round")
    n_samples_per_eval_prompt: int = flag(1, "评估时每个 prompt 的回答数", "answers per evaluation prompt", minimum=1)
    eval_temperature: float = flag(
        None, "评估的采样温度；0 为贪心", "temperature of the evaluation; 0 is greedy", minimum=0
    )
    eval_top_p: float = flag(None, "评估的核采样概率质量", "nucleus mass of the evaluation", above=0, maximum=1)
    eval_top_k: int = flag(None, "评估只从前 k 个 token 采样", "tokens that the evaluation samples from", minimum=-1)
    eval_max_response_len: int = flag(
        None, "评估回答的最大 token 数", "longest evaluation response, in tokens", minimum=1
    )
    eval_max_prompt_len: int | None = flag(
        None, "评估 prompt 的最大 token 数", "longest evaluation prompt, in tokens", minimum=1
    )
    eval_max_context_len: int | None = flag(
        None, "评估时 prompt 加回答的最大 token 数", "longest evaluation prompt plus response, in tokens", minimum=2
    )
    eval_min_new_tokens: int | None = flag(
        None, "评估回答的最小 token 数", "shortest evaluation response, in tokens", minimum=0
    )
    eval_input_key: str = flag(None, "评估集 prompt 所在的列", "column of the prompt in evaluation sets")
    eval_label_key: str | None = flag(
        None, "评估集标准答案所在的列", "column of the reference answer in evaluation sets"
    )
    eval_tool_key: str | None = flag(
        None,
        "评估集工具定义所在的列，默认同 --tool-key",
        "column of the tools in evaluation sets, by default --tool-key",
    )
    eval_reward_key: str | None = flag(None, "评估取哪个奖励键", "key of the reward in the evaluation")
