#!/bin/sh
# Creates the two databases of the Temporal server and updates their schemas. Safe to run again.
# Reads the password from SQL_PASSWORD.
set -eu

for database in temporal:temporal temporal_visibility:visibility; do
  name="${database%%:*}"
  schema="/etc/temporal/schema/postgresql/v12/${database##*:}/versioned"
  sql() { temporal-sql-tool --plugin postgres12 --ep postgresql -p 5432 -u temporal --db "$name" "$@"; }
  sql create
  sql setup-schema -v 0.0
  sql update-schema -d "$schema"
done
