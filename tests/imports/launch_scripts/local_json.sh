#!/bin/bash
write_ds() {
  local stage=$1 path=$2
  {
    echo "{"
    echo "  \"zero_optimization\": {\"stage\": ${stage}},"
    echo "  \"train_micro_batch_size_per_gpu\": 1"
    echo "}"
  } > "$path"
}
write_ds 2 ds2.json
deepspeed --num_gpus=8 train.py --deepspeed ds2.json --model_name_or_path gpt2
