#!/usr/bin/env bash
# experiment.sh, made by the slime lab from recipes/launch/glm-4.7-flash.yaml, commit 0123456789abcdef0123456789abcdef01234567.
# GLM-4.7-Flash | colocate | sync | bf16 | tis
# Ray GPUs: 8. Whether the model fits depends on the GPU and on the length of responses; nothing here has measured it.
# planned: Model: GLM-4.7-Flash writes --recipe glm-4.7-flash, --moe-token-dispatcher-type, --moe-enable-deepep and 6 more flags that the runtime does not run yet; the launcher refuses this shell by name.
#
# Run it from the root of the repository, with the same repository, environment and paths on every node:
#   bash experiment.sh prepare   weights and prompts, once, on storage that all nodes see; can be run again after a break
#   bash experiment.sh convert   a Megatron checkpoint from the weights
#   bash experiment.sh check     names whatever is missing or broken; loads no model
#   bash experiment.sh train     checks again and submits the Ray job
# Further flags of check and train go to the trainer, such as --load FOLDER to resume; those of convert to slime convert.
# It starts no cluster and ends none. RAY_DASHBOARD names another Ray head, RAY_AUTH_MODE how Ray authenticates.
# Paths and names that you typed stand in single quotes, so that nothing in them expands.
# shellcheck disable=SC1003,SC2016,SC2088
set -euo pipefail

