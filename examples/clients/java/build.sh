#!/usr/bin/env bash
# Generates the stubs and compiles the program. Needs a JDK of version 17 or later, Maven, and
# `npm ci && npm run proto:deps` before.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=examples/clients/java
mvn --quiet --batch-mode --file "$folder/pom.xml" generate-resources
# Maven does not keep the mode of what it copies.
chmod +x "$folder"/.tools/*
node_modules/.bin/buf generate --template buf.gen.java.yaml
mvn --quiet --batch-mode --file "$folder/pom.xml" package
