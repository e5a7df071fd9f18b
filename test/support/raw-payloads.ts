import { randomUUID } from 'node:crypto';
import type { temporal } from '@temporalio/proto';
import type { Scenario, TestRun } from './scenario';
import { temporalServer } from './temporal-server';

type Payload = temporal.api.common.v1.IPayload;

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The content of unreadable payloads, which must not be repeated anywhere. */
export const UNREADABLE_CONTENT = 'this-content-is-not-to-be-repeated';

/** Deep enough that recursive code overflows the stack; a few such signals exceed gRPC's default message size. */
const LEVELS = 60_000;

/** Payloads that no worker can read; the Web UI offers the first encoding. */
export const UNREADABLE: Readonly<Record<string, Payload>> = {
  'json/protobuf': {
    metadata: { encoding: bytes('json/protobuf'), messageType: bytes('some.Message') },
    data: bytes(JSON.stringify({ text: UNREADABLE_CONTENT })),
  },
  'binary/encrypted': { metadata: { encoding: bytes('binary/encrypted') }, data: bytes(UNREADABLE_CONTENT) },
  'json/plain': { metadata: { encoding: bytes('json/plain') }, data: bytes(`{not JSON: ${UNREADABLE_CONTENT}`) },
  'json/plain, nested without end': {
    metadata: { encoding: bytes('json/plain') },
    data: bytes(`${'{"takeOverDocument":'.repeat(LEVELS)}"${UNREADABLE_CONTENT}"${'}'.repeat(LEVELS)}`),
  },
};

/** Starts a workflow with an unchanged payload. @returns the Workflow ID */
export async function startWithPayload(scenario: Scenario, type: string, payload: Payload): Promise<string> {
  const workflowId = `raw-${randomUUID()}`;
  await scenario.client.workflowService.startWorkflowExecution({
    namespace: temporalServer().namespace,
    workflowId,
    workflowType: { name: type },
    taskQueue: { name: scenario.taskQueue },
    input: { payloads: [payload] },
    requestId: randomUUID(),
    identity: 'test',
  });
  return workflowId;
}

/** Sends a signal with an unchanged payload. */
export async function signalWithPayload(
  scenario: Scenario,
  run: TestRun,
  signalName: string,
  payload: Payload,
): Promise<void> {
  await scenario.client.workflowService.signalWorkflowExecution({
    namespace: temporalServer().namespace,
    workflowExecution: { workflowId: run.handle.workflowId },
    signalName,
    input: { payloads: [payload] },
    requestId: randomUUID(),
    identity: 'test',
  });
}
