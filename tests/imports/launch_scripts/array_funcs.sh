#!/bin/bash
declare -A CFG=( [hidden]=4096 [layers]=32 [heads]=32 )
ARGS=()
for k in hidden layers heads; do ARGS+=( "--$k" "${CFG[$k]}" ); done
add() { ARGS+=("$@"); }
add --lr 1e-4
add --name "a b"
if (( ${#ARGS[@]} > 4 )); then add --many; fi
CMD=(torchrun --nproc_per_node 8 train.py)
"${CMD[@]}" "${ARGS[@]}"
