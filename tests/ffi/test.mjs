// Node through koffi against the golden vectors, and what goes wrong: node test.mjs MODULE GOLDEN_FILE... Prints "N passed, N failed".
// MODULE is examples/node/sab.mjs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const [module, ...files] = process.argv.slice(2);
const { Handle, SabError, batches, check, lib, options } = await import(pathToFileURL(module));
const koffi = createRequire(pathToFileURL(module))('koffi');

let passed = 0;
let failed = 0;
function test(name, run) {
  try {
    run();
    ++passed;
  } catch (error) {
    ++failed;
    console.error(`FAILED ${name}: ${error.message}`);
  }
}

const WORDS = {
  cost: { padded: lib.SAB_COST_PADDED, quadratic: lib.SAB_COST_QUADRATIC },
  tail: { keep: lib.SAB_TAIL_KEEP, merge: lib.SAB_TAIL_MERGE, drop: lib.SAB_TAIL_DROP, wrap: lib.SAB_TAIL_WRAP },
  oversize: { skip: lib.SAB_OVERSIZE_SKIP, single: lib.SAB_OVERSIZE_SINGLE },
  last_step: { split: lib.SAB_LAST_STEP_SPLIT, drop: lib.SAB_LAST_STEP_DROP, wrap: lib.SAB_LAST_STEP_WRAP },
  method: { best_fit: lib.SAB_PACK_BEST_FIT, histogram: lib.SAB_PACK_HISTOGRAM, first_fit: lib.SAB_PACK_FIRST_FIT },
};

// An options struct by the lines of a case.
function by(kind, lines) {
  const made = options(kind);
  for (const [key, value, more] of lines) {
    const numbers = lines.find((words) => words[0] === key).slice(1);
    if (WORDS[key]) made[key] = WORDS[key][value];
    else if (key === 'batch_size') Object.assign(made, { batch_sizes: BigUint64Array.from(numbers, BigInt), batch_size_count: numbers.length });
    else if (key === 'boundaries')
      Object.assign(made, { buckets: lib.SAB_BUCKETS_BOUNDARIES, boundaries: Float64Array.from(numbers, Number), boundary_count: numbers.length });
    else if (key === 'buckets' && value === 'optimal') Object.assign(made, { buckets: lib.SAB_BUCKETS_OPTIMAL, bucket_count: Number(more) });
    else if (key === 'buckets' && value === 'rank') Object.assign(made, { buckets: lib.SAB_BUCKETS_RANK, bucket_batches: Number(more) });
    else if (key === 'buckets') assert.equal(value, 'auto');
    else {
      assert(key in made, key);
      made[key] = Number.isSafeInteger(Number(value)) || value.includes('.') ? Number(value) : BigInt(value);
    }
  }
  return made;
}

function samplerOf(its) {
  const sizes = new Handle('sab_sizes', 'sab_sizes_new', its.sizes, its.sizes.length, lib.SAB_UINT32, options('sab_sizes_options', { copy: 1 }));
  const plan = () => new Handle('sab_plan', 'sab_plan_new', sizes, by('sab_plan_options', its.plan));
  const make = (maker, ...values) => new Handle('sab_sampler', maker, ...values);
  const [kind, most] = its.sampler;
  if (kind === 'torch') return make('sab_torch_sampler_new', plan(), by('sab_torch_sampler_options', its.option));
  const walk = by('sab_sampler_options', its.option);
  if (kind === 'bucket') return make('sab_bucket_sampler_new', plan(), walk);
  if (kind === 'sequential') return make('sab_sequential_sampler_new', plan(), walk);
  if (kind === 'size_aware') return make('sab_size_aware_sampler_new', null, its.sizes.length, sizes, Number(most), walk);
  assert.equal(kind, 'packed');
  return make('sab_packed_sampler_new', sizes, by('sab_pack_options', its.pack), walk);
}

function digestOf(epoch) {
  const words = [];
  let steps = 0;
  for (const { count, indices } of epoch) {
    ++steps;
    words.push(BigInt(count), ...indices);
  }
  let digest = 14695981039346656037n;
  for (const byte of new Uint8Array(BigUint64Array.from(words).buffer)) digest = BigInt.asUintN(64, (digest ^ BigInt(byte)) * 1099511628211n);
  return `${steps} ${digest.toString(16).padStart(16, '0')}`;
}

function checkCase(its) {
  const sampler = samplerOf(its);
  let epoch = [][Symbol.iterator]();
  let batch;
  let isOpen = false;
  const expectEnd = () => assert(!isOpen || epoch.next().done, 'more batches than recorded');
  for (const [key, ...words] of its.lines) {
    if (key === 'epoch') {
      expectEnd();
      check(lib.sab_sampler_set_epoch(sampler, BigInt(words[0])));
      epoch = batches(sampler);
      isOpen = false;
    } else if (key === 'batch') {
      batch = epoch.next().value;
      assert(batch, 'too few batches');
      assert.equal(batch.indices.join(' '), words.join(' '));
      isOpen = true;
    } else if (key === 'cu_seqlens') {
      assert.equal(batch.cu_seqlens.join(' '), words.join(' '));
    } else if (key === 'starts') {
      assert.equal(batch.starts.join(' '), words.join(' '));
    } else {
      assert.equal(key, 'digest');
      assert.equal(digestOf(epoch), words.join(' '));
    }
  }
  expectEnd();
  sampler.free();
}

function sizesByRule(count, modulus) {
  let x = 1n;
  return Uint32Array.from({ length: count }, () => {
    x = BigInt.asUintN(64, x * 6364136223846793005n + 1442695040888963407n);
    return Number(1n + ((x >> 33n) % modulus));
  });
}

