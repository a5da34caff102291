#!/usr/bin/env bash
set -x
HOSTS=(node1 node2 node3)
HOSTFILE=./hostfile_$$
HOSTFILE=hostfile
: > $HOSTFILE
for h in "${HOSTS[@]}"; do
  echo "$h slots=${SLOTS:-8}" >> "$HOSTFILE"
done
cat > ds_config.json <<EOT
{
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {"stage": 3},
  "bf16": {"enabled": true}
}
EOT
NUM=$(wc -l < $HOSTFILE)
deepspeed --hostfile=$HOSTFILE --num_nodes $NUM --num_gpus 8 train.py \
  --deepspeed ds_config.json --model_name_or_path gpt2 \
  --per_device_train_batch_size 4 2>&1 | tee logs/run_$(date +%F).log
