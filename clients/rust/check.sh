#!/usr/bin/env bash
# What a change of this package has to pass, after build.sh.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
cargo fmt --all --check
cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps --package svc-platform-client
cargo test --quiet --locked --workspace