REPO_ROOT=$PWD
TRACKER=latest_checkpointed_iteration.txt   # written last into each Megatron checkpoint
RAY_DASHBOARD=${RAY_DASHBOARD:-http://127.0.0.1:8265}
export RAY_AUTH_MODE="${RAY_AUTH_MODE:-token}"
if [ -d "$REPO_ROOT/.venv/bin" ]; then
  export PATH="$REPO_ROOT/.venv/bin:$PATH"
fi
PYTHON=$(command -v python || command -v python3 || true)

absolute() {
  case $1 in
    /*) printf '%s' "$1" ;;
    *) printf '%s/%s' "$REPO_ROOT" "$1" ;;
  esac
}

HF_MODEL=$(absolute '/data/GLM-4.7-Flash')
ROLLOUT_MODEL=${HF_MODEL}
TRAIN_CHECKPOINT=$(absolute '/data/GLM-4.7-Flash_torch_dist')
PROMPT_DATA=$(absolute '/data/dapo-math-17k/dapo-math-17k.jsonl')
PROMPT_FILE=$PROMPT_DATA   # without the rows that FILE@[FIRST:LAST] chooses
if [[ $PROMPT_DATA =~ ^(.+)@\[-?[0-9]*:-?[0-9]*\]$ ]]; then
  PROMPT_FILE=${BASH_REMATCH[1]}
fi
SAVE_DIR=$(absolute '/data/slime-experiment')
MEGATRON_DIR=$(absolute '/root/Megatron-LM')
export PYTHONPATH="$REPO_ROOT:$MEGATRON_DIR${PYTHONPATH:+:$PYTHONPATH}"

say() {
  printf '%s\n' "$*" >&2
}

die() {
  say "experiment.sh: $*"
  exit 1
}

usage() {
  cat <<'SLIME_USAGE'
usage: bash experiment.sh prepare | convert [FLAG...] | check [FLAG...] | train [FLAG...]
  prepare   weights and prompts, once, on storage that all nodes see
  convert   a Megatron checkpoint from the weights
  check     names whatever is missing or broken
  train     checks again and submits the Ray job
SLIME_USAGE
}

need_slime() {
  [ -n "$PYTHON" ] || die 'python is not on PATH'
  "$PYTHON" -c 'import slime' 2> /dev/null || die "$PYTHON cannot import slime: run this in the root of the repository, or install slime"
}

# need COMMAND WHY
need() {
  command -v "$1" > /dev/null || die "$1 is not on PATH: $2"
}

# A step of prepare is done when its folder says so, not when files lie there: a broken run leaves files too.
MARKER=.slime-complete
finished() {
  [ -f "$1/$MARKER" ] && [ "$(cat -- "$1/$MARKER")" = "$2" ]
}

finish() {
  printf '%s' "$2" > "$1/$MARKER.new"
  mv -- "$1/$MARKER.new" "$1/$MARKER"
}

# fetch FOLDER REPOSITORY [OPTION...]: hf resumes a broken download; the marker says that it ended.
fetch() {
  local folder=$1 repository=$2
  shift 2
  if finished "$folder" "download $repository"; then
    say "already downloaded: $folder"
    return
  fi
  need hf 'it downloads weights and data; install huggingface_hub'
  mkdir -p -- "$folder"
  hf download "$repository" --local-dir "$folder" "$@"
  finish "$folder" "download $repository"
}

prepare() {
  need_slime
  fetch "$HF_MODEL" zai-org/GLM-4.7-Flash
  if [ -f "$PROMPT_FILE" ]; then
    say "prompts are there: $PROMPT_FILE"
  else
    fetch "$(dirname -- "$PROMPT_FILE")" zhuzilin/dapo-math-17k --repo-type dataset
    if [ ! -f "$PROMPT_FILE" ]; then
      die "the data set was downloaded to $(dirname -- "$PROMPT_FILE"), which has no $(basename -- "$PROMPT_FILE"): name one of the files there as prompt data."
    fi
  fi
  say 'next: bash experiment.sh convert'
}

convert() {
  if [ $# -eq 0 ] && [ -f "$TRAIN_CHECKPOINT/$TRACKER" ]; then
    say "already converted: $TRAIN_CHECKPOINT"
    return
  fi
  need_slime
  [ -f "$HF_MODEL/config.json" ] || die "no weights at $HF_MODEL: run bash experiment.sh prepare first"
  local -a flags=(
    # Conversion
    --hf-checkpoint "$HF_MODEL"
    --save "$TRAIN_CHECKPOINT"
    --device cuda
  )
  need torchrun 'it starts one process for each GPU; install torch'
  torchrun --nproc-per-node 8 --standalone -m slime convert hf-to-megatron "${flags[@]}" "$@"
  say 'next: bash experiment.sh check'
}

missing() {
  MISSING=$((MISSING + 1))
  say "missing: $*"
}

# expect_file FILE WHAT STAGE
expect_file() {
  [ -f "$1" ] || missing "$2: $1${3:+ (made by: bash experiment.sh $3)}"
}

expect_folder() {
  [ -d "$1" ] || missing "$2 is not at $1 (a folder that every node must see)"
}

# The folder, or the nearest one above it that exists, must be writable.
expect_writable() {
  local folder=$1
  while [ ! -e "$folder" ]; do
    folder=$(dirname -- "$folder")
  done
  { [ -d "$folder" ] && [ -w "$folder" ]; } || missing "the output folder cannot be made: $folder is not a writable folder"
}

# Fills ARGUMENTS with the flags of the trainer.
train_arguments() {
  ARGUMENTS=(
    # Recipe
    --recipe glm-4.7-flash
    --device cuda
    # Placement
    --actor-num-nodes 1
    --actor-num-gpus-per-node 8
    --colocate
    --rollout-num-gpus 8
    # Checkpoints and data
    --hf-checkpoint "$ROLLOUT_MODEL"
    --ref-load "$TRAIN_CHECKPOINT"
    --save "$SAVE_DIR"
    --save-interval 3
    --prompt-data "$PROMPT_DATA"
    --input-key prompt
    --label-key label
    --apply-chat-template
    --rollout-shuffle
    # Reward
    --rm-type deepscaler
    # Rollout
    --num-rollout 3
    --rollout-batch-size 8
    --n-samples-per-prompt 8
    --global-batch-size 64
    --rollout-max-response-len 4096
    --rollout-temperature 1
    --rollout-top-p 1
    --rollout-top-k -1
    # Schedule
    --sglang-server-concurrency 128
    # Algorithm
    --advantage-estimator grpo
    --kl-coef 0
    --entropy-coef 0
    --eps-clip 0.2
    --eps-clip-high 0.28
    # Consistency
    --use-tis
    --tis-clip-low 0
    --tis-clip 2
    # Parallelism
    --tensor-model-parallel-size 2
    --sequence-parallel
    --pipeline-model-parallel-size 2
    --context-parallel-size 2
    --expert-model-parallel-size 4
    --expert-tensor-parallel-size 1
    --decoder-last-pipeline-num-layers 23
    --moe-token-dispatcher-type flex
    --moe-enable-deepep
    # Memory and batching
    --recompute-granularity full
    --recompute-method uniform
    --recompute-num-layers 1
    --use-dynamic-batch-size
    --max-tokens-per-gpu 8192
    # Optimizer
    --optimizer adam
    --lr 1e-6
    --lr-decay-style constant
    --weight-decay 0.1
    --adam-beta1 0.9
    --adam-beta2 0.98
    --use-distributed-optimizer
    --optimizer-cpu-offload
    --overlap-cpu-optimizer-d2h-h2d
    --use-precision-aware-optimizer
    # Numerics
    --attention-dropout 0
    --hidden-dropout 0
    --accumulate-allreduce-grads-in-fp32
    --attention-softmax-in-fp32
    --attention-backend flash
    # Serving
    --rollout-num-gpus-per-engine 8
    --sglang-mem-fraction-static 0.7
    --sglang-enable-dp-attention
    --sglang-dp-size 8
    --sglang-enable-dp-lm-head
    --sglang-moe-dense-tp-size 1
    # Metrics
    --metrics-file "$SAVE_DIR/metrics.jsonl"
    --tensorboard-dir "$SAVE_DIR/tensorboard"
  )
}

# make_run_dir NAME: a folder that outlives this script, because the job reads it.
make_run_dir() {
  RUN_DIR=$REPO_ROOT/.slime-lab/$1
  mkdir -p -- "$RUN_DIR"
  train_arguments
}

check() {
  MISSING=0
  if [ -z "$PYTHON" ]; then
    missing 'python is not on PATH'
  elif ! "$PYTHON" -c 'import slime' 2> /dev/null; then
    missing "$PYTHON cannot import slime: run this in the root of the repository, or install slime"
  fi
  command -v ray > /dev/null || missing 'ray is not on PATH: install ray'
  expect_file "$ROLLOUT_MODEL/config.json" 'weights for the engine' prepare
  expect_file "$TRAIN_CHECKPOINT/$TRACKER" 'the Megatron checkpoint' convert
  expect_file "$PROMPT_FILE" 'prompts' prepare
  expect_folder "$MEGATRON_DIR" 'Megatron-LM'
  if [ ! -f "$HF_MODEL/config.json" ] && ! command -v hf > /dev/null; then
    missing 'hf is not on PATH and prepare needs it: install huggingface_hub'
  fi
  if [ ! -f "$TRAIN_CHECKPOINT/$TRACKER" ] && ! command -v torchrun > /dev/null; then
    missing 'torchrun is not on PATH and convert needs it: install torch'
  fi
  expect_writable "$SAVE_DIR"
  if ((MISSING > 0)); then
    die "$MISSING missing, named above"
  fi
  make_run_dir check
  "$PYTHON" -m slime check "${ARGUMENTS[@]}" "$@" || die 'slime check refuses this run; its reasons stand above'
  "$PYTHON" -m slime train "${ARGUMENTS[@]}" "$@" --dry-run > "$RUN_DIR/dry-run.txt" || die 'the launcher refuses these flags; its reason stands above'
  if [ -e "$SAVE_DIR" ]; then
    say "note: $SAVE_DIR exists; a new experiment wants a new folder, to resume give check and train --load"
  fi
  say 'every input is there'
  say "train wants 8 GPUs in the Ray cluster at $RAY_DASHBOARD; whether the model fits in their memory is not checked"
  RAY_ANSWERS=true
  if ! ray_answers; then
    RAY_ANSWERS=false
    say "note: nothing answers at $RAY_DASHBOARD; start Ray before train"
  fi
}

# Any answer will do, "not authorised" too: Ray itself says what it misses.
ray_answers() {
  "$PYTHON" - "$RAY_DASHBOARD" 2> /dev/null <<'SLIME_REACH'
import sys
import urllib.error
import urllib.request

try:
    urllib.request.urlopen(sys.argv[1] + "/api/version", timeout=3).close()
except urllib.error.HTTPError:
    pass
SLIME_REACH
}

# write_runtime_env FILE NAME=VALUE...
write_runtime_env() {
  "$PYTHON" - "$@" <<'SLIME_RUNTIME'
import json
import sys

variables = dict(item.split("=", 1) for item in sys.argv[2:])
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"env_vars": variables}, file, ensure_ascii=False, indent=2)
    file.write("\n")
SLIME_RUNTIME
}

train() {
  # A job's command passes through a shell, and how Ray quotes it for that differs between versions. So the command is a
  # file whose path needs no quoting beyond spaces.
  # PYTHONPATH separates folders by a colon.
  local unsafe="'"'"`$\;&|<>()*?[]{}#~!:'
  case $REPO_ROOT in
    *["$unsafe"]* | *[[:cntrl:]]*)
      die "the repository is at $REPO_ROOT: move it to a path without line breaks, tabs and $unsafe, which shells and lists of paths read as their own"
      ;;
  esac
  check "$@"
  if [ "$RAY_ANSWERS" = false ]; then
    die "nothing answers at $RAY_DASHBOARD, so no Ray takes the job: start one with RAY_AUTH_MODE=$RAY_AUTH_MODE ray start --head --num-gpus 8 --dashboard-host HEAD_IP --dashboard-port 8265 (mode token wants a token first: ray get-auth-token --generate), or name a running one in RAY_DASHBOARD"
  fi
  local run_id
  run_id=$(date -u +%Y%m%dT%H%M%SZ)-$$
  make_run_dir "$run_id"
  local -a variables=(
    "PYTHONPATH=$REPO_ROOT:$MEGATRON_DIR"
    "no_proxy=127.0.0.1,localhost${no_proxy:+,$no_proxy}"
    'PYTHONUNBUFFERED=1'
    'CUDA_DEVICE_MAX_CONNECTIONS=1'
    'NVSHMEM_DISABLE_NCCL=1'
    'NCCL_NVLS_ENABLE=0'
  )
  write_runtime_env "$RUN_DIR/runtime-env.json" "${variables[@]}"
  {
    printf '#!/usr/bin/env bash\nset -euo pipefail\n'
    printf 'cd -- %q\n' "$REPO_ROOT"
    printf 'exec'
    printf ' %q' "$PYTHON" -m slime train "${ARGUMENTS[@]}" "$@"
    printf '\n'
  } > "$RUN_DIR/train.sh"
  say "run folder: $RUN_DIR (keep it until the job has ended)"
  # RAY_ADDRESS and RAY_API_SERVER_ADDRESS would overrule --address.
  env -u RAY_ADDRESS -u RAY_API_SERVER_ADDRESS ray job submit --address "$RAY_DASHBOARD" --submission-id "slime-$run_id" \
    --runtime-env "$RUN_DIR/runtime-env.json" -- bash "$RUN_DIR/train.sh"
}

main() {
  local stage=${1:-}
  [ $# -eq 0 ] || shift
  case $stage in
    prepare)
      if [ $# -gt 0 ]; then
        usage >&2
        exit 2
      fi
      prepare
      ;;
    convert | check | train)
      if [ $# -gt 0 ] && [[ $1 != --* ]]; then
        usage >&2
        exit 2
      fi
      "$stage" "$@"
      ;;
    -h | --help | help) usage ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
}

main "$@"
