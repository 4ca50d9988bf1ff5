// call.c from Node: the raw call (`node`), and batches() of examples/node (`node-batches`): node call.mjs MODULE.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const module = pathToFileURL(process.argv[2]);
const { Handle, batches, check, lib, options } = await import(module);
const koffi = createRequire(module)('koffi');

const CALLS = 2000;
const PASSES = 500;
const ones = new Uint8Array(CALLS).fill(1);
const sizes = new Handle('sab_sizes', 'sab_sizes_new', ones, CALLS, lib.SAB_UINT8, options('sab_sizes_options', { copy: 1 }));
const plan = new Handle('sab_plan', 'sab_plan_new', sizes, options('sab_plan_options', { budgets: [1] }));
const sampler = new Handle('sab_sampler', 'sab_sequential_sampler_new', plan, null);

function raw() {
  const batch = new Uint8Array(koffi.sizeof('sab_batch'));
  const fields = new DataView(batch.buffer);
  const at = koffi.offsetof('sab_batch', 'indices');
  fields.setBigUint64(0, BigInt(koffi.sizeof('sab_batch')), true);
  let sum = 0;
  while (lib.sab_next_batch(sampler, batch) === 0) sum += koffi.decode.int64(fields.getBigUint64(at, true));
  return sum;
}

function iterating() {
  let sum = 0;
  for (const { indices } of batches(sampler)) sum += Number(indices[0]);
  return sum;
}

for (const [name, run] of [['node', raw], ['node-batches', iterating]]) {
  let best = Infinity;
  for (let pass = 0; pass < PASSES; ++pass) {
    check(lib.sab_sampler_set_epoch(sampler, 0));
    const began = process.hrtime.bigint();
    const sum = run();
    best = Math.min(best, Number(process.hrtime.bigint() - began));
    if (sum !== (CALLS * (CALLS - 1)) / 2) throw new Error(`${sum}: not every sample once`);
  }
  console.log(`${name} ${(best / CALLS).toFixed(1)}`);
}
