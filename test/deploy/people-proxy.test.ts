/** The proxy in front of the gateway: TLS, people's certificates, and their fingerprint for the gateway. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../src/dev-server/locations';
import { CERTIFICATE_HEADER } from '../support/door';

const configuration = readFileSync(join(projectRoot(), 'deploy', 'people-proxy.conf'), 'utf8');
const servers = configuration.split(/^ {2}server \{$/m).slice(1);

describe('deploy/people-proxy.conf', () => {
  it('asks everybody for a certificate, and operators for one of another authority', () => {
    expect(configuration.match(/ssl_verify_client \w+;/g)).toEqual(['ssl_verify_client on;']);
    expect(servers.map((each) => /listen (\d+) ssl http2;/.exec(each)?.[1])).toEqual(['7235', '7236']);
    expect(servers.map((each) => /ssl_client_certificate \S+\/(\w+)\.pem;/.exec(each)?.[1])).toEqual([
      'people',
      'operators',
    ]);
  });

  it('passes everything to the gateway, each side to its own address, with the fingerprint of the certificate', () => {
    const command = /^# {3}runbook gateway (.+)$/m.exec(configuration)?.[1];
    const passed = [...configuration.matchAll(/grpc_pass grpc:\/\/(\S+);/g)].map(([, address]) => address);
    expect(command).toBe(`--frontend ${passed[0]} --operators ${passed[1]} --certificate-header ${CERTIFICATE_HEADER}`);
    expect(passed).toHaveLength(2);
    const unit = readFileSync(join(projectRoot(), 'deploy', 'replication-runbooks-gateway.service'), 'utf8');
    expect(unit).toContain(`/runbook gateway ${command}\n`);
    // A directive in a server or location would replace the one above.
    expect(configuration.match(/grpc_set_header .+/g)).toEqual([
      `grpc_set_header ${CERTIFICATE_HEADER} $ssl_client_fingerprint;`,
    ]);
    expect(configuration).not.toMatch(/WorkflowService|\$request_uri/);
  });
});
