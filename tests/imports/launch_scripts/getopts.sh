#!/bin/bash
usage() { echo "Usage: $0 [-g gpus] [-b batch]"; exit 1; }
GPUS=8
BATCH=2
while getopts ":g:b:h" opt; do
  case ${opt} in
    g ) GPUS=$OPTARG ;;
    b ) BATCH=$OPTARG ;;
    h ) usage ;;
    \? ) usage ;;
  esac
done
shift $((OPTIND -1))
torchrun --standalone --nproc_per_node $GPUS train.py --per_device_train_batch_size $BATCH --model_name_or_path gpt2
