"""Idioms of shell scripts: the launch line against the one that bash starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.io.foreign.shell import read_commands
from tests.imports.bash import BASH, started

SCRIPTS = [
    'A=(x y z)\ntorchrun t.py "${!A[@]}" "${A[@]/#/--}" "${A[@]%z}" "${A[*]^^}"',
    'declare -A M=([tp]=4 [pp]=2)\nARGS=()\nfor k in tp pp; do ARGS+=("--$k=${M[$k]}"); done\n[[ -n ${M[ep]:-} ]] && ARGS+=("--ep=${M[ep]}")\n[[ -v M[tp] ]] && ARGS+=(--has)\ntorchrun t.py "${ARGS[@]}"',
    "ARGS=\nwhile read -r line; do\n  [[ $line == \\#* || -z $line ]] && continue\n  ARGS=\"$ARGS $line\"\ndone < <(printf '# c\\n--a 1\\n\\n--b 2\\n')\ntorchrun t.py $ARGS",
    "mapfile -t H < <(printf 'a\\nb\\n')\nN=${#H[@]}\ntorchrun t.py --n $N --m \"${H[0]}\"",
    'N=2\nif [ $N -gt 1 -a $N -lt 4 ]; then TP=4; fi\nif [ "$N" = 2 -o "$N" = 3 ]; then PP=2; fi\nif test $N -ge 2 && ! [ $N -eq 3 ]; then EP=1; fi\ntorchrun t.py $TP $PP $EP',
    'f() { local -a r=("$@"); r+=(z); echo "${r[*]}"; }\nX=$(f a b)\nread -r A B C <<< "$X"\ntorchrun t.py $A $B $C',
    'export A=1\nf() { A=2; local B=3; g; echo "$A-$B"; }\ng() { B=4; }\ntorchrun t.py $(f) $A ${B:-none}',
    'SIZE=7b\nLAYERS_7b=32\nV="LAYERS_${SIZE}"\ndeclare "X_${SIZE}=9"\neval "Y=\\$LAYERS_${SIZE}"\ntorchrun t.py ${!V} $X_7b $Y',
    'A="a:b:c"\nIFS=: \nset -- $A\nunset IFS\ntorchrun t.py $1 $3 $# "${A//:/ }" ${A//:/ }',
    "OPTS=$(cat <<-EOF\n\t--lr 1e-4\n\t--bs $((2*2))\n\tEOF\n)\ntorchrun t.py ${OPTS}",
    'TP=1\nfor arg in a=1 tp=4 b=2; do\n  case $arg in\n    tp=*) TP=${arg#tp=} ;;\n    [ab]=[0-9]) O+=" --${arg%%=*} ${arg##*=}" ;;\n  esac\ndone\ntorchrun t.py --tp $TP $O',
    'CMD="torchrun"\nCMD+=" t.py"\nCMD="$CMD --json \'{\\"a\\": 1}\'"\neval "$CMD"\nbash -c "$CMD --again"',
    "exec 2>&1\n{ echo hi; } > /dev/null\n( set -e; TP=3; torchrun t.py $TP ) || exit 1\ntorchrun t.py ${TP:-0}",
    "NODES=\"n1 n2 n3\"\nN=$(echo $NODES | wc -w)\nM=$(for n in $NODES; do echo $n; done | wc -l)\nF=$(echo $NODES | awk '{print $1}')\nC=$(echo \"$NODES\" | cut -d' ' -f2)\ntorchrun t.py $N $M $C",
    'A=1\nunset A\nB=${A-unset} C=${A:-x} D=${A+set}\nE=\ntorchrun t.py "$B" "$C" "[$D]" "${E-unset}" "${E:-empty}"',
    "A=08\nB=$((10#$A + 1))\nC=$(printf '%02d' 3 2>/dev/null)\nD=$(( ${#A} + 1 ))\ntorchrun t.py $B $D ${A#0} ${A:1} ${A: -1}",
    'f() {\n  if [ "$#" -lt 1 ]; then echo none; return; fi\n  echo "$1"\n}\ntorchrun t.py $(f) $(f x) "$(f \'y z\')"',
    'A=(--a 1 "--b c")\nprintf \'%q \' "${A[@]}" > q\nS="${A[*]}"\ntorchrun t.py "$S" ${#S} "${A[@]:1}" "${A[@]: -1}"',
    "torchrun --nproc_per_node 8 \\\n  `# comment` t.py \\\n  --a 1 `# another` \\\n  --b 2",
    'A=( "--x" $([ 1 -eq 1 ] && echo "--y") )\nA+=( ${U:+--u} )\ntorchrun t.py "${A[@]}" "${#A[@]}"',
    'cat > a.sh <<"EOF"\ntorchrun t.py "$@" $# ${1:-none}\nEOF\nbash a.sh p "q r"\nbash ./a.sh\nsh -x a.sh s',
    "let N=2**3 M=N/3\nN2=$[N*2]\n((N2 >= 16)) || N2=1\ntorchrun t.py $N $M $N2 $((N<<1)) $((N|1)) $((N^N)) $((~N)) $((N%3?1:2))",
    "NUM_NODES=${1:-2}; shift\nGPUS=${GPUS:-8}\nWORLD=$((NUM_NODES*GPUS))\n[[ $WORLD -le 16 ]] && TP=2 || TP=8\ncase $((WORLD / TP)) in\n  [0-9]) MB=1;;\n  [1-9][0-9]) MB=2;;\nesac\ntorchrun --nnodes $NUM_NODES --nproc_per_node $GPUS t.py --tp $TP --mb ${MB}",
    'arr=(1 2 4)\nidx=2\nN=${arr[idx]}\nM=${arr[$((idx-1))]}\nK=${arr[${#arr[@]}-1]}\narr[idx+1]=8\nunset arr[0]\ntorchrun t.py $N $M $K "${arr[@]}" ${#arr[@]}',
    'A=${A:=4} B=$A\ndeclare -r C=3; readonly D=4\ntypeset -i E=2+3\nlocal_var() { local C2=$1 D2; D2=$C2; echo "$D2"; }\ntorchrun t.py $A $B $C $D $E $(local_var q)',
    'ARGS=(\n  # comment "quoted\n  --a 1   # trailing\'s\n  --b "x # not"\n  ${X:+--x $X}\n  $( true && echo --t )\n)\ntorchrun t.py "${ARGS[@]}"',
    'for ((i = 0, j = 8; i < 3; i++, j -= 2)); do L+="$i:$j "; done\nfor x in a b c; do [ $x = b ] && continue; M+=$x; done\nk=0; until [ $k -ge 3 ]; do ((k++)); done\nfor f in {01..03}; do Q+=$f; done\ntorchrun t.py $L $M $k $Q',
    'export CONFIG="a:1;b:2"\nIFS=\';\' read -ra PAIRS <<< "$CONFIG"\nfor p in "${PAIRS[@]}"; do\n  IFS=\':\' read -r k v <<< "$p"\n  OUT+="--$k=$v "\ndone\ntorchrun t.py $OUT',
    'setup() {\n  TP=$1\n  : "${PP:=$2}"\n  [ -d /nonexistent_dir_x ] && TP=99\n  return 0\n}\nsetup 4 2\nOPT="--pp $PP"\ntorchrun t.py $OPT',
    'A="--flag"\nB=\'--json={"a":"b c"}\'\nC="--path=/x y/z"\ntorchrun t.py $A "$B" "$C" "${C}" ${C} "--mix=$A"\'$A\' \\$A "\\$A" \'"q"\' $\'a\\\'b\' "tab\tx"',
    'S=small\ndeclare -A small=([h]=1 [l]=2) large=([h]=3 [l]=4)\ndeclare -n M=$S\ntorchrun t.py ${M[h]} ${M[l]} "${#M[@]}"',
    'args="--a 1"\nif [[ "$args" == *"--a"* ]]; then args="$args --has-a"; fi\nif [[ " x y z " =~ " y " ]]; then args+=" --has-y"; fi\nif [[ ! "$args" == *--q* ]]; then args+=" --no-q"; fi\nif echo "$args" | grep -q -- "--a"; then args+=" --grep"; fi\ntorchrun t.py ${args% --grep}',
    "x=$(( $(echo 4) * 2 ))\ny=$(( `echo 3` + x ))\nz=$((x > y ? x : y))\n(( w = x % 3 )); (( w )) || w=7\nv=$(( 0x1F & 017 ))\ntorchrun t.py $x $y $z $w $v $((x,y)) $(( (x+y) * -1 ))",
]


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_launch_line_is_the_one_that_bash_starts(script: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{script}\n", encoding="utf-8")
    read = [list(command.words) for command in read_commands(path.read_text(encoding="utf-8"), tmp_path)]
    assert [words for words in read if words[:1] == ["torchrun"]] == started(path)
