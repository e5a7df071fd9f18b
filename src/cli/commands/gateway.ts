import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Connection } from '@temporalio/client';
import type { Command } from 'commander';
import { errnoOf, RunbookError } from '../../errors';
import { isLoopback, openDoor } from '../../gateway/server';
import type { DoorSide } from '../../gateway/server';
import { connectionSettings, taskQueueSetting } from '../../worker/settings';
import { newCommand, withServerOptions } from '../command';
import type { CommandHost, ServerOptions } from '../command';

export const commands = (host: CommandHost): Command[] => [gatewayCommand(host)];

interface GatewayOptions extends ServerOptions {
  readonly frontend: string;
  readonly operators?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly clientCa?: string;
  readonly operatorsClientCa?: string;
  readonly certificateHeader?: string;
}

/** `runbook gateway`: stands between people and Temporal's frontend until Ctrl-C or SIGTERM. */
function gatewayCommand({ context }: CommandHost): Command {
  const command = newCommand('gateway', [
    'runbook gateway --frontend 127.0.0.1:7335 --operators 127.0.0.1:7336 --certificate-header x-client-certificate',
    'runbook gateway --frontend 10.1.0.9:7235 --tls-cert gateway.pem --tls-key gateway.key --client-ca people.pem',
  ])
    .requiredOption('--frontend <host:port>', 'where holders and approvers connect; without TLS: a loopback address')
    .option('--operators <host:port>', 'where operators connect, who may also start runs')
    .option('--tls-cert <file>', "the gateway's certificate (PEM); it then asks for client certificates")
    .option('--tls-key <file>', "the certificate's key (PEM)")
    .option('--client-ca <file>', 'who signs the client certificates of holders and approvers (PEM)')
    .option('--operators-client-ca <file>', 'who signs the client certificates of operators (PEM)')
    .option(
      '--certificate-header <name>',
      'the header in which a proxy on this host passes the fingerprint of the client certificate, always',
    );
  return withServerOptions(command).action(async (options: GatewayOptions) => {
    const { connectionOptions, namespace = 'default' } = connectionSettings(context.env, options);
    const { address, tls } = connectionOptions;
    // Neither API key nor metadata: whatever these allow, everybody who connects would be allowed.
    const lazy = Connection.lazy({ address, ...(tls && { tls }) });
    const { frontend, credentials, channelArgs } = { ...lazy.options, frontend: lazy.options.address };
    await lazy.close();
    if (!tls && !isLoopback(address) && !/^localhost(:\d+)?$/.test(address))
      context.err(`Warning: people's tokens are readable on the network to ${address}. Set TEMPORAL_TLS=true.`);
    const taskQueue = taskQueueSetting(context.env);
    const door = await openDoor({
      ...{ namespace, taskQueue, sides: await sidesOf(options) },
      frontend: { address: frontend, credentials, ...(channelArgs && { channelArgs }) },
      certificateHeader: options.certificateHeader,
    });
    try {
      const [people = '', operators] = door.addresses;
      const also = operators === undefined ? '' : `, of operators on ${operators}`;
      context.err(`Passing requests of people on ${people}${also} to Temporal at ${address}, namespace ${namespace}.`);
      if (!context.stop.aborted) await once(context.stop, 'abort');
    } finally {
      door.close();
    }
  });
}

async function sidesOf(options: GatewayOptions): Promise<DoorSide[]> {
  const { frontend, operators, tlsCert, tlsKey, clientCa, operatorsClientCa } = options;
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
