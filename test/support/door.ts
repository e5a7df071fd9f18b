import { credentials } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { openDoor } from '../../src/gateway/server';
import type { Side } from '../../src/gateway/judging';
import { temporalServer } from './temporal-server';

/** In its proxy's name a client of a test says which certificate it has. */
export const CERTIFICATE_HEADER = 'x-client-certificate';

/** The door in front of the Temporal server of the tests. */
export async function openTestDoor(taskQueue: string) {
  const { address, namespace } = temporalServer();
  const door = await openDoor({
    ...{ namespace, taskQueue, certificateHeader: CERTIFICATE_HEADER },
    frontend: { address, credentials: credentials.createInsecure() },
    sides: [
      { side: 'people', address: '127.0.0.1:0' },
      { side: 'operators', address: '127.0.0.1:0' },
    ],
  });
  const [people = '', operators = ''] = door.addresses;
  const addresses: Readonly<Record<Side, string>> = { people, operators };
  const opened: Connection[] = [];
  return {
    addresses,
    /** A client that tries nothing again. */
    through: async (side: Side, certificate: string, metadata: Readonly<Record<string, string>> = {}) => {
      const connection = await Connection.connect({
        ...{ address: addresses[side], interceptors: [] },
        metadata: { [CERTIFICATE_HEADER]: certificate, ...metadata },
      });
      opened.push(connection);
      return new Client({ connection, namespace });
    },
    close: async () => {
      for (const connection of opened) await connection.close();
      door.close();
    },
  };
}
export type TestDoor = Awaited<ReturnType<typeof openTestDoor>>;
