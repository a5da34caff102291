#!/bin/bash
#BSUB -P CSC000
#BSUB -nnodes 3
#BSUB -W 2:00
nnodes=$(cat ${LSB_DJOB_HOSTFILE} | sort | uniq | grep -v login | grep -v batch | wc -l)
first=$(cat $LSB_DJOB_HOSTFILE | sort | uniq | tail -n +2 | head -1)
jsrun -n $((nnodes * 6)) -a 1 -c 7 -g 1 -r 6 --smpiargs="-gpu" python train.py --nodes $nnodes --first $first
