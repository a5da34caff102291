#!/bin/bash
#SBATCH -N 2 --gpus-per-node=8
CMD="torchrun --nnodes 2 --nproc_per_node 8 train.py --model_name_or_path gpt2"
srun -N 2 enroot start --rw --mount .:/w nvidia+pytorch bash -c "$CMD"
