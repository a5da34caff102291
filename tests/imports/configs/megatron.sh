#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_ALGO=Ring
GPUS_PER_NODE=8
NNODES=${NNODES:-2}
MODEL_ARGS=(
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAINING_ARGS="--micro-batch-size 4 --global-batch-size $((4 * 16)) --fp16 --checkpoint-activations"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    $TRAINING_ARGS \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt
