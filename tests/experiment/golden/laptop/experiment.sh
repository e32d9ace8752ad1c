#!/usr/bin/env bash
# experiment.sh, made by the slime lab from recipes/launch/tiny.yaml, commit 0123456789abcdef0123456789abcdef01234567.
# Tiny | colocate | sync | bf16 | tis
# Runs on CPU: one trainer process, one engine, no GPU.
# SLIME_TINY_SEED (0) is the seed of model and data that prepare makes; train takes --seed and --rollout-seed.
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

HF_MODEL=$(absolute 'slime-tiny/hf')
ROLLOUT_MODEL=${HF_MODEL}
TRAIN_CHECKPOINT=$(absolute 'slime-tiny/torch_dist')
PROMPT_DATA=$(absolute 'slime-tiny/data/train.jsonl')
PROMPT_FILE=$PROMPT_DATA   # without the rows that FILE@[FIRST:LAST] chooses
if [[ $PROMPT_DATA =~ ^(.+)@\[-?[0-9]*:-?[0-9]*\]$ ]]; then
  PROMPT_FILE=${BASH_REMATCH[1]}
fi
SAVE_DIR=$(absolute 'slime-tiny/run')
EVAL_DATA=${PROMPT_FILE%/*}/heldout.jsonl   # slime tiny writes it there
export PYTHONPATH="$REPO_ROOT${PYTHONPATH:+:$PYTHONPATH}"

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

prepare() {
  need_slime
  local root
  root=$(dirname -- "$HF_MODEL")
  if [ "$HF_MODEL" != "$root/hf" ] || [ "$PROMPT_FILE" != "$root/data/train.jsonl" ]; then
    die "slime tiny writes FOLDER/hf and FOLDER/data/train.jsonl, but this experiment reads $HF_MODEL and $PROMPT_FILE: give both paths one FOLDER, or make them yourself."
  fi
  # Complete parts stay as they are; each carries a manifest with the checksums of its files.
  "$PYTHON" -m slime tiny --output "$root" --seed "${SLIME_TINY_SEED:-0}"
  say 'next: bash experiment.sh convert'
}

convert() {
  need_slime
  [ -f "$HF_MODEL/config.json" ] || die "no weights at $HF_MODEL: run bash experiment.sh prepare first"
  local -a flags=(
    # Conversion
    --hf-checkpoint "$HF_MODEL"
    --save "$TRAIN_CHECKPOINT"
    --device cpu
  )
  "$PYTHON" -m slime convert hf-to-megatron "${flags[@]}" "$@"
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
    --recipe tiny
    --device cpu
    # Placement
    --actor-num-nodes 1
    --actor-num-gpus-per-node 1
    --colocate
    --rollout-num-gpus 1
    # Checkpoints and data
    --hf-checkpoint "$ROLLOUT_MODEL"
    --ref-load "$TRAIN_CHECKPOINT"
    --save "$SAVE_DIR"
    --save-interval 20
    --prompt-data "$PROMPT_DATA"
    --input-key prompt
    --label-key label
    --apply-chat-template
    --rollout-shuffle
    # Reward
    --rm-type math
    # Rollout
    --num-rollout 150
    --rollout-batch-size 64
    --n-samples-per-prompt 8
    --global-batch-size 512
    --rollout-max-response-len 8
    --rollout-temperature 1
    --rollout-top-p 1
    --rollout-top-k -1
    # Schedule
    --sglang-server-concurrency 512
    # Evaluation
    --eval-interval 50
    --eval-prompt-data heldout "$EVAL_DATA"
    --n-samples-per-eval-prompt 4
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
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --context-parallel-size 1
    --expert-model-parallel-size 1
    --expert-tensor-parallel-size 1
    # Memory and batching
    --use-dynamic-batch-size
    --max-tokens-per-gpu 8192
    # Optimizer
    --optimizer adam
    --lr 4e-4
    --lr-warmup-iters 10
    --lr-decay-style constant
    --weight-decay 0.1
    --adam-beta1 0.9
    --adam-beta2 0.98
    # Numerics
    --attention-dropout 0
    --hidden-dropout 0
    --accumulate-allreduce-grads-in-fp32
    --attention-softmax-in-fp32
    # Serving
    --rollout-num-gpus-per-engine 1
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
  expect_file "$EVAL_DATA" 'held-out prompts' prepare
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
  say "train wants a Ray head at $RAY_DASHBOARD on this machine; no GPU"
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
    die "nothing answers at $RAY_DASHBOARD, so no Ray takes the job: start one with RAY_AUTH_MODE=$RAY_AUTH_MODE ray start --head --num-cpus 2 --dashboard-host 127.0.0.1 --dashboard-port 8265 (mode token wants a token first: ray get-auth-token --generate), or name a running one in RAY_DASHBOARD"
  fi
  local run_id
  run_id=$(date -u +%Y%m%dT%H%M%SZ)-$$
  make_run_dir "$run_id"
  local -a variables=(
    "PYTHONPATH=$REPO_ROOT"
    "no_proxy=127.0.0.1,localhost${no_proxy:+,$no_proxy}"
    'PYTHONUNBUFFERED=1'
    'OMP_NUM_THREADS=1'
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
