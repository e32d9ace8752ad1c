"""Every place where a function of the user's takes part in a run: one table.

A hook is given by import path (``package.module.function`` or ``package.module:function``). It is loaded once, its
signature is checked before anything starts, and what it returns is checked at every call. `slime hooks list` prints
this table, `slime hooks check` tries hooks without a run.
"""

from __future__ import annotations

import difflib

from slime.rollout.hook import Hook
from slime.rollout.trainer_hooks import TRAINER_HOOKS

ROLLOUT_HOOKS: tuple[Hook, ...] = (
    Hook(
        "rollout-function",
        "rollout_function_path",
        ("args", "rollout_id", "data_source"),
        "either",
        "RolloutFnTrainOutput",
        "round",
        "Generates one round of graded groups; replaces the whole generation loop.",
        """async def f(args, rollout_id, data_source, evaluation=False):
    from slime.rollout.generate import generate_rollout

    return await generate_rollout(args, rollout_id, data_source)
""",
        ("evaluation",),
    ),
    Hook(
        "eval-function",
        "eval_function_path",
        ("args", "rollout_id", "data_source"),
        "either",
        "RolloutFnEvalOutput",
        "round",
        "Evaluates; called with evaluation=True, returns scores by the name of the data set.",
        """from slime.rollout.outputs import RolloutFnEvalOutput


def f(args, rollout_id, data_source, evaluation=True):
    return RolloutFnEvalOutput({"constant": {"rewards": [1.0, 0.0], "truncated": [False, False]}})
""",
        ("evaluation",),
    ),
    Hook(
        "custom-generate",
        "custom_generate_function_path",
        ("args", "sample", "sampling_params"),
        "async",
        "Sample | list[Sample]",
        "sample",
        "Makes the trajectory of one sample: several turns, tools, an agent. A list is one trajectory in pieces.",
        """from slime.rollout.context import current


async def f(args, sample, sampling_params):
    answer = await current().generate(sample, sample.tokens, sampling_params)
    return current().append(sample, answer)
""",
        ("evaluation",),
    ),
    Hook(
        "rollout-sample-hook",
        "rollout_sample_hook_path",
        ("args", "sample"),
        "either",
        "Sample | None",
        "sample",
        "Sees each finished sample before its reward and may change it; None keeps the sample.",
        """def f(args, sample):
    sample.response = sample.response.strip()
""",
        ("rollout_id", "evaluation"),
    ),
    Hook(
        "custom-rm",
        "custom_rm_path",
        ("args", "sample"),
        "async",
        "float | dict",
        "sample",
        "Rewards one sample. A dict needs --reward-key. With --group-rm see custom-rm-group.",
        """async def f(args, sample):
    return 1.0 if sample.label in sample.response else 0.0
""",
    ),
    Hook(
        "custom-rm-group",
        "custom_rm_path",
        ("args", "samples"),
        "async",
        "list[float | dict]",
        "group",
        "With --group-rm: rewards all samples of a prompt at once, one reward each, in order.",
        """async def f(args, samples):
    shortest = min(sample.response_length for sample in samples)
    return [1.0 if sample.response_length == shortest else 0.0 for sample in samples]
""",
    ),
    Hook(
        "dynamic-filter",
        "dynamic_sampling_filter_path",
        ("args", "samples"),
        "sync",
        "DynamicFilterOutput | bool",
        "group",
        "Decides whether a graded group is kept; another prompt takes the place of one that is not.",
        """from slime.rollout.filters import DynamicFilterOutput


def f(args, samples):
    solved = any(sample.reward > 0 for sample in samples)
    return DynamicFilterOutput(keep=solved, reason="nobody_solved_it")
""",
    ),
    Hook(
        "buffer-filter",
        "buffer_filter_path",
        ("args", "rollout_id", "buffer", "n"),
        "sync",
        "list[list[Sample]]",
        "round",
        "Takes up to n groups out of the buffer of unfinished groups; what it returns it must remove from the buffer.",
        """def f(args, rollout_id, buffer, n):
    taken = buffer[:n]
    del buffer[:n]
    return taken
""",
    ),
    Hook(
        "rollout-sample-filter",
        "rollout_sample_filter_path",
        ("args", "groups"),
        "sync",
        "None",
        "round",
        "Sets remove_sample on samples of the round that must not train; they still count in their group's statistics.",
        """def f(args, groups):
    for sample in (sample for group in groups for sample in group):
        sample.remove_sample |= sample.response_length < 2
""",
    ),
    Hook(
        "rollout-all-samples-process",
        "rollout_all_samples_process_path",
        ("args", "groups", "data_source"),
        "sync",
        "None",
        "round",
        "Sees every group that was generated, those that a filter dropped included.",
        """def f(args, groups, data_source):
    print(sum(map(len, groups)), "samples were generated")
""",
    ),
    Hook(
        "custom-reward-post-process",
        "custom_reward_post_process_path",
        ("args", "samples"),
        "sync",
        "tuple[list[float], list[float]]",
        "round",
        "Replaces the normalisation of rewards; returns (raw rewards, advantages), one of each for every sample.",
        """def f(args, samples):
    raw = [sample.reward for sample in samples]
    mean = sum(raw) / len(raw)
    return raw, [reward - mean for reward in raw]
""",
    ),
    Hook(
        "custom-convert-samples-to-train-data",
        "custom_convert_samples_to_train_data_path",
        ("args", "samples"),
        "sync",
        "dict",
        "round",
        "Replaces the conversion of samples to training data.",
        """def f(args, samples):
    return {
        "tokens": [sample.tokens for sample in samples],
        "response_lengths": [sample.response_length for sample in samples],
        "rewards": [sample.reward for sample in samples],
        "raw_reward": [sample.reward for sample in samples],
        "truncated": [0 for sample in samples],
        "sample_indices": [sample.index for sample in samples],
        "loss_masks": [sample.mask() for sample in samples],
    }
""",
    ),
    Hook(
        "data-source",
        "data_source_path",
        ("args",),
        "class",
        "a data source",
        "start",
        "Replaces the prompt file: an object with get_groups, add_groups, state_dict and load_state_dict.",
        """from slime.data.sample import Sample


class f:
    def __init__(self, args):
        self.args, self.count, self.buffer = args, 0, []

    def get_groups(self, count):
        groups, self.buffer = self.buffer[:count], self.buffer[count:]
        while len(groups) < count:
            group = []
            for _ in range(self.args.n_samples_per_prompt):
                sample = Sample(group_index=self.count, index=self.count, prompt="1+1=", tokens=[1], prompt_length=1)
                group.append(sample)
                self.count += 1
            groups.append(group)
        return groups

    def add_groups(self, groups):
        self.buffer.extend(groups)

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]
""",
    ),
    Hook(
        "rollout-log",
        "custom_rollout_log_function_path",
        ("rollout_id", "args", "samples", "extra_metrics", "rollout_time"),
        "sync",
        "bool",
        "round",
        "Logs a round in its own way; True leaves the usual metrics of the samples out.",
        """def f(rollout_id, args, samples, extra_metrics, rollout_time):
    print(f"round {rollout_id}: {len(samples)} samples in {rollout_time:.1f} s")
    return False
""",
    ),
    Hook(
        "eval-log",
        "custom_eval_rollout_log_function_path",
        ("rollout_id", "args", "data", "extra_metrics"),
        "sync",
        "bool",
        "round",
        "Logs an evaluation in its own way; data maps each set to its rewards, True leaves the usual metrics out.",
        """def f(rollout_id, args, data, extra_metrics):
    print({name: sum(one["rewards"]) / len(one["rewards"]) for name, one in data.items()})
    return False
""",
    ),
)

HOOKS = (*ROLLOUT_HOOKS, *TRAINER_HOOKS)
BY_NAME = {hook.name: hook for hook in HOOKS}


def hook_named(name: str) -> Hook:
    """The hook with this name or flag.

    Raises:
        KeyError: there is none; the message has the nearest.
    """
    word = name.removeprefix("--")
    for hook in HOOKS:
        if word in (hook.name, hook.field, hook.flag.removeprefix("--")):
            return hook
    near = difflib.get_close_matches(word, [*BY_NAME, *(hook.flag[2:] for hook in HOOKS)], n=1)
    raise KeyError(f"there is no hook {name!r}" + (f"; the nearest is {near[0]}" if near else ""))
