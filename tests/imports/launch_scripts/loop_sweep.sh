#!/bin/bash
for lr in 1e-5 ; do
  for bs in 4; do
    OUT=out/lr${lr}_bs${bs}
    mkdir -p $OUT
    torchrun --nproc_per_node 8 train.py --lr $lr --per_device_train_batch_size $bs --output_dir $OUT --model_name_or_path gpt2 |& tee $OUT/log.txt
  done
done
