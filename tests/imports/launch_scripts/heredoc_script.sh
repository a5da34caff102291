#!/bin/bash
N=8
cat > run_node.sh << EOF
#!/bin/bash
set -e
RANK=\${1:-0}
torchrun --nproc_per_node $N --node_rank \$RANK train.py --model_name_or_path gpt2 --note "cost \\\$5"
EOF
chmod +x run_node.sh
./run_node.sh 3
