#!/bin/bash
#SBATCH -N 2
#SBATCH --gres=gpu:8
export HF_HOME=/x
GPUS=8
export MASTER_ADDR=10.0.0.1
NUM_PROCESSES=$(expr $SLURM_NNODES \* $GPUS)
cat << EOF > acc_${SLURM_NNODES}.yaml
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
num_machines: $SLURM_NNODES
num_processes: $NUM_PROCESSES
mixed_precision: bf16
EOF
export LAUNCHER="accelerate launch \
    --config_file acc_${SLURM_NNODES}.yaml \
    --main_process_ip $MASTER_ADDR \
    --machine_rank \$SLURM_PROCID \
    "
export SCRIPT="train.py"
export SCRIPT_ARGS=" \
    --per_device_train_batch_size 4 \
    --model_name_or_path gpt2
    "
export CMD="$LAUNCHER $SCRIPT $SCRIPT_ARGS"
srun --jobid $SLURM_JOBID bash -c "$CMD"
