#!/bin/bash
rm -f hosts
i=1
while [ $i -le 2 ]; do
  echo "worker-$i slots=8" >> hosts
  i=$((i + 1))
done
NP=$(( $(wc -l < hosts) * 8 ))
mpirun --allow-run-as-root -np $NP --hostfile hosts -bind-to none -map-by slot python train.py --model_name_or_path gpt2
