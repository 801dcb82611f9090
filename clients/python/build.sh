#!/usr/bin/env bash
# Makes wheel and sdist in clients/python/dist, with the contract's messages in them, and the table of what a record
# determines. Needs Python 3.10 or later, and `npm ci && npm run proto:deps` before.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=clients/python
[ -x "$folder/.venv/bin/python" ] || python3 -m venv "$folder/.venv"
"$folder/.venv/bin/pip" install --quiet --requirement "$folder/requirements-dev.txt"
node_modules/.bin/buf generate --template buf.gen.python.yaml
cp clients/conformance/vectors/record-relations.json "$folder/src/svc_platform_client/receipts/"
rm -rf "$folder/dist"
"$folder/.venv/bin/python" -m build --no-isolation "$folder"
# Example and conformance driver use the package as others do.
"$folder/.venv/bin/pip" install --quiet --no-deps --force-reinstall "$folder"/dist/*.whl
