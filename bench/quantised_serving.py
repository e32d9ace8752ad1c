"""What `slime convert` quantises, served by SGLang: does it load, and does it say what the weights say?

    python bench/quantised_serving.py --output bench/results --device cuda

Trains a small Qwen3 on additions, quantises it in every format, and serves each with SGLang beside the bfloat16
original, which then takes the weights that were turned back into bfloat16. All read the same solved problems; the
log-probs of their tokens are compared, and the answers that each engine gives greedily are graded:

- ``weights``: bfloat16 engine, turned-back weights against the original. What the format costs.
- ``engine``: quantised engine against the bfloat16 engine with the turned-back weights, which are the same numbers.
  What is left is rounding: of bfloat16 products where the engine multiplies by whole weights (INT4, weight-only FP8),
  of activations to E4M3 where it does not. Scales or numbers that an engine read wrongly would show here.
- ``noise``: the bfloat16 engine against itself, problems one by one against all at once.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slime.sglang.engine import EngineError, EngineProcess
from slime.sglang.launch import EngineSpec, Value
from slime.tiny.data import Problem, split_problems
from slime.tiny.tokenizer import ASSISTANT, END, USER, build_tokenizer, vocabulary

Device = Literal["cpu", "cuda"]
SEED, READ, GRADED = 0, 64, 256
DIMENSIONS = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
"""Widths that blocks of 128 x 128 and SGLang's INT4 kernel can have."""


@dataclass(frozen=True)
class Format:
    """A way to quantise, and to serve; `environment` is the engine's."""

    name: str
    to: tuple[str, ...]
    back: str
    environment: tuple[tuple[str, str], ...] = ()
    folder: str | None = None


FP8, INT4 = ("hf-to-fp8", "fp8-to-bf16"), ("hf-to-int4", "int4-to-bf16")
FORMATS = (
    Format("fp8-block", (FP8[0],), FP8[1]),
    Format("fp8-channel", (FP8[0], "--strategy", "channel"), FP8[1]),
    Format("fp8-tensor", (FP8[0], "--strategy", "tensor"), FP8[1]),
    Format("int4", (INT4[0], "--group-size", "128"), INT4[1]),
    Format("int4-asymmetric", (INT4[0], "--group-size", "128", "--asymmetric"), INT4[1]),
    Format("fp8-block, weight-only", (), FP8[1], (("SGLANG_FORCE_FP8_MARLIN", "1"),), "fp8-block"),
)
GPU: dict[str, Value] = {
    "attention-backend": "triton",
    "sampling-backend": "pytorch",
    "cuda-graph-backend-decode": "disabled",
    "cuda-graph-backend-prefill": "disabled",
    "mem-fraction-static": 0.4,
    "max-total-tokens": 65536,
}


