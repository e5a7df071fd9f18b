/** Shapes that a secret has and hardly anything else; what is found is a suspicion, to be looked at by a person. */
export const SECRET_SHAPES: readonly (readonly [string, RegExp])[] = [
  // A part of a sealed value may end in "-s", before its dot.
  ['a token of the service', /(?:(?<![A-Za-z0-9])hv[srb]|(?<![A-Za-z0-9_-])[srb])\.[A-Za-z0-9_-]{22,}/],
  ['an age identity', /AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20,}/],
  ['a private key block', /-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----/],
  ['an Ed25519 private JWK', /"d"\s*:\s*"[A-Za-z0-9_-]{43}"/],
  ['a key share in hexadecimal', /(?<![0-9A-Za-z])(?=[0-9a-f]*[a-f])[0-9a-f]{66}(?![0-9A-Za-z])/i],
  [
    'a key share in base64',
    /(?<![A-Za-z0-9+/_=-])(?=[A-Za-z0-9+/]{44}(?![A-Za-z0-9+/_=-]))(?=\D{0,43}[0-9])(?=[^A-Z]{0,43}[A-Z])(?=[^a-z]{0,43}[a-z])[A-Za-z0-9+/]{44}/,
  ],
];
