/** The rules of deploy/monitoring in a real Prometheus that scrapes the gateway, and its alert in a real Alertmanager. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import { cli } from '../cli/support';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { page, ROOT } from '../support/documents';
import { FAILOVER_LIMITS } from '../support/failover';
import { findMonitoring, startMonitoring } from '../support/monitoring';
import type { MonitoringServer } from '../support/monitoring';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

jest.setTimeout(300_000);

const [prometheus, alertmanager] = [findMonitoring('prometheus'), findMonitoring('prometheus-alertmanager')];
const inPrometheus = prometheus === undefined ? describe.skip : describe;
const withAlertmanager = alertmanager === undefined ? it.skip : it;
const directory = temporaryDirectory('prometheus');
const monitoring = (file: string) => readFileSync(join(ROOT, 'deploy', 'monitoring', file), 'utf8');

interface Alert {
  readonly labels: Readonly<Record<string, string>>;
  readonly state: 'pending' | 'firing';
}
interface Rules {
  readonly groups: readonly { readonly name: string; readonly rules: readonly { readonly for?: string }[] }[];
}

/** The rules as they are shipped, but alerts wait for a second. */
function quickRules(): string {
  const { groups } = parse(monitoring('rules.yaml')) as Rules;
  const quick = (rule: Rules['groups'][number]['rules'][number]) => ({ ...rule, ...(rule.for && { for: '1s' }) });
  return stringify({ groups: groups.map(({ name, rules }) => ({ name, rules: rules.map(quick) })) });
}

