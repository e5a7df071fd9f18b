import type { Command } from 'commander';
import type * as undiciModule from 'undici';
import { z } from 'zod';
import type { SentAnswer } from '../contracts/mailbox';
import { receipt } from '../contracts/run-facts';
import type { SignalName } from '../contracts/signals';
import { askMailbox } from '../documents/mailbox';
import type { MailboxAccess } from '../documents/mailbox';
import { gatewayOrigin } from '../documents/signed-request';
import type { SigningKey } from '../documents/signing-keys';
import { isRunbookError, RunbookError } from '../errors';
import { withRunSession, workflowIdOf } from './command';
import type { ServerOptions } from './command';
import type { CliContext } from './context';
import { describe, readRunView } from './run';
import type { RunReference, RunView, TemporalSession } from './run';
import { personOf, readTextFile, signingKey } from './secret-input';
import type { SigningOptions } from './secret-input';
import { outcomeOf, sendSignal } from './sending';

/** Options of people's commands about a run. */
export interface RunOptions extends ServerOptions, SigningOptions {
  readonly gateway?: string;
  readonly gatewayCa?: string;
  readonly name?: string;
}

/** One run of a Workflow ID. */
export interface ExactRun extends RunReference {
  readonly runId: string;
  readonly namespace: string;
}

type Outcome = ReturnType<typeof outcomeOf>;

/** How people's commands reach runs: through Temporal, or through the gateway's mailbox. */
export interface RunSession {
  /** The person whose requests the gateway takes. Absent: Temporal is reached, and knows no person. */
  readonly person?: string;
  /** The key of a person, opened once; undefined if they have none. */
  keyOf(name: string): Promise<SigningKey | undefined>;
  /** As `readRunView`. */
  view(run: RunReference): Promise<RunView>;
  /** The newest run of a Workflow ID, with its deployment. Needs no worker. */
  newest(workflowId: string): Promise<ExactRun & { readonly deployment?: unknown }>;
  /** Sends a signal, and shows progress while it waits for the run's receipt. */
  send(run: RunReference, signal: SignalName, input: unknown, timeoutMs?: number): Promise<Outcome>;
}

/** Adds the options that select the gateway. */
export function withGatewayOptions(command: Command): Command {
  return command
    .option(
      '--gateway <url>',
      'reach runs through this gateway, with your key, and not through Temporal (default: RUNBOOKS_GATEWAY, or as `join` stored it)',
    )
    .option(
      '--gateway-ca <file>',
      "PEM file of the CA that signed the gateway's certificate (default: RUNBOOKS_GATEWAY_CA_FILE)",
    );
}

export const NAME_OPTION = [
  '--name <name>',
  'your name as the inventory lists it (default: RUNBOOKS_PERSON, otherwise a prompt)',
] as const;

/** Adds the options of commands that only a gateway asks for a person: how to reach it, and the key. */
export const withPersonOptions = (command: Command): Command => withGatewayOptions(withKeyOptions(command));

/** Adds the options that name a person's key. */
export function withKeyOptions(command: Command): Command {
  return command
    .option('--key-file <file>', 'your signing key (default: RUNBOOKS_KEY_FILE, or the key of "runbook join")')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)');
}

/** The gateway that a command uses; undefined if it reaches Temporal itself. */
export const gatewayOf = ({ env }: CliContext, { gateway, address }: RunOptions): string | undefined =>
  gateway ?? ((address === undefined && env['RUNBOOKS_GATEWAY']) || undefined);

/** Runs `work` for the run that a word means, through the gateway or through Temporal. */
export async function withRuns<T>(
  context: CliContext,
  options: RunOptions,
  given: string,
  work: (session: RunSession, workflowId: string) => Promise<T>,
): Promise<T> {
  const gateway = gatewayOf(context, options);
  if (gateway === undefined)
    return withRunSession(context, options, given, (session, workflowId) =>
      work(overTemporal(context, options, session), workflowId),
    );
  return withMailbox(context, options, gateway, async (access) => {
    const session = overMailbox(context, access);
    const workflowId = workflowIdOf(given);
    if (workflowId === given) return work(session, given);
    const isThere = await session.newest(workflowId).then(
      () => true,
      (error: unknown) => !isRunbookError(error, 'NOT_FOUND'),
    );
    return work(session, isThere ? workflowId : given);
  });
}

/** The way through Temporal. */
export function overTemporal(context: CliContext, options: SigningOptions, session: TemporalSession): RunSession {
  const { namespace, client } = session;
  return {
    keyOf: (name) => signingKey(context, options, name),
    view: (run) => readRunView(session, run),
    newest: async (workflowId) => {
      const { runId, memo } = await describe(client, { workflowId });
      return { workflowId, runId, namespace, deployment: memo?.['deployment'] };
    },
    send: (run, signal, input, timeoutMs) => sendSignal(context, session, run, signal, input, timeoutMs),
  };
}

