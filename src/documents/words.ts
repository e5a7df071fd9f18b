/** A duration for people: `850 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`. */
export function inWords(milliseconds: number): string {
  const ms = Math.max(0, Math.round(milliseconds));
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}

/** A time of day in UTC with seconds, and the date where it is another day. */
export function clock(epochMs: number, now = Date.now()): string {
  const iso = new Date(epochMs).toISOString();
  const time = `${iso.slice(11, 19)}Z`;
  return iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? time : `${iso.slice(0, 10)} ${time}`;
}
