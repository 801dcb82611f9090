#!/usr/bin/env bash
# What a change of this program has to pass, after build.sh.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
cargo fmt --check
# Clippy as the compiler: `cargo clippy` would check once more everything that build.sh compiled.
CLIPPY_ARGS=-Dwarnings RUSTC_WORKSPACE_WRAPPER=clippy-driver cargo build --quiet --locked --all-targets
