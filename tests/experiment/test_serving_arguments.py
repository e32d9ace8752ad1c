"""Every serving argument that the lab can write is one that the installed SGLang's own parser takes.

The parser runs in a process of its own with the stand-ins for a CPU on its path. It reads command lines and nothing
else: whether a combination serves is for SGLang and a GPU to say.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from slime.config import REGISTRY, Config
from slime.config.serving_groups import serving_groups
from slime.config.validate.serving import check_groups_run
from slime.config.values import from_texts
from slime.experiment import Catalog
from slime.experiment.argument_table import launcher_lines, reference_lines

if find_spec("sglang") is None:
    pytest.skip("the runtime is not installed: make runtime", allow_module_level=True)

from slime.cluster.engine_spec import engines
from slime.sglang.launch import server_command

pytestmark = pytest.mark.runtime

PARSER = """
import argparse, contextlib, io, json, sys
from sglang.srt.server_args import ServerArgs

parser = argparse.ArgumentParser(allow_abbrev=False)
ServerArgs.add_cli_args(parser)
options = {name: action for action in parser._actions for name in action.option_strings}
answers = []
for words in json.load(sys.stdin):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(["--model-path", "model", *words])
        answers.append(None)
    except SystemExit:
        answers.append(said.getvalue().strip().rsplit("error: ", 1)[-1])
