#!/usr/bin/env bash
# Builds the prover, not optimized, and gives it the solver out of its Python package. Needs Cargo, and Python with venv.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
echo "building the prover: minutes, the first time" >&2
cargo build --quiet --locked
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/pip install --quiet --only-binary :all: cvc5==1.3.1
./cvc5 --version
