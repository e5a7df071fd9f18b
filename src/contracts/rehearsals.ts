import { z } from 'zod';

/** The result of `ceremonyRehearsal`: one entry for each person who was asked. */
export const rehearsalResult = z.object({
  schema: z.literal('replication-runbooks/rehearsal/v1'),
  deployment: z.string(),
  answered: z.number(),
  asked: z.number(),
  people: z.array(
    z.object({
      name: z.string(),
      standBy: z.boolean(),
      /** `missing`: no answer that verifies came in time. */
      answered: z.enum(['yes', 'missing']),
      /** ISO time of the signal's event. */
      at: z.string().optional(),
      /** How it is known that this person answered. */
      how: z.enum(['signed', 'principal', 'claimed']).optional(),
      /** What the person's tool says of itself. */
      tool: z.string().optional(),
      /** ISO time of the last success before this rehearsal. */
      before: z.string().optional(),
    }),
  ),
});
export type RehearsalResult = z.infer<typeof rehearsalResult>;
export type RehearsedPerson = RehearsalResult['people'][number];
