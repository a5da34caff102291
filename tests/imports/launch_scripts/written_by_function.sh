#!/bin/bash
config() { cat <<EOF
{"stage": $1,
 "bf16": ${2:-true}}
EOF
}
config 3 > ds.json
config 2 false | tee ds2.json >/dev/null
config 1 > ds3.json && cp ds3.json ds4.json
torchrun t.py $(cat ds4.json | head -n 1)
