import { isIP } from 'node:net';
import { RunbookError } from '../errors';

/** By the number, because a name can mean another address tomorrow. */
export function isLoopback(address: string): boolean {
  const { host } = hostAndPort(address);
  return host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** The two parts of `host:port`; an IPv6 address is in brackets. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const [, port = ''] = /:(\d{1,5})$/.exec(address) ?? [];
  return { host: address.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}

/** The error of a door that cannot listen. */
export function cannotListen(address: string, observed: string): RunbookError {
  return new RunbookError('INVALID_INPUT', `The gateway cannot listen on ${address}.`, {
    observed,
    next: 'Check that the address belongs to this host and that no other program uses it.',
  });
}
