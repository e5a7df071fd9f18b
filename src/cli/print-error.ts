import { CommanderError } from 'commander';
import type { ApplicationFailure } from '@temporalio/common';
import { RunbookError } from '../errors';
import { redact } from '../keys/redaction';
import type { CliContext } from './context';
import { jsonText, terminalText } from './text';

/** What people and programs are told of an error. */
export interface ErrorReport {
  readonly code: string;
  readonly message: string;
  readonly observed?: string;
  readonly needed?: string;
  readonly next?: string;
}

/** Any error in our words: code, message, observed, needed, next. Texts of others are redacted. */
export function reportOfError(error: unknown): ErrorReport {
  if (error instanceof RunbookError) {
    const { code, message, observed, needed, next } = error;
    return {
      code,
      message,
      ...(observed === undefined ? {} : { observed }),
      ...(needed === undefined ? {} : { needed }),
      ...(next === undefined ? {} : { next }),
    };
  }
  const failure = applicationFailure(error);
  if (failure !== undefined) return reportOfFailure(failure);
  return { code: 'INTERNAL', message: redact(error instanceof Error ? error.message : String(error)) };
}

/** The failure that a run or an activity ended with, at the bottom of the chain of causes. */
function applicationFailure(error: unknown): ApplicationFailure | undefined {
  if (!(error instanceof Error)) return undefined;
  // By its name: its class would load the packages of Temporal for every error.
  if (error.name === 'ApplicationFailure') return error as ApplicationFailure;
  return error.cause === undefined ? undefined : applicationFailure(error.cause);
}

function reportOfFailure(failure: ApplicationFailure): ErrorReport {
  const [details] = failure.details ?? [];
  const member = (name: string): Record<string, string> => {
    if (typeof details !== 'object' || details === null || !(name in details)) return {};
    const value: unknown = Reflect.get(details, name);
    return typeof value === 'string' ? { [name]: redact(value) } : {};
  };
  return {
    code: failure.type ?? 'INTERNAL',
    message: redact(failure.message),
    ...member('observed'),
    ...member('needed'),
    ...member('next'),
  };
}

/** Writes an error to standard error: as lines for people, or as one JSON object. A stack only with `--debug`. */
export function printError(context: CliContext, error: unknown, options: { json: boolean; debug: boolean }): void {
  if (error instanceof CommanderError) return;
  const report = reportOfError(error);
  if (options.json) {
    context.err(jsonText({ error: report }));
  } else {
    for (const line of errorLines(report)) context.err(line);
  }
  if (!options.debug || !(error instanceof Error)) return;
  // Further in than anything that we say: what an error quotes is no line of ours.
  for (const line of redact(error.stack ?? 'no stack').split('\n')) context.err(`        ${line}`);
}

/** An error as people read it. */
export function errorLines(report: ErrorReport): string[] {
  return [
    ...terminalText(`Error ${report.code}: ${report.message}`),
    ...(['observed', 'needed', 'next'] as const).flatMap((name) =>
      report[name] === undefined ? [] : terminalText(`${name}: ${report[name]}`, '  '),
    ),
  ];
}
