"""Rules of the machine and the cluster: what spoils them for each, parts of what it says, and what passes."""

from __future__ import annotations

import json
import socket
import struct

from slime.config.preflight.cluster import ClusterView
from slime.config.preflight.folders import TRACKER

from .bench import Bench
from .checkpoint_cases import Case, Change, both, nothing, remove

CUDA: Change = lambda b: b.set(device="cuda", actor_num_gpus_per_node=8)  # noqa: E731 -- as short as the others
TIS_AT_HALF: Change = lambda b: b.set(use_tis=True, rollout_temperature=0.5)  # noqa: E731
PD: Change = both(CUDA, lambda b: b.set(prefill_num_servers=1), lambda b: b.host(rdma={"mlx5_0": ("ACTIVE",)}))


NO_OPTIMIZER = {"no_save_optim": True}


def run_of(*rounds: int, tracker: str | None = None) -> Change:
    """The folder run/ of an earlier run that saved these rounds; --load names it."""

    def change(bench: Bench) -> None:
        for one in rounds:
            (bench.folder / "run" / f"iter_{one:07d}").mkdir(parents=True)
        bench.text(f"run/{TRACKER}", str(rounds[-1]) if tracker is None else tracker)
        bench.set(load=str(bench.folder / "run"))

    return change


def environment(**variables: str) -> Change:
    return lambda b: b.host(environment=variables)


def mounts(*given: tuple[str, str]) -> Change:
    return lambda b: b.host(mounts=(("/", "ext4"), *given))


def cluster(
    total: int, free: int, per_node: tuple[int, ...] = (8,), files: dict[str, dict[str, str | None]] | None = None
) -> Change:
    """A Ray cluster with so many GPUs, of which some are free."""
    view = ClusterView("10.0.0.1:6379", {"GPU": total, "CPU": 64}, {"GPU": free, "CPU": 64}, per_node, files or {})
    return lambda b: setattr(b, "cluster", view)


