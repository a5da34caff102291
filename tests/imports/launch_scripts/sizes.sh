#!/bin/bash
MODEL_SIZE=${MODEL_SIZE:-7}
if   [[ ${MODEL_SIZE} == 7 ]];   then HIDDEN_SIZE=4096;  NUM_HEAD=32; NUM_QUERY_GROUP=32; NUM_LAYERS=32; FFN=11008;
elif [[ ${MODEL_SIZE} == 13 ]];  then HIDDEN_SIZE=5120;  NUM_HEAD=40; NUM_QUERY_GROUP=40; NUM_LAYERS=40; FFN=13824;
else echo "invalid MODEL_SIZE: ${MODEL_SIZE}"; exit 1
fi
options=" \
	--num-layers ${NUM_LAYERS} \
	--hidden-size ${HIDDEN_SIZE} \
	--num-attention-heads ${NUM_HEAD} \
	--ffn-hidden-size $FFN \
	--seq-length 4096 --max-position-embeddings 4096 \
	--micro-batch-size 1"
run_cmd="torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py ${options}"
echo ${run_cmd}
eval ${run_cmd}
set +x
