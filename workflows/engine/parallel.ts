/** Runs branches side by side and waits for every one, also where one fails: none is left running unseen. */
export async function inParallel<T>(branches: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(branches);
  return settled.map((branch) => {
    if (branch.status === 'rejected') throw branch.reason;
    return branch.value;
  });
}
