#!/usr/bin/env bash
# Trains with the reward on a CPU: bash examples/custom_reward/run.sh FOLDER [further flags of slime train]
# FOLDER is what `slime tiny` made, with the converted checkpoint in it. Run it from the repository's root.
set -euo pipefail
folder=${1:?name the folder that slime tiny made}
shift
python -m slime train \
  --device cpu \
  --hf-checkpoint "$folder/hf" \
  --ref-load "$folder/torch_dist" \
  --prompt-data "$folder/data/train.jsonl" \
  --input-key prompt \
  --label-key label \
  --apply-chat-template \
  --custom-rm-path examples.custom_reward.reward:reward \
  --reward-key score \
  --log-reward-category fault \
  --rollout-shuffle \
  --num-rollout 40 \
  --rollout-batch-size 32 \
  --n-samples-per-prompt 8 \
  --rollout-max-response-len 8 \
  --colocate \
  --actor-num-gpus-per-node 1 \
  --use-dynamic-batch-size \
  --max-tokens-per-gpu 8192 \
  --lr 2e-4 \
  --lr-warmup-iters 2 \
  --attention-dropout 0 \
  --hidden-dropout 0 \
  --eval-interval 10 \
  --eval-prompt-data sums "$folder/data/heldout.jsonl" \
  --n-samples-per-eval-prompt 2 \
  "$@"
