// A process with a worker of BullMQ, for bullmq.js: it squares numbers, or hangs.

import { Worker } from 'bullmq';
import { host, port } from './common.js';

const [queue, options] = process.argv.slice(2);
const { hangs, ...settings } = JSON.parse(options);

async function square(job) {
  if (hangs) await new Promise(() => {});
  await job.log(`squares ${job.data.number}`);
  await job.updateProgress(100);
  return { square: job.data.number ** 2, pid: process.pid };
}

const worker = new Worker(queue, square, { connection: { host, port }, ...settings });
worker.on('error', (error) => console.error(error));
process.on('SIGTERM', async () => {
  await worker.close();
  process.exit(0);
});
await worker.waitUntilReady();
process.send('ready');
