/** The keys that GnuPG does not make: without a user ID, and with other key flags. Uses the library's inner parts. */
const { readFileSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const openpgp = require('openpgp');

const write = (name, packets) =>
  writeFileSync(join(__dirname, `${name}.txt`), Buffer.from(packets.write()).toString('base64'));
const isUserId = ({ constructor }) => constructor.tag === openpgp.enums.packet.userID;
const isSubkey = ({ constructor }) => constructor.tag === openpgp.enums.packet.publicSubkey;

async function main() {
  const bytes = Buffer.from(readFileSync(join(__dirname, 'curve25519.txt'), 'utf8'), 'base64');
  const packets = (await openpgp.readKey({ binaryKey: bytes })).toPacketList();
  const anonymous = new openpgp.PacketList();
  // The user ID and the signature on it.
  const at = packets.findIndex(isUserId);
  packets.forEach((packet, index) => index === at || index === at + 1 || anonymous.push(packet));
  write('no-user-id', anonymous);

  const date = new Date('2026-01-01');
  const made = { userIDs: [{ email: 'flags@example.test' }], date, format: 'object', type: 'rsa', rsaBits: 2048 };
  const { privateKey, publicKey } = await openpgp.generateKey(made);
  for (const [name, flags] of [
    ['no-flags', undefined],
    ['for-storage', [openpgp.enums.keyFlags.encryptStorage]],
    ['for-messages', [openpgp.enums.keyFlags.encryptCommunication]],
  ]) {
    const signature = Object.assign(new openpgp.SignaturePacket(), {
      signatureType: openpgp.enums.signature.subkeyBinding,
      publicKeyAlgorithm: privateKey.keyPacket.algorithm,
      hashAlgorithm: openpgp.enums.hash.sha256,
      ...(flags && { keyFlags: flags }),
    });
    const bound = { key: privateKey.keyPacket, bind: privateKey.subkeys[0].keyPacket };
    await signature.sign(privateKey.keyPacket, bound, date, false, openpgp.config);
    const all = publicKey.toPacketList();
    const kept = new openpgp.PacketList();
    for (const packet of all.slice(0, all.findIndex(isSubkey) + 1)) kept.push(packet);
    kept.push(signature);
    write(name, kept);
  }
}

void main();