json.dump({"options": sorted(options), "answers": answers}, sys.stdout)
"""


def _parse(commands: list[list[str]]) -> dict[str, Any]:
    """SGLang's answer to each list of words: None, or why it refused; and all names that it knows."""
    from slime.sglang.launch import EngineSpec, server_environment

    environment = server_environment(EngineSpec("model", device="cpu"))
    done = subprocess.run(
        [sys.executable, "-c", PARSER],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return answer


def _choices(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """The product of everything that changes an engine's command line."""
    switches = ("pd", "hicache", "speculative", "deterministic")
    for model, layout, precision, kv, *on in product(
        catalog.facts.launch,
        ("colocate", "separate", "external"),
        ("bf16", "fp8", "fp8train", "int4"),
        ("auto", "fp8"),
        *[(False, True)] * len(switches),
    ):
        choices = {"model": model, "layout": layout, "precision": precision, "kv": kv, "ib": "mlx5_0,mlx5_1"}
        yield {**choices, **dict(zip(switches, on, strict=True))}


def _states(catalog: Catalog) -> Iterator[dict[str, Any]]:
    for choices in _choices(catalog):
        yield catalog.sanitise(choices).state
    for source, steps in product(("builtin", "external"), (1, 8)):
        extra = {"speculative": True, "draftSource": source, "draft": "/data/head", "specSteps": steps}
        for model in catalog.facts.launch:
            yield catalog.sanitise({"model": model, **extra}).state
    for dtype, ratio, r3 in product(("auto", "float32", "bfloat16"), ("", ".5", "1e-1"), (False, True)):
        hybrid = {"model": "qwen3.8-27b", "mambaDtype": dtype, "mambaRatio": ratio, "layout": "external"}
        yield catalog.sanitise(hybrid).state
        yield catalog.sanitise({"model": "glm-4.7", "r3": r3, "layout": "external"}).state


def _command_lines(catalog: Catalog) -> set[tuple[str, ...]]:
    """The words for SGLang: of ``experiment.sh`` without the prefix ``--sglang-``, and of the serving reference."""
    found = set()
    for state in _states(catalog):
        own = [line for line in launcher_lines(catalog.tables, state) if line.flag.startswith("--sglang-")]
        theirs = [line for line in own if REGISTRY[line.flag].source == "sglang"]
        words = [_plain(word) for line in theirs for word in (line.flag.replace("--sglang-", "--", 1), *line.values)]
        found.add(tuple(words))
        roles = ("prefill", "decode") if state["pd"] else ("regular",)
        for role in roles if state["layout"] == "external" else ():
            lines = reference_lines(catalog.tables, state, role)  # type: ignore[arg-type]
            found.add(tuple(_plain(word) for line in lines for word in (line.flag, *line.values)))
    return found


def _plain(word: str) -> str:
    return word[1:-1] if word.startswith("'") else word


def test_sglang_takes_every_serving_argument(catalog: Catalog) -> None:
    commands = sorted(_command_lines(catalog))
    wrong = ["--nsa-decode-backend", "flashmla_kv"]
    answer = _parse([*map(list, commands), wrong, ["--kv-cache-dtype", "fp7"]])
    refused = {" ".join(words): said for words, said in zip(commands, answer["answers"], strict=False) if said}
    assert refused == {}
    assert len(commands) > 200
    assert all(answer["answers"][-2:]), "the parser must refuse what it does not know"
    known = set(answer["options"])
    flags = [flag.name for flag in REGISTRY.values() if flag.source == "sglang"]
    assert [name for name in flags if name.replace("--sglang-", "--", 1) not in known] == []


def _files(catalog: Catalog) -> Iterator[tuple[dict[str, Any], str]]:
    """Every sglang.yaml that differs from the others, with choices that it is made for and that no rule refuses."""
    seen = set()
    for choices in _choices(catalog):
        state = catalog.sanitise(choices).state
        text = catalog.artifacts(state).get("sglang.yaml") if choices["pd"] and choices["kv"] == "auto" else None
        if text is None or text in seen or any(one.severity == "error" for one in catalog.validate(state).findings):
            continue
        seen.add(text)
        yield state, text
    assert len(seen) > 5


def _config(catalog: Catalog, state: dict[str, Any], path: Path) -> Config:
    """The run's configuration as far as it concerns engines, from the flags of the shell and the file beside it."""
    lines = [line for line in launcher_lines(catalog.tables, state) if line.flag in REGISTRY]
    flags = [(REGISTRY[line.flag], [_plain(word) for word in line.values]) for line in lines]
    serving = [(one, words) for one, words in flags if one.group in ("serving", "engine") and one.source == "sglang"]
    values: dict[str, Any] = {one.field: True if one.switch else from_texts(one, words) for one, words in serving}
    total = sum(group["num_gpus"] for group in yaml.safe_load(path.read_text())["sglang"][0]["server_groups"])
    return Config(device="cuda", hf_checkpoint="model", rollout_num_gpus=total, sglang_config=str(path), **values)


def test_sglang_takes_the_command_of_every_prefill_and_decode_engine(catalog: Catalog, tmp_path: Path) -> None:
    """The file is read by the launcher's own reader, and each group's engine gets its whole command line."""
    commands, kinds = [], []
    for number, (state, text) in enumerate(_files(catalog)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        config = _config(catalog, state, path)
        groups = serving_groups(config)
        accounting = catalog.validate(state).accounting
        assert sum(group.gpus for group in groups) == max(accounting.rollout_gpus, state["prefill"])
        assert any("prefill and decode engines are planned" in one.message for one in check_groups_run(config))
        for group in groups:
            (first, *_) = [one for one in engines(config, groups, "default") if one.group is group]
            commands.append(server_command(first.spec, 30000, 9000 if first.spec.bootstrap else None)[3:])
            kinds.append(group.kind)
    answers = _parse(commands)["answers"]
    assert {" ".join(words): said for words, said in zip(commands, answers, strict=True) if said} == {}
    for kind, words in zip(kinds, commands, strict=True):
        assert words[words.index("--disaggregation-mode") + 1] == kind
        balance = words[words.index("--load-balance-method") + 1]
        assert balance == {"prefill": "follow_bootstrap_room", "decode": "round_robin"}[kind]
        assert ("--disaggregation-bootstrap-port" in words) == (kind == "prefill")
        assert kind == "prefill" or "--enable-hierarchical-cache" not in words
        assert words[words.index("--disaggregation-transfer-backend") + 1] == "mooncake"
    assert any("--enable-hierarchical-cache" in words for words in commands)


@pytest.mark.parametrize("script", ["serving-reference.sh.in"])
def test_sglang_takes_what_the_script_itself_writes(catalog: Catalog, script: str) -> None:
    """Words that stand in the fixed text: the model, the address and the nodes of an engine."""
    text = catalog.tables.templates[script] + "".join(
        part.text for part in catalog.tables.arguments.blocks["REFERENCE_NODES"]
    )
    words = ["--tp-size", "8", "--host", "h", "--port", "1", "--nnodes", "2", "--node-rank", "0"]
    words += ["--dist-init-addr", "h:1"]
    assert all(word in text for word in words if word.startswith("--"))
    assert _parse([words])["answers"] == [None]
