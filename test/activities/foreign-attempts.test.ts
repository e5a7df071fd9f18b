/** Nobody else's attempt is ever cancelled: the refusal says whose it is, and how its owner or an operator ends it. */
import { attemptMark } from '../../src/contracts/ceremony';
import { createCeremonyKeys } from '../../src/keys';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const ATTEMPT = '/v1/sys/replication/dr/secondary/generate-operation-token/attempt';
const USES = ['dr.promote'] as const;

let bench: ActivityBench;
openBench((opened) => (bench = opened));

const attempt = (method: 'GET' | 'POST', body?: object) =>
  fetch(`${bench.cluster('west').apiAddress}${ATTEMPT}`, { method, ...(body && { body: JSON.stringify(body) }) });
const nonce = async () => ((await (await attempt('GET')).json()) as { nonce: string }).nonce;

it('an attempt of somebody else is left alone: fingerprint and progress are told, with the command that ends it', async () => {
  const keys = await createCeremonyKeys();
  await attempt('POST', { pgp_key: keys.pgpPublicKey });
  const theirs = await nonce();
  const ceremony = await bench.ceremony([{ cluster: 'west', uses: USES }]);
  const envelopes = await bench.envelopes(ceremony.invitation, ['ada', 'bert', 'cleo']);
  const burst = { deployment: DEPLOYMENT, cluster: 'west', uses: USES, ceremony, envelopes };
  const failure = await bench.generationFailure(burst);
  const mark = attemptMark(theirs);
  const spoken = (keys.pgpFingerprint.match(/.{4}/g) ?? []).join(' ');
  expect(failure).toMatchObject({
    code: 'ATTEMPT_FOREIGN',
    details: {
      observed: `attempt ${mark} with key ${spoken}, 0 of 3 key shares given`,
      needed: 'the free slot, or our own attempt',
      next: expect.stringContaining('`vault operator generate-root -dr-token -cancel`, then retry') as string,
    },
  });
  expect(await nonce()).toBe(theirs);
  expect(bench.changes().filter((change) => change.includes('DELETE'))).toEqual([]);

  // Text in the place of a fingerprint is not repeated.
  const started = { nonce: theirs, started: true, progress: 2, required: 3, complete: false, otp: '', otp_length: 0 };
  bench.service.faults.add({
    ...{ cluster: 'west', endpoint: `GET ${ATTEMPT}` },
    action: { status: 200, body: { ...started, pgp_fingerprint: 'not a fingerprint' } },
  });
  expect((await bench.generationFailure(burst)).details['observed']).toContain(
    'a key whose fingerprint is odd, 2 of 3',
  );
});
