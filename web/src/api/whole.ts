const PAGE = 1000;

/** Reads all pages of a list. A page can be short without being the last one. */
export async function whole<T>(
  page: (query: { limit: number; offset: number }) => Promise<[T[], number]>,
): Promise<T[]> {
  const all: T[] = [];
  for (;;) {
    const [some, total] = await page({ limit: PAGE, offset: all.length });
    all.push(...some);
    if (some.length === 0 || all.length >= total) return all;
  }
}
