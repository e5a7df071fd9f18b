/** A reindex demands its own approval and a stable primary; verdicts, progress and the ledger say no more than is known. */
import { randomUUID } from 'node:crypto';
import { judgeMerkleReport } from '../../activities/merkle/trees';
import type { ReindexOptions } from '../../activities/merkle/trees';
import type { Authority } from '../../src/contracts/activities';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const OPTIONS: ReindexOptions = { diff: false, force: true, skipFlush: false };

describe('reindexing a DR secondary', () => {
  let bench: ActivityBench;
  openBench((opened) => (bench = opened));

  const input = RUNBOOK_INPUTS.drReindex.parse({
    ...{ deployment: DEPLOYMENT, cluster: 'west', reason: 'a test', ...OPTIONS },
  });
  const approved = async () => bench.approved(await bench.call('assessDrReindex', { input }), 'reindex');
  const attempt = async (authority: Authority, options = OPTIONS, use: TokenUse = 'dr.reindex') =>
    bench.failure('startDrReindex', {
      deployment: DEPLOYMENT,
      cluster: 'west',
      token: await bench.operationToken('west', [use]),
      authority,
      options,
      epochBefore: 0,
    });
  it('is refused where other options were approved', async () => {
    const failed = await attempt(await approved(), { ...OPTIONS, skipFlush: true });
    expect(failed).toMatchObject({ code: 'NOT_APPROVED' });
    expect(bench.calls('west', 'dr/secondary/reindex')).toBe(0);
  });

  it('is refused at the last look where no primary answers, although it was approved', async () => {
    const authority = await approved();
    await bench.cluster('east').kill();
    const failed = await attempt(authority);
    await bench.cluster('east').restart();
    expect(failed).toMatchObject({ code: 'PRECONDITION_FAILED', retryable: false, details: { outcomeKnown: true } });
    expect(bench.calls('west', 'dr/secondary/reindex')).toBe(0);
  });

  it('is not tried with a token that was not made for it', async () => {
    expect((await attempt(await approved(), OPTIONS, 'dr.merkle-check')).code).toBe('SEALED_VALUE_INVALID');
  });

  it('a token of the ledger is left alone while its run is open, and one of another deployment always', async () => {
    const token = await bench.operationToken('west', ['dr.operation-token.delete']);
    const ledger = bench.ledger;
    const entry = {
      version: 1 as const,
      cluster: 'west',
      clusterId: bench.cluster('west').clusterId,
      ...bench.run,
      state: 'alive' as const,
      sealed: token.value,
      at: new Date().toISOString(),
    };
    const [ours, theirs] = [randomUUID(), randomUUID()];
    await ledger.write({ ...entry, id: ours, deployment: DEPLOYMENT });
    await ledger.write({ ...entry, id: theirs, deployment: 'elsewhere' });
    const dispose = (id: string) =>
      bench.call('disposeLedgerToken', { deployment: DEPLOYMENT, cluster: 'west', entry: id });
    expect(await dispose(ours)).toMatchObject({ state: 'kept', text: expect.stringContaining('is open') as string });
    expect(await dispose(theirs)).toMatchObject({ text: 'it is not in the record any more' });
    expect(bench.calls('west', 'operation-token/delete')).toBe(0);
  });
});

describe('the verdict of a Merkle check', () => {
  const tree = { id: '1', treeType: 'replicated', corruptedSubtreeRoot: false, corruptedPages: [] };
  const report = (more: object) => ({ healthy: false, corruptedRoot: false, subtrees: [tree], ...more });

  it('counts the damaged pages and subpages', () => {
    const corruptedPages = Array.from({ length: 300 }, (_, page) => ({ page, corrupted: false, subpages: [1, 2] }));
    const judged = judgeMerkleReport('west', report({ subtrees: [{ ...tree, corruptedPages }] }), true);
    expect(judged).toMatchObject({ verdict: 'corrupted', damage: [{ pages: 300, subpages: 600 }] });
  });

  it('is corrupted where only the root is, and no subtree is named', () => {
    expect(judgeMerkleReport('west', report({ corruptedRoot: true }), undefined)).toMatchObject({
      verdict: 'corrupted',
      damage: [],
      text: expect.stringContaining('the root of the tree') as string,
    });
  });

  it('says so where the status contradicts a sound tree', () => {
    const judged = judgeMerkleReport('west', report({ healthy: true }), true);
    expect(judged).toMatchObject({ verdict: 'sound', findings: [{ code: 'merkle-status-differs' }] });
  });
});
