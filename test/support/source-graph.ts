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
