#!/usr/bin/env bash
# Makes a virtual environment and generates the stubs. Needs Python 3.10 or later, and `npm ci && npm run proto:deps`
# before.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=examples/clients/python
python3 -m venv "$folder/.venv"
"$folder/.venv/bin/pip" install --quiet --requirement "$folder/requirements-dev.txt"
node_modules/.bin/buf generate --template buf.gen.python.yaml
