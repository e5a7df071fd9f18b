import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** The project's root folder. */
export const ROOT = join(__dirname, '..', '..');

/** One import of a source file. `target` is a path from the root for files of the project, else the package's name. */
export interface SourceImport {
  readonly target: string;
  readonly typeOnly: boolean;
  readonly names: ReadonlyMap<string, string>;
}

/** One source file as far as its shape goes: nothing is resolved by types. */
export interface SourceFile {
  /** From the root, with forward slashes. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly SourceImport[];
  /** Functions, classes and constants of the file by name. */
  readonly declarations: ReadonlyMap<string, ts.Node>;
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
  const text = readFileSync(file, 'utf8');
  const syntax = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  const declarations = new Map<string, ts.Node>();
  const imports: SourceImport[] = [];
  for (const statement of syntax.statements) {
    if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)) {
      if (statement.name) declarations.set(statement.name.text, statement);
    } else if (ts.isVariableStatement(statement)) {
      for (const declaration of statement.declarationList.declarations)
        if (ts.isIdentifier(declaration.name)) declarations.set(declaration.name.text, declaration);
    } else if (ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement)) {
      const found = importOf(file, statement);
      if (found) imports.push(found);
    }
  }
  return { path: pathOf(file), lines: text.split('\n').length - 1, imports, declarations, syntax };
}

function importOf(file: string, statement: ts.ImportDeclaration | ts.ExportDeclaration): SourceImport | undefined {
  const { moduleSpecifier } = statement;
  if (!moduleSpecifier || !ts.isStringLiteral(moduleSpecifier)) return undefined;
  const names = new Map<string, string>();
  const add = (element: ts.ImportSpecifier | ts.ExportSpecifier): void =>
    void names.set(element.name.text, (element.propertyName ?? element.name).text);
  let typeOnly: boolean;
  if (ts.isImportDeclaration(statement)) {
    const bindings = statement.importClause?.namedBindings;
    if (bindings && ts.isNamedImports(bindings)) bindings.elements.forEach(add);
    typeOnly = statement.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword;
  } else {
    if (statement.exportClause && ts.isNamedExports(statement.exportClause))
      statement.exportClause.elements.forEach(add);
    typeOnly = statement.isTypeOnly;
  }
  return { target: resolve(file, moduleSpecifier.text), typeOnly, names };
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
