/** A gateway that answers as a test says: also what no real one would. It verifies each request like a real one. */
import { createServer } from 'node:http';
import { bodyDigest, REQUEST_SCHEME, requestPayload } from '../../src/documents/signed-request';
import type { RequestPayload } from '../../src/documents/signed-request';
import { DOCUMENT_TYPES, verifyDocument } from '../../src/documents/documents';
import { importPublicKey } from '../../src/documents/public-keys';
import type { PublicKeyEntry } from '../../src/documents/public-keys';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';

/** A request that arrived, with its proof verified. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly proof: RequestPayload;
  /** Everything that came, as text. */
  readonly raw: string;
}

/** Status and content of an answer; undefined breaks the connection. */
export type Answer = (asked: Asked) => readonly [status: number, content: unknown] | undefined;

export interface StandInGateway {
  readonly origin: string;
  readonly asked: readonly Asked[];
  answer: Answer;
  close(): Promise<void>;
}

export async function openStandIn(key: PublicKeyEntry): Promise<StandInGateway> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const { method = '', url = '', headers, rawHeaders } = request;
    response.setHeader('access-control-allow-origin', 'null');
    response.setHeader('access-control-allow-headers', 'authorization, content-type');
    if (method === 'OPTIONS') {
      response.writeHead(204).end();
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const bytes = Buffer.concat(chunks);
      void verified(headers.authorization ?? '', bytes, key).then((proof) => {
        const body = bytes.toString();
        const one = { method, path: url, body, proof, raw: [url, ...rawHeaders, body].join('\n') };
        asked.push(one);
        const answer = gateway.answer(one);
        if (answer === undefined) request.socket.destroy();
        else response.writeHead(answer[0], { 'content-type': 'application/json' }).end(JSON.stringify(answer[1]));
      });
    });
  });
  const gateway: StandInGateway = {
    origin: `http://127.0.0.1:${await listenOnLoopback(server)}`,
    asked,
    answer: () => [404, {}],
    close: () => closeAtOnce(server),
  };
  return gateway;
}

async function verified(authorization: string, body: Uint8Array, { kid, x }: PublicKeyEntry): Promise<RequestPayload> {
  const jws = authorization.replace(`${REQUEST_SCHEME} `, '');
  const known = (given: string) => (given === kid ? { name: 'grace', publicKey: importPublicKey(x) } : undefined);
  const { payload } = await verifyDocument(jws, DOCUMENT_TYPES.request, known);
  const proof = requestPayload.parse(payload);
  if (proof.body !== bodyDigest(body)) throw new Error('the proof is for another body');
  return proof;
}
