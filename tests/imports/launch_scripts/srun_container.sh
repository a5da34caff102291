#!/bin/bash
#SBATCH --nodes 8
#SBATCH --ntasks-per-node 8
#SBATCH --gpus-per-node 8
readonly _cont_name="megatron"
readonly _cont_mounts="$PWD:/workspace,/data:/data"
srun -l --container-image="nvcr.io#nvidia/pytorch:24.01-py3" \
  --container-name="${_cont_name}" --container-mounts="${_cont_mounts}" \
  --no-container-mount-home bash -c "
  export CUDA_DEVICE_MAX_CONNECTIONS=1;
  cd .;
  torchrun --nnodes \$SLURM_NNODES --nproc_per_node 8 train.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
