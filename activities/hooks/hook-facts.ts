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
