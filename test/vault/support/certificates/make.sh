#!/bin/sh
# Makes the certificates beside this file, with OpenSSL 3. Their keys are thrown away except the servers' (server.key), which
# protects nothing. `expired-*` ended when they were made, all others end in 2126.
set -e
cd "$(dirname "$0")"
keys=$(mktemp -d)
trap 'rm -rf "$keys"' EXIT

# request NAME SUBJECT [KEY]: a request with a key of its own, or with that of another
request() {
  [ -n "$3" ] || openssl ecparam -name prime256v1 -genkey -noout -out "$keys/$1.key"
  openssl req -new -key "$keys/${3:-$1}.key" -subj "$2" -out "$keys/$1.csr"
}
# sign NAME ISSUER DAYS EXTENSIONS: signs the request NAME; with ISSUER = NAME it signs itself
sign() {
  printf '%b' "$4" > "$keys/$1.ext"
  if [ "$1" = "$2" ]; then by="-signkey $keys/$1.key"; else by="-CA $2.pem -CAkey $keys/$2.key"; fi
  # shellcheck disable=SC2086
  openssl x509 -req -in "$keys/$1.csr" $by -set_serial "0x$(openssl rand -hex 16)" -days "$3" -extfile "$keys/$1.ext" -out "$1.pem" 2> /dev/null
}
CA='basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n'
HERE='subjectAltName=IP:127.0.0.1,DNS:localhost\n'

request root '/O=Example Corp/CN=Example Root CA'
sign root root 36500 "$CA"
request issuing '/O=Example Corp/CN=Example Issuing CA 1'
sign issuing root 36500 "$CA"
cp "$keys/issuing.key" "$keys/expired-issuing.key"
request expired-issuing '/O=Example Corp/CN=Example Issuing CA 1' issuing
sign expired-issuing root -1 "$CA"
request same-name '/O=Example Corp/CN=Example Issuing CA 1'
sign same-name same-name 36500 "$CA"
request usage-only '/O=Example Corp/CN=Example Usage'
sign usage-only root 36500 'keyUsage=critical,keyCertSign\n'
request constrained '/O=Example Corp/CN=Example Constrained CA'
sign constrained root 36500 "${CA}nameConstraints=critical,permitted;DNS:other.example\n"

request server '/CN=vault-1.example'
sign server issuing 36500 "$HERE"
for name in other-name expired-server client-only by-usage-only by-constrained self-signed; do request $name '/CN=vault-1.example' server; done
cp "$keys/server.key" "$keys/self-signed.key"
sign other-name issuing 36500 'subjectAltName=DNS:vault-1.example,DNS:vault.example\n'
sign expired-server issuing -1 "$HERE"
sign client-only issuing 36500 "${HERE}extendedKeyUsage=clientAuth\n"
sign by-usage-only usage-only 36500 "$HERE"
sign by-constrained constrained 36500 "$HERE"
sign self-signed self-signed 36500 "${HERE}basicConstraints=critical,CA:FALSE\n"
request by-server '/CN=evil.example' server
sign by-server server 36500 "$HERE"
cp "$keys/server.key" server.key
