import type { ActivityRecord, RunRecord } from './run-record';
import { fieldsOf, kindOf, textOf } from './run-record';

/*
 * Changes of a run that ended early: those that may have been made, although nobody saw it, and those that were made and
 * that nothing followed. Which cluster is primary, and what was wiped, is told elsewhere.
 */

interface UnsettledText {
  /** The cluster that it changes, and what else tells two of them apart. */
  readonly on: (activity: ActivityRecord) => string;
  /** After "may have been". */
  readonly done: (activity: ActivityRecord) => string;
  /** What to read, and what to do then. */
  readonly next: (activity: ActivityRecord) => string;
}

const cluster = (activity: ActivityRecord) => inputOf(activity, 'cluster');
const secondaryOf = (activity: ActivityRecord) => textOf(activity.input['secondary']) ?? inputOf(activity, 'id');
const kindName = (activity: ActivityRecord) => (kindOf(activity) === 'dr' ? 'DR' : 'performance');
const statusOf = (activity: ActivityRecord) => `sys/replication/${kindOf(activity)}/status`;

const disable = (role: 'primary' | 'secondary'): UnsettledText => ({
  on: cluster,
  done: (activity) => `disabled as ${kindName(activity)} ${role}`,
  next: (activity) =>
    role === 'primary'
      ? `read ${statusOf(activity)} of it. If it is disabled, its secondaries are cut off for good, and still look for it.`
      : `read ${statusOf(activity)} of it. If it is disabled, it becomes a secondary again only by being wiped, and its primary may still know its id.`,
});

const TOLD: Readonly<Record<string, UnsettledText>> = {
  enablePrimary: {
    on: cluster,
    done: (activity) => `made ${kindName(activity)} primary`,
    next: (activity) =>
      `read ${statusOf(activity)} of it. If it is primary and is to be none, end that with replicationTeardown {"kind": "${kindOf(activity)}", "cluster": "${cluster(activity)}"}.`,
  },
  revokeSecondary: {
    on: (activity) => `${secondaryOf(activity)} on ${cluster(activity)}`,
    done: () => 'revoked',
    next: (activity) =>
      `read known_secondaries in ${statusOf(activity)} of ${cluster(activity)}. Where the id ${inputOf(activity, 'id')} is missing, ${secondaryOf(activity)} is cut off: finish with secondaryDecommission, or connect it again with secondaryRepointing.`,
  },
  forgetPrimary: {
    on: cluster,
    done: (activity) => `made to forget its ${kindName(activity)} primary`,
    next: (activity) =>
      `read ${statusOf(activity)} of it. Where it knows no primary any more, secondaryRepointing connects it again, without a wipe.`,
  },
  disablePrimary: disable('primary'),
  disableSecondary: disable('secondary'),
  issueActivationToken: {
    on: (activity) => `An activation token for ${inputOf(activity, 'secondary')}`,
    done: (activity) => `issued on ${inputOf(activity, 'primary')}`,
    next: (activity) =>
      `read known_secondaries in ${statusOf(activity)} of ${inputOf(activity, 'primary')}, and revoke the id of ${inputOf(activity, 'secondary')} unless it is in use.`,
  },
  writePathsFilter: {
    on: (activity) => `The paths filter of ${inputOf(activity, 'id')} on ${cluster(activity)}`,
    done: () => 'written',
    next: () => 'read it before a secondary is connected under that id.',
  },
};
/** What the two onboardings do before their wipe, and what stands where they end before it. */
const PREPARED: readonly string[] = ['enablePrimary', 'writePathsFilter'];
const ONBOARDINGS: readonly string[] = ['drSecondaryOnboarding', 'performanceSecondaryOnboarding'];

/** Whether it is not known if a change took effect. */
export function isUndecided({ state, failure }: ActivityRecord): boolean {
  return state === 'running' || state === 'cancelled' || (state === 'failed' && failure?.outcomeKnown !== true);
}

/** Changes that may have been made: their last word is that nobody knows. */
export function unsettledChanges(run: RunRecord): readonly string[] {
  const last = new Map<string, ActivityRecord>();
  for (const activity of run.activities) {
    const told = toldOf(activity);
    if (!told) continue;
    const key = `${activity.type} ${kindOf(activity)} ${told.on(activity)}`;
    if (activity.state === 'completed') last.delete(key);
    else if (isUndecided(activity)) last.set(key, activity);
  }
  return [...last.values()].flatMap((activity) => {
    const told = toldOf(activity);
    return told ? [`${told.on(activity)} may have been ${told.done(activity)}: ${told.next(activity)}`] : [];
  });
}

/** What an onboarding prepared and did not come to use. */
export function preparedInVain({ runbook, activities }: RunRecord): readonly string[] {
  if (!ONBOARDINGS.includes(runbook) || activities.some(({ type }) => type === 'enableSecondary')) return [];
  return activities.flatMap((activity) => {
    const told = PREPARED.includes(activity.type) ? toldOf(activity) : undefined;
    if (!told || activity.state !== 'completed' || activity.result['outcome'] !== 'done') return [];
    return [`${told.on(activity)} was ${told.done(activity)} and nothing was connected to it: ${told.next(activity)}`];
  });
}

/** What a run that could not say it itself cut off, and did not settle on the secondary. */
export function cutOffAndLeft({ activities }: RunRecord): readonly string[] {
  return activities.flatMap((activity) => {
    const { type, state, result } = activity;
    if (state !== 'completed' || result['outcome'] === 'not-done') return [];
    const kind = kindName(activity);
    if (type === 'revokeSecondary') {
      const target = textOf(activity.input['secondary']);
      const settled = activities.some(
        (each) =>
          /^(forget|disable)/.test(each.type) &&
          each.state === 'completed' &&
          fieldsOf(each.input)['cluster'] === target,
      );
      if (target !== undefined && settled) return [];
      return [
        `${secondaryOf(activity)} was revoked on ${cluster(activity)} and still is a ${kind} secondary that looks for it: start secondaryDecommission for it again, or disable it with replicationTeardown.`,
      ];
    }
    if (type !== 'disablePrimary') return [];
    return [
      `${cluster(activity)} was disabled as ${kind} primary: each of its former secondaries still looks for it. End that with replicationTeardown, or wipe and onboard them.`,
    ];
  });
}

function toldOf({ type }: ActivityRecord): UnsettledText | undefined {
  return Object.hasOwn(TOLD, type) ? TOLD[type] : undefined;
}

function inputOf(activity: ActivityRecord, member: string): string {
  return textOf(activity.input[member]) ?? 'unknown';
}
