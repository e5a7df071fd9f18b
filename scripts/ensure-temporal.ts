import { findTemporalServer } from '../src/dev-server';

/** Makes sure that a Temporal server can be had, builds it where needed, and says which one it is. */
async function main(): Promise<void> {
  const found = await findTemporalServer({ onProgress: (line) => console.log(line) });
  console.log(
    'address' in found
      ? `Temporal server at ${found.address}`
      : `${found.executable.version}: ${found.executable.path}`,
  );
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
