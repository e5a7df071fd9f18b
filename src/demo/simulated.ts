import { readFile } from 'node:fs/promises';
import { request } from 'undici';
import { z } from 'zod';

/*
 * What a person does to the simulated clusters of a running demonstration, as a process of its own:
 * `simulated <state file> <command> [<cluster> | <JSON object>]`. The commands are those of the control endpoint
 * (docs/simulator.md).
 */

const USAGE = `simulated kill CLUSTER        all its nodes are gone, as after a power cut
simulated restart CLUSTER     they are back, with what they had
simulated partition '{"a":"east","b":"west"}'   they do not reach each other
simulated heal                all reach each other again`;

const STATE_FILE = z.object({ control: z.object({ address: z.string(), token: z.string() }) });

async function main([stateFile = '', command = '', target = '{}']: readonly string[]): Promise<number> {
  if (!/^[a-z][a-z-]*$/.test(command)) {
    console.error(USAGE);
    return 2;
  }
  const { address, token } = STATE_FILE.parse(JSON.parse(await readFile(stateFile, 'utf8'))).control;
  const { statusCode, body } = await request(`${address}/control/${command}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: target.startsWith('{') ? target : JSON.stringify({ cluster: target }),
  });
  const answer = await body.text();
  if (statusCode === 200) console.log(answer.trim());
  else console.error(`${answer.trim()}\n${USAGE}`);
  return statusCode === 200 ? 0 : 1;
}

main(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : 'the simulated deployment does not answer');
    process.exitCode = 1;
  },
);
