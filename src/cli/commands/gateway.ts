import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { Client, Connection } from '@temporalio/client';
import type { Command } from 'commander';
import { gatewayOrigin } from '../../documents/signed-request';
import { programVersion } from '../../dev-server/locations';
import { errnoOf, RunbookError } from '../../errors';
import { isLoopback } from '../../gateway/listening';
import { openMailbox } from '../../gateway/mailbox/server';
import { openMetrics } from '../../gateway/metrics/server';
import { openReceiver, secretsOf } from '../../gateway/receive/server';
import { openDoor } from '../../gateway/server';
import type { DoorSide } from '../../gateway/server';
import { InventoryInForce } from '../../inventory';
import { DATA_CONVERTER } from '../../worker/data-converter';
import { connectionSettings, DIRECTLY, lazyUntilClosed, plainText } from '../../worker/connection';
import { inventoryPath, taskQueueSetting } from '../../worker/settings';
import { collect, newCommand, withServerOptions } from '../command';
import type { ServerOptions } from '../command';
import type { CliContext } from '../context';
import { mailboxRuns } from '../mailbox-runs';
import type { CommandHost } from '../command-host';

export const commands = (host: CommandHost): Command[] => [gatewayCommand(host)];

interface GatewayOptions extends ServerOptions {
  readonly frontend?: string;
  readonly operators?: string;
  readonly receive?: string;
  readonly metrics?: string;
  readonly people?: string;
  readonly publicUrl?: readonly string[];
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly clientCa?: string;
  readonly operatorsClientCa?: string;
  readonly certificateHeader?: string;
}

/** `runbook gateway`: stands in front of Temporal until Ctrl-C or SIGTERM, with the doors that the options open. */
function gatewayCommand({ context }: CommandHost): Command {
  const command = newCommand('gateway', [
    'runbook gateway --frontend 127.0.0.1:7335 --operators 127.0.0.1:7336 --certificate-header x-client-certificate',
    'runbook gateway --frontend 10.1.0.9:7235 --tls-cert gateway.pem --tls-key gateway.key --client-ca people.pem',
    'runbook gateway --receive 127.0.0.1:8420',
    'runbook gateway --metrics 127.0.0.1:9464',
    'runbook gateway --people 0.0.0.0:8421 --tls-cert gateway.pem --tls-key gateway.key',
  ])
    .option('--frontend <host:port>', 'where holders and approvers connect; without TLS: a loopback address')
    .option('--operators <host:port>', 'where operators connect, who may also start runs; with --frontend')
    .option(
      '--receive <host:port>',
      "where incident tools send signed webhooks, which start the runs of the inventory's triggers; without TLS: a loopback address",
    )
    .option('--metrics <host:port>', 'where Prometheus scrapes /metrics: readiness, runs, replication, credentials')
    .option(
      '--people <host:port>',
      'the mailbox: where holders, approvers and operators send signed documents and ask what waits for them, without access to Temporal; without TLS: a loopback address',
    )
    .option(
      '--public-url <url>',
      'the address under which people reach --people (repeat for several): requests signed for others are refused',
      collect,
    )
    .option('--tls-cert <file>', "the gateway's certificate (PEM); --frontend then asks for client certificates")
    .option('--tls-key <file>', "the certificate's key (PEM)")
    .option('--client-ca <file>', 'CA of the client certificates of holders and approvers (PEM)')
    .option('--operators-client-ca <file>', 'CA of the client certificates of operators (PEM)')
    .option(
      '--certificate-header <name>',
      'the header in which a proxy on this host passes the fingerprint of the client certificate, always',
    );
  return withServerOptions(command).action(async (options: GatewayOptions) => {
    const doors = [
      ...(options.frontend === undefined ? [] : [() => openFrontend(context, options, options.frontend ?? '')]),
      ...(options.people === undefined ? [] : [() => openForPeople(context, options, options.people ?? '')]),
      ...(options.receive === undefined ? [] : [() => openForTools(context, options, options.receive ?? '')]),
      ...(options.metrics === undefined ? [] : [() => openForMonitoring(context, options, options.metrics ?? '')]),
    ];
    if (doors.length === 0 || (options.operators !== undefined && options.frontend === undefined))
      throw new RunbookError('INVALID_INPUT', 'The gateway has no door to open.', {
        needed: '--people, --frontend (for --operators too), --receive, or --metrics',
        next: 'Name at least one address. "runbook gateway --help" has examples.',
      });
    const opened: { close(): unknown }[] = [];
    try {
      for (const open of doors) opened.push(await open());
      if (!context.stop.aborted) await once(context.stop, 'abort');
    } finally {
      for (const door of opened.reverse()) await door.close();
    }
  });
}

