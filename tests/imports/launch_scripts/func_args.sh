#!/bin/bash
get_layers() {
  case "$1" in
    small) echo 12 ;;
    large) echo 24 ;;
    *) echo "unknown" >&2; return 1 ;;
  esac
}
get_args() {
  local size=$1
  local layers
  layers=$(get_layers "$size")
  echo "--num-layers $layers --hidden-size $(( layers * 64 ))"
}
ARGS=$(get_args large)
torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS --num-attention-heads 16 --seq-length $((1<<11)) --max-position-embeddings $((2**11)) --micro-batch-size 1
