#!/bin/bash
# What the official image does for an arbitrary user, as far as docker-compose.yml needs it.
set -euo pipefail
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  chmod 0700 "$PGDATA"
  # shellcheck disable=SC2086
  initdb --username="${POSTGRES_USER:-postgres}" --pwfile="$POSTGRES_PASSWORD_FILE" --pgdata="$PGDATA" ${POSTGRES_INITDB_ARGS:-}
  printf "\nlisten_addresses = '*'\n" >> "$PGDATA/postgresql.conf"
  printf "\nhost all all all scram-sha-256\n" >> "$PGDATA/pg_hba.conf"
fi
exec "$@"