/** Passes requests of people to Temporal. */
async function openFrontend(context: CliContext, options: GatewayOptions, people: string) {
  const { connectionOptions, namespace = 'default' } = connectionSettings(context.env, options);
  const { address, tls } = connectionOptions;
  // Neither API key nor metadata: whatever these allow, everybody who connects would be allowed.
  const lazy = Connection.lazy({ address, channelArgs: DIRECTLY, ...(tls && { tls }) });
  const { frontend, credentials, channelArgs } = { ...lazy.options, frontend: lazy.options.address };
  await lazy.close();
  if (plainText({ address, tls }))
    context.err(`Warning: people's tokens are readable on the network to ${address}. Set TEMPORAL_TLS=true.`);
  const taskQueue = taskQueueSetting(context.env);
  const door = await openDoor({
    ...{ namespace, taskQueue, sides: await sidesOf(options, people) },
    frontend: { address: frontend, credentials, ...(channelArgs && { channelArgs }) },
    certificateHeader: options.certificateHeader,
  });
  const [forPeople = '', operators] = door.addresses;
  const also = operators === undefined ? '' : `, of operators on ${operators}`;
  context.err(`Passing requests of people on ${forPeople}${also} to Temporal at ${address}, namespace ${namespace}.`);
  return { close: () => door.close() };
}

/** How often the inventory file is checked for changes. */
const INVENTORY_POLL_MS = 2_000;

/** The inventory in force: a file that changed and has a mistake does not count. */
async function openInventory({ env, err }: CliContext) {
  const inForce = await InventoryInForce.open(inventoryPath(env));
  const reload = async (): Promise<void> => {
    const became = await inForce.look();
    if (became === 'taken') err('The inventory file has changed: the new inventory is in force now.');
    if (became === 'refused')
      err(`The inventory file is refused; the previous one stays in force. ${inForce.refusal?.message ?? ''}`);
  };
  const reloading = setInterval(() => void reload(), INVENTORY_POLL_MS);
  return { current: () => inForce.current, close: () => clearInterval(reloading) };
}

