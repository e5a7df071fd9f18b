#!/bin/sh
# Makes the public keys beside this file with GnuPG 2.2, and with make.cjs those that it does not make. Each is one line: the
# base64 of the binary key. The private keys are thrown away.
set -e
cd "$(dirname "$0")"
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'gpgconf --kill all; rm -rf "$GNUPGHOME"' EXIT

# key NAME PRIMARY SUBKEY: parameters of both, comma-separated; EXPIRES and AT (a faked time) may be set
key() {
  {
    printf '%%no-protection\nKey-%s\n' "$(echo "$2" | sed 's/,/\nKey-/g')"
    [ -z "$3" ] || printf 'Subkey-%s\n' "$(echo "$3" | sed 's/,/\nSubkey-/g')"
    printf 'Name-Email: %s@example.test\nExpire-Date: %s\n%%commit\n' "$1" "${EXPIRES:-0}"
  } | gpg --batch --quiet ${AT:+--faked-system-time $AT!} --gen-key 2> /dev/null
  export_key "$1"
}
export_key() { gpg --export "=$1@example.test" | base64 -w0 > "$1.txt"; }
fingerprint() { gpg --with-colons -k "=$1@example.test" | awk -F: '$1 == "fpr" { print $10; exit }'; }

SIGNS='Type: eddsa,Curve: ed25519,Usage: sign'
key curve25519 "$SIGNS" 'Type: ecdh,Curve: cv25519,Usage: encrypt'
key nistp256 'Type: ecdsa,Curve: nistp256,Usage: sign' 'Type: ecdh,Curve: nistp256,Usage: encrypt'
for curve in brainpoolP256r1 secp256k1; do
  key "$curve" "Type: ecdsa,Curve: $curve,Usage: sign" "Type: ecdh,Curve: $curve,Usage: encrypt"
  key "subkey-$curve" "$SIGNS" "Type: ecdh,Curve: $curve,Usage: encrypt"
done
key rsa1024 'Type: rsa,Length: 1024,Usage: sign' 'Type: rsa,Length: 1024,Usage: encrypt'
key rsa2048 'Type: rsa,Length: 2048,Usage: sign encrypt' ''
key dsa1024 'Type: DSA,Length: 1024' 'Type: ELG-E,Length: 1024'
key signs-only 'Type: rsa,Length: 2048,Usage: sign' ''
AT=20200101T000000 EXPIRES=20210101T000000 key expired "$SIGNS" 'Type: ecdh,Curve: cv25519,Usage: encrypt'
AT=20200101T000000 key expired-subkey "$SIGNS" ''
gpg --batch --quiet --passphrase '' --faked-system-time '20200101T000000!' \
  --quick-add-key "$(fingerprint expired-subkey)" cv25519 encr 2021-01-01 2> /dev/null
export_key expired-subkey
key revoked "$SIGNS" 'Type: ecdh,Curve: cv25519,Usage: encrypt'
sed 's/^:---/---/' "$GNUPGHOME/openpgp-revocs.d/$(fingerprint revoked).rev" | gpg --batch --quiet --import 2> /dev/null
export_key revoked
key revoked-subkey "$SIGNS" 'Type: ecdh,Curve: cv25519,Usage: encrypt'
printf 'key 1\nrevkey\ny\n0\n\ny\nsave\n' |
  gpg --quiet --no-tty --command-fd 0 --status-fd 2 --edit-key "$(fingerprint revoked-subkey)" > /dev/null 2>&1 || true
export_key revoked-subkey
node make.cjs
