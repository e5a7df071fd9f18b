import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { projectRoot } from '../dev-server/locations';

const manifest = z.object({ version: z.string() });

/** The version of this program, as package.json has it. */
export function programVersion(): string {
  return manifest.parse(JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'))).version;
}
