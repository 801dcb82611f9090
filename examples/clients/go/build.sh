#!/usr/bin/env bash
# Generates the stubs and builds the program as target/client. Needs Go, and `npm ci && npm run proto:deps` before.
set -euo pipefail
cd "$(dirname "$0")/../../.."
node_modules/.bin/buf generate --template buf.gen.go.yaml
go -C examples/clients/go build -o target/client .
