import { stopKeptServer } from './global-server';

export default async function globalTeardown(): Promise<void> {
  await stopKeptServer();
}
