#!/usr/bin/env bash
# Supervised fine-tuning on a CPU: bash examples/supervised/run.sh FOLDER [further flags of slime train]
# FOLDER is what `slime tiny` made, with the converted checkpoint and conversations.jsonl in it. Run it from the
# repository's root. Answers to held-out problems are sampled and graded before, between and after the rounds.
set -euo pipefail
folder=${1:?name the folder that slime tiny made}
shift
python -m slime train \
  --device cpu \
  --hf-checkpoint "$folder/hf" \
  --ref-load "$folder/torch_dist" \
  --prompt-data "$folder/conversations.jsonl" \
  --input-key messages \
  --loss-type sft_loss \
  --rollout-function-path slime.rollout.sft_rollout.generate_rollout \
  --apply-chat-template \
  --rollout-shuffle \
  --num-rollout 40 \
  --rollout-batch-size 128 \
  --n-samples-per-prompt 1 \
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
  --eval-input-key prompt \
  --eval-label-key label \
  --rm-type math \
  --rollout-max-response-len 8 \
  --n-samples-per-eval-prompt 2 \
  "$@"
