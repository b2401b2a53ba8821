#!/usr/bin/env bash
# run.sh SOURCE BUILD: the tests of the Python package on what BUILD has made of it. The interpreter is that of
# ZOE_PYTHON or of the environment that ./dev venv makes; without torch in it, the tests are skipped.
set -euo pipefail
source=$1 build=$2
python=${ZOE_PYTHON:-${ZOE_VENV:-$source/build/venv}/bin/python}
if ! "$python" -c 'import torch, numpy, pytest' 2>/dev/null; then
    echo "skipped python: no Python with torch, numpy and pytest ($python); ./dev venv makes one"
    exit 77
fi
cd "$source"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$build/python exec "$python" -m pytest -p no:cacheprovider -q python/tests