inPrometheus(
  prometheus === undefined
    ? 'a real Prometheus (not found: install Debian’s prometheus, or set PROMETHEUS to its path)'
    : 'a real Prometheus',
  () => {
    const secretFile = join(directory, 'runbooks-secret');
    const opened: (() => unknown)[] = [];
    let scenario: Scenario;
    let server: MonitoringServer;
    let receiver: string;
    openScenario((given) => (scenario = given), { limits: FAILOVER_LIMITS });

    beforeAll(async () => {
      await writeFile(secretFile, `${randomBytes(24).toString('base64')}\n`);
      const gateway = await openGateway();
      receiver = gateway.receiver;
      const alerting = alertmanager === undefined ? undefined : await openAlertmanager(alertmanager);
      const { scrape_configs: jobs, ...shipped } = parse(monitoring('prometheus.yaml')) as {
        readonly scrape_configs: readonly object[];
      };
      const configuration = {
        ...{ ...shipped, global: { scrape_interval: '1s', evaluation_interval: '1s' } },
        scrape_configs: [{ ...jobs[0], static_configs: [{ targets: [gateway.metrics] }] }],
        ...(alerting && { alerting: { alertmanagers: [{ static_configs: [{ targets: [alerting.address] }] }] } }),
      };
      await writeFile(join(directory, 'rules.yaml'), quickRules());
      await writeFile(join(directory, 'prometheus.yaml'), stringify(configuration));
      const words = ['config.file=prometheus.yaml', 'storage.tsdb.path=data'].map((word) =>
        word.replace('=', `=${directory}/`),
      );
      server = await startMonitoring(prometheus ?? '', [...words.map((word) => `--${word}`), '--log.level=error']);
      opened.push(() => server.stop());
    });
    afterAll(async () => {
      for (const close of opened.reverse()) await close();
    });

    /** `runbook gateway` with both doors, as the pages show them. */
    async function openGateway() {
      const trigger = {
        ...{ name: 'no-primary', kind: 'alertmanager', secret: { file: secretFile } },
        ...{ match: { 'commonLabels.alertname': 'RunbooksNoPrimary' }, runbook: 'drFailover' },
        ...{ deployment: scenario.name, input: { to: 'west' } },
      };
      const file = join(scenario.directory, 'with-triggers.yaml');
      await writeFile(file, `${scenario.inventoryText()}${stringify({ triggers: [trigger] })}`, { mode: 0o600 });
      const stop = new AbortController();
      let said = '';
      const ended = cli(['gateway', '--receive', '127.0.0.1:0', '--metrics', '127.0.0.1:0'], {
        env: { ...scenario.environment, RUNBOOKS_INVENTORY: file },
        stop: stop.signal,
        hear: (line) => (said += `${line}\n`),
      });
      opened.push(() => {
        stop.abort();
        return ended;
      });
      const on = (pattern: RegExp) => until(pattern.source, () => pattern.exec(said)?.[1]);
      const [forTools, metrics] = [/webhooks on (\S+)/, /http:\/\/(\S+)\/metrics/];
      return { receiver: await on(forTools), metrics: await on(metrics) };
    }

    /** With the receiver of docs/incident-tooling.md. */
    async function openAlertmanager(program: string): Promise<MonitoringServer> {
      const [, block = ''] =
        /^ {2}```yaml\n( {2}receivers:[^]*?)^ {2}```/m.exec(page('docs/incident-tooling.md').text) ?? [];
      const receivers = block
        .replaceAll(/^ {2}/gm, '')
        .replace('https://gateway.example/', `http://${receiver}/`)
        .replace('/etc/alertmanager/runbooks-secret', secretFile);
      const route = { receiver: 'runbooks', group_by: ['alertname'], group_wait: '1s', group_interval: '5s' };
      const file = join(directory, 'alertmanager.yaml');
      await writeFile(file, `${stringify({ route })}${receivers}`);
      await mkdir(join(directory, 'alertmanager'));
      const words = ['--cluster.listen-address=', `--storage.path=${join(directory, 'alertmanager')}`];
      const started = await startMonitoring(program, [`--config.file=${file}`, ...words]);
      opened.push(() => started.stop());
      return started;
    }

    /** One run of the sampler after the other, as its Schedule starts them, until it is so. */
    async function sampledUntil<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
      return until(what, async () => {
        const id = `${walSamplerIdPrefix(scenario.name)}${randomBytes(8).toString('hex')}`;
        await (await scenario.run('walSampler', { samples: 1 }, id)).handle.result();
        return look();
      });
    }
    const alertsNow = async (name: string): Promise<readonly Alert[]> => {
      const { data } = (await server.get('/api/v1/alerts')) as { readonly data: { readonly alerts: readonly Alert[] } };
      return data.alerts.filter(({ labels }) => labels['alertname'] === name);
    };
    const primaries = async () => {
      const { data } = (await server.get('/api/v1/query?query=runbooks_dr_primaries')) as {
        readonly data: { readonly result: readonly { readonly value: readonly [number, string] }[] };
      };
      return data.result[0]?.value[1];
    };

    it('scrapes the gateway, and takes the rules as they are shipped', async () => {
      await sampledUntil('one primary', async () => ((await primaries()) === '1' ? true : undefined));
      const { data } = (await server.get('/api/v1/rules')) as {
        readonly data: { readonly groups: readonly { readonly rules: readonly { readonly health: string }[] }[] };
      };
      const rules = data.groups.flatMap(({ rules: all }) => all);
      expect(rules.length).toBeGreaterThan(15);
      await until('every rule was evaluated', async () => {
        const text = JSON.stringify(await server.get('/api/v1/rules'));
        return !text.includes('"health":"unknown"') && !text.includes('"health":"err"');
      });
      for (const name of ['RunbooksNoPrimary', 'RunbooksTwoPrimaries', 'RunbooksOutage', 'RunbooksNoWorkers'])
        expect([name, (await alertsNow(name)).filter(({ state }) => state === 'firing')]).toEqual([name, []]);
    });

    it('fires RunbooksNoPrimary once the primary was killed', async () => {
      await scenario.service.cluster('east').kill();
      const [alert] = await sampledUntil('it fires', async () => {
        const firing = (await alertsNow('RunbooksNoPrimary')).filter(({ state }) => state === 'firing');
        return firing.length > 0 ? firing : undefined;
      });
      expect(alert?.labels).toMatchObject({ deployment: scenario.name, severity: 'critical' });
      expect(await alertsNow('RunbooksTwoPrimaries')).toEqual([]);
    });

    withAlertmanager(
      'its alert reaches the gateway by a real Alertmanager, and one failover waits at its gates',
      async () => {
        const run = await until('the failover', () =>
          scenario.client.workflow
            .getHandle(scenario.workflowId)
            .describe()
            .catch(() => undefined),
        );
        expect(run.type).toBe('drFailover');
        expect(run.memo?.['incident']).toMatch(/^no-primary:[0-9a-f]{64}$/);
        const failover = scenario.attach(scenario.workflowId, run.runId);
        await failover.waitsFor('shares');
        const { ticket, incidentKey } = await failover.status();
        expect([ticket, incidentKey]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), ticket]);
        await failover.handle.terminate('the end of the test');
      },
    );
  },
);
