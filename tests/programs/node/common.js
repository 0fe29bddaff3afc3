// Shared by the jobs: the server's address, and waiting for a condition.

export const host = process.env.NAGI_HOST;
export const port = Number(process.env.NAGI_PORT);

const PATIENCE_MS = 120_000;

/** Looks until `condition` gives something true, and returns that. */
export async function until(what, condition) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The numbers from 0 to `count - 1`. */
export const range = (count) => [...Array(count).keys()];

/** Runs a job: its last line is what it did, and any error ends it. */
export async function run(job) {
  process.on('unhandledRejection', (error) => {
    console.error(error);
    process.exit(1);
  });
  try {
    console.log(await job());
    process.exit(0);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}
