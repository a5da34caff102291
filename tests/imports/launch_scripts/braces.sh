#!/bin/bash
HOSTS=(node{1..3})
printf '%s slots=8\n' "${HOSTS[@]}" > hosts
NN=${#HOSTS[@]}
LIST=$(IFS=,; echo "${HOSTS[*]}")
FIRST=${HOSTS[0]}
sed -i 's/8/4/' hosts2 2>/dev/null
torchrun --nnodes $NN t.py --hosts $LIST --first $FIRST
