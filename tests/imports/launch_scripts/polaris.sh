#!/bin/bash -l
#PBS -N ddp
#PBS -l select=4:system=polaris:ncpus=64:ngpus=4
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -q prod
NNODES=$(wc -l < $PBS_NODEFILE)
NODES_AGAIN=$(sort -u $PBS_NODEFILE | wc -l)
NRANKS=4
NGPUS=$((NNODES * NRANKS))
export MASTER_ADDR=$(head -n 1 $PBS_NODEFILE)
cat $PBS_NODEFILE | uniq | sed -e "s/$/ slots=$NRANKS/" > hosts
mpirun -n $NGPUS --ppn ${NRANKS} python train.py --nodes $NODES_AGAIN --master $MASTER_ADDR --all $NGPUS
