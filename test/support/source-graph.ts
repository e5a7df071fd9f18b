import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';
import { ROOT } from './documents';

/** One import of a source file. `target` is a path from the root for a file of the project, otherwise a package name. */
interface SourceImport {
  readonly target: string;
  readonly typeOnly: boolean;
  readonly names: readonly string[];
}

/** Files by their paths, each with its imports, those of types included. */
type SourceGraph = ReadonlyMap<string, Pick<SourceFile, 'imports'>>;

/** The syntax of one source file; types are not resolved. */
interface SourceFile {
  /** Path from the root, with forward slashes. */
  readonly path: string;
  readonly imports: readonly SourceImport[];
  readonly syntax: ts.SourceFile;
}

/** All TypeScript files below some folders. */
export function readSources(...folders: readonly string[]): ReadonlyMap<string, SourceFile> {
  const files = folders.flatMap((folder) => filesBelow(join(ROOT, folder)));
  return new Map(files.map((file) => readSource(file)).map((source) => [source.path, source]));
}

/** The paths of a graph that a file imports. */
function importedBy(graph: SourceGraph, path: string): string[] {
  return (graph.get(path)?.imports ?? []).flatMap(({ target }) => (target !== path && graph.has(target) ? target : []));
}

/** Chains of files that import each other, each from a file back to itself; one for each import that closes a circle. */
export function importCircles(graph: SourceGraph): string[][] {
  const circles: string[][] = [];
  const done = new Set<string>();
  const visit = (path: string, above: readonly string[]): void => {
    if (above.includes(path)) circles.push([...above.slice(above.indexOf(path)), path]);
    else if (!done.has(path)) {
      for (const target of importedBy(graph, path)) visit(target, [...above, path]);
      done.add(path);
    }
  };
  for (const path of graph.keys()) visit(path, []);
  return circles;
}

/**
 * Folders of one parent that import each other, each pair with an import of either direction. Folders at the top are no
 * siblings: `src` holds both what activities use and the programs that start them.
 */
export function mutualFolders(graph: SourceGraph): string[][] {
  const found = new Map<string, string>();
  for (const path of graph.keys())
    for (const target of importedBy(graph, path)) {
      const [from, to] = siblingsOf(path, target);
      if (from !== undefined && to !== undefined) found.set(`${from} ${to}`, `${path} -> ${target}`);
    }
  return [...found].flatMap(([pair, edge]) => {
    const [from = '', to = ''] = pair.split(' ');
    const back = found.get(`${to} ${from}`);
    return back !== undefined && from < to ? [[edge, back]] : [];
  });
}

/** The folders with one parent in which two files are; none if one file stands beside or above the folder of the other. */
function siblingsOf(one: string, other: string): string[] {
  const [ones, others] = [one, other].map((path) => path.split('/').slice(0, -1));
  const depth = ones?.findIndex((part, index) => part !== others?.[index]) ?? -1;
  if (depth < 1 || others?.[depth] === undefined) return [];
  return [ones, others].map((parts) => (parts ?? []).slice(0, depth + 1).join('/'));
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesBelow(path);
    return entry.name.endsWith('.ts') ? [path] : [];
  });
}

function readSource(file: string): SourceFile {
  const syntax = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2022, true);
  const imports = syntax.statements.flatMap((statement) =>
    ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement) ? importOf(file, statement) : [],
  );
  return { path: pathOf(file), imports, syntax };
}

function importOf(file: string, statement: ts.ImportDeclaration | ts.ExportDeclaration): readonly SourceImport[] {
  const { moduleSpecifier } = statement;
  if (!moduleSpecifier || !ts.isStringLiteral(moduleSpecifier)) return [];
  const [bindings, typeOnly] = ts.isImportDeclaration(statement)
    ? [statement.importClause?.namedBindings, statement.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword]
    : [statement.exportClause, statement.isTypeOnly];
  const named = bindings && (ts.isNamedImports(bindings) || ts.isNamedExports(bindings)) ? [...bindings.elements] : [];
  return [{ target: resolve(file, moduleSpecifier.text), typeOnly, names: named.map(({ name }) => name.text) }];
}

function resolve(file: string, specifier: string): string {
  if (!specifier.startsWith('.')) return specifier;
  const base = join(dirname(file), specifier);
  const candidates = [`${base}.ts`, join(base, 'index.ts'), base];
  return pathOf(candidates.find((each) => statSync(each, { throwIfNoEntry: false })?.isFile()) ?? base);
}

function pathOf(file: string): string {
  return relative(ROOT, file).replaceAll('\\', '/');
}