/** Takes signed documents of people, and says what waits for them. */
async function openForPeople(context: CliContext, options: GatewayOptions, address: string) {
  const origins = (options.publicUrl ?? []).map(gatewayOrigin);
  const tls = await tlsOf(options);
  const inForce = await openInventory(context);
  const { client, namespace, server, close } = clientOf(context, options);
  const closeAll = async (): Promise<void> => {
    inForce.close();
    await close();
  };
  try {
    const runs = mailboxRuns({ client, namespace, taskQueue: taskQueueSetting(context.env) });
    const door = await openMailbox({ address, tls, runs, origins, inventory: inForce.current, log: context.err });
    const scheme = tls === undefined ? 'http' : 'https';
    context.err(`Mailbox of people on ${scheme}://${door.address} for Temporal at ${server}, namespace ${namespace}.`);
    return {
      close: async () => {
        await door.close();
        await closeAll();
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Shows what is known to monitoring. */
async function openForMonitoring(context: CliContext, options: GatewayOptions, address: string) {
  const tls = await tlsOf(options);
  const inForce = await openInventory(context);
  const { client, namespace, server, close } = clientOf(context, options);
  const closeAll = async (): Promise<void> => {
    inForce.close();
    await close();
  };
  try {
    const taskQueue = taskQueueSetting(context.env);
    const version = programVersion();
    const door = await openMetrics({ address, tls, client, namespace, taskQueue, version, inventory: inForce.current });
    const scheme = tls === undefined ? 'http' : 'https';
    if (tls === undefined && !isLoopback(address))
      context.err(`Warning: everybody who reaches ${address} can read the metrics. They contain no secret.`);
    context.err(`Metrics on ${scheme}://${door.address}/metrics of Temporal at ${server}, namespace ${namespace}.`);
    return {
      close: async () => {
        await door.close();
        await closeAll();
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Starts runs for the messages of incident tools. */
async function openForTools(context: CliContext, options: GatewayOptions, address: string) {
  const inForce = await openInventory(context);
  const { triggers, temporal } = inForce.current();
  if (triggers.length === 0)
    throw new RunbookError('INVALID_INPUT', 'The inventory has no triggers: the gateway would refuse every message.', {
      needed: 'triggers in the file that RUNBOOKS_INVENTORY names',
      next: 'Add triggers to the inventory: docs/incident-tooling.md.',
    });
  // A secret that cannot be read would be noticed at the first incident.
  for (const trigger of triggers) await secretsOf(trigger);
  const { client, namespace, server, close } = clientOf(context, options);
  try {
    const webUi = context.env['RUNBOOKS_TEMPORAL_UI'] || temporal.uiAddress;
    const door = await openReceiver({
      ...{ address, client, namespace, webUi, taskQueue: taskQueueSetting(context.env) },
      tls: await tlsOf(options),
      inventory: inForce.current,
      log: context.err,
    });
    // The first message must not wait for the connection. If Temporal does not run yet, a later one opens it.
    void client.connection.ensureConnected().catch(() => undefined);
    context.err(`Receiving webhooks on ${door.address} for Temporal at ${server}, namespace ${namespace}.`);
    return {
      close: async () => {
        inForce.close();
        await door.close();
        await close();
      },
    };
  } catch (error) {
    inForce.close();
    await close();
    throw error;
  }
}

/** A client with the gateway's own rights. Temporal may not run yet. */
function clientOf({ env }: CliContext, options: GatewayOptions) {
  const { connectionOptions, namespace = 'default' } = connectionSettings(env, options);
  const { connection, close } = lazyUntilClosed(connectionOptions);
  const identity = `gateway@${hostname()}`;
  const client = new Client({ connection, namespace, identity, dataConverter: DATA_CONVERTER });
  return { client, namespace, server: connectionOptions.address, close };
}

async function tlsOf({ tlsCert, tlsKey }: GatewayOptions) {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined)
    throw new RunbookError('INVALID_INPUT', 'The TLS settings are incomplete.', {
      needed: '--tls-cert and --tls-key',
      next: 'Give both, or neither.',
    });
  return { certificate: await readPem(tlsCert), key: await readPem(tlsKey) };
}

async function sidesOf(options: GatewayOptions, frontend: string): Promise<DoorSide[]> {
  const { operators, tlsCert, tlsKey, clientCa, operatorsClientCa } = options;
  const wanted = [
    { side: 'people', address: frontend, authority: clientCa },
    ...(operators === undefined
      ? []
      : [{ side: 'operators', address: operators, authority: operatorsClientCa } as const]),
  ] as const;
  const files = [tlsCert, tlsKey, clientCa, operatorsClientCa];
  if (files.every((file) => file === undefined)) return wanted.map(({ side, address }) => ({ side, address }));
  return Promise.all(
    wanted.map(async ({ side, address, authority }) => {
      if (tlsCert === undefined || tlsKey === undefined || authority === undefined)
        throw new RunbookError('INVALID_INPUT', `The TLS settings for ${side} are incomplete.`, {
          needed: '--tls-cert, --tls-key, --client-ca, and with --operators also --operators-client-ca',
          next: 'Give all of them. Operators have an authority of their own: others could start runs with its certificates.',
        });
      const [certificate, key, authorities] = await Promise.all([tlsCert, tlsKey, authority].map(readPem));
      if (!certificate || !key || !authorities) throw new RunbookError('INVALID_INPUT', 'A TLS file is empty.');
      return { side, address, tls: { certificate, key, clientCa: authorities } };
    }),
  );
}

async function readPem(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new RunbookError('INVALID_INPUT', `${file} cannot be read (${errnoOf(error) ?? 'unknown reason'}).`, {
      next: 'Check the path and the rights of the file.',
    });
  }
}
