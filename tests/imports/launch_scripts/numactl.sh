#!/bin/bash
export OMP_NUM_THREADS=8
nohup numactl --interleave=all torchrun --nproc_per_node=8 train.py --model_name_or_path gpt2 > out.log 2>&1 &
wait $!
