#!/bin/bash
torchrun --nproc_per_node 8 train.py --data /d/{a,b}.bin --model_name_or_path gpt2
for i in {1..3}; do D+=" /d/$i.bin"; done
torchrun --nproc_per_node 8 train.py --data $D
