#!/bin/bash
N=1
until (( N >= 8 )); do (( N *= 2 )); done
(
  export TP=$N
  cd sub 2>/dev/null || true
  torchrun --nproc_per_node ${TP} train.py --tp "${TP}" --model_name_or_path gpt2
)
