import type { EncodedTokenVerdict } from '../../../src/contracts/activities';
import type { RecipientKey } from '../../../src/secrets';
import { isEncryptedOnlyTo } from '../../../src/secrets';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import type { ClusterAccess } from '../clusters';
import { ceremonyToken } from '../clusters';
import { entriesOf, everyEntryOf, isOurs } from './direct-entries';
import { readHandedIn } from './encoded-token';
import type { Execution } from '../execution';
import { digestOf } from './generation-record';
import { readAttempt } from './generation-slot';
import type { Held } from './handed-in-token';
import { notATarget } from './handed-in-token';

export type TakenRootToken = EncodedTokenVerdict & { readonly encryptedToken?: string };

/**
 * Passes on what is encrypted to the recipient alone. Nobody here can read it, and everybody can encrypt to his public
 * key: it ends no alarm, and does not count while our attempt still waits for shares. The ledger says that it was passed
 * on, and no more.
 */
export async function takeHandedInRoot(
  execution: Execution,
  held: Held,
  { access, recipient }: { readonly access: ClusterAccess; readonly recipient: RecipientKey },
  signal: ArrivedSignal,
): Promise<TakenRootToken> {
  const { arrival, eventId } = signal;
  const cluster = access.entry.name;
  const refuse = (code: string, text: string): TakenRootToken => ({ arrival, code, text: `refused: ${text}` });
  const read = readHandedIn(signal);
  if ('code' in read) return read;
  if (read.cluster !== cluster) return refuse('wrong-cluster', notATarget(held.targets));
  if (!(await isEncryptedOnlyTo(recipient, read.encodedToken)))
    return refuse('wrong-key', `it is not encrypted to ${recipient.fingerprint}, the key of the recipient, alone`);
  if (await isUnderWay(execution, held, access))
    return refuse(
      'attempt-under-way',
      `the attempt of this run on ${cluster} still waits for key shares: no token came of it`,
    );
  await notePassedOn(held, cluster, eventId, read.encodedToken);
  const text = `taken for the recipient of ${recipient.fingerprint}; nobody here can read it, and only he can tell whether it holds the token`;
  return { arrival, code: 'accepted', text, cluster, encryptedToken: read.encodedToken };
}

/**
 * A token that holders were making themselves is its recipient's from now on. An alarm that was raised stays one, with the event: who
 * follows it up learns that something was handed in. Which of several it was nobody can tell.
 */
async function notePassedOn(held: Held, cluster: string, eventId: number, encoded: string): Promise<void> {
  const { ledger } = held;
  const entries = await everyEntryOf({ ...held, target: { cluster } });
  if (entries.some(({ handedIn }) => handedIn === eventId)) return;
  const at = new Date().toISOString();
  // What a burst left belongs to its burst: nobody outside of the worker can have its answer.
  const pending = held.direct ? entries.find(({ state }) => state === 'pending') : undefined;
  if (pending)
    return ledger.write({
      ...{ ...pending, state: 'handed-over', at },
      ...{ handedIn: eventId, handedInDigest: digestOf(encoded) },
    });
  const [alarm, ...others] = entries.filter(({ state, handedIn }) => state === 'orphan' && handedIn === undefined);
  if (alarm && others.length === 0 && !entries.some(({ state }) => state === 'handed-over'))
    await ledger.write({ ...alarm, handedIn: eventId, at });
}

async function isUnderWay(execution: Execution, held: Held, access: ClusterAccess): Promise<boolean> {
  const { client, entry } = access;
  const { version } = await client.sys.health({ signal: execution.signal });
  const token = await ceremonyToken(access, version, 'root-token', execution.signal);
  const endpoints = client.sys.generateRoot;
  const present = await readAttempt(execution, { endpoints, token, cluster: entry.name });
  const known = await entriesOf({ ...held, target: { cluster: entry.name } });
  return present.started && isOurs('root-token', undefined, known, present);
}
