"""The facts: they agree with their sources, every departure is stated, and every broken file gets its exact message."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slime.experiment.facts import FactError, Facts, load_facts
from slime.experiment.facts_checks import near_divisors, near_multiples, stage_lengths
from slime.experiment.facts_deviations import dotted_values
from slime.experiment.facts_schema import LaunchFile

HERE = Path(__file__).parent
ROOT = HERE.parents[1] / "recipes"
SOURCE_MODELS = json.loads((HERE / "source_models.json").read_text(encoding="utf-8"))["models"]
SOURCE_RECIPES = json.loads((HERE / "source_recipes.json").read_text(encoding="utf-8"))["recipes"]
BROKEN = yaml.safe_load((HERE / "broken_facts.yaml").read_text(encoding="utf-8"))
ORDER = ["glm-4.7-flash", "glm-4-9b", "glm-4.7", "glm-5.3", "qwen3.8-27b", "deepseek-r1", "tiny"]


@pytest.fixture(scope="module")
def facts() -> Facts:
    return load_facts()


def test_order_keys_and_sources(facts: Facts) -> None:
    assert list(facts.launch) == list(facts.models) == ORDER
    assert facts.legacy == {
        "flash": "glm-4.7-flash", "dense": "glm-4-9b", "glm47": "glm-4.7", "glm5": "glm-5.3",
        "deepseek": "deepseek-r1", "qwen38": "qwen3.8-27b",
    }  # fmt: skip
    assert facts.sources("glm-5.3") == ["recipes/launch/glm-5.3.yaml", "recipes/models/glm-5.3.yaml"]
    for launch_id in ORDER:
        assert all((ROOT.parent / path).is_file() for path in facts.sources(launch_id))
    with pytest.raises(KeyError, match=r"no recipe 'glm-5'; did you mean glm-5\.3\?"):
        facts.sources("glm-5")


def test_facts_are_frozen(facts: Facts) -> None:
    with pytest.raises(ValueError, match="frozen"):
        facts.launch["tiny"].nodes = 2  # type: ignore[misc]


@pytest.mark.parametrize("model_id", sorted(SOURCE_MODELS))
def test_models_carry_the_numbers_of_their_source(facts: Facts, model_id: str) -> None:
    model, source = facts.models[model_id], SOURCE_MODELS[model_id]
    for key in ("hf_model_type", "layers", "hidden", "ffn", "heads", "kv_groups", "head_dim", "vocab", "rope_base"):
        assert getattr(model, key) == source[key], key
    for key in ("tied_embeddings", "qk_norm", "qkv_bias", "sandwich_norm", "vocab_divisor"):
        assert getattr(model, key) == source[key], key
    assert float(model.rotary_percent) == source["rotary_percent"]
    assert float(model.norm_eps) == source["norm_eps"]
    assert (model.moe is None) == (source["moe"] is None)
    if model.moe is not None:
        moe = source["moe"]
        assert moe["layer_freq"] == f"[0]*{model.moe.dense_layers}+[1]*{model.moe.moe_layers}"
        assert (model.moe.experts, model.moe.topk) == (moe["experts"], moe["topk"])
        assert (model.moe.expert_ffn, model.moe.shared_ffn) == (moe["moe_ffn"], moe["shared_expert_ffn"])
        assert (model.moe.groups, model.moe.topk_groups) == (moe["num_groups"], moe["group_topk"])
        assert float(model.moe.router_scale) == moe["scaling"]
        assert (model.moe.router_score, model.moe.expert_bias) == (moe["score"], moe["expert_bias"])
    assert (model.mla is None) == (source["mla"] is None)
    if model.mla is not None:
        mla = source["mla"]
        assert [model.mla.q_lora, model.mla.kv_lora, model.mla.qk_nope, model.mla.qk_rope, model.mla.v_head] == [
            mla["q_lora"], mla["kv_lora"], mla["qk_nope"], mla["qk_rope"], mla["v"],
        ]  # fmt: skip
        assert model.mla.rope_scaling == mla["rotary_scaling_factor"]


def test_tiny_has_the_stated_number_of_parameters(facts: Facts) -> None:
    model = facts.models["tiny"]
    assert model.kv_groups is not None
    query, key_value = model.heads * model.head_dim, model.kv_groups * model.head_dim
    attention = model.hidden * (query + 2 * key_value) + query * model.hidden + 2 * model.head_dim
    layer = attention + 3 * model.hidden * model.ffn + 2 * model.hidden
    total = model.layers * layer + 2 * model.vocab * model.hidden + model.hidden
    assert total == 426_752
    assert model.parameters_billion == "0.000426752"


@pytest.mark.parametrize(
    ("launch_id", "training", "expert", "lcm", "dp", "expert_dp", "step"),
    [
        ("glm-4.7-flash", 8, 8, 8, 1, 1, 1),
        ("glm-4-9b", 4, 1, 4, 2, 8, 1),
        ("glm-4.7", 64, 64, 64, 1, 1, 8),
        ("glm-5.3", 256, 256, 256, 1, 1, 32),
        ("deepseek-r1", 128, 128, 128, 1, 1, 16),
        ("qwen3.8-27b", 32, 2, 32, 1, 16, 4),
        ("tiny", 1, 1, 1, 1, 1, 1),
    ],
)
def test_parallel_products(
    facts: Facts, launch_id: str, training: int, expert: int, lcm: int, dp: int, expert_dp: int, step: int
) -> None:
    recipe = facts.launch[launch_id]
    parallel, gpus = recipe.parallel, recipe.nodes * recipe.gpus_per_node
    assert parallel.tp * parallel.pp * parallel.cp == training
    assert parallel.ep * parallel.etp * parallel.pp == expert
    assert math.lcm(training, expert) == lcm
    assert (gpus // training, gpus // expert) == (dp, expert_dp)
    assert math.lcm(lcm, recipe.gpus_per_node) // recipe.gpus_per_node == step
    assert recipe.nodes % step == 0


@pytest.mark.parametrize(
    ("launch_id", "stages", "conversion"),
    [
        ("glm-4.7-flash", [24, 23], None),
        ("glm-4-9b", [40], None),
        ("glm-4.7", [23] * 4, [23] * 4),
        ("glm-5.3", [14] + [8] * 6 + [16], [38, 40]),
        ("deepseek-r1", [16, 16, 16, 13], [7] + [8] * 6 + [6]),
        ("qwen3.8-27b", [34, 30], None),
        ("tiny", [2], None),
    ],
)
def test_pipeline_splits(facts: Facts, launch_id: str, stages: list[int], conversion: list[int] | None) -> None:
    recipe = facts.launch[launch_id]
    layers, parallel, convert = facts.models[recipe.model].layers, recipe.parallel, recipe.conversion
    assert sum(stages) == layers
    assert stage_lengths(layers, parallel.pp, parallel.first_stage_layers, parallel.last_stage_layers) == stages
    if conversion is None:
        assert convert.pp is None
    else:
        assert convert.pp is not None
        assert stage_lengths(layers, convert.pp, convert.first_stage_layers, convert.last_stage_layers) == conversion


def test_glm_5_3_stages_begin_on_layers_that_compute_an_index(facts: Facts) -> None:
    dsa = facts.models["glm-5.3"].dsa
    assert dsa is not None
    computing = {1, 2, 3, *range(7, 76, 4)}
    assert computing == {
        layer
        for layer in range(1, 79)
        if layer <= dsa.index_offset or (layer - dsa.index_offset) % dsa.index_frequency == 0
    }
    starts = [1, 15, 23, 31, 39, 47, 55, 63]
    stages = stage_lengths(78, 8, 14, 16)
    assert stages is not None
    assert [1 + sum(stages[:index]) for index in range(8)] == starts
    assert set(starts) <= computing


def test_engines_at_default_nodes(facts: Facts) -> None:
    engines = {key: r.nodes * r.gpus_per_node // r.engine.gpus for key, r in facts.launch.items()}
    assert engines == dict(zip(ORDER, [1, 4, 2, 4, 16, 2, 1], strict=True))
    widths = {key: r.engine.gpus // r.engine.dp for key, r in facts.launch.items()}
    assert widths == dict(zip(ORDER, [1, 2, 8, 1, 2, 8, 1], strict=True))


@pytest.mark.parametrize(
    ("layers", "pp", "first", "last", "expected"),
    [
        (40, 4, None, None, [10] * 4),
        (61, 4, None, None, None),
        (61, 4, 16, None, [16, 15, 15, 15]),
        (10, 2, 4, 6, [4, 6]),
        (10, 2, 4, 5, None),
        (10, 1, None, None, [10]),
        (10, 1, None, 10, None),
        (3, 4, None, None, None),
        (10, 3, 5, 5, None),
    ],
)
def test_stage_lengths(layers: int, pp: int, first: int | None, last: int | None, expected: list[int] | None) -> None:
    assert stage_lengths(layers, pp, first, last) == expected


def test_nearest_values() -> None:
    assert near_divisors(256, 7) == "4 or 8"
    assert near_divisors(32, 64) == "32"
    assert near_divisors(7, 1) == "7"
    assert near_multiples(8, 9) == "8 or 16"
    assert near_multiples(8, 3) == "8"


# What the argument table gives every recipe, and the keys of a launch file that are flags. Flags that neither names are
# the recipe's own, or left out, and then stated as deviations.
COMMON: dict[str, object] = {
    "input-key": "prompt", "label-key": "label", "apply-chat-template": True, "rollout-shuffle": True,
    "rollout-temperature": 1, "save-interval": 20, "optimizer": "adam", "lr-decay-style": "constant",
    "advantage-estimator": "grpo", "kl-coef": 0, "entropy-coef": 0, "eps-clip": 0.2, "eps-clip-high": 0.28,
    "use-tis": True, "tis-clip": 2, "tis-clip-low": 0, "use-dynamic-batch-size": True, "recompute-method": "uniform",
    "recompute-num-layers": 1, "attention-dropout": 0, "hidden-dropout": 0, "accumulate-allreduce-grads-in-fp32": True,
    "attention-softmax-in-fp32": True, "attention-backend": "flash", "sglang-mem-fraction-static": 0.7,
    "sglang-moe-dense-tp-size": 1, "sglang-enable-dp-lm-head": True,
    "overlap-cpu-optimizer-d2h-h2d": True, "use-precision-aware-optimizer": True, "rollout-top-p": 1,
}  # fmt: skip
KEYS = {
    "tensor-model-parallel-size": "parallel.tp", "pipeline-model-parallel-size": "parallel.pp",
    "context-parallel-size": "parallel.cp", "expert-model-parallel-size": "parallel.ep",
    "expert-tensor-parallel-size": "parallel.etp", "sequence-parallel": "parallel.sequence_parallel",
    "decoder-first-pipeline-num-layers": "parallel.first_stage_layers",
    "decoder-last-pipeline-num-layers": "parallel.last_stage_layers", "rollout-num-gpus-per-engine": "engine.gpus",
    "sglang-dp-size": "engine.dp", "sglang-ep-size": "engine.ep", "max-tokens-per-gpu": "max_tokens_per_gpu",
    "rollout-batch-size": "batch.prompts", "n-samples-per-prompt": "batch.samples", "global-batch-size": "batch.global",
    "lr": "optimizer.lr", "weight-decay": "optimizer.weight_decay", "adam-beta1": "optimizer.beta1",
    "adam-beta2": "optimizer.beta2", "rm-type": "reward", "num-rollout": "defaults.rounds",
    "rollout-max-response-len": "defaults.response", "sglang-server-concurrency": "defaults.concurrency",
    "eval-interval": "evaluation.interval", "eval-prompt-data": "evaluation.data",
    "n-samples-per-eval-prompt": "evaluation.samples", "actor-num-nodes": "nodes",
    "actor-num-gpus-per-node": "gpus_per_node", "optimizer-cpu-offload": "defaults.cpuAdam",
}  # fmt: skip
# Follow from another key (a choice or the evaluation that is off), change no number, or say what the layout says.
FOLLOWS = {
    "eval-max-response-len", "eval-top-p", "eval-temperature", "rollout-num-gpus", "colocate", "kl-loss-coef",
    "recompute-granularity", "sglang-enable-dp-attention",
}  # fmt: skip


def _same(ours: object, source: object) -> bool:
    if isinstance(ours, str) and isinstance(source, (int, float)) and not isinstance(source, bool):
        return float(ours) == source
    return ours == source


def _departures(recipe: LaunchFile, flags: dict[str, Any]) -> Iterator[str]:
    """Keys and flags where a recipe differs from its source, found from the source's own flags."""
    values = dotted_values(recipe.model_dump(by_alias=True))
    extras = {
        extra.flag[2:]: True if extra.value is None else extra.value
        for extra in (*recipe.training_flags, *recipe.serving_flags)
    }
    for flag, source in flags.items():
        if flag in KEYS:
            if not _same(values[KEYS[flag]], source):
                yield KEYS[flag]
        elif flag in extras:
            if not _same(extras[flag], source):
                yield f"--{flag}"
        elif flag == "sglang-kv-cache-dtype":
            assert (values["defaults.kv"], source) == ("fp8", "fp8_e4m3")
        elif flag not in FOLLOWS and not (flag in COMMON and _same(COMMON[flag], source)):
            yield f"--{flag}"