/** Runs `work` with the gateway and the person's opened key. */
export async function withMailbox<T>(
  context: CliContext,
  options: RunOptions,
  gateway: string,
  work: (access: MailboxAccess) => Promise<T>,
): Promise<T> {
  const origin = gatewayOrigin(gateway);
  const caFile = options.gatewayCa ?? (context.env['RUNBOOKS_GATEWAY_CA_FILE'] || undefined);
  const ca = caFile === undefined ? undefined : await readTextFile(caFile);
  const name = await personOf(context, options.name);
  const key = await signingKey(context, options, name);
  if (key === undefined)
    throw new RunbookError('INVALID_INPUT', 'The gateway takes only signed requests, and there is no key of yours.', {
      needed: 'the key file that "runbook join" created for you, and its passphrase',
      next: 'Run `runbook join` with the line that the operators gave you, or name your key with --key-file.',
    });
  // It takes a part of a second to load.
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- as above
  const { Agent, fetch } = require('undici') as typeof undiciModule;
  const dispatcher = new Agent({ connect: { ...(ca !== undefined && { ca }) } });
  const { stop } = context;
  try {
    return await work({ origin, name, key, stop, fetch: (url, init) => fetch(url, { ...init, dispatcher }) });
  } finally {
    await dispatcher.destroy();
  }
}

const pathOf = ({ workflowId, runId }: RunReference): string =>
  ['', 'v1', 'runs', workflowId, ...(runId === undefined ? [] : [runId])].map(encodeURIComponent).join('/');

/** Enough to show a run. Whatever the gateway says of a plan or an invitation proves itself, or is refused by the run. */
const answeredView = z.looseObject({
  ...{ namespace: z.string(), workflowId: z.string(), runId: z.string(), runbook: z.string(), state: z.string() },
  ...{
    taskQueue: z.string(),
    startedAt: z.string(),
    asOfEvent: z.number(),
    pendingActivities: z.array(z.looseObject({})),
  },
  status: z
    .looseObject({
      ...{ workflowId: z.string(), waiting: z.array(z.looseObject({ for: z.string() })) },
      ...{
        steps: z.array(z.looseObject({})),
        receipts: z.array(receipt.loose()),
        findings: z.array(z.looseObject({})),
      },
    })
    .optional(),
});
const answeredSent = z.object({ sent: z.literal(true), arrival: z.number().optional(), receipt: receipt.optional() });

function checked<T>(schema: z.ZodType, answer: unknown): T {
  const parsed = schema.safeParse(answer);
  // The schema has the members that are used.
  if (parsed.success) return parsed.data as T;
  throw new RunbookError('RESPONSE_INVALID', 'The answer of the gateway does not have the expected form.', {
    needed: 'a gateway of the same version as this command',
    next: 'Ask the operators for the version of this command that the gateway uses.',
  });
}

/** For what is only read: a person would rather see that there is no answer. */
const READ_MS = 10_000;
const SPOKEN_MS = 10_000;

function overMailbox(context: CliContext, access: MailboxAccess): RunSession {
  const view = async (run: RunReference) =>
    checked<RunView>(answeredView, await askMailbox({ ...access, timeoutMs: READ_MS }, pathOf(run)));
  return {
    person: access.name,
    keyOf: (name) => {
      if (name === access.name) return Promise.resolve(access.key);
      throw new RunbookError('INVALID_INPUT', 'Through a gateway you can only speak for yourself.', {
        ...{ observed: name, needed: access.name },
        next: 'Use one name in the whole command.',
      });
    },
    view,
    newest: async (workflowId) => {
      const { runId, namespace, status, memo } = await view({ workflowId });
      return { workflowId, runId, namespace, deployment: status?.deployment ?? memo?.deployment };
    },
    send: async (run, signal, input, timeoutMs = 30_000) => {
      const exact = run.runId === undefined ? await view(run) : run;
      const end = Date.now() + timeoutMs;
      // The gateway waits some seconds for the run. Sent again, the document counts once.
      for (let spokenAt = Date.now(); ;) {
        const answer = await askMailbox(
          { ...access, timeoutMs: Math.max(0, end - Date.now()) },
          `${pathOf(exact)}/${signal}`,
          input as object,
        );
        const sent = checked<SentAnswer>(answeredSent, answer);
        if (sent.receipt !== undefined || Date.now() >= end || context.stop.aborted)
          return outcomeOf(signal, run.workflowId, sent, true);
        if (Date.now() - spokenAt < SPOKEN_MS) continue;
        spokenAt = Date.now();
        context.err(`Waiting for the receipt of this ${signal}. Ctrl-C stops the waiting, not the run.`);
      }
    },
  };
}
