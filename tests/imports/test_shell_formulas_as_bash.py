"""Arithmetic, patterns, and outputs of commands in a script's launch line, against what bash starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.io.foreign.shell import read_commands
from tests.imports.bash import BASH, started

SCRIPTS = [
    "torchrun t.py $((2**3)) $((2**3**2)) $((-2**2)) $((1<<13)) $((256>>4)) $((6&3)) $((6|3)) $((6^3)) $((~5))",
    "torchrun t.py $((0x10)) $((010)) $((2#101)) $((16#ff)) $((16#FF)) $((36#z)) $((62#A)) $((1,2,3))",
    "N=4; torchrun t.py $((N>2?N*2:N/2)) $((N == 4 ? 1 : N == 5 ? 2 : 3)) $((!N)) $((N&&0)) $((0||N)) $((N%3))",
    "torchrun t.py $((7/2)) $((-7/2)) $((-7%3)) $((7%-3)) $((0 && 1/0)) $((1 ? 2 : 1/0))",
    'N=4; torchrun t.py $[2*3] $[ N * 2 ] "$[N+1]" x$[N]y',
    "H=$((1<<12)); torchrun t.py --hidden $H --ffn $((H*8/3)) --x $(( (H*8/3 + 255) / 256 * 256 ))",
    "A=5; ((A<<=2)); ((A|=3)); ((A^=1)); ((A&=30)); ((A>>=1)); torchrun t.py $A",
    "torchrun t.py $(expr 2 + 3) `expr 8 / 2` $(expr 2 \\* 4 + 1) $(expr 9 % 4)",
    "N=2 G=8; W=$(expr $N \\* $G); torchrun t.py $W `expr $N + 1`",
    "W=$(echo \"2*8\" | bc); X=$(bc <<< '3+4'); torchrun t.py $W $X",
    "W=$(python3 -c 'print(2*8)'); torchrun t.py $W",
    "A=llama3\n[[ $A == @(gpt|llama)3 ]] && TP=4\ntorchrun t.py ${TP:-1}",
    "A=llama\nif [[ $A == @(gpt|llama) ]]; then TP=4; else TP=2; fi\ntorchrun t.py $TP",
    "A=llama\nif [[ $A != !(gpt*|opt) ]]; then TP=4; else TP=2; fi\ntorchrun t.py $TP",
    "A=7b\n[[ $A == +([0-9])b ]] && TP=1\n[[ $A == ?(x)7b && $A == *(7)b ]] && PP=2\ntorchrun t.py $TP $PP",
    "A=70b\n[[ $A =~ ^(7|70)b$ ]] && TP=8\ntorchrun t.py $TP",
    "A=70b\n[[ $A =~ ^([0-9]+)b$ ]] && TP=8\ntorchrun t.py $TP",
    'A=abc\n[[ $A == "a*" ]] && TP=8 || TP=1\n[[ $A == "a"* ]] && PP=2\n[[ $A == \'abc\' ]] && EP=3\ntorchrun t.py $TP $PP $EP',
    "A='a*'; B=abc\n[[ $B == $A ]] && TP=8\n[[ $B == \"$A\" ]] || PP=1\ntorchrun t.py $TP $PP",
    "A=1\n[[ -v A ]] && TP=4\nif [[ ! -v A ]]; then TP=2; fi\ntorchrun t.py $TP",
    "A=\nif [[ -v A && -z $A ]]; then TP=4; fi\ntorchrun t.py $TP",
    "[[ -v TP ]] || TP=4\nif [[ ! -v PP ]]; then PP=2; fi\ntorchrun t.py $TP $PP",
    "f() { echo $(($1*2)); }\ntorchrun t.py $(f 4) --x=$(f 1)",
    "size() { case $1 in 7b) echo --layers 32;; 70b) echo --layers 80;; esac; }\ntorchrun t.py $(size 70b)",
    'join() { local IFS=,; echo "$*" "x$*"; }\ntorchrun t.py $(join a b c)',
    "f() { printf '%s' \"$1\"; }\nX=\"$(f 'a b')\"\ntorchrun t.py \"$X\" $X \"$(f 'c d')\" $(f 'e f')",
    'f() { local a=$1; g $a; }\ng() { echo "<$1>"; }\ntorchrun t.py $(f 1)',
    "TP=2\nf() { TP=9; echo $TP; }\nX=$(f)\ntorchrun t.py $X $TP",
    'S=; N=3; for i in $(seq 1 $N); do S="$S $i"; done; torchrun t.py $S',
    "G=0,1,2,3\nN=$(echo $G | tr ',' '\\n' | wc -l)\ntorchrun t.py $N",
    "G=0,1,2\nN=$(echo $G | awk -F',' '{print NF}'); M=$(echo $G | cut -d',' -f2)\ntorchrun t.py $N $M",
    "export G=0,1\nN=$(awk -F, '{print NF}' <<< \"$G\")\ntorchrun t.py $N",
    "printf 'a\\nb\\n' > hosts\nN=$(wc -l < hosts); M=$(cat hosts | wc -l); H=$(head -n 1 hosts); T=$(tail -1 hosts)\ntorchrun t.py $N $M $H $T",
    "P=/a/b/run-7b.sh\ntorchrun t.py $(basename $P) $(basename $P .sh) $(dirname $P) `basename /a/b/`",
    "echo 'A B' | tr 'A-Z' 'a-z' > f; torchrun t.py $(cat f) $(< f)",
    "X=$(echo Llama | tr '[:upper:]' '[:lower:]'); Y=$(tr -d '.' <<< 3.1)\ntorchrun t.py $X $Y",
    'X=$(echo "a" && echo b); Y=`echo c; echo d`\ntorchrun t.py $X $Y',
    "OPT=$([ 1 = 1 ] && echo --bf16)\ntorchrun t.py $OPT $([ 1 = 2 ] && echo --fp16)",
    "torchrun t.py $(cat <<EOF\n--a $((2**2))\n--b\nEOF\n)",
    "exec > log 2>&1\ntorchrun t.py --a 1",
    "exec > >(cat > log) 2>&1\ntorchrun t.py --a 1",
    "{ torchrun t.py --a 1; } > log 2>&1",
    "(\n  torchrun t.py --a 1\n) 2>&1 | tee log",
    "if true; then torchrun t.py --a 1; fi > log",
    'run() { torchrun t.py "$@"; }\nrun --a 1 > log 2>&1',
]


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_launch_line_is_the_one_that_bash_starts(script: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{script}\n", encoding="utf-8")
    read = [list(command.words) for command in read_commands(path.read_text(), tmp_path)]
    assert [words for words in read if words[:1] == ["torchrun"]] == started(path)
