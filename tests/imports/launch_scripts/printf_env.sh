#!/bin/bash
set -a
printf 'A=%s\nB=%s\n' 1 2 > .env
. ./.env
set +a
X=$[A+B]
printf -v NAME "run-%s-%d" "x" "$X"
torchrun --nproc_per_node $X train.py --name $NAME --model_name_or_path gpt2
