#!/bin/bash
#PBS -N train
#PBS -l select=2:ncpus=64:ngpus=4
#PBS -l walltime=01:00:00
cd $PBS_O_WORKDIR
module load singularity
NNODES=2
NGPUS=4
for i in $(seq 0 $((NNODES-1))); do
  LAST=$i
done
singularity exec --nv --bind /data image.sif torchrun --nnodes=$NNODES --nproc_per_node=$NGPUS train.py --model_name_or_path gpt2 --per_device_train_batch_size 2
