#!/usr/bin/env bash
# Generates the stubs, packs target/package/svc-platform-client-0.1.0.crate, and builds the example and the conformance
# driver beside it. Needs Cargo, and `npm ci && npm run proto:deps` before.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=clients/rust
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
# Neither optimized nor to be debugged: generating takes no time, building these does.
echo "building the generators: minutes, the first time" >&2
CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --debug --locked --root "$folder/.tools" protoc-gen-prost@0.5.0 protoc-gen-tonic@0.5.0
node_modules/.bin/buf generate --template buf.gen.rust.yaml
# What receipts are compared by: the definitions, and the table that all packages share.
node_modules/.bin/buf build proto --exclude-source-info --path proto/platform/sdk --path proto/platform/bulk \
  --exclude-path proto/platform/sdk/v1/session.proto -o "$folder/src/gen/descriptors.binpb"
cp clients/conformance/vectors/record-relations.json "$folder/src/gen"
cd "$folder"
# All that is built here shares what it depends on, and the archive is built from once more before it counts.
echo "building crate, example and driver: minutes, the first time" >&2
cargo build --quiet --locked --workspace --examples --bins
echo "packing the crate, and building what was packed" >&2
cargo package --quiet --locked --allow-dirty --package svc-platform-client
echo "$PWD/target/package/svc-platform-client-0.1.0.crate"
