#!/bin/bash
STAGE=${STAGE:-zero3}
case "$STAGE" in
  zero[12]) DS=ds_${STAGE}.json; EX="" ;;
  zero3|zero3_*) DS="ds_zero3.json"; EX="--gradient_checkpointing True" ;;
  *) echo bad; exit 2;;
esac
deepspeed --master_port ${PORT:-29501} --include localhost:0,1,2,3 train.py --deepspeed $DS $EX --model_name_or_path gpt2
