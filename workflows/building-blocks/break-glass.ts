import type { CeremonyClosed } from '../../src/contracts/activities';
import type { FailureFacts } from './failures';
import type { Choice } from './parking';
import type { Run } from './run';

/** What the cluster answers where nothing in hand lets a ceremony in. */
export const CEREMONY_CLOSED = 'CEREMONY_CLOSED';

type Kind = 'operation-token' | 'root-token';
interface Opened {
  readonly cluster: string;
  readonly kind: Kind;
  readonly close: readonly string[];
}

/**
 * From version 2.0 of the service the calls of a ceremony need a credential. Where none is accepted, people are guided
 * through opening them by configuration, and through taking that back. It costs nothing where it is not needed.
 */
export class BreakGlass {
  readonly #run: Run;
  readonly #deployment: string;
  readonly #opened: Opened[] = [];

  constructor(run: Run, deployment: string) {
    this.#run = run;
    this.#deployment = deployment;
  }

  /** Whether a failed step means that people must open the calls first. */
  static isNeeded({ code }: FailureFacts): boolean {
    return code === CEREMONY_CLOSED;
  }

  /**
   * Says what to do at which node, and waits until it is done, or a credential is there.
   *
   * @param choices - beside `retry`, where the wait takes too long
   */
  async open(cluster: string, kind: Kind, choices?: readonly Choice[]): Promise<void> {
    const { state } = this.#run;
    const on = { deployment: this.#deployment, cluster, kind };
    const told = await this.#run.step(
      `Say how the ceremony calls of ${cluster} are opened`,
      (call) => call.describeBreakGlass(on),
      { note: ({ observed }) => observed, ...(choices && { choices }) },
    );
    state.finding({
      severity: 'warning',
      code: 'break-glass',
      text: `${cluster} lets no ceremony in with the credentials in hand (${told.observed}): people open its calls for the time of the ceremony, or bring a credential.`,
      next: `Afterwards let batchTokenRotation keep a batch token, so that the next ceremony, or none, needs this.`,
    });
    // Before anybody is told: whatever they do, the end looks whether it was taken back.
    if (!this.#opened.some((each) => each.cluster === cluster && each.kind === kind))
      this.#opened.push({ cluster, kind, close: told.close });
    const key = `break-glass:${cluster}`;
    state.wait(key, {
      for: 'action',
      what: `the ceremony calls of ${cluster} are opened, or a credential for them is given`,
      instructions: told.open,
    });
    try {
      await this.#run.step(`Wait until a ceremony on ${cluster} is let in`, (call) => call.awaitCeremonyOpened(on), {
        note: ({ observed }) => observed,
        ...(choices && { choices }),
      });
    } finally {
      state.waitOver(key);
    }
  }

  /** At the end of a run: looks, and waits a while for people where a cluster is still open. Never silently. */
  async takeBack(): Promise<void> {
    for (const opened of [...this.#opened]) {
      await this.#takeBackOne(opened);
      this.#opened.splice(this.#opened.indexOf(opened), 1);
    }
  }

  async #takeBackOne(opened: Opened): Promise<void> {
    const { cluster, kind, close } = opened;
    const { state } = this.#run;
    const on = { deployment: this.#deployment, cluster, kind };
    const name = `See that the ceremony calls of ${cluster} are closed again`;
    const effect = `whether ${cluster} is closed again was not seen`;
    const seen = await this.#run.skippableStep(name, effect, (call) => call.checkCeremonyClosed(on), {
      note: ({ observed }) => observed,
    });
    if (seen?.state === 'closed') return;
    const key = `break-glass:${cluster}`;
    const { phase } = state;
    if (!this.#run.inOutage) state.enterPhase('waiting-for-people');
    state.wait(key, { for: 'action', what: `the ceremony calls of ${cluster} are closed again`, instructions: close });
    let last: CeremonyClosed | undefined;
    try {
      last = await this.#run.skippableStep(
        `Wait until the ceremony calls of ${cluster} are closed again`,
        effect,
        (call) => call.awaitCeremonyClosed(on),
        { note: ({ observed }) => observed },
      );
    } finally {
      state.waitOver(key);
    }
    if (!this.#run.inOutage) state.enterPhase(phase);
    if (last?.state !== 'closed') this.#tell(opened, last);
  }

  /** For a run that ends early: one look, nobody is waited for, and what is open is told. */
  async tellWhatIsOpen(): Promise<void> {
    for (const opened of this.#opened.splice(0)) {
      const { cluster, kind } = opened;
      let seen: CeremonyClosed | undefined;
      await this.#run.cleanUp(`Look whether the ceremony calls of ${cluster} are closed`, async (call) => {
        seen = await call.checkCeremonyClosed({ deployment: this.#deployment, cluster, kind });
      });
      if (seen?.state !== 'closed') this.#tell(opened, seen);
    }
  }

  #tell({ cluster, close }: Opened, seen: CeremonyClosed | undefined): void {
    const { state } = this.#run;
    const text =
      seen?.state === 'open'
        ? `The ceremony calls of ${cluster} are still open to everybody: ${seen.observed}.`
        : `Whether the ceremony calls of ${cluster} are closed again is not known${seen ? `: ${seen.observed}` : ''}.`;
    state.finding({ severity: 'critical', code: 'break-glass-left-open', text, next: close.join(' ') });
    state.leftToDo.push(`${text} ${close.join(' ')}`);
  }
}
