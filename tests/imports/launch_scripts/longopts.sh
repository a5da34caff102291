#!/bin/bash
NUM_GPUS=8 MODEL=gpt2 EXTRA=()
while [[ $# -gt 0 ]]; do
  key="$1"
  case $key in
    --gpus) NUM_GPUS="$2"; shift; shift;;
    --model=*) MODEL="${key#*=}"; shift;;
    *) EXTRA+=("$1"); shift;;
  esac
done
deepspeed --num_gpus "$NUM_GPUS" train.py --model_name_or_path "$MODEL" --per_device_train_batch_size 2 "${EXTRA[@]}"
