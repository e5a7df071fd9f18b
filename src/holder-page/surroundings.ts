import { parseFingerprint, parsePublicKey } from '../documents';
import type { PublicKeyEntry } from '../documents';
import { box } from './dom';

/** What was written into this copy of the page when it was made; all of it public. */
export interface MadeFor {
  /** Thumbprints of the workers' keys that count. */
  readonly trusted: readonly string[];
  /** Those of them that are here whole. */
  readonly keys: readonly PublicKeyEntry[];
  readonly environment: string;
  readonly holder: string;
}

function metaContent(name: string): string {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute('content') ?? '';
}

/** Reads what this copy was made for. Nothing of the address of the page counts. */
export function readMadeFor(): MadeFor {
  const words = metaContent('workers-keys').split(/\s+/).filter(Boolean);
  return {
    trusted: words.flatMap((word) => parseFingerprint(word) ?? []),
    keys: words.flatMap((word) => parsePublicKey(word) ?? []),
    environment: metaContent('environment'),
    holder: metaContent('holder'),
  };
}

/** Whether the page came from a web server, who could change it at any time, instead of from a file. */
export function isServed(): boolean {
  return location.protocol === 'http:' || location.protocol === 'https:';
}

async function canVerify(): Promise<boolean> {
  try {
    const pair = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
    return 'privateKey' in pair;
  } catch {
    return false;
  }
}

/** Boxes about where the page is; whether it can be used at all. */
export async function lookAround(): Promise<{ readonly usable: boolean; readonly warnings: readonly HTMLElement[] }> {
  if (window.top !== window) {
    return {
      usable: false,
      warnings: [
        box('bad', ['This page is shown inside of another page. Do not use it here.', 'Open the saved file.']),
      ],
    };
  }
  if (!(await canVerify())) {
    return {
      usable: false,
      warnings: [
        box('bad', [
          'This browser is too old: it cannot verify signatures (Ed25519).',
          'Needed: Chrome or Edge 137, Firefox 130, Safari 17, or newer. Or use the terminal: runbook share.',
        ]),
      ],
    };
  }
  const warnings = isServed()
    ? [
        box('bad', [
          `This page came from a server: ${location.host}.`,
          'Whoever runs that server, or stands between, could change the page and read your share. Use the file that you saved beforehand, whose SHA-256 you compared.',
        ]),
      ]
    : [];
  return { usable: true, warnings };
}
