#!/usr/bin/env bash
# Train sam2-nano on one machine, in commands of less than ten minutes each.
#
#   training/nano_plan.sh first OUT FROM TOTAL   find what works here, then train for the rest
#   training/nano_plan.sh stage OUT FROM SECONDS TOTAL [PLAN] [more options of train_sam2]
#   training/nano_plan.sh figures OUT FROM       the figures of the model card, on all cores
#   training/nano_plan.sh choose OUT             only find what works: 2 to 5 minutes
#
# OUT receives at most 6 files of under 16 MB. FROM is the OUT of the stage before, `last` for the
# stage before on this machine, or `-` to begin with random weights. SECONDS is the time of the
# stage, pools and compilation included, and TOTAL
# that of all stages together, which the learning rate follows. PLAN is one of those in train_sam2.
# What was chosen, what is compiled, and pools stay in WORK for later commands on this machine.
# PARTS (what to compile) and GRAPHS (1 or 0), if set, overrule what was chosen.
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=${WORK:-/tmp/nano}
LIMIT=${LIMIT:-570}
ALL=encoder,decoder,memory,losses,scenes
GPUS=${GPUS:-$(python3 -c 'import torch; print(max(torch.cuda.device_count(), 1))')}
CORES=$(nproc)
export TORCHINDUCTOR_CACHE_DIR=$WORK/inductor TRITON_CACHE_DIR=$WORK/triton
export TORCHINDUCTOR_FX_GRAPH_CACHE=1 TORCHINDUCTOR_COMPILE_THREADS=$((CORES / GPUS))
export PYTHONUNBUFFERED=1 PYTHONPATH=. OMP_NUM_THREADS=4
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False
TEAM=(python3 -m torch.distributed.run --standalone --nproc-per-node "$GPUS" -m)
mkdir -p "$WORK"

options() {  # from PARTS and GRAPHS, or what was chosen
  if [ -n "${PARTS-}${GRAPHS-}" ]; then
    echo "${PARTS:+--compile $PARTS} $([ "${GRAPHS:-1}" = 1 ] && echo --graphs)"
  elif [ -e "$WORK/options" ]; then
    cat "$WORK/options"
  else
    echo "--compile $ALL --graphs"
  fi
}

try() {  # time limit in seconds, then options
  echo "== $GPUS GPUs: ${*:2}"
  timeout -k 40 "$1" "${TEAM[@]}" training.measure_steps \
    --plan "${PLAN:-on}" --shapes 600 --pools "$WORK/few" "${@:2}" 2>&1 || return 1
  echo "${@:2}" > "$WORK/options"
}

choose() {  # the first variant that runs; each is slower than the one before
  {
    nvidia-smi --query-gpu=name,memory.total --format=csv,noheader || true
    try 330 --compile $ALL --graphs || try 90 --compile encoder,scenes,losses --graphs ||
      try 60 --graphs || try 90 --compile $ALL || echo "--compile encoder" > "$WORK/options"
    echo "chosen: $(options) after $SECONDS s"
  } 2>&1 | tee "$OUT/choice.txt"
}

from() {  # the folder that a name stands for
  if [ "$1" = last ]; then echo "$WORK/last"; else echo "$1"; fi
}

stage() {
  local resume=()
  if [ "$1" != - ]; then resume=(--resume "$(from "$1")"); fi
  # shellcheck disable=SC2046
  "${TEAM[@]}" training.train_sam2 "$OUT" "${resume[@]}" --seconds "$2" --total-seconds "$3" --plan "${4:-${PLAN:-on}}" \
    --pools "$WORK/pools" $(options) "${@:5}" 2>&1 | tee "$OUT/log.txt"
  rm -rf "$WORK/last"
  cp -r "$OUT" "$WORK/last"
}

first() {
  choose
  local left=$((LIMIT - SECONDS - 20))
  if [ "$left" -gt 60 ]; then stage "$1" "$left" "$2" "${PLAN:-on}" --new-clock; fi
}

figures() {
  OMP_NUM_THREADS=16 python3 -m training.evaluate --model sam2-nano --engine torch \
    --checkpoint "$(from "$1")/average.safetensors" --workers "$((CORES > 8 ? CORES - 4 : 1))" 2>&1 |
    tee "$OUT/figures.txt"
}

command=$1
OUT=$2
mkdir -p "$OUT"
"$command" "${@:3}"
