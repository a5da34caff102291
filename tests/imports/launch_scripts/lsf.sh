#!/bin/bash
#BSUB -nnodes 2
#BSUB -W 60
NNODES=2
ARGS="--model_name_or_path gpt2 \
--per_device_train_batch_size 2"
ARGS="${ARGS} --bf16"
[[ "${USE_FLASH:-1}" == 1 ]] && ARGS+=" --attn flash"
mpirun -np $((NNODES*8)) --map-by ppr:8:node -x NCCL_DEBUG python train.py $ARGS
