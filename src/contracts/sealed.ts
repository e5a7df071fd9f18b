/** Kinds of secret that may pass through Temporal, sealed. */
export type SealedKind = 'operation-token' | 'batch-token' | 'root-token' | 'service-token';

declare const sealedBrand: unique symbol;

/**
 * A secret as it passes through Temporal: a JWE that only the workers' keyring opens, bound to one run, one cluster and
 * a list of uses (protocol: "Sealed value"). A type of its own, so that it is never taken for a readable string.
 */
export type Sealed<K extends SealedKind = SealedKind> = string & { readonly [sealedBrand]: K };
