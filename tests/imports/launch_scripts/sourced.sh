#!/bin/bash
cat > env.sh <<'EOF'
export TP=4
PP=${PP:-2}
function wsz() { echo $(( TP * PP )); }
EOF
source ./env.sh
torchrun --nproc_per_node $(wsz) pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP
