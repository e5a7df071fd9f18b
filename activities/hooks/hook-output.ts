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
  #chunks: Buffer[] = [];
  #length = 0;
  #cut = false;

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length <= 2 * KEPT_BYTES) return;
    const kept = Buffer.concat(this.#chunks).subarray(-KEPT_BYTES);
    this.#chunks = [Buffer.from(kept)];
    this.#length = kept.length;
    this.#cut = true;
  }

  /**
   * The last lines, redacted; '' where there are none.
   *
   * @param secrets - what this program gave the hook, and must not come back in clear
   */
  text(secrets: readonly string[] = []): string {
    const raw = Buffer.concat(this.#chunks).toString('utf8');
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
  return (
    text
      // eslint-disable-next-line no-control-regex -- control characters are what is taken out
      .replace(/\u001b\[[0-?]*[ -/]*[@-~]/g, '')
      .replace(/\r\n?/g, '\n')
      // eslint-disable-next-line no-control-regex -- control characters are what is taken out
      .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]|\p{Cf}/gu, '')
      .replaceAll('`', "'")
      .trim()
  );
}
