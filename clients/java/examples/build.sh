#!/usr/bin/env bash
# Makes the package, puts it into Maven's local repository, and compiles the program with it. Needs what ../build.sh does.
set -euo pipefail
cd "$(dirname "$0")"
../build.sh
maven=(mvn --quiet --batch-mode --no-transfer-progress)
"${maven[@]}" org.apache.maven.plugins:maven-install-plugin:3.1.4:install-file -Dfile=../target/platform-client-0.1.0.jar
"${maven[@]}" process-classes
