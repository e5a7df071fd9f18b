/**
 * Which requests of people pass the gateway to Temporal's frontend. The judgement is about the decoded message, never about the
 * method alone: one start can end a run. What passes is built anew from the fields that are listed here, so that the frontend
 * reads nothing that was not judged.
 */
import protos from '@temporalio/proto/protos/root';
import type { temporal } from '@temporalio/proto';
import type { Root } from 'protobufjs';
import { isLockWorkflowId, isRunWorkflowId, lockWorkflowId, RUNBOOK_NAMES } from '../contracts/names';
import { payloadConverter } from '../contracts/payload-converter';
import { RECORD_QUERY } from '../contracts/record';
import { MOST_BYTES, QUERIES, SIGNALS, UPDATES } from '../contracts/signals';

type StartRequest = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest;

/** Who connects: holders and approvers, or operators, who may also start runs. */
export type Side = 'people' | 'operators';

/** What the gateway serves: one namespace, and in it the runs of one task queue. */
export interface Served {
  readonly namespace: string;
  readonly taskQueue: string;
}

/** A request that passes. */
export interface Passing {
  /** The message that is sent to the frontend. */
  readonly message: Uint8Array;
  /** Whether it adds to a history, and so counts against the sender's budget. */
  readonly counts: boolean;
}

/** gRPC's codes INVALID_ARGUMENT and PERMISSION_DENIED. */
export const INVALID = 3;
const DENIED = 7;

/** A request that does not pass. Its text contains nothing of the message but names of fields. */
export class Refusal extends Error {
  constructor(
    text: string,
    readonly code = DENIED,
  ) {
    super(text);
  }
}

/**
 * Maximum size of a start. Its input has a take-over document of at most 16 KiB, and at most some hundred paths. It is also the
 * limit of reads, which carry page tokens.
 */
const MOST_START_BYTES = 64 * 1024;

// Untyped there: the root of all definitions.
const definitions = protos as unknown as Root;
const WORKFLOW_SERVICE = 'temporal.api.workflowservice.v1.WorkflowService';
const OPERATOR_SERVICE = 'temporal.api.operatorservice.v1.OperatorService';
const HEALTH_SERVICE = 'grpc.health.v1.Health';

/** Every known method by its path, with the type of its request. Most are listed only to be refused by name. */
export const KNOWN_METHODS: ReadonlyMap<string, string> = new Map(
  [WORKFLOW_SERVICE, OPERATOR_SERVICE, HEALTH_SERVICE].flatMap((name) => {
    const service = definitions.lookupService(name);
    return service.methodsArray
      .filter(({ requestStream, responseStream }) => requestStream !== true && responseStream !== true)
      .map((method) => {
        const request = service.parent?.lookupType(method.requestType).fullName ?? '';
        return [`/${name}/${method.name}`, request.slice(1)] as const;
      });
  }),
);

/** Builds the part of a message that passes, or refuses it. `path` names the part. */
type Part = (value: unknown, path: string) => unknown;

const whole: Part = (value) => value;

/** A message of which these fields pass. A field that is not listed passes only if it says nothing, and is left out. */
function fields(listed: Readonly<Record<string, Part>>): Part {
  return (message, path) => {
    const kept: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(message as object)) {
      const field = path === '' ? name : `${path}.${name}`;
      const part = Object.hasOwn(listed, name) ? listed[name] : undefined;
      if (part !== undefined) kept[name] = part(value, field);
      else if (saysSomething(value)) throw new Refusal(`Field ${field} is not for people`);
    }
    return kept;
  };
}

const atMostOne =
  (each: Part): Part =>
  (values, path) => {
    const [first, ...more] = values as readonly unknown[];
    if (more.length > 0) throw new Refusal(`Field ${path} has more than one value`);
    return first === undefined ? [] : [each(first, path)];
  };

const namedParts =
  (each: Part): Part =>
  (values, path) =>
    Object.fromEntries(Object.entries(values as object).map(([name, value]) => [name, each(value, path)]));

/** A value that must be one of these. */
const oneOf =
  (...known: readonly unknown[]): Part =>
  (value, path) => {
    if (known.includes(value)) return value;
    throw new Refusal(`Field ${path} has a value that is not for people`);
  };

