#!/usr/bin/env bash
# Generates the stubs and builds the program as target/debug/platform-client. Needs Cargo, and `npm ci` before.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=examples/clients/rust
# Not optimized: generating takes no time, building these does.
cargo install --quiet --debug --locked --root "$folder/.tools" protoc-gen-prost@0.5.0 protoc-gen-tonic@0.5.0
node_modules/.bin/buf generate --template buf.gen.rust.yaml
cargo build --quiet --locked --manifest-path "$folder/Cargo.toml"
