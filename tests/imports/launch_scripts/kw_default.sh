#!/bin/bash
: "${GPUS:=8}"
: ${MODEL:="gpt2"}
EXTRA=${EXTRA-"--bf16 --tf32 True"}
torchrun --nproc_per_node="${GPUS}" train.py --model_name_or_path="$MODEL" ${EXTRA} ${EMPTY:+--empty} ${GPUS:+--gpus=$GPUS}