function tenSeconds(value: unknown, path: string): unknown {
  const { seconds, nanos } = value as { readonly seconds?: unknown; readonly nanos?: number };
  if (!saysSomething(value) || (Number(seconds) === 10 && !nanos)) return value;
  throw new Refusal(`Field ${path} is not for people`);
}

/** Whether a value differs from the protocol's default. A message that is there and empty does not. */
function saysSomething(value: unknown): boolean {
  if (value === null || value === undefined) return false;
  if (typeof value !== 'object') return Boolean(value);
  if (value instanceof Uint8Array || Array.isArray(value)) return value.length > 0;
  return Object.values(value).some(saysSomething);
}

const PAYLOAD = fields({ metadata: whole, data: whole });
const PAYLOADS = fields({ payloads: atMostOne(PAYLOAD) });
const EXECUTION = fields({ workflowId: whole, runId: whole });

const START = fields({
  ...{ namespace: whole, workflowId: whole, identity: whole, requestId: whole },
  workflowType: fields({ name: oneOf(...RUNBOOK_NAMES) }),
  // Normal, or not given.
  taskQueue: fields({ name: whole, kind: oneOf(0, 1) }),
  input: PAYLOADS,
  // Neither TERMINATE_IF_RUNNING nor TERMINATE_EXISTING: they end the run that holds the Workflow ID.
  workflowIdReusePolicy: oneOf(0, 1, 2, 3),
  workflowIdConflictPolicy: oneOf(0, 1, 2),
  // What the server would take anyway; the "temporal" command always sends it.
  workflowTaskTimeout: tenSeconds,
  memo: fields({ fields: namedParts(PAYLOAD) }),
  userMetadata: fields({ summary: PAYLOAD, details: PAYLOAD }),
});

const SIGNAL = fields({
  ...{ namespace: whole, workflowExecution: EXECUTION, input: PAYLOADS, identity: whole, requestId: whole },
  signalName: oneOf(...Object.values(SIGNALS)),
});

const UPDATE = fields({
  ...{ namespace: whole, workflowExecution: EXECUTION, waitPolicy: fields({ lifecycleStage: whole }) },
  request: fields({
    ...{ meta: fields({ updateId: whole, identity: whole }), requestId: whole },
    input: fields({ name: oneOf(...UPDATES), args: PAYLOADS }),
  }),
});

const QUERY = fields({
  ...{ namespace: whole, execution: EXECUTION, queryRejectCondition: whole },
  query: fields({
    // The Web UI asks for those of the SDK.
    queryType: oneOf(
      ...[...Object.values(QUERIES), RECORD_QUERY],
      ...['__temporal_workflow_metadata', '__stack_trace', '__enhanced_stack_trace'],
    ),
    queryArgs: PAYLOADS,
  }),
});

/** What happens to a message of a method that may pass. */
interface Judgement {
  readonly operatorsOnly?: true;
  readonly most: number;
  readonly part: Part;
  /** Refuses what only several fields together show. */
  readonly further?: (message: never, served: Served) => void;
  readonly counts?: true;
}

/** Known fields pass as they are. */
const READ: Judgement = { most: MOST_START_BYTES, part: whole };

const inWorkflowService = {
  GetSystemInfo: READ,
  GetClusterInfo: READ,
  DescribeNamespace: READ,
  ListNamespaces: READ,
  DescribeTaskQueue: READ,
  DescribeWorkflowExecution: READ,
  GetWorkflowExecutionHistory: READ,
  GetWorkflowExecutionHistoryReverse: READ,
  ListWorkflowExecutions: READ,
  CountWorkflowExecutions: READ,
  QueryWorkflow: { most: MOST_BYTES, part: QUERY },
  SignalWorkflowExecution: { most: MOST_BYTES, part: SIGNAL, further: refuseOtherWorkflows, counts: true },
  UpdateWorkflowExecution: { most: MOST_BYTES, part: UPDATE, further: refuseOtherWorkflows, counts: true },
  PollWorkflowExecutionUpdate: READ,
  StartWorkflowExecution: {
    ...{ operatorsOnly: true, most: MOST_START_BYTES, part: START, further: refuseOtherStarts, counts: true },
  },
} as const satisfies Readonly<Record<string, Judgement>>;

