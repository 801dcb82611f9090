#!/usr/bin/env bash
# What a change of this program has to pass, after build.sh.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
cargo fmt --check
cargo clippy --quiet --locked --all-targets -- -D warnings
