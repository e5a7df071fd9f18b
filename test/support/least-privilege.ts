import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { policyFor, policyText } from '../../activities/tokens/policies';
import type { PolicyKind } from '../../activities/tokens/policies';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import { findDeployment, parseInventory } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { formatPublicKey, newSigningKey } from '../../src/keys';
import { ROUTES } from '../../src/simulator/router';
import type { PolicyRule } from '../../src/simulator/stored';
import type { SimulatedCluster } from '../../src/simulator';
import type { Credential } from '../../src/simulator/routes/route';
import { parsePolicy } from '../../src/simulator/routes/policies';
import { ROOT } from './documents';

const EUROPE = `      eu:
        addresses: [https://10.3.0.4:8200]
        advertisedClusterAddress: node-address
        credential: { env: EU_TOKEN }
    drSets: { main: [east, west], europe: [eu] }
`;

/** The smallest inventory in docs/inventory.md, optionally with a performance secondary. */
export function exampleInventory(hasPerformanceSecondary = false): Inventory {
  const page = readFileSync(join(ROOT, 'docs', 'inventory.md'), 'utf8');
  const [, smallest = ''] = /```yaml\n(version: 1\n[\s\S]*?)```/.exec(page) ?? [];
  const text = hasPerformanceSecondary ? smallest.replace(/^ {4}drSets: .*\n/m, EUROPE) : smallest;
  return parseInventory(text.replaceAll('<kid>:<x>', formatPublicKey(newSigningKey().key)), 'docs/inventory.md');
}

/** The rules of a deployment's printed policy, as the service parses them. */
export function printedRules(
  inventory: Inventory,
  deployment: string,
  kind: PolicyKind = 'credential',
  runbooks?: readonly RunbookName[],
): readonly PolicyRule[] {
  const policy = policyFor(findDeployment(inventory, deployment), kind, runbooks);
  return parsePolicy(policyText(policy)) ?? [];
}

/** Writes the policy on the primary, like `runbook policy ... | vault policy write NAME -`. */
export function writePrintedPolicy(cluster: SimulatedCluster, name: string, rules: readonly PolicyRule[]): void {
  cluster.writePolicy(
    name,
    rules.map(({ path, capabilities }) => ({ path, capabilities: [...capabilities] })),
  );
}

/** A token for the workers with exactly the rights that are printed for the runbooks; never a root token. */
export function workersToken(
  cluster: SimulatedCluster,
  inventory: Inventory,
  deployment: string,
  { runbooks = RUNBOOK_NAMES, kinds = ['credential'], ttlMs = WORKERS_TOKEN_MS }: WorkersRights = {},
): string {
  const name = `runbooks-${deployment}`;
  const rules = kinds.flatMap((kind) => printedRules(inventory, deployment, kind, runbooks));
  writePrintedPolicy(policyWriter(cluster), name, rules);
  return cluster.createToken({ policies: [name], ttlMs });
}

/** A token for `ceremonyCredential`: a batch token for ceremonies on the DR secondaries of this cluster's set. */
export function ceremonyToken(cluster: SimulatedCluster, inventory: Inventory, deployment: string): string {
  const name = 'runbooks-ceremony';
  writePrintedPolicy(policyWriter(cluster), name, printedRules(inventory, deployment, 'ceremonyCredential'));
  return cluster.createToken({ policies: [name], type: 'batch', ttlMs: WORKERS_TOKEN_MS });
}

/** A performance secondary has the policies of its primary. */
function policyWriter(cluster: SimulatedCluster): SimulatedCluster {
  const { source } = cluster.streams.performance;
  const primary = source && cluster.service.clusters.get(source.name);
  return primary === undefined ? cluster : policyWriter(primary);
}

const WORKERS_TOKEN_MS = 30 * 24 * 3_600_000;

/** The rights of workers, if not for every runbook. */
export interface WorkersRights {
  readonly runbooks?: readonly RunbookName[];
  readonly kinds?: readonly PolicyKind[];
  readonly ttlMs?: number;
}

/** The credential that the simulated service requires at a path: the table in facts 1.7. */
export function askedByService(method: string, path: string): Credential | undefined {
  const pattern = (text: string) => text.replace(/:\w+/g, ':id');
  return ROUTES.find((each) => each.method === method && pattern(each.path) === pattern(path))?.credential;
}
