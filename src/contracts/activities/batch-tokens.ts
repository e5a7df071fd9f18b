/** What `batchTokenRotation` follows. Of tokens only facts: never one of them, and no accessor. */
export interface BatchTokenRoute {
  readonly drSet: string;
  /** The cluster that makes the token. */
  readonly primary: string;
  /** Where the token is kept, in words. */
  readonly sink: string;
  /** Whether the present token has less than half of its life left, or is of no use. */
  readonly due: boolean;
  readonly why: string;
  /** What is absent on the primary and will be made: nothing where the input does not ask for it. */
  readonly prepare: readonly ('policy' | 'role')[];
}
