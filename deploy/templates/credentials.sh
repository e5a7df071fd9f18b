# Run these on the DR primary of {{name}}, as somebody who may write policies and auth methods. They replicate to its secondaries.
# The everyday policy "runbooks" stays as it is: these rights get a policy of their own{{beside}}.
runbook policy {{name}}{{selection}} | vault policy write {{policy}} -
{{rotations}}
vault auth enable approle
# This replaces the policies of the role: add those that it is to keep{{beside}} (vault read auth/approle/role/runbooks).
vault write auth/approle/role/runbooks token_policies={{policies}} token_ttl=1h token_max_ttl=24h
# Put both into the inventory, for every cluster: credential: { approle: { roleId: <this>, secretId: { file: <that> } } }
vault read -field=role_id auth/approle/role/runbooks/role-id
# On each worker's host:
(umask 077; vault write -f -field=secret_id auth/approle/role/runbooks/secret-id > /run/runbooks/secret-id)
