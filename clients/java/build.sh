#!/usr/bin/env bash
# Makes the package, its sources and its documentation: target/platform-client-*.jar. Needs a JDK of version 17 or
# later, Maven, and `npm ci && npm run proto:deps` before.
set -euo pipefail
cd "$(dirname "$0")/../.."
# What an older build left would be in the archives.
rm -rf clients/java/target
echo "fetching the generators, and generating" >&2
# Maven itself is over before the better compiler of Java would pay.
export MAVEN_OPTS="${MAVEN_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"
maven=(mvn --quiet --batch-mode --no-transfer-progress --file clients/java/pom.xml)
"${maven[@]}" dependency:copy@generators
# Maven does not keep the mode of what it copies.
chmod +x clients/java/.tools/*
node_modules/.bin/buf generate --template buf.gen.java.yaml
echo "compiling, testing and documenting: minutes" >&2
"${maven[@]}" package
ls clients/java/target/*.jar