for (const file of files) {
  let its;
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [key, ...words] = line.split(' ');
    if (line === '' || key.startsWith('#')) continue;
    if (key === 'case') its = { name: words[0], plan: [], pack: [], option: [], lines: [] };
    else if (key === 'sizes') its.sizes = Uint32Array.from(words, Number);
    else if (key === 'sizes_rule') its.sizes = sizesByRule(Number(words[0]), BigInt(words[1]));
    else if (key === 'sampler') its.sampler = words;
    else if (key === 'end') test(its.name, () => checkCase(its));
    else if (key in its) its[key].push(words);
    else its.lines.push([key, ...words]);
  }
}

const lengths = Int32Array.of(3, 1, 4, 1);
const someSizes = () => new Handle('sab_sizes', 'sab_sizes_new', lengths, 4, lib.SAB_INT32, options('sab_sizes_options', { copy: 1 }));

test("a failure is an exception with the library's message", () => {
  const make = (budget) => new Handle('sab_plan', 'sab_plan_new', someSizes(), options('sab_plan_options', { budget }));
  assert.throws(() => make(-2), (error) => error instanceof SabError && error.status === 'SAB_E_ARGUMENT' && error.message.includes('budget = -2'));
  assert.throws(() => new Handle('sab_plan', 'sab_plan_new', null, options('sab_plan_options', { budget: 2 })), /sizes/);
});

test('a vector that is wrong is noticed', () => {
  const its = { sizes: Uint32Array.of(3, 1), plan: [['batch_size', '2']], option: [], sampler: ['sequential'] };
  checkCase({ ...its, lines: [['epoch', '0'], ['batch', '1', '0']] });
  assert.throws(() => checkCase({ ...its, lines: [['epoch', '0'], ['batch', '0', '1']] }), /1 0/);
});

test("a callback's code comes back", () => {
  const make = (size) => new Handle('sab_sizes', 'sab_sizes_callback_new', 3, size, null, null, null);
  assert.throws(() => make((_, index) => (index === 1 ? 77 : 0)), (error) => error.status === 'SAB_E_CALLBACK');
  assert.equal(lib.sab_last_callback_code(), 77);
  const fill = (_, index, size) => (koffi.encode(size, 'double', Number(index) + 1), 0);
  assert.equal(lib.sab_sizes_count(make(fill)), 3);
});

test('numbers beyond what a Number holds come back exactly', () => {
  const plan = new Handle('sab_plan', 'sab_plan_new', someSizes(), options('sab_plan_options', { budget: 8 }));
  const sampler = new Handle('sab_sampler', 'sab_bucket_sampler_new', plan, options('sab_sampler_options', { epoch: 2n ** 64n - 2n }));
  const [epoch, step] = [[0], [0]];
  check(lib.sab_sampler_tell(sampler, epoch, step));
  assert.deepEqual([epoch[0], step[0]], [2n ** 64n - 2n, 0]);
});

test('arrays that a handle borrows live as long', () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  const borrowed = Array.from({ length: 20 }, () => new Handle('sab_sizes', 'sab_sizes_new', new Int32Array(200_000).fill(7), 200_000, lib.SAB_INT32, null));
  const others = [];
  for (let i = 0; i < 20; ++i) gc(), others.push(new Int32Array(200_000).fill(9));
  for (const sizes of borrowed) {
    const size = [0];
    check(lib.sab_sizes_get(sizes, 100_000, size));
    assert.equal(size[0], 7);
  }
});

test('what is no handle of that kind, or no whole number, is refused', () => {
  const sizes = someSizes();
  const plan = new Handle('sab_plan', 'sab_plan_new', sizes, options('sab_plan_options', { budget: 8 }));
  const sampler = new Handle('sab_sampler', 'sab_bucket_sampler_new', plan, null);
  assert.throws(() => lib.sab_next_batch(plan, {}), /sampler: must be a sab_sampler, not a sab_plan/);
  assert.throws(() => lib.sab_sizes_count(lengths), /sizes: must be a Handle of a sab_sizes, not object/);
  assert.throws(() => options('sab_torch_sampler_options', { sizes: plan }), /sizes: must be a sab_sizes, not a sab_plan/);
  assert.equal(options('sab_torch_sampler_options', { sizes }).sizes, sizes.pointer);
  assert.throws(() => lib.sab_sampler_seek(sampler, -1), /position = -1: must be a whole number from 0 to 18446744073709551615/);
  assert.throws(() => lib.sab_sampler_seek(sampler, 0.5), RangeError);
  assert.throws(() => lib.sab_sampler_seek(sampler, 2n ** 64n), RangeError);
  assert.throws(() => options('sab_sampler_options', { rank: -1 }), /rank = -1/);
  assert.throws(() => new Handle('sab_sizes', 'sab_sizes_new', lengths, 4, 2 ** 40, null), /dtype = 1099511627776: must be a whole number from -2147483648 to/);
  sampler.free();
  assert.throws(() => lib.sab_next_batch(sampler, {}), /this sab_sampler is freed/);
});

test('handles are freed once, in any order', () => {
  const sizes = someSizes();
  const plan = new Handle('sab_plan', 'sab_plan_new', sizes, options('sab_plan_options', { budget: 8 }));
  sizes.free();
  sizes.free();
  assert.equal(sizes.pointer, null);
  const sampler = new Handle('sab_sampler', 'sab_bucket_sampler_new', plan, null);
  plan.free();
  let samples = 0;
  for (const { indices } of batches(sampler)) samples += indices.length;
  assert.equal(samples, 4);
  sampler.free();
});

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
