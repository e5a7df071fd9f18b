import ts from 'typescript';
import { ACTIVITY_KINDS } from '../../src/contracts/activity-kinds';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import type { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import type { SourceFile } from './source-graph';
import { reach, readSources, textOf } from './source-graph';

/** An endpoint of the interface document with the client method that calls it. */
export interface EndpointRow {
  readonly endpoint: string;
  /** Path of the method in the client, such as `dr.primary.demote`. */
  readonly method: string;
  readonly call: (client: ServiceClient) => Promise<unknown>;
}

const drOperationToken = new Secret('operation-token', 'a');
const token = new Secret('activation-token', 'a');
const key = new Secret('key-share', 'a');
const DR = '/sys/replication/dr';
const PERFORMANCE = '/sys/replication/performance';

const row = (endpoint: string, method: string, call: EndpointRow['call']): EndpointRow => ({ endpoint, method, call });

/** Sections 4.1 and 4.2 of the interface document, in its order. */
export const ENDPOINTS: readonly EndpointRow[] = [
  row(`GET ${DR}/status`, 'dr.status', (client) => client.dr.status()),
  row(`POST ${DR}/primary/enable`, 'dr.primary.enable', (client) => client.dr.primary.enable({})),
  row(`POST ${DR}/primary/demote`, 'dr.primary.demote', (client) => client.dr.primary.demote()),
  row(`POST ${DR}/primary/disable`, 'dr.primary.disable', (client) => client.dr.primary.disable()),
  row(`POST ${DR}/primary/secondary-token`, 'dr.primary.secondaryToken', (client) =>
    client.dr.primary.secondaryToken({ id: 'x' }),
  ),
  row(`POST ${DR}/primary/revoke-secondary`, 'dr.primary.revokeSecondary', (client) =>
    client.dr.primary.revokeSecondary({ id: 'x' }),
  ),
  row(`POST ${DR}/secondary/generate-public-key`, 'dr.secondary.generatePublicKey', (client) =>
    client.dr.secondary.generatePublicKey(),
  ),
  row(`POST ${DR}/secondary/enable`, 'dr.secondary.enable', (client) => client.dr.secondary.enable({ token })),
  row(`POST ${DR}/secondary/promote`, 'dr.secondary.promote', (client) =>
    client.dr.secondary.promote({ drOperationToken }),
  ),
  row(`POST ${DR}/secondary/disable`, 'dr.secondary.disable', (client) =>
    client.dr.secondary.disable({ drOperationToken }),
  ),
  row(`POST ${DR}/secondary/update-primary`, 'dr.secondary.updatePrimary', (client) =>
    client.dr.secondary.updatePrimary({ drOperationToken, token }),
  ),
  row(
    `GET ${DR}/secondary/generate-operation-token/attempt`,
    'dr.secondary.generateOperationToken.readAttempt',
    (client) => client.dr.secondary.generateOperationToken.readAttempt(),
  ),
  row(
    `POST ${DR}/secondary/generate-operation-token/attempt`,
    'dr.secondary.generateOperationToken.startAttempt',
    (client) => client.dr.secondary.generateOperationToken.startAttempt({}),
  ),
  row(
    `DELETE ${DR}/secondary/generate-operation-token/attempt`,
    'dr.secondary.generateOperationToken.cancelAttempt',
    (client) => client.dr.secondary.generateOperationToken.cancelAttempt(),
  ),
  row(`POST ${DR}/secondary/generate-operation-token/update`, 'dr.secondary.generateOperationToken.update', (client) =>
    client.dr.secondary.generateOperationToken.update({ key, nonce: 'n' }),
  ),
  row(`POST ${DR}/secondary/operation-token/delete`, 'dr.secondary.deleteOperationToken', (client) =>
    client.dr.secondary.deleteOperationToken({ drOperationToken }),
  ),
  row(`POST ${DR}/secondary/reindex`, 'dr.secondary.reindex', (client) =>
    client.dr.secondary.reindex({ drOperationToken }),
  ),
  row(`POST ${DR}/secondary/merkle-check`, 'dr.secondary.merkleCheck', (client) =>
    client.dr.secondary.merkleCheck({ drOperationToken }),
  ),
  row(`GET ${PERFORMANCE}/status`, 'performance.status', (client) => client.performance.status()),
  row(`POST ${PERFORMANCE}/primary/enable`, 'performance.primary.enable', (client) =>
    client.performance.primary.enable({}),
  ),
  row(`POST ${PERFORMANCE}/primary/demote`, 'performance.primary.demote', (client) =>
    client.performance.primary.demote(),
  ),
  row(`POST ${PERFORMANCE}/primary/disable`, 'performance.primary.disable', (client) =>
    client.performance.primary.disable(),
  ),
  row(`POST ${PERFORMANCE}/primary/secondary-token`, 'performance.primary.secondaryToken', (client) =>
    client.performance.primary.secondaryToken({ id: 'x' }),
  ),
  row(`POST ${PERFORMANCE}/primary/revoke-secondary`, 'performance.primary.revokeSecondary', (client) =>
    client.performance.primary.revokeSecondary({ id: 'x' }),
  ),
  row(`POST ${PERFORMANCE}/primary/paths-filter/:id`, 'performance.primary.pathsFilter.write', (client) =>
    client.performance.primary.pathsFilter.write({ id: ':id' }),
  ),
  row(`GET ${PERFORMANCE}/primary/paths-filter/:id`, 'performance.primary.pathsFilter.read', (client) =>
    client.performance.primary.pathsFilter.read(':id'),
  ),
  row(`DELETE ${PERFORMANCE}/primary/paths-filter/:id`, 'performance.primary.pathsFilter.delete', (client) =>
    client.performance.primary.pathsFilter.delete(':id'),
  ),
  row(`GET ${PERFORMANCE}/primary/dynamic-filter/:id`, 'performance.primary.dynamicFilter', (client) =>
    client.performance.primary.dynamicFilter(':id'),
  ),
  row(`GET ${PERFORMANCE}/secondary/dynamic-filter/:id`, 'performance.secondary.dynamicFilter', (client) =>
    client.performance.secondary.dynamicFilter(':id'),
  ),
  row(`POST ${PERFORMANCE}/secondary/generate-public-key`, 'performance.secondary.generatePublicKey', (client) =>
    client.performance.secondary.generatePublicKey(),
  ),
  row(`POST ${PERFORMANCE}/secondary/enable`, 'performance.secondary.enable', (client) =>
    client.performance.secondary.enable({ token }),
  ),
  row(`POST ${PERFORMANCE}/secondary/promote`, 'performance.secondary.promote', (client) =>
    client.performance.secondary.promote({}),
  ),
  row(`POST ${PERFORMANCE}/secondary/disable`, 'performance.secondary.disable', (client) =>
    client.performance.secondary.disable({}),
  ),
  row(`POST ${PERFORMANCE}/secondary/update-primary`, 'performance.secondary.updatePrimary', (client) =>
    client.performance.secondary.updatePrimary({ token }),
  ),
];

/** Names under which the activities hold a part of the client. */
const ALIASES: Readonly<Record<string, string>> = {
  'dr.secondary.generateOperationToken': 'endpoints',
  'performance.primary.pathsFilter': 'filters',
};

/** Activities by name, with the text of everything that they reach. */
export function activityTexts(): ReadonlyMap<string, string> {
  const sources = readSources('activities');
  const texts = new Map<string, string>();
  for (const { target, names } of sources.get('activities/index.ts')?.imports ?? []) {
    const source = sources.get(target);
    for (const [name, original] of names) {
      const declaration = source?.declarations.get(original);
      if (Object.hasOwn(ACTIVITY_KINDS, name) && declaration)
        texts.set(name, reach(sources, target, declaration).map(textOf).join('\n'));
    }
  }
  for (const source of sources.values()) {
    for (const declaration of source.declarations.values()) {
      if (!ts.isFunctionDeclaration(declaration) || !/^create\w+Activities$/.test(declaration.name?.text ?? ''))
        continue;
      for (const [name, body] of activitiesOf(declaration))
        texts.set(name, reachedText(sources, source, declaration, body));
    }
  }
  return texts;
}

/** An activity may use what its factory declares, such as the read that two activities share. */
function reachedText(
  sources: ReadonlyMap<string, SourceFile>,
  source: SourceFile,
  factory: ts.FunctionDeclaration,
  body: ts.Node,
): string {
  const helpers = new Map(
    (factory.body?.statements ?? [])
      .flatMap((each) => (ts.isVariableStatement(each) ? [...each.declarationList.declarations] : []))
      .flatMap((each) => (ts.isIdentifier(each.name) ? [[each.name.text, each] as const] : [])),
  );
  const used = [...helpers]
    .filter(([name]) => new RegExp(`\\b${name}\\b`).test(body.getText()))
    .map(([, node]) => node);
  return [body, ...used].flatMap((node) => reach(sources, source.path, node).map(textOf)).join('\n');
}

/** The members of the object that a factory returns. */
function activitiesOf(factory: ts.FunctionDeclaration): readonly (readonly [string, ts.Node])[] {
  const returned = factory.body?.statements.find((each) => ts.isReturnStatement(each))?.expression;
  if (!returned || !ts.isObjectLiteralExpression(returned)) return [];
  return returned.properties.flatMap((each) =>
    ts.isPropertyAssignment(each) && ts.isIdentifier(each.name) ? [[each.name.text, each.initializer] as const] : [],
  );
}

/**
 * What a runbook reaches only in name: a failover that takes it over is a runbook of its own, and only those ask for
 * operation tokens whose own file speaks of them.
 */
function notItsOwn(name: string, { syntax }: SourceFile): ReadonlySet<string> {
  return new Set([
    ...(name === 'drFailover' ? [] : ['failOver']),
    ...(/\b(tokens|ceremonyFor)\b/.test(syntax.getText()) ? [] : ['OperationTokens', 'ceremonyFor']),
  ]);
}

/** Runbooks by name, with the text of everything that they reach in the workflows. */
export function runbookTexts(): ReadonlyMap<string, string> {
  const sources = readSources('workflows');
  return new Map(
    RUNBOOK_NAMES.map((name) => {
      const [source, node] =
        [...sources.values()].flatMap((each) => {
          const found = each.declarations.get(name);
          return found ? [[each, found] as const] : [];
        })[0] ?? [];
      if (!source || !node) return [name, ''] as const;
      const reached = reach(sources, source.path, node, notItsOwn(name, source));
      return [name, reached.map((each) => textOfKind(each, source)).join('\n')] as const;
    }),
  );
}

/** What a runbook of one kind of replication reaches: not what stands there for the other kind. */
function textOfKind(node: ts.Node, { syntax }: SourceFile): string {
  const kinds = ['dr', 'performance'].filter((kind) => syntax.getText().includes(`kind: '${kind}'`));
  let text = textOf(node);
  const visit = (each: ts.Node): void => {
    if (kinds.length === 1 && ts.isConditionalExpression(each) && /\bkind === 'dr'$/.test(each.condition.getText()))
      text = text.replace(textOf(kinds[0] === 'dr' ? each.whenFalse : each.whenTrue), '');
    ts.forEachChild(each, visit);
  };
  visit(node);
  return text;
}

/** Whether a text calls a method of the client. */
export function callsMethod(text: string, method: string): boolean {
  const cut = method.lastIndexOf('.');
  const part = method.slice(0, cut);
  // The same alias may hold another part of the client, such as sys.generateRoot.
  const alias = text.includes(part) ? ALIASES[part] : undefined;
  return (
    text.includes(`client.${method}(`) ||
    text.includes(`client${method.replace(/^(dr|performance)\./, '[kind].')}(`) ||
    (alias !== undefined && new RegExp(`\\b${alias}${method.slice(cut).replace('.', '\\.')}\\(`).test(text))
  );
}

/**
 * Whether a runbook's text calls an activity; where a method is given, so that this may call it: an activity that is told
 * one kind of replication changes nothing of the other.
 */
export function callsActivity(text: string, activity: string, method = ''): boolean {
  const [, kind] = /^(dr|performance)\.(?!status$)/.exec(method) ?? [];
  return [...text.matchAll(new RegExp(`\\.${activity}\\(|\\b${activity}\\(\\{`, 'g'))].some(({ index }) => {
    const [, told] = /\bkind: '(\w+)'/.exec(argumentsAt(text, text.indexOf('(', index))) ?? [];
    return kind === undefined || told === undefined || told === kind;
  });
}

/** From a parenthesis to the one that closes it. */
function argumentsAt(text: string, from: number): string {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1;
    if (text[at] === ')') depth -= 1;
    if (depth === 0) return text.slice(from, at);
  }
  return '';
}

/** docs/endpoints.md as it must be. */
export function endpointPage(): string {
  const activities = activityTexts();
  const runbooks = runbookTexts();
  const lines = ENDPOINTS.map(({ endpoint, method }) => {
    const callers = [...activities]
      .filter(([, text]) => callsMethod(text, method))
      .map(([name]) => name)
      .sort();
    const users = [...runbooks]
      .filter(([, text]) => callers.some((activity) => callsActivity(text, activity, method)))
      .map(([name]) => name);
    const list = (names: readonly string[]) =>
      names.length === 0 ? 'not yet' : names.map((each) => `\`${each}\``).join(', ');
    return `| \`${endpoint}\` | \`${method}\` | ${list(callers)} | ${list(users)} |`;
  });
  return [
    '# Endpoints',
    '',
    'The 34 endpoints of the replication administration interface, in its order: the method of the client that calls each,',
    'the activities that use it, and the runbooks that use these.',
    '',
    'A test derives this table from the sources and keeps it true: `UPDATE_DOCS=1 npx jest test/layout.test.ts` regenerates it.',
    '',
    '| endpoint | client method | activities | runbooks |',
    '|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}
