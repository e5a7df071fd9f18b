import { workflowInfo } from '@temporalio/workflow';
import type { DirectAttempt } from '../../src/contracts/activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { NextCommand } from '../../src/contracts/next-commands';
import { directCommand, directInstructions, directWait, handInInstructions } from './direct-words';
import { Roster } from './roster';
import type { Run } from './run';

/** What is shown of one cluster: its attempt, or that the token of one that has ended is missing. */
type Screen = { readonly attempt: DirectAttempt } | { readonly handInMs: number };

/**
 * Who is asked to enter a key share in the service, cluster by cluster, and what they are shown. Nobody here sees who
 * entered one: who was asked is missing until the token is there.
 */
export class DirectAsking {
  readonly #run: Run;
  #ceremony: CeremonyHandle | undefined;
  #roster: Roster | undefined;
  readonly #screens = new Map<string, Screen>();

  constructor(run: Run) {
    this.#run = run;
  }

  /** From now on the holders of this round are asked, and may decline. */
  invited(ceremony: CeremonyHandle): void {
    const { state } = this.#run;
    const roster = new Roster(
      this.#run,
      ceremony,
      {
        inHand: () => ({ held: [], needed: ceremony.threshold }),
        show: () => this.#showAgain(),
        tell: (...told) => {
          const [cluster] = this.#asked;
          if (cluster !== undefined) state.notifications.ofWait(waitKey(cluster), ...told);
        },
        direct: { wanted: () => this.#asked.length > 0 },
      },
      this.#roster,
    );
    this.#ceremony = ceremony;
    this.#roster = roster;
    this.#run.signals.on('decline', (items) => roster.decline(items));
  }

  /** Nobody is asked any more. */
  stop(): void {
    this.#run.signals.on('decline', undefined);
    for (const cluster of [...this.#screens.keys()]) this.#over(cluster);
  }

  /**
   * Shows an attempt, and calls in who stands by when their time has come.
   *
   * @returns what ends it
   */
  begin(cluster: string, attempt: DirectAttempt): () => void {
    this.show(cluster, attempt);
    let over = false;
    this.#roster?.watch(() => over || !this.#asked.includes(cluster));
    return () => {
      over = true;
      this.#over(cluster);
    };
  }

  show(cluster: string, attempt: DirectAttempt): void {
    this.#screens.set(cluster, { attempt });
    this.#draw(cluster);
  }

  /** The last share seems to be in: nothing is more urgent than the token. */
  showHandIn(cluster: string, handInMs: number): void {
    this.#screens.set(cluster, { handInMs });
    this.#draw(cluster);
  }

  /** Who may still enter a share, and who said that he cannot. */
  whoIsMissing(): string {
    const people = this.#people();
    const declined = people?.declined?.map(({ by }) => by.name) ?? [];
    return [
      `asked: ${people?.missingHolders.join(', ') || 'nobody'}`,
      ...(declined.length > 0 ? [`declined: ${declined.join(', ')}`] : []),
    ].join('; ');
  }

  /** Clusters on which shares are entered now. */
  get #asked(): readonly string[] {
    return [...this.#screens].filter(([, screen]) => 'attempt' in screen).map(([cluster]) => cluster);
  }

  #people() {
    return this.#roster?.waiting({ held: [], needed: this.#ceremony?.threshold ?? 0 });
  }

  #showAgain(): void {
    for (const cluster of this.#asked) this.#draw(cluster);
  }

  #draw(cluster: string): void {
    const screen = this.#screens.get(cluster);
    const people = this.#people();
    if (!screen || !people) return;
    const { workflowId } = workflowInfo();
    const what = directWait(cluster);
    if ('handInMs' in screen) {
      const instructions = handInInstructions({ workflowId, cluster, handInMs: screen.handInMs });
      this.#run.state.wait(waitKey(cluster), { for: 'action', what, instructions });
      return;
    }
    const { attempt } = screen;
    const { missingHolders } = people;
    this.#run.state.wait(waitKey(cluster), {
      for: 'action',
      what,
      instructions: directInstructions({ workflowId, cluster, attempt, people }),
      commands: missingHolders.map((who): NextCommand => ({ who, command: directCommand(attempt) })),
    });
  }

  #over(cluster: string): void {
    this.#screens.delete(cluster);
    this.#run.state.waitOver(waitKey(cluster));
  }
}

function waitKey(cluster: string): string {
  return `direct:${cluster}`;
}
