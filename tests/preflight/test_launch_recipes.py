"""Every launch recipe, with its model's real dimensions: nothing is wrong but what the runtime does not run yet."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slime.config.command import read_inputs
from slime.config.errors import Problem
from slime.config.preflight import examine
from slime.config.resolve import NOT_YET_RULES
from slime.experiment import load_catalog
from slime.experiment.facts import load_facts
from slime.train import recipe_dimensions

FACTS = load_facts()
CATALOG = load_catalog()
RECIPES = tuple(FACTS.launch)
BLOCK = re.compile(r"^train_arguments\(\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def config_json(recipe: str) -> dict[str, Any]:
    """A config.json as Hugging Face would have it, from the recipe's model file."""
    model = FACTS.models[FACTS.launch[recipe].model]
    found: dict[str, Any] = {
        "model_type": model.hf_model_type, "num_hidden_layers": model.layers, "hidden_size": model.hidden,
        "intermediate_size": model.ffn, "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_groups or model.heads, "head_dim": model.head_dim, "vocab_size": model.vocab,
        "rope_parameters": {"rope_theta": model.rope_base, "partial_rotary_factor": float(model.rotary_percent)},
        "rms_norm_eps": float(model.norm_eps), "tie_word_embeddings": model.tied_embeddings,
        "num_nextn_predict_layers": model.mtp_layers, "max_position_embeddings": 131072,
    }  # fmt: skip
    if model.moe is not None:
        found |= {
            "n_routed_experts": model.moe.experts, "num_experts_per_tok": model.moe.topk,
            "moe_intermediate_size": model.moe.expert_ffn, "first_k_dense_replace": model.moe.dense_layers,
            "n_shared_experts": model.moe.shared_ffn // model.moe.expert_ffn if model.moe.shared_ffn else 0,
            "scoring_func": model.moe.router_score, "routed_scaling_factor": float(model.moe.router_scale),
        }  # fmt: skip
    if model.mla is not None:
        found |= {
            "q_lora_rank": model.mla.q_lora, "kv_lora_rank": model.mla.kv_lora, "v_head_dim": model.mla.v_head,
            "qk_nope_head_dim": model.mla.qk_nope, "qk_rope_head_dim": model.mla.qk_rope,
        }  # fmt: skip
    return found


def launch_words(recipe: str, folder: Path) -> tuple[str, list[str]]:
    """The folder of the engine's weights, and the flags of the trainer as bash reads them from the generated shell."""
    paths = {"hf": "hf", "train": "torch_dist", "data": "train.jsonl", "save": "run"}
    choices = {"model": recipe, **{name: str(folder / path) for name, path in paths.items()}}
    script = CATALOG.artifacts(CATALOG.sanitise(choices).state, None)["experiment.sh"]
    found = BLOCK.search(script)
    assert found is not None
    # The assignments before the functions, which fill in the paths, then the function, then what it made.
    head = script[: script.index("\nsay() {")]
    say = 'printf \'%s\\0\' "$ROLLOUT_MODEL" "${ARGUMENTS[@]}"'
    body = "\n".join([head, "train_arguments() {", found[1] + "}", "train_arguments", say])
    done = subprocess.run(["bash", "-c", body], capture_output=True, text=True, cwd=folder, check=True, timeout=30)
    model, *words = done.stdout.rstrip("\0").split("\0")
    return model, words


def problems_of(recipe: str, folder: Path, **changes: Any) -> list[Problem]:
    """What `slime check` finds at the levels cfg and hf, without what is not run yet."""
    model, words = launch_words(recipe, folder)
    Path(model).mkdir(parents=True)
    content = {**config_json(recipe), **changes}
    if model.endswith("-fp8"):
        content["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (Path(model) / "config.json").write_text(json.dumps(content))
    inputs, planned = read_inputs(words, recipe_dimensions)
    assert all("not run" in one.message for one in planned), planned
    # Weights and tokenizer of these models are not here, so the rules about them have nothing to say.
    absent = {"whole-weights", "tokenizer"}
    found = examine(inputs, ["cfg", "hf"])
    return [one for one in found if one.rule not in NOT_YET_RULES | absent]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_launch_recipe_fits_its_model(tmp_path: Path, recipe: str) -> None:
    assert problems_of(recipe, tmp_path) == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_another_model_under_its_name_is_refused(tmp_path: Path, recipe: str) -> None:
    layers = FACTS.models[FACTS.launch[recipe].model].layers
    found = problems_of(recipe, tmp_path, num_hidden_layers=layers + 1)
    assert "model-dimensions" in {one.rule for one in found}


def test_the_numbers_of_a_recipe_are_those_that_rules_read(tmp_path: Path) -> None:
    """The engine of 8 GPUs has 20 heads: it fits because its attention is copied, and not otherwise."""
    model, words = launch_words("glm-4.7-flash", tmp_path)
    Path(model).mkdir(parents=True)
    (Path(model) / "config.json").write_text(json.dumps(config_json("glm-4.7-flash")))
    at = words.index("--sglang-enable-dp-attention")
    inputs, _ = read_inputs([*words[:at], *words[at + 1 :]], recipe_dimensions)
    assert {"engine-heads", "engine-data-parallel"} <= {one.rule for one in examine(inputs, ["cfg", "hf"])}