@pytest.mark.parametrize("launch_id", sorted(SOURCE_RECIPES))
def test_every_departure_from_the_source_is_stated(facts: Facts, launch_id: str) -> None:
    recipe, flags = facts.launch[launch_id], SOURCE_RECIPES[launch_id]["flags"]
    stated = {deviation.key for deviation in recipe.deviations}
    found = set(_departures(recipe, flags))
    assert found - stated == set()
    # What is stated beyond that: the source does not give it at all, or gives it another way.
    absent = {key for key in stated - found if key.startswith("--")}
    assert all(key[2:] not in flags for key in absent)
    assert stated - found - absent <= {"defaults.concurrency", "batch.global", "defaults.kv", "environment"}


@pytest.mark.parametrize("launch_id", sorted(SOURCE_RECIPES))
def test_stated_source_values_are_the_source_values(facts: Facts, launch_id: str) -> None:
    flags = SOURCE_RECIPES[launch_id]["flags"]
    by_key = {key: flag for flag, key in KEYS.items()}
    for deviation in facts.launch[launch_id].deviations:
        flag = by_key.get(deviation.key, deviation.key.removeprefix("--"))
        source = flags.get(flag)
        if flag in ("sglang-config", "sglang-disaggregation-ib-device", "environment", "defaults.kv"):
            continue  # described in words: the source gives a file, eight device names, many variables, or no flag
        if isinstance(source, list):
            source = " ".join(str(part) for part in source)
        if flag == "global-batch-size" and source is None:
            source = flags["rollout-batch-size"] * flags["n-samples-per-prompt"] // flags["num-steps-per-rollout"]
        assert _same(deviation.source_value, source), deviation.key


