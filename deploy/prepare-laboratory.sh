#!/bin/sh
# Creates what the laboratory's worker needs besides its inventory: the seal key, the workers' signing key, and a token file
# for each cluster of the simulated service. Keys are created once. The token is created at each start: it has the policy
# that `runbook policy` prints, is valid for 32 days, and works on both clusters. No worker sees the root token.
set -eu
umask 077
cd /run/laboratory

[ -e seal-keys ] || runbook keys seal --output seal-keys
[ -e workers.key ] || runbook keys workers --output workers.key
runbook policy payments --runbook all > policy.hcl
node -e '
  const { readFileSync, writeFileSync } = require("node:fs");
  const { clusters } = JSON.parse(readFileSync("/run/simulator/state.json", "utf8"));
  const east = clusters.find(({ name }) => name === "east");
  const asAdministrator = async (path, body) => {
    const headers = { "x-vault-token": east.rootToken };
    const answer = await fetch(`${east.addresses[0]}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.status === 204 ? {} : answer.json();
  };
  (async () => {
    await asAdministrator("sys/policies/acl/runbooks", { policy: readFileSync("policy.hcl", "utf8") });
    await asAdministrator("auth/token/roles/laboratory", { allowed_policies: ["runbooks"] });
    const { auth } = await asAdministrator("auth/token/create/laboratory", { ttl: "768h" });
    // A DR secondary accepts the tokens of its primary.
    for (const { name } of clusters) writeFileSync(`${name}.token`, auth.client_token, { mode: 0o600 });
  })();
'
