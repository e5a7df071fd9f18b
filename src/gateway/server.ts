/** The door between people and Temporal's frontend: takes their requests, and forwards those that pass. */
import * as grpc from '@grpc/grpc-js';
import { RunbookError } from '../errors';
import { Budget } from './budget';
import { judge, KNOWN_METHODS, Refusal } from './judging';
import type { Served, Side } from './judging';
import { cannotListen, isLoopback } from './listening';

/** Where people connect. */
export interface DoorSide {
  readonly side: Side;
  readonly address: string;
  /** PEM texts. Absent: plain gRPC, on loopback only. */
  readonly tls?: { readonly certificate: Buffer; readonly key: Buffer; readonly clientCa: Buffer };
}

export interface DoorOptions extends Served {
  /** The frontend. Nothing here identifies a person: the door has no token. */
  readonly frontend: {
    readonly address: string;
    readonly credentials: grpc.ChannelCredentials;
    readonly channelArgs?: grpc.ChannelOptions;
  };
  readonly sides: readonly DoorSide[];
  /** The header in which a proxy passes the fingerprint of the client certificate. Believed by sides without TLS only. */
  readonly certificateHeader?: string | undefined;
}

/** An open door. */
export interface Door {
  /** Where each side listens, in the order of the options. */
  readonly addresses: readonly string[];
  close(): void;
}

/** Metadata of a caller that passes: who it is, and which client it is. Everything else stays here. */
const PASSING_METADATA = [
  ...['authorization', 'authorization-extras'],
  ...['client-name', 'client-version', 'supported-server-versions', 'supported-features'],
];

/** Histories can be long. */
const LONG_ANSWERS = { 'grpc.max_receive_message_length': 128 * 1024 * 1024 };
/** Larger than anything that passes, so that the refusal names the limit. */
const MOST_RECEIVED = { 'grpc.max_receive_message_length': 256 * 1024, 'grpc.max_concurrent_streams': 100 };

type Call = grpc.ServerUnaryCall<Buffer, Buffer>;
type Answer = grpc.sendUnaryData<Buffer>;

/** Opens the door. Nothing is asked of the frontend before a person does. */
export async function openDoor(options: DoorOptions): Promise<Door> {
  const { frontend, sides } = options;
  for (const side of sides) refuseUnsafe(side, options.certificateHeader);
  const upstream = new grpc.Client(frontend.address, frontend.credentials, {
    ...frontend.channelArgs,
    ...LONG_ANSWERS,
  });
  const budget = new Budget();
  const servers: grpc.Server[] = [];
  const close = () => {
    for (const server of servers) server.forceShutdown();
    upstream.close();
  };
  const addresses: string[] = [];
  try {
    for (const side of sides) {
      const server = new grpc.Server(MOST_RECEIVED);
      servers.push(server);
      serve(server, side, { upstream, budget, options });
      addresses.push(await listen(server, side));
    }
  } catch (error) {
    close();
    throw error;
  }
  return { addresses, close };
}

interface Behind {
  readonly upstream: grpc.Client;
  readonly budget: Budget;
  readonly options: DoorOptions;
}

/** Adds every known method, so that those that are not for people are refused as such. */
function serve(server: grpc.Server, { side, tls }: DoorSide, { upstream, budget, options }: Behind): void {
  const asIs = (bytes: Buffer): Buffer => bytes;
  const header = tls === undefined ? options.certificateHeader : undefined;
  const handle = (path: string) => (call: Call, answer: Answer) => {
    try {
      const sender = senderOf(call, header);
      const { message, counts } = judge(side, path, call.request, options);
      if (counts && !budget.take(sender))
        throw new Refusal('Too many messages with this certificate: wait a minute', grpc.status.RESOURCE_EXHAUSTED);
      // The caller's deadline and cancellation apply to the forwarded call.
      const forwarded = { parent: call };
      const metadata = passingMetadata(call.metadata, options.namespace);
      upstream.makeUnaryRequest(path, asIs, asIs, Buffer.from(message), metadata, forwarded, answer);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : undefined;
      answer({
        code: refusal?.code ?? grpc.status.INTERNAL,
        // Another error may quote the message.
        details: refusal?.message ?? 'The gateway failed. Nothing was forwarded',
      });
    }
  };
  const paths = [...KNOWN_METHODS.keys()];
  const definition = {
    ...{ requestStream: false, responseStream: false },
    ...{ requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs },
  };
  server.addService(
    Object.fromEntries(paths.map((path) => [path, { path, ...definition }])),
    Object.fromEntries(paths.map((path) => [path, handle(path)])),
  );
}

function passingMetadata(given: grpc.Metadata, namespace: string): grpc.Metadata {
  const passing = new grpc.Metadata();
  // Temporal Cloud routes by it.
  if (given.get('temporal-namespace').length > 0) passing.set('temporal-namespace', namespace);
  for (const name of PASSING_METADATA) for (const value of given.get(name)) passing.add(name, value);
  return passing;
}

/** Whose budget a message uses up: that of a client certificate; without certificates, that of an address. */
function senderOf(call: Call, header: string | undefined): string {
  const address = call.getPeer().replace(/:\d+$/, '');
  const { transportSecurityType, sslPeerCertificate } = call.getAuthContext() ?? {};
  if (transportSecurityType === undefined && header === undefined) return `address ${address}`;
  const [named] = header === undefined ? [] : call.metadata.get(header);
  const fingerprint = header === undefined ? sslPeerCertificate?.fingerprint256 : named?.toString();
  if (!fingerprint) throw new Refusal('This address needs a client certificate', grpc.status.UNAUTHENTICATED);
  return `certificate ${fingerprint}`;
}

/** @throws RunbookError `INVALID_INPUT` */
function refuseUnsafe({ address, tls }: DoorSide, certificateHeader: string | undefined): void {
  if (tls === undefined && !isLoopback(address))
    throw new RunbookError('INVALID_INPUT', `Plain gRPC on ${address} would be readable on the network.`, {
      needed: 'an address such as 127.0.0.1:7335, or TLS with client certificates',
      next: 'Add --tls-cert, --tls-key and --client-ca, or listen on loopback behind a proxy that has them.',
    });
  if (tls !== undefined && certificateHeader !== undefined)
    throw new RunbookError('INVALID_INPUT', 'With TLS, the gateway reads the client certificate itself.', {
      observed: '--certificate-header together with --tls-cert',
      next: 'Leave out one of the two. Anybody with a client certificate could send the header.',
    });
}

function listen(server: grpc.Server, { address, tls }: DoorSide): Promise<string> {
  const credentials =
    tls === undefined
      ? grpc.ServerCredentials.createInsecure()
      : grpc.ServerCredentials.createSsl(tls.clientCa, [{ cert_chain: tls.certificate, private_key: tls.key }], true);
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => {
      if (error === null) return resolve(address.replace(/:\d+$/, `:${port}`));
      reject(cannotListen(address, error.message));
    });
  });
}
