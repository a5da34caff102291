run() {
  local name=$1; shift
  local -a extra=( "${@}" )
  torchrun t.py --name "$name" "${extra[@]}"
}
run a --x 1 --y "2 3"
