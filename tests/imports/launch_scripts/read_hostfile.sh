#!/bin/bash
( 
cat <<'EOF'
a slots=4
EOF
echo "b slots=4"
) > hosts
while read -r h s; do
  [ -z "$h" ] && continue
  T=$(( ${T:-0} + ${s#slots=} ))
done < hosts
torchrun t.py $T
