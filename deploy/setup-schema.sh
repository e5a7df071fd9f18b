#!/bin/sh
# Creates the two databases of the Temporal server and brings their schemas up to date. May run again at any time.
# The password comes from SQL_PASSWORD.
set -eu

for database in temporal:temporal temporal_visibility:visibility; do
  name="${database%%:*}"
  schema="/etc/temporal/schema/postgresql/v12/${database##*:}/versioned"
  sql() { temporal-sql-tool --plugin postgres12 --ep postgresql -p 5432 -u temporal --db "$name" "$@"; }
  sql create
  sql setup-schema -v 0.0
  sql update-schema -d "$schema"
done
