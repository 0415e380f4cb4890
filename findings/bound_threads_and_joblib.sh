#!/usr/bin/env bash
# Needs two cores. Job scripts of clusters set OMP_PROC_BIND. scikit-learn 1.9.1's own libgomp then
# binds the thread that imports it to one core, and joblib 1.6.0 counts that thread's cores: under
# OMP_PROC_BIND=true n_jobs=-1 is one job on any machine, and its processes inherit the one core.
# Nothing is printed. joblib imported and asked before scikit-learn tells all cores.
#
# Seen on 2 cores: without the variable 2 and 2 cores, with it 2 before the import and 1 after it, and
# a child process may use 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
env/bin/pip install -q scikit-learn==1.9.1 joblib==1.6.0
cat > count.py <<'PY'
import os
import subprocess
import sys

import joblib

before = joblib.cpu_count(), len(os.sched_getaffinity(0))
import sklearn.cluster  # noqa: E402,F401

after = joblib.cpu_count(), len(os.sched_getaffinity(0))
child = [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"]
print(*before, *after, int(subprocess.check_output(child)), joblib.effective_n_jobs(-1))
PY
all=$(nproc)
free=$(env -u OMP_PROC_BIND -u OMP_PLACES -u GOMP_CPU_AFFINITY env/bin/python count.py)
bound=$(OMP_PROC_BIND=true env/bin/python count.py)
echo "without: $free; with: $bound"
[ "$free" = "$all $all $all $all $all $all" ]
[ "$bound" = "$all $all 1 1 1 1" ]
echo "as seen"
