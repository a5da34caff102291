#!/bin/bash
IMAGE=${IMAGE:-nvcr.io/nvidia/pytorch:23.10-py3}
GPUS=4
docker run --rm --gpus all --ipc=host --ulimit memlock=-1 -v "$(pwd)":/workspace -e NCCL_DEBUG=INFO $IMAGE \
  bash -c "pip install -r req.txt && cd . && torchrun --nproc_per_node=$GPUS train.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
