#!/bin/bash
NODES=4
TP=2
JOB=llama_tp${TP}
sbatch <<EOT
#!/bin/bash
#SBATCH --job-name=${JOB}
#SBATCH --nodes=${NODES}
#SBATCH --gpus-per-node=8
export NCCL_DEBUG=WARN
srun torchrun --nnodes=\$SLURM_NNODES --nproc_per_node=8 train.py --model_name_or_path gpt2 --per_device_train_batch_size 2 --tp ${TP} --run_name "\${SLURM_NNODES}n"
EOT
