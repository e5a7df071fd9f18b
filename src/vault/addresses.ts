import { RunbookError } from '../errors';
import type { ClusterTarget } from './types';

/** One node of the target. `origin` is the normal form of `address`, which is what the inventory wrote. */
export interface NodeAddress {
  readonly address: string;
  readonly origin: string;
}

const LOOPBACK_NAMES = new Set(['localhost', '[::1]']);

/**
 * The addresses of a target in normal form.
 *
 * @throws RunbookError INVALID_INPUT (no address, not a bare http(s) origin), INSECURE_ADDRESS (plain HTTP elsewhere than
 *   on loopback).
 */
export function readAddresses(target: ClusterTarget): readonly NodeAddress[] {
  if (target.addresses.length === 0) {
    throw new RunbookError('INVALID_INPUT', `cluster ${target.name} has no API address`, { cluster: target.name });
  }
  const nodes = target.addresses.map((address) => readAddress(target.name, address));
  return nodes.filter((node, position) => nodes.findIndex((other) => other.origin === node.origin) === position);
}

/** The origin of an address that the service named; `undefined` where it is none. */
export function originOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).origin : undefined;
}

function readAddress(cluster: string, address: string): NodeAddress {
  const refuse = (reason: string): never => {
    throw new RunbookError('INVALID_INPUT', `an API address of cluster ${cluster} ${reason}`, { cluster });
  };
  if (!URL.canParse(address)) return refuse('is not an URL');
  const url = new URL(address);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return refuse('is neither https nor http');
  if (url.username !== '' || url.password !== '') return refuse('holds a credential');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') return refuse('has more than a host and a port');
  const loopback = LOOPBACK_NAMES.has(url.hostname) || /^127\.\d+\.\d+\.\d+$/.test(url.hostname);
  if (url.protocol === 'http:' && !loopback) {
    throw new RunbookError('INSECURE_ADDRESS', `cluster ${cluster}: ${url.origin} is plain HTTP and not on loopback`, {
      cluster,
      observed: url.origin,
      needed: 'an https address',
    });
  }
  return { address, origin: url.origin };
}
