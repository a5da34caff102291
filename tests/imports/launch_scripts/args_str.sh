#!/bin/bash
ARGS=""
ARGS+=" --a 1"
ARGS="$ARGS --b 2" 
if [ "${OFFLOAD:-false}" = "true" ]; then ARGS+=" --offload"; fi
if [ -z "$SAVE" ]; then SAVE=ckpt; fi
ARGS="$ARGS --save $SAVE --c=$(( 3 > 2 ? 10 : 20 ))"
python -m torch.distributed.launch --nproc_per_node=8 --use_env train.py $ARGS
