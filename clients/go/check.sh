#!/usr/bin/env bash
# What a change of this package has to pass, after build.sh.
set -euo pipefail
cd "$(dirname "$0")"
[ -z "$(gofmt -l .)" ] || { gofmt -d .; exit 1; }
go vet ./...
# Vetted above.
go test -vet=off -race ./...