def test_both_languages_everywhere(facts: Facts) -> None:
    for recipe in facts.launch.values():
        words = [extra.why for extra in (*recipe.training_flags, *recipe.serving_flags)]
        words += [deviation.reason for deviation in recipe.deviations]
        words += [value.why for value in recipe.environment.values()]
        for text in words:
            assert any("一" <= character <= "鿿" for character in text.zh), text.zh
            assert text.en.isascii(), text.en


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case['file']}: {case['by']}"[:60])
def test_a_broken_file_gets_its_message(case: dict[str, Any], tmp_path: Path) -> None:
    root = tmp_path / "recipes"
    shutil.copytree(ROOT, root)
    path = root / case["file"]
    text = path.read_text(encoding="utf-8")
    assert text.count(case["replace"]) == 1
    path.write_text(text.replace(case["replace"], case["by"]), encoding="utf-8")
    with pytest.raises(FactError) as caught:
        load_facts(root)
    assert caught.value.problems == case["problems"]


def test_a_missing_folder_file_or_bad_encoding_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "recipes"
    shutil.copytree(ROOT, root)
    (root / "images.yaml").unlink()
    (root / "models" / "tiny.yaml").write_bytes(b"id: \xff\n")
    with pytest.raises(FactError) as caught:
        load_facts(root)
    assert caught.value.problems == [
        "recipes/models/tiny.yaml: not UTF-8 text at byte 4",
        f"recipes/images.yaml: the file is missing ({root / 'images.yaml'})",
    ]
    with pytest.raises(FactError) as caught:
        load_facts(tmp_path / "nowhere")
    assert caught.value.problems == [
        f"recipes/models: no *.yaml file in {tmp_path / 'nowhere' / 'models'}",
        f"recipes/launch: no *.yaml file in {tmp_path / 'nowhere' / 'launch'}",
        f"recipes/images.yaml: the file is missing ({tmp_path / 'nowhere' / 'images.yaml'})",
    ]