const JUDGEMENTS: ReadonlyMap<string, Judgement> = new Map<string, Judgement>([
  ...Object.entries(inWorkflowService).map(([name, each]) => [`/${WORKFLOW_SERVICE}/${name}`, each] as const),
  [`/${OPERATOR_SERVICE}/ListSearchAttributes`, READ],
  [`/${HEALTH_SERVICE}/Check`, READ],
]);

/** The methods of which some message may pass, by path. */
export function methodsFor(side: Side): readonly string[] {
  return [...JUDGEMENTS].flatMap(([path, { operatorsOnly }]) => (operatorsOnly && side !== 'operators' ? [] : path));
}

/**
 * Judges one request.
 *
 * @throws Refusal
 */
export function judge(side: Side, path: string, bytes: Uint8Array, served: Served): Passing {
  const judgement = JUDGEMENTS.get(path);
  if (judgement === undefined) throw new Refusal('This method is not for people');
  if (judgement.operatorsOnly === true && side !== 'operators')
    throw new Refusal('This method is for operators: they have an address of their own');
  const { most, part, further, counts = false } = judgement;
  if (bytes.length > most) throw new Refusal(`The message is larger than ${most / 1024} KiB`, INVALID);
  const type = definitions.lookupType(KNOWN_METHODS.get(path) ?? '');
  const read = decodedBy(() => type.decode(bytes));
  const { namespace } = read as { readonly namespace?: string };
  if (type.fields['namespace'] !== undefined && namespace !== served.namespace)
    throw new Refusal(`Only namespace ${served.namespace} is served here`);
  const kept = part(read, '');
  further?.(kept as never, served);
  return { message: type.encode(kept as object).finish(), counts };
}

/** A decoder's own error would quote the message. */
function decodedBy<T>(decode: () => T): T {
  try {
    return decode();
  } catch {
    throw new Refusal('The message is not one of this method', INVALID);
  }
}

interface ToWorkflow {
  readonly workflowExecution?: { readonly workflowId?: string };
}

/** Signals and updates go to runs, and never to the record, which believes and keeps what it is sent. */
function refuseOtherWorkflows({ workflowExecution }: ToWorkflow): void {
  if (!isRunWorkflowId(workflowExecution?.workflowId ?? ''))
    throw new Refusal('The Workflow ID is not one of a run: people send only to runs');
}

/** A start of a runbook for our workers, under an ID that takes nothing from anybody. */
function refuseOtherStarts(start: StartRequest, { taskQueue }: Served): void {
  const runbook = RUNBOOK_NAMES.find((name) => name === start.workflowType?.name);
  if (runbook === undefined) throw new Refusal('The start names no runbook', INVALID);
  if (start.taskQueue?.name !== taskQueue) throw new Refusal(`Only task queue ${taskQueue} is served here`);
  const id = start.workflowId ?? '';
  const lock = lockWorkflowId(runbook, inputOf(start));
  if (!isRunWorkflowId(id)) throw new Refusal('The Workflow ID is not one of a run: use the lock, or a new UUID');
  // Whoever holds the lock of another deployment keeps its clients from being moved.
  if (id !== lock && isLockWorkflowId(id))
    throw new Refusal('The Workflow ID is a lock, and not the one of this runbook and input');
  if (id !== lock && id.includes(':') && !['plan', runbook].some((kind) => id.startsWith(`${kind}:`)))
    throw new Refusal('The Workflow ID is one of another runbook');
}

/** The input as the worker would read it. */
function inputOf({ input }: StartRequest): { readonly deployment: string; readonly cluster?: string } {
  const [payload] = input?.payloads ?? [];
  const given: unknown = payload && payloadConverter.fromPayload(payload);
  const { deployment, cluster } = (given ?? {}) as { readonly deployment?: unknown; readonly cluster?: unknown };
  if (typeof deployment !== 'string')
    throw new Refusal('The input is not one JSON object with the name of a deployment', INVALID);
  return { deployment, ...(typeof cluster === 'string' && { cluster }) };
}
