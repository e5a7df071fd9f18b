import { z } from 'zod';
import type { Sealed } from '../../src/contracts/ceremony';
import { recordWorkflowId } from '../../src/contracts/record';
import { RunbookError } from '../../src/errors';
import { openValue, sealValue } from '../../src/keys';
import type { SealKeyring } from '../../src/keys';
import type { Secret } from '../../src/secret';
import type { Records } from '../record';
import { RecordTable } from '../record-table';

/** By DR set: the sealed batch token that its last rotation created. */
export const keptBatchTokens = new RecordTable(
  'kept-batch-token',
  z.object({
    sealed: z.custom<Sealed<'batch-token'>>((value) => typeof value === 'string'),
    /** ISO time of the rotation. */
    at: z.iso.datetime(),
  }),
);

const USE = 'dr.batch-token';
const GET_ANOTHER =
  'While a primary serves, start batchTokenRotation. Otherwise start again with {"tokenSource": "ceremony"}.';

interface Keeper {
  readonly records: Records;
  readonly sealKeyring: SealKeyring;
}

interface OfSet {
  readonly deployment: string;
  readonly drSet: string;
}

/** The binding: a sealed value of one namespace, deployment and set cannot be used for another. */
function boundTo({ namespace: ns }: Records, { deployment, drSet }: OfSet) {
  return {
    context: { ns, wid: recordWorkflowId(deployment), rid: drSet },
    spec: { kind: 'batch-token', cluster: drSet, clusterId: drSet } as const,
  };
}

/** Seals a batch token for the record until it expires. */
export function sealBatchToken(
  { records, sealKeyring }: Keeper,
  on: OfSet,
  token: Secret<'batch-token'>,
  expSeconds: number,
): Promise<Sealed<'batch-token'>> {
  const { context, spec } = boundTo(records, on);
  return sealValue(sealKeyring, context, { ...spec, uses: [USE], expSeconds }, token);
}

/**
 * The batch token of a DR set, from the record.
 *
 * @throws RunbookError CREDENTIAL_UNAVAILABLE if it has none, SEALED_VALUE_INVALID if this worker cannot open it or it
 *   has expired, RECORD_UNAVAILABLE
 */
export async function openBatchToken({ records, sealKeyring }: Keeper, { deployment, drSet }: OfSet) {
  const kept = await keptBatchTokens.get(records, deployment, drSet);
  if (kept === undefined)
    throw new RunbookError('CREDENTIAL_UNAVAILABLE', `The record has no batch token of DR set ${drSet}.`, {
      next: GET_ANOTHER,
    });
  const { context, spec } = boundTo(records, { deployment, drSet });
  return openValue(sealKeyring, context, kept.sealed, { ...spec, use: USE, nextWhenExpired: GET_ANOTHER });
}
