// Batches of at most 64 padded tokens. Run: npm ci && node first.mjs, in this folder.
import { Handle, batches, lib, options } from './sab.mjs';

const tokens = Int32Array.of(12, 7, 30, 8, 9, 31, 7, 12, 29, 8);
const sizes = new Handle('sab_sizes', 'sab_sizes_new', tokens, tokens.length, lib.SAB_INT32, options('sab_sizes_options', { copy: 1 }));
const plan = new Handle('sab_plan', 'sab_plan_new', sizes, options('sab_plan_options', { budgets: [64] }));
const sampler = new Handle('sab_sampler', 'sab_bucket_sampler_new', plan, null);

for (const batch of batches(sampler)) {
  console.log(`padded to ${String(batch.padded_length).padStart(2)}: ${batch.indices.join(' ')}`);
}
