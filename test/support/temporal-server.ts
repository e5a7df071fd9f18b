import { randomUUID } from 'node:crypto';
import { Client } from '@temporalio/client';
import type { ClientOptions, Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { TemporalServerAddresses } from '../../src/dev-server/start-dev-server';
import { connectUntilClosed } from '../../src/worker/connection';
import { processNamespace, SERVER_VARIABLE } from './global-server';

/** Addresses of the only Temporal server of this Jest run, with the namespace of this process. */
export function temporalServer(): TemporalServerAddresses {
  const value = process.env[SERVER_VARIABLE];
  if (value === undefined) throw new Error('No Temporal server: the global setup of Jest did not run.');
  // Written by the global setup of this run.
  const { processNamespaces, ...server } = JSON.parse(value) as TemporalServerAddresses & {
    readonly processNamespaces: readonly string[];
  };
  const own = processNamespace(Number(process.env['JEST_WORKER_ID'] ?? 1));
  return processNamespaces.includes(own) ? { ...server, namespace: own } : server;
}

/** A task queue name that no other test uses. */
export function uniqueTaskQueue(prefix = 'test'): string {
  return `${prefix}-${randomUUID()}`;
}

let opened: ReturnType<typeof connectUntilClosed> | undefined;
let native: Promise<NativeConnection> | undefined;

/** The client connection of this test file, opened on the first call and closed after the last test of the file. */
export async function temporalConnection(): Promise<Connection> {
  opened ??= connectUntilClosed({
    address: temporalServer().address,
    // For histories of any length.
    channelArgs: { 'grpc.max_receive_message_length': -1 },
  });
  return (await opened).connection;
}

/** A client on the connection of this test file, in the namespace of the process unless `options` has another. */
export async function temporalClient(options: Omit<ClientOptions, 'connection'> = {}): Promise<Client> {
  return new Client({ connection: await temporalConnection(), namespace: temporalServer().namespace, ...options });
}

/** The worker connection of this test file, opened on the first call and closed after the last test of the file. */
export function temporalNativeConnection(): Promise<NativeConnection> {
  native ??= connectNatively();
  return native;
}

async function connectNatively(): Promise<NativeConnection> {
  // Loaded on demand, because the native library needs memory and time, and tests without a worker do not use it.
  const { NativeConnection } = await import('@temporalio/worker');
  return NativeConnection.connect({ address: temporalServer().address });
}

afterAll(async () => {
  await (await opened)?.close();
  await (await native)?.close();
  opened = undefined;
  native = undefined;
});
