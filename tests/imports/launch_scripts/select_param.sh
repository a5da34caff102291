#!/bin/bash
SEQ=4096 MBS=1 DP=4
GBS=$(( MBS * DP * 16 ))
ITERS=$(( 10**9 / (GBS * SEQ) ))
WARM=$(( ITERS / 100 > 10 ? ITERS / 100 : 10 ))
H=$((0x1000)); FFN=$(( (H * 8 / 3 + 127) & ~127 ))
torchrun --nproc_per_node 8 pretrain_gpt.py --hidden-size $H --ffn-hidden-size $FFN --train-iters $ITERS --lr-warmup-iters $WARM --global-batch-size $GBS
