#!/bin/sh
# Makes what the worker of the laboratory needs beside its inventory: the key that seals values, the workers' signing key,
# and one token file for each cluster of the simulated service. Keys are made once, tokens anew at each start.
set -eu
umask 077
cd /run/laboratory

[ -e seal-keys ] || runbook keys seal --output seal-keys
[ -e workers.key ] || runbook keys workers --output workers.key
node -e '
  const { readFileSync, writeFileSync } = require("node:fs");
  const { clusters } = JSON.parse(readFileSync("/run/simulator/state.json", "utf8"));
  for (const { name, rootToken } of clusters) writeFileSync(`${name}.token`, rootToken, { mode: 0o600 });
'
