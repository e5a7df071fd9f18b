import { formatPublicKey } from '../../src/documents/public-keys';
import { RunbookError } from '../../src/errors';
import { parseInventory } from '../../src/inventory';
import { newSigningKey } from '../../src/keys/holder-keys';

export const adaKey = newSigningKey().key;

/** The inventory of the documentation, with keys made here. */
export const EXAMPLE = `version: 1
temporal: { uiAddress: 'http://127.0.0.1:8233' }
workers:
  signingKey: { file: /run/runbooks/workers-signing.jwk }
people:
  ada: { groups: [approvers, operators], attestation: signed, publicKeys: ['${formatPublicKey(adaKey)}'] }
  ben: { groups: [holders], attestation: claimed }
  cyd: { groups: [holders], attestation: claimed }
  dan: { groups: [holders], attestation: principal, principal: 'user:dan' }
deployments:
  payments:
    clusters:
      east:
        addresses: ['https://10.1.0.4:8200', 'https://10.1.0.5:8200']
        caFile: /etc/runbooks/ca.pem
        clusterId: 5a1f0000-0000-4000-8000-000000000001
        advertisedClusterAddress: https://lb.east:8201
        apiAddressForPeers: https://east.api:8200
        caFileOnPeers: /etc/vault/ca.pem
        credential: { env: EAST_TOKEN }
        batchToken: { file: /run/runbooks/east-batch }
        ceremonyCredential: { env: EAST_CEREMONY }
      west:
        addresses: ['https://10.2.0.4:8200']
        advertisedClusterAddress: node-address
        credential: { file: /run/runbooks/west-token }
      eu:
        addresses: ['http://127.0.0.1:8300']
        advertisedClusterAddress: node-address
        credential: { env: EU_TOKEN }
    drSets: { main: [east, west], europe: [eu] }
    ceremony: { holders: [ben, cyd, dan], collectFor: 20m, tokenSource: auto, batchMargin: 45m }
    gates:
      plan: { approvals: 1, groups: [approvers], excludeRequester: false, validFor: 4h }
      go: { approvals: 1, groups: [approvers], validFor: 10m }
    limits: { lagWalEntries: 500, heartbeatAge: 15s }
    marker: { path: kv/runbooks-marker }
    hooks:
      quiesce: { command: [/opt/quiesce, '--all'], timeout: 20s }
      fence:
        url: https://firewall.example/fence
        headers: { authorization: { env: FENCE_TOKEN } }
        idempotent: true
      snapshot: { command: [/opt/snapshot], timeout: 2h }
      probe: { url: 'https://payments.example/health', expectStatus: [200, 204] }
`;

/** The mistakes of an inventory, one per line: `inventory.yaml:line:column: path: what`. */
export function mistakes(text: string): string[] {
  try {
    parseInventory(text, 'inventory.yaml');
  } catch (error) {
    if (error instanceof RunbookError && error.code === 'INVENTORY_INVALID') return error.message.split('\n').slice(1);
    throw error;
  }
  return [];
}

/** The example, changed: what is replaced must be there, so that no test passes because nothing was. */
export function changed(from: string, to: string): string {
  expect(EXAMPLE).toContain(from);
  return EXAMPLE.replace(from, to);
}

/** The example with more members of its deployment, as lines of YAML. */
export function withMembers(...members: readonly string[]): string {
  return changed('    drSets:', `${members.map((line) => `    ${line}\n`).join('')}    drSets:`);
}

export const paymentsOf = (text: string) => parseInventory(text, 'inventory.yaml').deployments.get('payments');
