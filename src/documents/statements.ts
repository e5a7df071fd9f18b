import { sha256 } from '@noble/hashes/sha2.js';
import type { z } from 'zod';
import { nextCommandOf } from '../contracts/next-commands';
import { approvalPayload, controlPayload, decisionPayload } from '../contracts/payloads';
import type { PlanDocument } from '../contracts/plan';
import type { RunStatus } from '../contracts/run-status';
import { inputMistakes } from '../contracts/runbook-inputs';
import { oneLine } from '../contracts/words';
import { RunbookError } from '../errors';
import { encodeBase64url } from './base64url';
import { DOCUMENT_TYPES, signDocument } from './documents';
import type { SigningKey } from './signing-keys';

/** The statements that people send to a run: each with its name in a sentence, and its schema. */
const STATEMENTS = {
  approval: ['The approval', approvalPayload],
  decision: ['The decision', decisionPayload],
  control: ['The order', controlPayload],
} as const;
export type StatementType = keyof typeof STATEMENTS;
export type StatementMembers<T extends StatementType> = {
  readonly [M in keyof Omit<z.input<(typeof STATEMENTS)[T][1]>, 'ns' | 'wid' | 'rid' | 'iat'>]: unknown;
};

/** The run that a statement is for. */
export interface StatedRun {
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
}

/**
 * A person's statement to one run, as of now.
 *
 * @throws RunbookError `INVALID_INPUT` if the members do not match the schema
 */
export function statementPayload<T extends StatementType>(
  type: T,
  { namespace: ns, workflowId: wid, runId: rid }: StatedRun,
  members: StatementMembers<T>,
) {
  const [what, schema] = STATEMENTS[type];
  const parsed = schema.safeParse({ ns, wid, rid, ...members, iat: Math.floor(Date.now() / 1000) });
  if (parsed.success) return parsed.data;
  throw new RunbookError(
    'INVALID_INPUT',
    `${what} is invalid: ${inputMistakes(parsed.error).join('; ')}. Nothing was sent.`,
    { next: 'Correct it, and try again.' },
  );
}

/** Signs what {@link statementPayload} gave. */
export function signStatement(
  type: StatementType,
  payload: ReturnType<typeof statementPayload>,
  key: SigningKey,
): Promise<string> {
  return signDocument(DOCUMENT_TYPES[type], payload, key);
}

/**
 * The plan that a person may sign: the digest is computed from the text that is shown to them.
 *
 * @throws RunbookError `NOT_FOUND` if the run has no plan yet; `DOCUMENT_INVALID` if its text does not have the digest that is
 *   claimed for it
 */
export function planToSign({ workflowId, planText: text, planDigest }: PlanOfRun): PlanDocument {
  if (text === undefined || planDigest === undefined)
    throw new RunbookError('NOT_FOUND', `The run ${workflowId} has no plan to approve yet.`, {
      next: nextCommandOf.status(workflowId),
    });
  const digest = encodeBase64url(sha256(new TextEncoder().encode(text)));
  if (digest === planDigest) return { text, digest };
  throw new RunbookError(
    'DOCUMENT_INVALID',
    'The plan does not match the digest that the run names. Nothing was sent.',
    {
      observed: `text with digest ${digest}`,
      needed: `the text with digest ${oneLine(planDigest)}`,
      next: 'Do not approve this run. Tell the operators that its plan was changed on the way to you.',
    },
  );
}

type PlanOfRun = Pick<RunStatus, 'workflowId' | 'planText' | 'planDigest'>;
