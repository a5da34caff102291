#!/bin/bash
tee acc.yaml > /dev/null <<'YAML'
distributed_type: MULTI_GPU
num_processes: 8
mixed_precision: bf16
YAML
accelerate launch --config_file acc.yaml train.py --model_name_or_path gpt2 --per_device_train_batch_size 2
