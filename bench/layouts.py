"""Every family at every parallel layout on several GPUs, against one GPU: ``python bench/layouts.py``.

The cases are those of tests/megatron, which runs them on a CPU over gloo. Here NCCL carries them. Prints a table and
writes it, with the raw numbers, to ``bench/results/layouts.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slime.megatron.parallel import ParallelSettings  # noqa: E402
from slime.megatron.process import Device  # noqa: E402
from slime.ports import free_port  # noqa: E402
from tests.megatron.families import FAMILIES, make_family  # noqa: E402
from tests.megatron.layout_cases import Job, run_layouts  # noqa: E402

LAYOUTS = {
    "tensor 2, sequence": ParallelSettings(tensor=2, sequence_parallel=True),
    "pipeline 2": ParallelSettings(pipeline=2),
    "context 2": ParallelSettings(context=2),
    "experts 2": ParallelSettings(expert=2),
    "data 2": ParallelSettings(),
}
UNEVEN = ParallelSettings(pipeline=2, first_stage_layers=3)  # of glm_moe_dsa's five layers
WITH_EXPERTS = [name for name, (_, values) in FAMILIES.items() if "num_experts_per_tok" in values]


def compute(ranks: int, jobs: list[Job], out: Path, device: Device) -> dict[str, Any]:
    """Loss and gradients of each job."""
    mp.spawn(run_layouts, (ranks, free_port(), jobs, out, device), nprocs=ranks)
    results: dict[str, Any] = torch.load(out, weights_only=True)
    return results


def gaps(found: dict[str, Any], expected: dict[str, Any]) -> tuple[float, float]:
    """Difference of the losses, and the largest relative difference of a tensor's gradient."""
    relative = [
        float((found["gradients"][name] - one).norm()) / (float(one.norm()) + 1e-6)
        for name, one in expected["gradients"].items()
    ]
    return abs(found["loss"] - expected["loss"]), max(relative)


def main() -> None:
    """Run all layouts and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--layouts", nargs="*", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument(
        "--checkpoints", type=Path, help="folder with the families' checkpoints; by default they are made"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        made = args.checkpoints
        folders = {name: make_family(name, work / name) if made is None else made / name for name in args.families}
        jobs: list[Job] = [(name, folders[name], ParallelSettings(), False) for name in folders]
        alone = compute(1, jobs, work / "alone.pt", args.device)
        for layout in args.layouts:
            sizes = LAYOUTS[layout]
            names = [name for name in folders if layout != "experts 2" or name in WITH_EXPERTS]
            jobs = [
                (name, folders[name], UNEVEN if (layout, name) == ("pipeline 2", "glm_moe_dsa") else sizes, False)
                for name in names
            ]
            found = compute(2, jobs, work / "found.pt", args.device)
            for name in names:
                loss, gradient = gaps(found[name], alone[name])
                rows.append({"layout": layout, "family": name, "loss": loss, "gradient": gradient})
                print(f"{layout:20} {name:18} loss {loss:.1e}  gradient {gradient:.1e}", flush=True)
    device = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    args.output.mkdir(parents=True, exist_ok=True)
    lines = [
        f"`python bench/layouts.py --device {args.device}`",
        "",
        f"{device}, torch {torch.__version__}, float32.",
        "",
    ]
    lines += ["| layout | family | loss | gradient |", "| --- | --- | --- | --- |"]
    lines += [f"| {r['layout']} | {r['family']} | {r['loss']:.1e} | {r['gradient']:.1e} |" for r in rows]
    (args.output / "layouts.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (args.output / "layouts.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
