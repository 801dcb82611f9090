#!/usr/bin/env bash
# Generates the stubs and makes the archive dist/svc-platform-client-VERSION.tar.gz: a Go module with its sources and
# stubs, for `go mod edit -replace`. Builds the driver and the example too, into target/. Needs Go, and `npm ci && npm
# run proto:deps` before.
set -euo pipefail
cd "$(dirname "$0")"
(cd ../.. && node_modules/.bin/buf generate --template buf.gen.go.yaml)
# What a record settles, for all packages; an embedded file is one of the module's own.
cp ../conformance/vectors/record-relations.json .
go build -o target/ ./conformance ./examples

version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' client.go)
name=svc-platform-client-$version
rm -rf dist
mkdir -p "dist/$name"
# Tests stay here: they read the vectors of the whole project.
cp -r README.md go.mod go.sum record-relations.json sdkv1 bulkv1 examples "dist/$name"
find . -maxdepth 1 -name '*.go' ! -name '*_test.go' -exec cp {} "dist/$name" \;
# The archive's own sums: what the driver and the tests need besides is left out.
go -C "dist/$name" mod tidy
# The same bytes from the same sources.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='1980-01-01 00:00Z' --mode=u=rwX,go=rX \
  -C dist -c "$name" | gzip -n >"dist/$name.tar.gz"
rm -rf "dist/$name"
echo "$PWD/dist/$name.tar.gz"
