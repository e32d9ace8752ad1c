#!/usr/bin/env bash
# Trains the agent on a CPU: bash examples/multi_turn_tools/run.sh FOLDER [further flags of slime train]
# FOLDER is what prepare.py made, with the converted checkpoint in it. Run it from the repository's root.
set -euo pipefail
folder=${1:?name the folder that prepare.py made}
shift
python -m slime train \
  --device cpu \
  --hf-checkpoint "$folder/hf" \
  --ref-load "$folder/torch_dist" \
  --prompt-data "$folder/data/train.jsonl" \
  --input-key prompt \
  --label-key label \
  --custom-generate-function-path examples.multi_turn_tools.agent:generate \
  --rm-type math \
  --rollout-shuffle \
  --num-rollout 30 \
  --rollout-batch-size 16 \
  --n-samples-per-prompt 8 \
  --rollout-max-response-len 40 \
  --rollout-max-context-len 64 \
  --colocate \
  --actor-num-gpus-per-node 1 \
  --use-dynamic-batch-size \
  --max-tokens-per-gpu 8192 \
  --lr 1e-4 \
  --lr-warmup-iters 2 \
  --attention-dropout 0 \
  --hidden-dropout 0 \
  --eval-interval 10 \
  --eval-prompt-data sums "$folder/data/heldout.jsonl" \
  --n-samples-per-eval-prompt 4 \
  --truncated-samples wrong \
  --log-multi-turn \
  "$@"
