import { CancellationScope } from '@temporalio/workflow';
import type { CeremonyClosed, CeremonyOpened } from '../../src/contracts/activities';
import type { StepCalls } from './activity-calls';
import { outcomeOf } from './ceremony-decisions';
import type { FailureFacts } from './failures';
import { stepFailure } from './failures';
import type { Choice, Decision } from './parking';
import { LEAVE } from './parking';
import type { Run } from './run';
import { StepFailed } from './run';
import type { Parked } from './share-collection';
import type { StepOptions } from './step-options';
import { said } from '../../src/contracts/words';

/** What the cluster answers where nothing in hand lets a ceremony in. */
export const CEREMONY_CLOSED = 'CEREMONY_CLOSED';

type Kind = 'operation-token' | 'root-token';
interface Ceremony {
  readonly deployment: string;
  readonly cluster: string;
  readonly kind: Kind;
}
interface Opened extends Omit<Ceremony, 'deployment'> {
  readonly close: readonly string[];
  /** Nobody was asked to open them, and nobody saw them open: it is looked at all the same. */
  readonly unseen?: boolean;
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
   * Says what to do at which node, and waits until it is done, or a credential is there. Inside an outage people may go
   * another way meanwhile.
   *
   * @param parked - choices beside `retry`, where the wait takes too long; with `skipEffect` people may skip it
   * @returns whether a ceremony is let in now; undefined where people skipped it
   */
  async open(cluster: string, kind: Kind, parked: Parked = {}): Promise<true | undefined> {
    const { state } = this.#run;
    const on = { deployment: this.#deployment, cluster, kind };
    const told = await this.#step(
      `Say how the ceremony calls of ${cluster} are opened`,
      (call) => call.describeBreakGlass(on),
      { note: ({ observed }) => observed },
      parked,
    );
    if (!told) return undefined;
    state.finding({
      severity: 'warning',
      code: 'break-glass',
      text: `${cluster} lets no ceremony in with the credentials in hand (${told.observed}): people open its calls for the time of the ceremony, or bring a credential.`,
      next: `Afterwards let batchTokenRotation keep a batch token, so that the next ceremony, or none, needs this.`,
    });
    // Before anybody is told: whatever they do, the end looks whether it was taken back.
    this.found({ cluster, kind, close: told.close });
    const key = `break-glass:${cluster}`;
    state.wait(key, {
      for: 'action',
      what: `the ceremony calls of ${cluster} are opened, or a credential for them is given`,
      instructions: told.open,
    });
    try {
      return await this.#awaitOpened(on, parked);
    } finally {
      state.waitOver(key);
    }
  }

  /** The calls of a cluster are open, or will or may be, whoever opens them: the end looks whether it was taken back. */
  found(opened: Opened): void {
    const { cluster, kind, unseen } = opened;
    const at = this.#opened.findIndex((each) => each.cluster === cluster && each.kind === kind);
    if (at < 0) this.#opened.push(opened);
    else if (!unseen) this.#opened[at] = opened;
  }

  async #awaitOpened(on: Ceremony, parked: Parked): Promise<true | undefined> {
    let decision: Decision | undefined;
    const body = async (call: StepCalls): Promise<CeremonyOpened> => {
      if (!this.#run.inOutage) return call.awaitCeremonyOpened(on);
      const opened = await this.#openedOrDecided(on, parked, () => call.awaitCeremonyOpened(on));
      if ('access' in opened) return opened;
      decision = opened;
      throw stepFailure('DECIDED', `${said(opened.by.name)} decided not to wait for it: ${opened.action}.`);
    };
    try {
      const name = `Wait until a ceremony on ${on.cluster} is let in`;
      const options: StepOptions<CeremonyOpened> = {
        note: ({ observed }) => observed,
        leaveToRunbook: () => decision !== undefined,
      };
      return (await this.#step(name, body, options, parked)) && true;
    } catch (error) {
      if (!(error instanceof StepFailed) || decision === undefined) throw error;
      outcomeOf(this.#run, decision, on.cluster, parked);
      return undefined;
    }
  }

  /** No cluster is primary: the wait ends with what people decide, too, and with a failover that takes the run over. */
  async #openedOrDecided(
    { cluster }: Ceremony,
    { choices = [LEAVE], skipEffect }: Parked,
    wait: () => Promise<CeremonyOpened>,
  ): Promise<CeremonyOpened | Decision> {
    const scope = new CancellationScope({ cancellable: true });
    let over = false;
    const opened = scope.run(wait).finally(() => (over = true));
    opened.catch(() => undefined);
    const skip: readonly Choice[] = skipEffect === undefined ? [] : [{ action: 'skip', effect: skipEffect }];
    try {
      const decision = await this.#run.decisionWhile(
        `Open the ceremony calls of ${cluster} in the outage`,
        {
          code: CEREMONY_CLOSED,
          message: `No cluster is primary, and ${cluster} lets no ceremony in with the credentials in hand.`,
          next: 'Open its calls as shown, or bring a credential; or decide for another way.',
          outcomeKnown: true,
        },
        [...skip, ...choices],
        () => over,
      );
      return decision ?? (await opened);
    } finally {
      if (!over) scope.cancel();
      await opened.catch(() => undefined);
    }
  }

  #step<T>(
    name: string,
    body: (call: StepCalls) => Promise<T>,
    options: StepOptions<T>,
    { choices, skipEffect }: Parked,
  ): Promise<T | undefined> {
    const all = { ...options, ...(choices && { choices }) };
    return skipEffect === undefined
      ? this.#run.step(name, body, all)
      : this.#run.skippableStep(name, skipEffect, body, all);
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
    if (!isToTell(opened, seen)) return;
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
      if (isToTell(opened, seen)) this.#tell(opened, seen);
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

/** What nobody saw open must be seen open; of the rest only what is seen closed is over. */
function isToTell({ unseen }: Opened, seen: CeremonyClosed | undefined): boolean {
  return unseen ? seen?.state === 'open' : seen?.state !== 'closed';
}
