#!/bin/bash
exec > >(tee -a job.log) 2>&1
trap 'rm -f tmp' EXIT INT
log() { printf '[%s] %s\n' "$(date)" "$*"; }
log start
{
  log inside
  torchrun --nproc_per_node 8 train.py --model_name_or_path gpt2
} 2>&1 | tee run.log
log end
