#!/bin/bash
MODEL=Llama-2-70b-hf
if [[ "$MODEL" =~ ([0-9]+)b ]]; then SIZE=big; fi
if [[ ${MODEL,,} == *llama* && $MODEL != *7b* ]]; then X=1; else X=2; fi
if [[ $MODEL == @(Llama-2-70b-hf|x) ]]; then Y=3; fi
torchrun --nproc_per_node 8 train.py --size $SIZE --x $X --y $Y --model_name_or_path ${MODEL/-hf/}
