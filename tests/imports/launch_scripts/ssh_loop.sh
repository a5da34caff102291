#!/bin/bash
NODES=(node1 node2)
NNODES=${#NODES[@]}
MASTER=${NODES[0]}
RANK=0
for NODE in "${NODES[@]}"; do
  ssh "$NODE" "cd $PWD && torchrun --nnodes $NNODES --nproc_per_node 8 --node_rank 0 --master_addr $MASTER train.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
done
wait
