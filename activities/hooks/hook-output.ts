import { terminalLine } from '../../src/contracts/words';
import { redact } from '../../src/keys';

/** What a hook is told: as JSON in the body of a call, and in RUNBOOK_FACTS of a command. Names only, never a secret. */
export interface HookFacts {
  readonly hook: string;
  readonly deployment: string;
  /** The cluster that is, or was, primary: the one that is fenced, unfenced or dumped. */
  readonly from: string;
  /** The cluster that clients are led to. */
  readonly to: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly step: string;
  /** The same for every try of one attempt of a step: a receiver can tell a repetition by it. */
  readonly key: string;
}

/** How a hook ended. */
export interface HookEnd {
  readonly ok: boolean;
  /** Such as `exit 0` or `status 503`. */
  readonly how: string;
  /** Whether it is certain that it was not begun. */
  readonly begun: boolean;
  /** Its last lines, redacted. */
  readonly output: string;
}

/** Kept while a hook runs. */
const KEPT_BYTES = 16_384;
/** Shown of it, in characters. */
const SHOWN = 2_048;
/** Shorter words, such as `Bearer`, are no secrets. */
const SECRET_LENGTH = 8;

/** The end of what a hook writes: others wrote it, so it is redacted before anyone sees it. */
export class OutputTail {
  #kept = Buffer.alloc(0);
  #cut = false;

  add(chunk: Buffer): void {
    const all = Buffer.concat([this.#kept, chunk]);
    this.#cut ||= all.length > KEPT_BYTES;
    this.#kept = all.subarray(-KEPT_BYTES);
  }

  /**
   * The last lines, redacted; '' where there are none.
   *
   * @param secrets - what this program gave the hook, and must not come back in clear
   */
  text(secrets: readonly string[] = []): string {
    const raw = this.#kept.toString('utf8');
    // A line whose beginning is cut off may hold the rest of a secret that nothing would recognise.
    const whole = this.#cut ? raw.slice(raw.indexOf('\n') + 1 || raw.length) : raw;
    const known = secrets.filter((secret) => secret.length >= SECRET_LENGTH);
    const clean = redact(known.reduce((text, secret) => text.replaceAll(secret, '[redacted]'), withoutControls(whole)));
    if (clean.length <= SHOWN) return clean;
    const end = clean.slice(-SHOWN);
    return `... ${end.slice(end.indexOf('\n') + 1)}`;
  }
}

/** Escape sequences and control characters could change what a terminal shows around them; backticks would make a command. */
function withoutControls(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what is taken out
  const plain = text.replace(/\u001b\[[0-?]*[ -/]*[@-~]/g, '').replaceAll('`', "'");
  return plain
    .split(/\r\n?|\n/)
    .map(terminalLine)
    .join('\n')
    .trim();
}
