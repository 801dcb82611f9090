#!/usr/bin/env bash
# Format, lint, types and tests of the package; `build.sh` comes first.
set -euo pipefail
cd "$(dirname "$0")"
sources=(src/svc_platform_client tests conformance examples protoc_gen_platform_python.py)
.venv/bin/ruff format --check "${sources[@]}"
.venv/bin/ruff check "${sources[@]}"
.venv/bin/mypy "${sources[@]}"
.venv/bin/pytest --quiet
