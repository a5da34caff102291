#!/bin/bash
CONFIG='{"a": 1, "b": [1,2]}'
torchrun --nproc_per_node 8 train.py --json "$CONFIG" --lora_target "q,v" --fsdp_config '{"x":"y"}' --path "/data/$(basename /a/b/model.bin .bin)" --model_name_or_path gpt2
