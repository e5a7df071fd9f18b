/** A cluster becomes a secondary, or a primary: enabling, wiping, unsealing (design 9). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface OnboardingActivities {}
