"""Files that a script writes, against those that bash leaves; those beside it are stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.io.foreign.shell import read_commands
from tests.imports.bash import BASH, started

STALE = "stale slots=1\n"
SCRIPTS = [
    "{ echo a; echo b; } > f",
    "{ echo a\necho b\n} > f 2> /dev/null",
    "(echo a; echo b) > f",
    "( echo a ) >> f",
    "(\necho a\n) 2>/dev/null > f",
    'mk() { echo "n slots=$1"; }\nmk 3 > f',
    'mk() { echo "n slots=$1"; } > f\nmk 3',
    "mk() {\ncat <<EOF\nn slots=$1\nEOF\n}\nmk 3 >> f",
    'for h in a b; do echo "$h slots=8"; done > f',
    'for h in a b; do\n  echo "$h slots=8" >> f\ndone',
    'rm -f f\nfor h in a b; do\n  echo "$h slots=8" >> f\ndone',
    'rm -f ./f; for ((i=0;i<3;i++)); do echo "n$i slots=8" >> f; done',
    'rm *f; for i in $(seq 0 1); do echo "n$i slots=8"; done >> f',
    "cat > f <<EOF\na slots=8\nEOF\necho 'b slots=8' >> f",
    "cat <<EOF > f\na slots=8\nEOF\ncat >> f <<'EOF'\nb slots=$8\nEOF",
    "i=0; while [ $i -lt 2 ]; do echo n$i; i=$((i+1)); done > f",
    "i=0; while (( i < 2 )); do echo n$i >> f; ((i++)); done",
    "if true; then echo a; else echo b; fi > f",
    "X=1; if [ $X = 1 ]; then echo a; fi >> f",
    "case x in x) echo a;; esac > f",
    "> f; echo a >> f",
    ": > f\necho a >> f",
    "true > f && echo a >> f",
    "cat /dev/null > f; echo a >> f",
    "echo a > f; echo b > g; cat f g > h; mv h f",
    "cp f g; echo more >> g; mv g f",
    "echo a > g && cp g f",
    "echo x | tee f",
    "echo x | tee -a f > g; cat g >> f",
    "{ echo x; echo y; } | tee f > /dev/null",
    "(echo x; echo y) | cat > f",
    "printf '%s slots=8\\n' a b > f",
    "echo a >&2 > f",
    "echo a > f 2>&1",
    "echo a &> f",
    "echo a 2> f.err > f",
    "echo a 1> f",
    "echo a >| f",
    "echo -n a > f; echo b >> f",
    "eval 'echo a' > f",
    "bash -c 'echo a; echo b' > f",
    "bash -c 'echo a > f'",
    "cat > g.sh <<'EOF'\necho $1\nEOF\nbash g.sh 4 > f",
    "echo 'echo a' > g; source ./g > f",
    "exec 3>&1\necho a > f",
    "f() { echo a; }\n{ f; f; } > f",
    'A="a b"\nfor h in $A; do\n  if [ $h = a ]; then echo "$h slots=4"; else echo "$h slots=8"; fi\ndone > f',
    "cat <<-EOF > f\n\ta slots=8\n\t\tb slots=8\n\tEOF\n",
    "export N=8\ncat > t <<'EOF'\na slots=${N}\nb slots=$N c\nEOF\nenvsubst < t > f",
    "export N=8 M=2\necho 'a $N $M' | envsubst '$N' > f",
    "N=8 envsubst <<< 'a ${N}' > f",
    "echo a > f; echo b > f.tmp && mv f.tmp f && echo c >> f",
    "seq 3 > f; wc -l < f >> f",
    "for i in 1 2; do { echo $i; } > f; done",
    "echo a > f; (echo b >> f)",
    "while true; do echo a; break; done > f",
    'echo "$(echo a; echo b)" > f',
    "exec 1>log\necho hi\necho a > f",
    "case a in a) > f ;; esac; echo b >> f",
    "echo 'a,b' | tr ',' '\\n' > f",
    "echo 'a b' | xargs > f",
    "head -n 1 < f > g; mv g f",
    "(echo a) > f\n> g\necho b >> g; cat g >> f",
]


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_file_is_the_one_that_bash_leaves(script: str, tmp_path: Path) -> None:
    path, stale = tmp_path / "run.sh", tmp_path / "f"
    path.write_text(f"{script}\ntorchrun t.py\n", encoding="utf-8")
    stale.write_text(STALE, encoding="utf-8")
    (command,) = [one for one in read_commands(path.read_text(), tmp_path) if one.words[0] == "torchrun"]
    assert started(path) == [["torchrun", "t.py"]]
    assert (command.written.get("f"), "f" in command.changed) == (stale.read_text(encoding="utf-8"), False)
