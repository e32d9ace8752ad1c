"""From flags to data, through the setup of a real run: what each flag changes is seen in samples and batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slime.config import make_config
from slime.data.conversation import supervised_samples
from slime.data.flops import sequence_cost
from slime.data.prompts import PromptDataset
from slime.data.source import PromptSource
from slime.rollout.data_setup import batch_options, chat_template
from slime.rollout.errors import SetupError
from slime.rollout.hook_set import HookSet
from slime.rollout.setup import RolloutSetup, load_tokenizer, prepare

from .families import tokenizer

pytestmark = pytest.mark.runtime
TOOLS = [{"type": "function", "function": {"name": "add"}}]
DIMENSIONS = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 300,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint folder without weights, and files of prompts and conversations."""
    tokenizer("qwen3").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(DIMENSIONS))
    prompts = [{"q": "1 + 12?", "a": "13", "about": {"row": i}, "fns": json.dumps(TOOLS)} for i in range(4)]
    turns = [{"role": "user", "content": "1 + 12?"}, {"role": "assistant", "content": "13"}]
    write(tmp_path / "train.jsonl", prompts)
    write(tmp_path / "sft.jsonl", [{"messages": turns, "tools": TOOLS}] * 2)
    return tmp_path


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def config_of(folder: Path, **flags: Any) -> Any:
    values = {
        "hf_checkpoint": str(folder), "ref_load": str(folder), "device": "cpu", "colocate": True,
        "prompt_data": str(folder / "train.jsonl"), "input_key": "q", "label_key": "a", "rm_type": "math",
        "num_rollout": 1, "rollout_batch_size": 2, "n_samples_per_prompt": 2, "rollout_max_response_len": 8,
        "actor_num_gpus_per_node": 1, **flags,
    }  # fmt: skip
    return make_config(**values)


def setup_of(folder: Path, **flags: Any) -> RolloutSetup:
    return prepare(config_of(folder, **flags))


def test_prompts_tools_and_metadata_come_through_the_template(folder: Path) -> None:
    setup = setup_of(folder, apply_chat_template=True, tool_key="fns", metadata_key="about")
    ((sample, sibling),) = setup.source.get_groups(1)
    expected = tokenizer("qwen3").apply_chat_template(
        [{"role": "user", "content": "1 + 12?"}], tools=TOOLS, add_generation_prompt=True, return_dict=False
    )
    assert sample.tokens == sibling.tokens == expected
    assert sample.metadata == {"row": 0, "tools": TOOLS}


def test_arguments_and_a_template_of_ones_own(folder: Path) -> None:
    quiet = setup_of(folder, apply_chat_template=True, apply_chat_template_kwargs={"enable_thinking": False})
    ((sample, _),) = quiet.source.get_groups(1)
    assert isinstance(sample.prompt, str)
    assert sample.prompt.endswith("<think>\n\n</think>\n\n")
    own = folder / "own.jinja"
    own.write_text("{% for m in messages %}Q {{ m.content }}{% endfor %} A")
    ((sample, _),) = setup_of(folder, apply_chat_template=True, chat_template_path=str(own)).source.get_groups(1)
    assert sample.prompt == "Q 1 + 12? A"
    with pytest.raises(SetupError, match=r"--chat-template-path .*none.jinja cannot be read"):
        setup_of(folder, apply_chat_template=True, chat_template_path=str(folder / "none.jinja"))
    with pytest.raises(SetupError, match="'tokenize' is an argument of the tokenizer"):
        setup_of(folder, apply_chat_template=True, apply_chat_template_kwargs={"tokenize": True})


def test_held_out_sets_have_their_own_columns(folder: Path) -> None:
    setup = setup_of(
        folder, apply_chat_template=True, eval_prompt_data=("sums", str(folder / "train.jsonl")), eval_interval=1,
        eval_tool_key="fns",
    )  # fmt: skip
    (one,) = setup.held_out
    assert "# Tools" in str(one.dataset.prompts[0].text)
    assert isinstance(setup.source, PromptSource)
    assert "# Tools" not in str(setup.source.dataset.prompts[0].text)


def test_conversations_of_supervised_data(folder: Path) -> None:
    setup = setup_of(
        folder, prompt_data=str(folder / "sft.jsonl"), input_key="messages", label_key=None, rm_type=None,
        loss_type="sft_loss", rollout_function_path="slime.rollout.sft_rollout.generate_rollout",
        n_samples_per_prompt=1,
    )  # fmt: skip
    ((sample,),) = setup.source.get_groups(1)
    template = chat_template(setup.config, load_tokenizer(setup.config))
    (made,) = supervised_samples(sample, template)
    assert made.response == "<think>\n\n</think>\n\n13<|im_end|>\n"
    assert setup.batch.supervised
    assert not setup.batch.normalize


def test_the_schedule_is_that_of_the_flags(folder: Path) -> None:
    config = config_of(
        folder, use_dynamic_batch_size=True, max_tokens_per_gpu=64, log_probs_max_tokens_per_gpu=128, balance_data=True,
        balance_by_flops=True, num_steps_per_rollout=2, disable_rewards_normalization=True,
    )  # fmt: skip
    options = batch_options(config, HookSet(config))
    schedule = options.schedule
    assert (schedule.max_tokens_per_gpu, schedule.log_probs_max_tokens_per_gpu) == (64, 128)
    assert (schedule.global_batch_size, schedule.balance_data, schedule.balance_by_flops) == (2, True, True)
    assert schedule.cost == sequence_cost(DIMENSIONS)
    assert not options.normalize
    plain = config_of(folder, micro_batch_size=2)
    schedule = batch_options(plain, HookSet(plain)).schedule
    assert (schedule.micro_batch_size, schedule.max_tokens_per_gpu, schedule.cost.quadratic) == (2, None, 0)
    (folder / "config.json").write_text("{}")
    with pytest.raises(SetupError, match="num_hidden_layers is None"):
        batch_options(config, HookSet(config))


def test_a_source_and_its_prompts_stay_the_same(folder: Path) -> None:
    """Two setups of one configuration give one stream, so that a saved position means the same prompts."""
    first, second = (setup_of(folder, apply_chat_template=True, rollout_shuffle=True).source for _ in range(2))
    first.get_groups(3)
    second.load_state_dict(first.state_dict())
    assert [g[0].to_dict() for g in first.get_groups(3)] == [g[0].to_dict() for g in second.get_groups(3)]
    assert isinstance(first, PromptSource)
    assert isinstance(first.dataset, PromptDataset)