def listening(bench: Bench) -> int:
    """A port on which this process listens as long as the bench lives."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    bench.taken.append(taken)  # kept open with it
    return int(taken.getsockname()[1])


def free_port(bench: Bench) -> int:
    port = listening(bench)
    bench.taken.pop().close()
    return port


def huge(bench: Bench) -> None:
    """A checkpoint whose headers announce 10^14 numbers."""
    bench.set(device="cuda", colocate=False, actor_num_gpus_per_node=8)
    name = "model.embed_tokens.weight"
    inputs = bench.folder / "hf" / "model.safetensors"
    header = json.dumps({name: {"dtype": "BF16", "shape": [10**7, 10**7], "data_offsets": [0, 2 * 10**14]}}).encode()
    inputs.write_bytes(struct.pack("<Q", len(header)) + header)


HOST_CASES: list[Case] = [
    ("visible-gpus", "host", both(CUDA, lambda b: b.host(gpus=(0, 1, 2, 3),
     environment={"CUDA_VISIBLE_DEVICES": "0,1,2,3"})),
     ["needs 8 GPUs (8 for training, the same for serving)", "shows 4 (CUDA_VISIBLE_DEVICES=0,1,2,3)"], CUDA),
    ("visible-gpus", "host", both(CUDA, lambda b: b.host(gpus=None)), ["has no NVIDIA driver",
     "--device cpu"], nothing),
    ("visible-gpus", "host", both(CUDA, cluster(4, 4, (4,))),
     ["--actor-num-gpus-per-node 8, and the largest node of the Ray cluster has 4 GPUs"], both(CUDA, cluster(8, 8))),
    ("cluster-resources", "host", both(CUDA, lambda b: b.set(colocate=False, rollout_num_gpus=8), cluster(8, 8)),
     ["too small: it has 8 GPUs in all, and the run needs 16", "--colocate shares them"],
     both(CUDA, lambda b: b.set(colocate=False, rollout_num_gpus=8), cluster(16, 16, (8, 8)))),
    ("cluster-resources", "host", both(CUDA, cluster(8, 2)), ["is busy: it has 8 GPUs, 2 of them free now", "needs 8"],
     both(CUDA, cluster(8, 8))),
    ("cluster-resources", "host", lambda b: setattr(b, "cluster", ClusterView(error="it did not answer within 90 s")),
     ["cannot be asked for its resources: it did not answer", "RAY_ADDRESS=local"], nothing),
    ("shared-gpus", "host",
     both(CUDA, lambda b: b.set(colocate=False, rollout_external_engine_addrs=("http://10.0.0.1:30000",))),
     ["the engine at http://10.0.0.1:30000 runs on node-0", "all 8 GPUs", "duplicate"],
     both(CUDA, lambda b: b.set(colocate=False, rollout_external_engine_addrs=("10.0.0.2:30000",)))),
    ("round-memory", "host",
     both(lambda b: b.set(rollout_batch_size=4096, n_samples_per_prompt=64, rollout_max_response_len=16000)),
     ["up to 105.6 GiB of host memory", "35.2 GiB", "node-0 has 64.0 GiB"],
     lambda b: b.set(rollout_batch_size=1024, n_samples_per_prompt=64, rollout_max_response_len=16000)),
    ("rounds-left", "host", run_of(3), ["has finished round 3, so none of the 4 rounds remains", "above 4"],
     both(run_of(3), lambda b: b.set(num_rollout=5))),
    ("rounds-left", "host", run_of(3), ["none of the 4 rounds"], both(run_of(3), lambda b: b.set(start_rollout_id=2))),
    ("checkpoint-kinds", "host", lambda b: b.set(ref_load=str(b.folder / "none")), ["--ref-load", "does not exist",
                                                                                   "slime convert hf-to-megatron"],
     lambda b: b.set(ref_load=str(b.folder / "hf"))),
    ("checkpoint-kinds", "host", remove(f"torch_dist/{TRACKER}"),
     ["is neither a Megatron checkpoint", f"{TRACKER} is missing"], nothing),
    ("checkpoint-kinds", "host", lambda b: b.text(f"torch_dist/{TRACKER}", "7"),
     ["names iter_0000007", "has no such folder", "steps that are there: 0"], nothing),
    ("checkpoint-kinds", "host", lambda b: b.text(f"torch_dist/{TRACKER}", "seven"),
     ["says 'seven': neither a step nor the word release"],
     both(lambda b: b.text(f"torch_dist/{TRACKER}", "release"),
     lambda b: (b.folder / "torch_dist" / "release").mkdir())),
    ("checkpoint-kinds", "host", lambda b: b.set(load=str(b.folder / "rnu")),
     ["rnu does not exist, so the run starts at round 0 with the weights of --ref-load"],
     lambda b: b.set(load=str(b.folder / "run"))),
    ("checkpoint-kinds", "host", lambda b: b.set(load=str(b.folder), ref_load=None), ["there is no --ref-load"],
     both(run_of(1), lambda b: b.set(ref_load=None))),
    ("checkpoint-kinds", "host",
     both(lambda b: b.set(ref_load=str(b.folder / "hf")), remove("hf/model.safetensors")),
     ["neither model.safetensors nor model.safetensors.index.json"], lambda b: b.set(ref_load=str(b.folder / "hf"))),
    ("checkpoint-steps", "host", both(run_of(1, 3), lambda b: b.set(ckpt_step=2)),
     ["--ckpt-step 2", "has no iter_0000002", "steps that are there: 1, 3"],
     both(run_of(1, 3), lambda b: b.set(ckpt_step=1))),
    ("checkpoint-steps", "host", lambda b: b.set(ref_load=str(b.folder / "hf"), ref_ckpt_step=0),
     ["--ref-ckpt-step 0", "is a Hugging Face folder, which has no steps", "drop --ref-ckpt-step"],
     lambda b: b.set(ref_ckpt_step=0)),
    ("checkpoint-kinds", "host", lambda b: b.set(load=str(b.folder / "none"), finetune=True),
     ["none does not exist", "--finetune takes the weights that are there"],
     lambda b: b.set(load=str(b.folder / "hf"), finetune=True)),
    ("checkpoint-kinds", "host", lambda b: b.set(load=str(b.folder / "hf")),
     ["is a Hugging Face folder, which holds no run to continue", "give --finetune"],
     lambda b: b.set(load=str(b.folder / "torch_dist"), finetune=True)),
    ("saved-weights", "host", lambda b: b.set(save_hf=b.flags["save"]), ["--save-hf and --save are the same folder"],
     lambda b: b.set(save_hf=f"{b.flags['save']}/hf-{{rollout_id}}")),
    ("saved-weights", "host", lambda b: b.set(save_hf=b.flags["hf_checkpoint"]),
     ["--save-hf and --hf-checkpoint are the same folder"], lambda b: b.set(save_hf=f"{b.folder}/hf-new")),
    ("saved-weights", "host", lambda b: b.set(save_hf="/proc/x"), ["/proc/x", "cannot be written"],
     lambda b: b.set(save_hf=str(b.folder / "x" / "y"))),
    ("saved-weights", "host", both(lambda b: b.text("out/mine.txt", ""), lambda b: b.set(save_hf=f"{b.folder}/out")),
     ["was not made by this command", "name another folder"],
     both(lambda b: b.text("out/.slime-save-hf.json", "{}"), lambda b: b.set(save_hf=f"{b.folder}/out"))),
    ("saved-optimizer", "host", both(run_of(1), lambda b: b.write("run/iter_0000001/slime.json", NO_OPTIMIZER)),
     ["iter_0000001 was saved with --no-save-optim", "give --no-load-optim"],
     both(run_of(1), lambda b: b.write("run/iter_0000001/slime.json", NO_OPTIMIZER),
          lambda b: b.set(no_load_optim=True))),
    ("first-round", "host", both(run_of(1), lambda b: b.set(start_rollout_id=0)),
     ["--start-rollout-id 0", "finished round 1", "repeated", "goes on with round 2"],
     both(run_of(1), lambda b: b.set(start_rollout_id=2))),
    ("own-save-folder", "host", both(run_of(1), lambda b: b.set(load=None)),
     ["holds a run already (at 1)", "to continue it, or another --save"], run_of(1)),
    ("own-save-folder", "host", both(run_of(1, 3), lambda b: b.set(ckpt_step=1)),
     ["--ckpt-step 1 goes back", "the later steps 3"], both(run_of(1, 3), lambda b: b.set(ckpt_step=3))),
    ("own-save-folder", "host", both(run_of(0, 1), lambda b: b.set(finetune=True)),
     ["holds the steps 0, 1 of an earlier run", "starts at round 0 (--finetune)", "give another --save"],
     both(run_of(0, 1), lambda b: b.set(finetune=True, save=str(b.folder / "other")))),
    ("own-save-folder", "host", both(run_of(1, 2, 3), lambda b: b.set(start_rollout_id=2)),
     ["holds the steps 2, 3 of an earlier run", "starts at round 2 (--start-rollout-id)"],
     # A kill between the rename and the tracker leaves a step that the resumed run does again.
     run_of(1, 2, 3, tracker="2")),
    ("sampler-probability", "host", both(TIS_AT_HALF, environment(SGLANG_RETURN_ORIGINAL_LOGPROB="1")),
     ["--use-tis", "--rollout-temperature 0.5", "SGLANG_RETURN_ORIGINAL_LOGPROB=1", "unset"],
     both(TIS_AT_HALF, environment(SGLANG_RETURN_ORIGINAL_LOGPROB="0"))),
    ("proxies", "host", environment(http_proxy="http://proxy:3128", no_proxy="10.0.0.0/8"),
     ["http_proxy is set, and no_proxy leaves out 127.0.0.1, localhost",
      "export no_proxy=10.0.0.0/8,127.0.0.1,localhost"],
     environment(http_proxy="http://proxy:3128", no_proxy="127.0.0.1,localhost")),
    ("proxies", "host",
     both(environment(HTTPS_PROXY="http://p:1", NO_PROXY="127.0.0.0/8,localhost"), lambda b: b.set(actor_num_nodes=2)),
     ["HTTPS_PROXY is set", "leaves out 10.0.0.1"],
     both(environment(HTTPS_PROXY="http://p:1", NO_PROXY="*"), lambda b: b.set(actor_num_nodes=2))),
    ("rdma", "host", both(PD, lambda b: b.host(rdma={})), ["node-0 has no RDMA device", "MC_FORCE_TCP=1"], PD),
    ("rdma", "host", both(PD, lambda b: b.set(sglang_disaggregation_ib_device="mlx5_3")),
     ["there is no RDMA device mlx5_3", "name one of: mlx5_0"],
     both(PD, lambda b: b.set(sglang_disaggregation_ib_device="mlx5_0"))),
    ("rdma", "host",
     both(PD, lambda b: b.set(sglang_disaggregation_ib_device="mlx5_0"), lambda b: b.host(rdma={"mlx5_0": ("DOWN",)})),
     ["no port of the RDMA device mlx5_0 is active (DOWN)", "hang with idle GPUs"], PD),
    ("rdma", "host", both(PD, lambda b: b.host(locked_memory=65536)), ["pin 65536 bytes (ulimit -l)"], PD),
    ("rdma", "host", both(PD, lambda b: b.host(addresses=("127.0.1.1",))),
     ["node-0 resolves to 127.0.1.1 alone", "/etc/hosts"], PD),
    ("interfaces", "host", environment(NCCL_SOCKET_IFNAME="ens3"),
     ["NCCL_SOCKET_IFNAME names the interface ens3, and node-0 has lo, eth0"], environment(NCCL_SOCKET_IFNAME="eth")),
    ("interfaces", "host", environment(GLOO_SOCKET_IFNAME="eth"), ["GLOO_SOCKET_IFNAME names the interface eth,"],
     environment(GLOO_SOCKET_IFNAME="eth0")),
    ("interfaces", "host", environment(NCCL_SOCKET_IFNAME="^lo,eth"), ["excludes every interface of node-0"],
     environment(NCCL_SOCKET_IFNAME="^lo,docker")),
    ("host-memory", "host", lambda b: b.host(memory=20_000), ["of host memory would be used on each node (",
                                                              "node-0 has 19.5 KiB", "above 80%"], nothing),
    ("compile-cache", "host", both(environment(TRITON_CACHE_DIR="/shared/cache"), mounts(("/shared", "nfs4"))),
     ["TRITON_CACHE_DIR=/shared/cache lies on nfs4", "a folder in /tmp"],
     both(environment(TRITON_CACHE_DIR="/shared/cache"), mounts(("/shared", "ext4")))),
    ("disk-space", "host",
     lambda b: b.set(actor_num_nodes=2, load=str(b.folder / "run")),
     ["--save ", "--hf-checkpoint ", "on ext4, which this machine alone sees", "on shared storage"],
     both(lambda b: b.set(actor_num_nodes=2), mounts(("/", "lustre")))),
    ("versions", "host", lambda b: b.host(libraries={**b.machine["libraries"], "sglang": "0.4.9"}),
     ["sglang 0.4.9 is installed", "may have moved", "pip install 'sglang<0.6,>=0.5.15'"], nothing),
    ("versions", "host", lambda b: b.host(libraries={**b.machine["libraries"], "torch": None}),
     ["torch is not installed", "pip install 'torch"], nothing),
    ("files-on-nodes", "host",
     cluster(8, 8, files={"node-0": {"--prompt-data": "9-a"}, "node-1": {"--prompt-data": None}}),
     ["--prompt-data is not on 1 of the 2 nodes: node-1"],
     cluster(8, 8, files={"node-0": {"--prompt-data": "9-a"}, "node-1": {"--prompt-data": "9-a"}})),
    ("files-on-nodes", "host",
     cluster(8, 8, files={"node-0": {"--hf-checkpoint": "9-a"}, "node-1": {"--hf-checkpoint": "9-b"}}),
     ["--hf-checkpoint is not the same file on every node: node-0 9-a, node-1 9-b"], nothing),
    ("disk-space", "host", huge, ["one checkpoint takes about 1091.4 TiB (weights and optimizer)", "--no-save-optim"],
     nothing),
    ("external-engines", "host",
     lambda b: b.set(colocate=False, rollout_external_engine_addrs=(f"127.0.0.1:{free_port(b)}",)),
     ["no engine answers at 127.0.0.1:", "Connection refused"],
     lambda b: b.set(colocate=False, rollout_external_engine_addrs=(f"http://127.0.0.1:{listening(b)}",))),
    ("external-engines", "host", lambda b: b.set(colocate=False, rollout_external_engine_addrs=("gpu-7",)),
     ["'gpu-7' is no address", "HOST:PORT"], nothing),
    ("ports", "host", lambda b: b.set(sglang_port=listening(b)), ["cannot bind port", "on 127.0.0.1",
     "stop what listens"],
     lambda b: b.set(sglang_port=free_port(b))),
    ("ports", "host", lambda b: b.set(sglang_port=65535, actor_num_gpus_per_node=2), ["no room for 2 engines",
                                                                                     "at most 65534"], nothing),
    ("shared-memory", "host", lambda b: b.host(shared_memory=100), ["/dev/shm has 100 B free", "--shm-size"], nothing),
    ("shared-memory", "host", lambda b: b.host(shared_memory=None), ["/dev/shm does not exist", "tmpfs"],
     both(lambda b: b.host(shared_memory=None),
          lambda b: b.set(update_weight_transport="disk", update_weight_disk_dir=str(b.folder / "w")))),
    ("open-files", "host", lambda b: b.host(open_files=1024),
     ["may open 1024 files", "--sglang-server-concurrency 512", "ulimit -n 1536"], lambda b: b.host(open_files=1536)),
    ("output-folders", "host", lambda b: b.set(metrics_file=str(b.folder / "hf")), ["hf is a folder", "name a file"],
     lambda b: b.set(metrics_file=str(b.folder / "m.jsonl"))),
    ("output-folders", "host", lambda b: b.set(tensorboard_dir=str(b.folder / "train.jsonl" / "x")),
     ["train.jsonl is a file, not a folder"], lambda b: b.set(tensorboard_dir=str(b.folder / "events"))),
]  # fmt: skip
