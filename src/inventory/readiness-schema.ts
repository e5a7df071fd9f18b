import { z } from 'zod';
import { duration } from './schema-values';

/** How the age of the newest snapshot is known. */
const snapshots = z.union(
  [
    /** Name of a configuration of automatic snapshots, asked on the DR primary. */
    z.strictObject({ automatic: z.string().regex(/^[\w-]+$/) }),
    /** A file on the worker that whoever takes the snapshots touches. */
    z.strictObject({ stampFile: z.string().startsWith('/', 'a file is given by its absolute path') }),
    /** When somebody took one: attested, and old after a while. */
    z.strictObject({ takenAt: z.iso.datetime({ offset: true }) }),
  ],
  'one of { automatic: NAME }, { stampFile: /absolute/path }, { takenAt: TIME }',
);

/** What `readiness` compares with, and what people attest that no program can read. */
export const readiness = z
  .strictObject({
    snapshots: snapshots.optional(),
    snapshotAge: duration.prefault('26h'),
    /** A certificate or licence that ends sooner is a warning. */
    certificateLife: duration.prefault('21d'),
    licenceLife: duration.prefault('30d'),
    /** A holder's term of office that ends sooner is a warning. */
    termWarning: duration.prefault('30d'),
    canaryAge: duration.prefault('120s'),
    clockSkew: duration.prefault('5s'),
    /** Age of the newest sample of `walSampler`. */
    sampleAge: duration.prefault('15m'),
    /** Age of a holder's last success in `ceremonyRehearsal`. */
    rehearsalAge: duration.prefault('90d'),
    /** People attest that worker, Temporal, DNS and credential sources outlive every cluster of the deployment. */
    independent: z.boolean().default(false),
  })
  .transform((value) => ({
    snapshots: value.snapshots,
    snapshotAgeMs: value.snapshotAge,
    certificateLifeMs: value.certificateLife,
    licenceLifeMs: value.licenceLife,
    termWarningMs: value.termWarning,
    canaryAgeMs: value.canaryAge,
    clockSkewMs: value.clockSkew,
    sampleAgeMs: value.sampleAge,
    rehearsalAgeMs: value.rehearsalAge,
    independent: value.independent,
  }));