def make_model(folder: Path, device: Device, target: float) -> dict[str, Any]:
    """A bfloat16 checkpoint, trained for 1000 steps or until it samples `target` of the answers; what it reached."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from slime.tiny.warm_start import (
        MAX_POSITIONS,
        EncodedProblems,
        WarmStart,
        WarmStartError,
        run_warm_start,
        sampled_accuracy,
    )

    tokenizer, ids = build_tokenizer(MAX_POSITIONS), vocabulary()
    torch.manual_seed(SEED)
    config = Qwen3Config(
        **DIMENSIONS,
        vocab_size=len(tokenizer),
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=ids[END],
    )
    model = Qwen3ForCausalLM(config).float().to(device)
    train, held_out = (EncodedProblems(problems, tokenizer) for problems in split_problems(SEED))
    for problems in (train, held_out):
        problems.tokens, problems.targets = problems.tokens.to(device), problems.targets.to(device)
    settings = WarmStart(SEED, target=target, learning_rate=1e-3, batch_size=512, max_steps=1000, check_every=25)
    try:
        steps = run_warm_start(model, train, held_out, settings, print).steps
    except WarmStartError:  # a model that knows less will do
        steps = settings.max_steps
    accuracy = sampled_accuracy(model, held_out)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"steps": steps, "held_out_accuracy": accuracy}


def convert_all(commands: dict[str, list[str]]) -> None:
    """Run ``slime convert`` with each, all at once."""
    slime = [sys.executable, "-m", "slime", "convert"]
    running = {name: subprocess.Popen([*slime, *words], stdout=subprocess.DEVNULL) for name, words in commands.items()}
    failed = [name for name, process in running.items() if process.wait()]
    if failed:
        raise SystemExit(f"slime convert failed: {', '.join(failed)}")


@dataclass
class Served:
    """An engine and what it said: log-probs of every token of the problems, and greedy answers."""

    engine: EngineProcess
    seconds: float = 0.0
    failure: str | None = None

    def wait(self) -> None:
        """Until it answers, or is dead."""
        try:
            self.seconds = self.engine.wait_ready()
        except EngineError as error:
            self.failure = str(error)

    def log_probs(self, rows: list[list[int]]) -> list[list[float]]:
        """Of every token but the first of each row."""
        fields = {"max_new_tokens": 1, "temperature": 0.0}
        found = self._post("generate", input_ids=rows, sampling_params=fields, return_logprob=True, logprob_start_len=0)
        return [[float(one[0]) for one in row["meta_info"]["input_token_logprobs"][1:]] for row in found]

    def answers(self, prompts: list[list[int]]) -> list[list[int]]:
        """Greedy tokens of each prompt."""
        found = self._post("generate", input_ids=prompts, sampling_params={"max_new_tokens": 8, "temperature": 0.0})
        return [list(row["output_ids"]) for row in found]

    def take(self, folder: Path) -> None:
        """Serve the weights in `folder` from now on."""
        self._post("update_weights_from_disk", model_path=str(folder))

    def _post(self, path: str, **body: Any) -> Any:
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(f"{self.engine.url}/{path}", data, kind), timeout=120) as response:
            return json.load(response)


class Texts:
    """Held-out problems as token ids: solved ones to read, and prompts to answer."""

    def __init__(self) -> None:
        tokenizer, problems = build_tokenizer(256), split_problems(SEED)[1]
        self._end = vocabulary()[END]

        def ids(text: str) -> list[int]:
            return list(tokenizer(text, add_special_tokens=False)["input_ids"])

        def prompt(problem: Problem) -> list[int]:
            return ids(f"{USER}{problem.prompt}{ASSISTANT}")

        self.solved = [[*prompt(one), *ids(one.answer), self._end] for one in problems[:READ]]
        self.prompts = [prompt(one) for one in problems[:GRADED]]
        self._right = [ids(one.answer) for one in problems[:GRADED]]

    def accuracy(self, answers: list[list[int]]) -> float:
        """Share of right answers."""
        pairs = zip(answers, self._right, strict=True)
        return sum(
            answer[: len(right)] == right and answer[len(right) :][:1] in ([], [self._end]) for answer, right in pairs
        ) / len(answers)


def gap(one: list[list[float]], other: list[list[float]]) -> dict[str, float]:
    """Mean and largest absolute difference."""
    found = [abs(a - b) for row, twin in zip(one, other, strict=True) for a, b in zip(row, twin, strict=True)]
    return {"mean": sum(found) / len(found), "max": max(found)}


def measure(plain: Served, served: dict[str, Served], turned: dict[str, Path], texts: Texts) -> dict[str, Any]:
    """Compare every engine of `served` with `plain`, which takes the weights of `turned` in between."""
    original = plain.log_probs(texts.solved)
    alone = [plain.log_probs([row])[0] for row in texts.solved]
    bfloat16 = {"right": texts.accuracy(plain.answers(texts.prompts)), "noise": gap(original, alone)}
    rows: dict[str, dict[str, Any]] = {}
    for name, one in served.items():
        if one.failure:
            rows[name] = {"failure": one.failure}
            continue
        plain.take(turned[name])
        same, answers = plain.log_probs(texts.solved), plain.answers(texts.prompts)
        own, own_answers = one.log_probs(texts.solved), one.answers(texts.prompts)
        rows[name] = {
            "seconds": one.seconds,
            "right": texts.accuracy(own_answers),
            "same_answers": sum(a == b for a, b in zip(own_answers, answers, strict=True)) / len(answers),
            "weights": gap(same, original),
            "engine": gap(own, same),
            "total": gap(own, original),
        }
    return {"bfloat16": bfloat16, "formats": rows}


def serve(folder: Path, device: Device, logs: Path, name: str, environment: dict[str, str]) -> Served:
    """An engine that has been started."""
    arguments, limit = (GPU, 110.0) if device == "cuda" else ({}, 400.0)
    spec = EngineSpec(str(folder), device, seed=SEED, arguments=arguments, environment=environment, start_seconds=limit)
    engine = EngineProcess(spec, logs / f"{name.replace(', ', '-')}.log")
    engine.start()
    return Served(engine)


def run(scratch: Path, logs: Path, device: Device, target: float, chosen: list[Format]) -> dict[str, Any]:
    """Everything; engines start while others convert."""
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    model = scratch / "bf16"
    training = make_model(model, device, target)
    say(f"trained: {training}")
    plain = serve(model, device, logs, "bf16", {})
    served: dict[str, Served] = {}
    try:
        made = [one for one in chosen if one.folder is None]
        hf = ["--hf-checkpoint", str(model), "--save"]
        convert_all({one.name: [*one.to, *hf, str(scratch / one.name)] for one in made})
        for one in chosen:
            folder = scratch / (one.folder or one.name)
            served[one.name] = serve(folder, device, logs, one.name, dict(one.environment))
        turned = {one.name: scratch / f"{one.folder or one.name}-bf16" for one in chosen}
        convert_all(
            {
                one.name: [one.back, "--hf-checkpoint", str(scratch / one.name), "--save", str(turned[one.name])]
                for one in made
            }
        )
        say("converted")
        for engine in (plain, *served.values()):
            engine.wait()
        say("engines are ready")
        if plain.failure:
            raise SystemExit(plain.failure)
        found = measure(plain, served, turned, Texts())
        say("measured")
        return {"training": training, **found}
    finally:
        for engine in (plain, *served.values()):
            engine.engine.stop()


def table(facts: dict[str, Any]) -> str:
    """Markdown."""
    plain = facts["bfloat16"]
    lines = [
        "# Quantised checkpoints in SGLang",
        "",
        f"{facts['date']}; {facts['hardware']}; {facts['versions']}. A Qwen3 of {DIMENSIONS['num_hidden_layers']} "
        f"layers, {DIMENSIONS['hidden_size']} wide, trained on additions for {facts['training']['steps']} steps. In "
        f"bfloat16 it answers {plain['right']:.1%} of {GRADED} held-out problems; its log-probs differ by "
        f"{plain['noise']['mean']:.4f} on average ({plain['noise']['max']:.3f} at most) between problems read one by "
        f"one and all {READ} at once. Differences of log-probs below are means (largest in brackets).",
        "",
        "| format | right answers | as the same weights in bfloat16 answer | weights | engine | both |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in facts["formats"].items():
        if "failure" in row:
            lines.append(f"| {name} | not served: {' '.join(row['failure'].split())[:200]} | | | | |")
            continue
        gaps = " | ".join(
            f"{row[kind]['mean']:.4f} ({row[kind]['max']:.3f})" for kind in ("weights", "engine", "total")
        )
        lines.append(f"| {name} | {row['right']:.1%} | {row['same_answers']:.1%} | {gaps} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run, and write ``quantised-sglang-<hardware>.json`` and ``.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--label", default="h200", help="in the names of the files")
    parser.add_argument("--target", type=float, default=0.9, help="sampled accuracy at which training stops")
    parser.add_argument("--formats", nargs="*", choices=[one.name for one in FORMATS], help="all")
    parser.add_argument("--logs", type=Path, help="keep the engines' logs here")
    args = parser.parse_args()
    chosen = [one for one in FORMATS if args.formats is None or one.name in args.formats]
    scratch = Path(tempfile.mkdtemp(prefix="quantised-"))
    logs = args.logs or scratch / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        found = run(scratch, logs, args.device, args.target, chosen)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    packages = ("sglang", "torch", "transformers", "compressed-tensors", "safetensors")
    facts = {
        "date": str(datetime.date.today()),
        "hardware": hardware(args.device),
        "versions": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages),
        **found,
    }
    args.output.mkdir(parents=True, exist_ok=True)
    stem = args.output / f"quantised-sglang-{args.label}"
    stem.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")
    stem.with_suffix(".md").write_text(table(facts))
    print(table(facts))


def hardware(device: Device) -> str:
    """Name of what computed."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


if __name__ == "__main__":
    main()
