#!/bin/bash
export CUDA_VISIBLE_DEVICES="0,1,2,3"
NUM_GPUS=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\n' | wc -l)
IFS=',' read -ra DEVICES <<< "$CUDA_VISIBLE_DEVICES"
N2=${#DEVICES[@]}
N3=$(awk -F',' '{print NF}' <<< "$CUDA_VISIBLE_DEVICES")
torchrun --nproc_per_node=$NUM_GPUS --master_port=$((20000 + N2)) train.py --x $N3 --model_name_or_path gpt2 --per_device_train_batch_size 2
