#!/usr/bin/env bash
# Makes the certificates, keys and passwords of the deployment in files/, and says in .env who owns them. What is there
# stays as it is. Needs openssl, and npm ci in the repository.
set -euo pipefail
umask 077
cd "$(dirname "$0")"
[ "$(id -u)" != 0 ] || { echo "prepare.sh: run it as a user who is not root: the service gets the same user" >&2; exit 1; }
mkdir -p files

# issue NAME SUBJECT-ALTERNATIVE-NAMES
issue() {
  [ ! -e "files/$1.crt.pem" ] || return 0
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=$1" \
    -addext basicConstraints=critical,CA:FALSE ${2:+-addext "subjectAltName=$2"} \
    -CA files/ca.crt.pem -CAkey files/ca.key.pem -out "files/$1.crt.pem" -keyout "files/$1.key.pem" 2>/dev/null
}
[ -e files/ca.crt.pem ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
  -subj "/CN=compose" -out files/ca.crt.pem -keyout files/ca.key.pem 2>/dev/null
issue server DNS:localhost,IP:127.0.0.1
issue keycloak DNS:keycloak,DNS:localhost,IP:127.0.0.1
issue postgres DNS:postgres
# A caller's own.
issue payroll-service ""

for name in store-password grafana-password; do
  [ -e "files/$name" ] || openssl rand -hex 24 >"files/$name"
done
[ -e files/ledger.key ] || (cd ../.. && SVC_LEDGER_KEY=deploy/compose/files/ledger.key npm run --silent cli -- keys generate)

[ -e .env ] || cp .env.example .env
# set NAME VALUE: in .env, where it is not there.
set_once() { grep -q "^$1=" .env || printf '%s=%s\n' "$1" "$2" >>.env; }
set_once RUN_AS_UID "$(id -u)"
set_once RUN_AS_GID "$(id -g)"
set_once PAYROLL_CLIENT_SECRET "$(openssl rand -hex 24)"
set_once KEYCLOAK_ADMIN_PASSWORD "$(openssl rand -hex 24)"
echo "files/ and .env are there: name the images in .env"
