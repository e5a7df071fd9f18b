/** Why something was not read, as text that may be shown. */
export class NotRead extends Error {}

/** @throws {NotRead} if `read` takes too long, even if it ignores its signal; what `read` throws; the reason of the caller's signal */
export async function within<T>(
  signal: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
  limitMs: number,
): Promise<T> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  const tooSlow = new NotRead(`no answer within ${limitMs / 1_000} s`);
  const ended = new Promise<never>((_, reject) => {
    limited.addEventListener('abort', () => reject(tooSlow), { once: true });
  });
  try {
    return await Promise.race([read(limited), ended]);
  } catch (error) {
    signal.throwIfAborted();
    throw limited.aborted ? tooSlow : error;
  }
}
