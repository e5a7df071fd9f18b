import type { EncodedTokenVerdict } from '../../src/contracts/activities';
import type { RecipientKey } from '../../src/secrets';
import { isEncryptedOnlyTo } from '../../src/secrets';
import type { ArrivedSignal } from './arrived-signals';
import type { ClusterAccess } from './clusters';
import { ceremonyToken } from './clusters';
import { entriesOf, isOurs } from './direct-attempt';
import { readHandedIn } from './encoded-token';
import type { Execution } from './execution';
import { readAttempt } from './generation-slot';
import type { Held } from './handed-in-token';
import { notATarget } from './handed-in-token';

export type TakenRootToken = EncodedTokenVerdict & { readonly encryptedToken?: string };

/**
 * Passes on what is encrypted to the recipient alone. Nobody here can read it, and everybody can encrypt to his public
 * key: it settles nothing that the ledger knows, ends no alarm, and does not count while our attempt still waits for
 * shares.
 */
export async function takeHandedInRoot(
  execution: Execution,
  held: Held,
  { access, recipient }: { readonly access: ClusterAccess; readonly recipient: RecipientKey },
  signal: ArrivedSignal,
): Promise<TakenRootToken> {
  const { arrival } = signal;
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
  const text = `taken for the recipient of ${recipient.fingerprint}; nobody here can read it, and only he can tell whether it holds the token`;
  return { arrival, code: 'accepted', text, cluster, encryptedToken: read.encodedToken };
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
