import { readFile } from 'node:fs/promises';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import {
  missingSealKeys,
  spokenFingerprint,
  statementsFor,
  statementsIn,
  usedSigningKeys,
  verifyKeyStatement,
} from '../../src/secrets';
import type { PublicKeyEntry } from '../../src/secrets';
import type { Deployment } from '../../src/inventory';
import { TokenLedger } from '../support/ceremony/token-ledger';
import type { Look } from './look';
import { inspect } from './look';
import type { Question } from './point';
import { holds } from './point';
import type { OpenRun } from './site';

const SIGNING_KEY: Question = {
  id: 'signing-key',
  source: 'worker',
  needed: "holders who pinned the workers' earlier key can take the present one by a statement",
  next: 'Make a statement with the earlier key (`runbook keys rotate` makes key and statement), name its file as workers.statements in the inventory; without it every holder compares the new key by voice.',
};

/** Whether the workers sign with a key that holders have no way to trust but by voice. */
export function signingKeyStatement(look: Look): Promise<ReadinessPoint[]> {
  const { inventory, ledgerDirectory, signingKey } = look.dependencies;
  return inspect(
    look,
    [SIGNING_KEY],
    async () => {
      const file = inventory.workers.statements;
      const text = file === undefined ? '' : await readFile(file, 'utf8');
      return judgeSigningKey(signingKey, await usedSigningKeys(ledgerDirectory), statementsIn(text), look.now);
    },
    (points) => points,
  );
}

/** @param used - the keys with which this site signed, the newest last */
export async function judgeSigningKey(
  present: PublicKeyEntry,
  used: readonly PublicKeyEntry[],
  lines: readonly string[],
  now: number,
): Promise<ReadinessPoint[]> {
  const earlier = used.filter(({ kid }) => kid !== present.kid);
  const last = earlier.at(-1);
  if (last === undefined) return holds(SIGNING_KEY, true, 'warn', 'the only key that this site has signed with');
  const reached = [...earlier];
  for (const jws of statementsFor(present.kid, lines, now)) {
    const statement = await verifyKeyStatement(jws, reached, now).catch(() => undefined);
    if (statement) reached.push(statement.key);
  }
  const vouched = reached.some(({ kid }) => kid === present.kid);
  const [from, to] = [spokenFingerprint(last.kid).slice(0, 9), spokenFingerprint(present.kid).slice(0, 9)];
  const observed = vouched
    ? `key ${to}..., for which the key before it vouches`
    : `key ${to}... without a statement of the one before it (${from}...) that holders can still take`;
  return holds(SIGNING_KEY, vouched, 'warn', observed);
}

const SEAL_KEYS: Question = {
  id: 'seal-keys',
  source: 'worker',
  needed: 'this worker opens what the open run and the ledger hold sealed',
  next: 'Put the named entry back into RUNBOOKS_SEAL_KEYS of every worker, behind the one that seals, and restart them.',
};

/** Whether a seal key was taken away too early. */
export function sealKeys(
  look: Look,
  { name }: Deployment,
  lock: Promise<OpenRun | undefined>,
  workflowId: string,
): Promise<ReadinessPoint[]> {
  const { ledgerDirectory, sealKeyring, temporal } = look.dependencies;
  return inspect(
    look,
    [SEAL_KEYS],
    async (signal) => {
      const run = await lock;
      const entries = (await new TokenLedger(ledgerDirectory).open()).filter(({ deployment }) => deployment === name);
      const history = run
        ? await temporal.withAbortSignal(signal, () =>
            temporal.workflow.getHandle(workflowId, run.runId).fetchHistory(),
          )
        : undefined;
      return {
        ledger: missingSealKeys(sealKeyring, entries),
        run: missingSealKeys(sealKeyring, history?.events),
      };
    },
    ({ ledger, run }) => {
      const missing = [
        ...run.map((kid) => `the open run needs key ${kid}`),
        ...ledger.map((kid) => `a token in the ledger needs key ${kid}`),
      ];
      const observed = missing.length === 0 ? 'all open' : `${missing.join('; ')}: not in RUNBOOKS_SEAL_KEYS`;
      return holds(SEAL_KEYS, missing.length === 0, 'fail', observed);
    },
  );
}
