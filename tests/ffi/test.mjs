// Tests of the Node module: the golden vectors, and failures. node test.mjs MODULE GOLDEN_FILE...
// MODULE is examples/node/sab.mjs. Prints "N passed, N failed".
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [module, ...files] = process.argv.slice(2);
const { Handle, SabError, batches, check, lib, options, step } = await import(pathToFileURL(module));
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
  tail: { keep: lib.SAB_TAIL_KEEP, drop: lib.SAB_TAIL_DROP, wrap: lib.SAB_TAIL_WRAP },
  shapes: { auto: lib.SAB_SHAPES_AUTO },
  oversize: { skip: lib.SAB_OVERSIZE_SKIP, single: lib.SAB_OVERSIZE_SINGLE },
  last_step: { split: lib.SAB_LAST_STEP_SPLIT, drop: lib.SAB_LAST_STEP_DROP, wrap: lib.SAB_LAST_STEP_WRAP },
  method: { shuffled: lib.SAB_PACK_SHUFFLED, best_fit: lib.SAB_PACK_BEST_FIT, histogram: lib.SAB_PACK_HISTOGRAM, concat: lib.SAB_PACK_CONCAT },
};

const term = (...powers) =>
  new Handle('sab_cost', 'sab_cost_terms_new', [{ coefficient: 1, count_power: 1, column_count: powers.length, length_powers: Uint32Array.from(powers) }], 1);
const COSTS = { padded: () => term(1), quadratic: () => term(2), product: () => term(1, 1) };
const weighted = (weights) => new Handle('sab_cost', 'sab_cost_padded_new', Float64Array.from(weights, Number), weights.length);

// Options that are arrays: the type of the array, and the option of its length.
const ARRAYS = {
  batch_size: [BigUint64Array, BigInt, 'batch_sizes', 'batch_size_count'],
  length_multiple: [Float64Array, Number, 'length_multiples', 'length_multiple_count'],
  length_multiples: [Float64Array, Number, 'length_multiples', 'length_multiple_count'],
  row_multiple: [Float64Array, Number, 'row_multiples', 'row_multiple_count'],
  row_multiples: [Float64Array, Number, 'row_multiples', 'row_multiple_count'],
  separate_by: [BigInt64Array, BigInt, 'separate_by', 'separate_by_count'],
  max_shapes: [BigUint64Array, BigInt, 'max_shapes', 'max_shape_count'],
  id_shapes: [BigUint64Array, BigInt, 'max_shapes', 'max_shape_count'],
  capacity: [BigUint64Array, BigInt, 'capacities', 'capacity_count'],
  capacities: [BigUint64Array, BigInt, 'capacities', 'capacity_count'],
};

// An options struct by the lines of a case.
function by(kind, lines, columns = 1) {
  const made = options(kind);
  const cost = lines.find(([key]) => key === 'cost')?.[1];
  const budgets = lines
    .filter(([key]) => key === 'budget')
    .map(([, limit, ...weights]) => ({ cost: weights.length ? weighted(weights) : cost ? COSTS[cost]() : null, limit: Number(limit) }));
  if (budgets.length) Object.assign(made, { budgets, budget_count: budgets.length });
  for (const [key, value, more] of lines) {
    const numbers = lines.find((words) => words[0] === key).slice(1);
    if (key === 'budget' || key === 'cost') continue;
    if (key === 'balance') Object.assign(made, { balance: [COSTS[value]()], balance_count: 1 });
    else if (WORDS[key]) made[key] = WORDS[key][value];
    else if (ARRAYS[key]) {
      const [type, convert, name, count] = ARRAYS[key];
      made[name] = type.from(numbers, convert);
      made[count] = numbers.length;
    }
    else if (key === 'boundaries')
      Object.assign(made, { bucket_rule: lib.SAB_BUCKETS_BOUNDARIES, boundaries: Float64Array.from(numbers, Number), boundary_count: numbers.length / columns });
    else if (key === 'buckets' && value === 'optimal') Object.assign(made, { bucket_rule: lib.SAB_BUCKETS_OPTIMAL, bucket_count: Number(more) });
    else if (key === 'buckets') assert.equal(value, 'auto');
    else {
      assert(key in made, key);
      made[key] = Number.isSafeInteger(Number(value)) || value.includes('.') ? Number(value) : BigInt(value);
    }
  }
  return made;
}

// Sizes of a mixture: the first samples are those of source 0, and so on.
function mixtureOf(its, sizes) {
  const made = options('sab_mixture_options');
  const ids = [];
  const epochs = [];
  const changes = [];
  for (const [key, ...values] of its.mixture) {
    if (key === 'sources') values.forEach((count, source) => ids.push(...Array(Number(count)).fill(BigInt(source))));
    else if (key === 'repeats') Object.assign(made, { repeats: Float64Array.from(values, Number), repeat_count: values.length });
    else if (key === 'schedule') {
      epochs.push(BigInt(values[0]));
      changes.push(...values.slice(1).map(Number));
    } else {
      assert.equal(key, 'seed');
      made.seed = BigInt(values[0]);
    }
  }
  if (epochs.length) Object.assign(made, { schedule_epochs: BigUint64Array.from(epochs), schedule_repeats: Float64Array.from(changes), schedule_count: epochs.length });
  Object.assign(made, { ids: BigInt64Array.from(ids), id_count: ids.length });
  return new Handle('sab_sizes', 'sab_mixture_new', [sizes.pointer], 1, made);
}

function samplerOf(its) {
  const columns = its.sizes.map((each) => new Handle('sab_sizes', 'sab_sizes_new', each, each.length, lib.SAB_UINT32, options('sab_sizes_options', { copy: 1 })));
  const together = columns.length === 1 ? columns[0] : new Handle('sab_sizes', 'sab_sizes_columns_new', columns.map(({ pointer }) => pointer), null, columns.length);
  const sizes = its.mixture?.length ? mixtureOf(its, together) : together;
  const plan = () => new Handle('sab_plan', 'sab_plan_new', sizes, by('sab_plan_options', its.plan, columns.length));
  const make = (maker, ...values) => new Handle('sab_sampler', maker, ...values);
  const [kind, ...numbers] = its.sampler;
  if (kind === 'bionemo') return make('sab_bionemo_sampler_new', plan(), by('sab_bionemo_options', its.option));
  const walk = by('sab_sampler_options', its.option);
  if (kind === 'ordered') return make('sab_ordered_sampler_new', null, its.sizes[0].length, sizes, Number(numbers[0]), walk);
  if (kind === 'packed') {
    return make('sab_packed_sampler_new', sizes, by('sab_packed_options', its.pack), walk);
  }
  if (kind === 'balanced') return make('sab_balanced_sampler_new', sizes, by('sab_balanced_options', its.balanced), walk);
  if (kind === 'sharded') {
    // Every rank has these sizes.
    const gather = (_, mine, size, all) => {
      const shard = [...koffi.decode(mine, 'uint8_t', size)];
      const shards = Array(walk.world_size).fill(shard).flat();
      koffi.encode(all, koffi.array('uint8_t', shards.length), shards);
      return 0;
    };
    return make('sab_sharded_sampler_new', sizes, by('sab_plan_options', its.plan), walk, gather, null);
  }
  return make(`sab_${kind}_sampler_new`, its.plan.length ? plan() : sizes, ...numbers.map(Number), walk);
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
  let column = 0; // whose cumulative lengths are next
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
      column = 0;
      isOpen = true;
    } else if (key === 'padded_length') {
      assert.equal((its.sizes.length === 1 ? [batch.padded_length] : batch.padded_length).join(' '), words.join(' '));
    } else if (key.startsWith('cu_seqlens')) {
      const ends = its.sizes.length === 1 ? batch[key] : batch[key][column++ % its.sizes.length];
      assert.equal(ends.join(' '), words.join(' '));
    } else if (key === 'starts') {
      assert.equal(batch.starts.join(' '), words.join(' '));
    } else if (key === 'step') {
      const { micro_batches, samples, total } = step(sampler);
      const totals = its.sizes.length === 1 ? [total] : total;
      assert.equal([batch.step, batch.micro_batch, micro_batches, samples, ...totals].join(' '), words.join(' '));
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
    if (key === 'case') its = { name: words[0], sizes: [], mixture: [], plan: [], pack: [], balanced: [], option: [], lines: [] };
    else if (key === 'sizes') its.sizes.push(Uint32Array.from(words, Number));
    else if (key === 'sizes_rule') its.sizes.push(sizesByRule(Number(words[0]), BigInt(words[1])));
    else if (key === 'sampler') its.sampler = words;
    else if (key === 'end') test(its.name, () => checkCase(its));
    else if (key in its) its[key].push(words);
    else its.lines.push([key, ...words]);
  }
}

const lengths = Int32Array.of(3, 1, 4, 1);
const someSizes = () => new Handle('sab_sizes', 'sab_sizes_new', lengths, 4, lib.SAB_INT32, options('sab_sizes_options', { copy: 1 }));
const planOf = (sizes, values = { budgets: [8] }) => new Handle('sab_plan', 'sab_plan_new', sizes, options('sab_plan_options', values));
const samplerOver = (plan, given = null) => new Handle('sab_sampler', 'sab_bucket_sampler_new', plan, given);

test("a failure is an exception with the library's message", () => {
  const make = (limit) => planOf(someSizes(), { budgets: [limit] });
  assert.throws(() => make(-2), (error) => error instanceof SabError && error.status === 'SAB_E_ARGUMENT' && error.message.includes('budgets[0].limit = -2') && error.argument === 'options.budgets[0].limit' && error.value === '-2');
  assert.throws(() => planOf(null, { budgets: [2] }), /sizes/);
});

test('a vector that is wrong is noticed', () => {
  const its = { sizes: [Uint32Array.of(3, 1)], plan: [['batch_size', '2']], option: [], sampler: ['sequential'] };
  checkCase({ ...its, lines: [['epoch', '0'], ['batch', '1', '0']] });
  assert.throws(() => checkCase({ ...its, lines: [['epoch', '0'], ['batch', '0', '1']] }), /1 0/);
});

test("a callback's code comes back", () => {
  const make = (size) => new Handle('sab_sizes', 'sab_sizes_callback_new', 3, size, null, null);
  assert.throws(() => make((_, index, size) => (koffi.encode(size, 'double', 1), index === 1 ? 77 : 0)), (error) => error.status === 'SAB_E_CALLBACK' && error.code === 77);
  const fill = (_, index, size) => (koffi.encode(size, 'double', Number(index) + 1), 0);
  assert.equal(lib.sab_sizes_count(make(fill)), 3);
  assert.throws(() => make(() => 0), (error) => error.status === 'SAB_E_ARGUMENT'); // it sets nothing
});

test('numbers beyond what a Number holds come back exactly', () => {
  const plan = planOf(someSizes());
  const sampler = samplerOver(plan, options('sab_sampler_options', { epoch: 2n ** 64n - 2n }));
  const [epoch, step] = [[0], [0]];
  check(lib.sab_sampler_tell(sampler, epoch, step));
  assert.deepEqual([epoch[0], step[0]], [2n ** 64n - 2n, 0]);
});

const sizeAt = (sizes, index) => {
  const size = [0];
  check(lib.sab_sizes_get(sizes, index, 1, size));
  return size[0];
};

test('sizes do not depend on the typed array that they came from', () => {
  const make = (array, count, how) => new Handle('sab_sizes', 'sab_sizes_new', array, count, lib.SAB_INT32, how);
  for (const how of [null, options('sab_sizes_options'), options('sab_sizes_options', { stride: 8 })]) {
    const array = new Int32Array(200).fill(7);
    const sizes = make(array, 100, how);
    array.fill(9);
    assert.equal(sizeAt(sizes, 99), 7);
  }
  const array = new Int32Array(10).fill(7);
  assert.equal(sizeAt(make(array.subarray(9), 10, options('sab_sizes_options', { stride: -4 })), 9), 7);
  for (const [count, stride] of [[11, 0], [6, 8], [2, -4], [2 ** 52, 0]])
    assert.throws(() => make(array, count, options('sab_sizes_options', { stride })), /count = \d+: data has only 40 bytes/);
  structuredClone(array, { transfer: [array.buffer] });
  assert.throws(() => make(array, 10, null), /data has only 0 bytes/);
});

test('what is no handle of that kind, or no whole number, is refused', () => {
  const sizes = someSizes();
  const plan = planOf(sizes);
  const sampler = samplerOver(plan);
  assert.throws(() => lib.sab_next_batch(plan, {}), /sampler: must be a sab_sampler, not a sab_plan/);
  assert.throws(() => lib.sab_sizes_count(lengths), /sizes: must be a Handle of a sab_sizes, not object/);
  assert.throws(() => options('sab_bionemo_options', { sizes: plan }), /sizes: must be a sab_sizes, not a sab_plan/);
  const given = options('sab_bionemo_options', { sizes, limit: 4 });
  const cut = planOf(sizes, { bucket_rule: lib.SAB_BUCKETS_BOUNDARIES, boundaries: Float64Array.of(1, 9), boundary_count: 2, batch_sizes: BigUint64Array.of(4n), batch_size_count: 1 });
  new Handle('sab_sampler', 'sab_bionemo_sampler_new', cut, given);
  sizes.free();
  assert.throws(() => new Handle('sab_sampler', 'sab_bionemo_sampler_new', cut, given), /sizes: this sab_sizes is freed/);
  assert.throws(() => lib.sab_bucket_sampler_new(plan, { ...options('sab_sampler_options'), seed: -1 }, [null]), /seed = -1/);
  assert.throws(() => lib.sab_bucket_sampler_new(plan, { ...options('sab_sampler_options'), sead: 1 }, [null]), /no field sead/);
  assert.throws(() => new Handle('sab_sizes', 'sab_sizes_file_new', 'a.npy\0b', null), /path = "a.npy\\u0000b": must not contain a NUL/);
  assert.throws(() => lib.sab_sampler_seek(sampler, -1), /position = -1: must be a whole number from 0 to 18446744073709551615/);
  assert.throws(() => lib.sab_sampler_seek(sampler, 0.5), RangeError);
  assert.throws(() => lib.sab_sampler_seek(sampler, 2n ** 64n), RangeError);
  assert.throws(() => options('sab_sampler_options', { rank: -1 }), /rank = -1/);
  assert.throws(() => new Handle('sab_sizes', 'sab_sizes_new', lengths, 4, 2 ** 40, null), /dtype = 1099511627776: must be a whole number from -2147483648 to/);
  sampler.free();
  assert.throws(() => lib.sab_next_batch(sampler, {}), /this sab_sampler is freed, or was taken/);
});

test('what a function throws comes out of the call', () => {
  const mine = new Error('mine');
  const fail = () => {
    throw mine;
  };
  const thrown = (run) => {
    try {
      run();
    } catch (error) {
      return error;
    }
  };
  let calls = 0;
  const sizes = someSizes();
  assert.equal(thrown(() => new Handle('sab_sizes', 'sab_sizes_callback_new', 3, () => (++calls, fail()), null, null)), mine);
  assert.equal(calls, 1); // the call ended there
  assert.equal(thrown(() => planOf(sizes, { budgets: [8], progress: fail })), mine);
  const cost = new Handle('sab_cost', 'sab_cost_callback_new', fail, null, null);
  assert.equal(thrown(() => planOf(sizes, { budgets: [{ cost, limit: 8 }] })), mine);
  assert.match(thrown(() => new Handle('sab_sizes', 'sab_sizes_callback_new', 3, () => 'three', null, null)).message, /a callback must return a whole number or nothing, not String/);
  assert.match(thrown(() => new Handle('sab_sizes', 'sab_sizes_callback_new', 3, async () => 0, null, null)).message, /not Promise/);
  const sampler = new Handle('sab_sampler', 'sab_bionemo_size_aware_stream_sampler_new', (_, epoch, position) => (position === 0n || position === 0 ? lib.SAB_END : 0), null, null, 10);
  assert.equal([...batches(sampler)].length, 0); // the function is kept for the sampler
  const failing = new Handle('sab_sampler', 'sab_bionemo_size_aware_stream_sampler_new', fail, null, null, 10);
  assert.equal(thrown(() => [...batches(failing)]), mine);
  const probe = new Handle('sab_probe', 'sab_probe_callbacks_new', { struct_size: koffi.sizeof('sab_probe_callbacks'), reset: fail, current: () => 0, peak: () => 0 });
  assert.equal(thrown(() => lib.sab_probe_reset(probe)), mine);
  assert.throws(() => lib.sab_log_set_callback(() => 0, null), /threads of the library/);
});

test('a handle that a function frees is freed after the call', () => {
  const sizes = new Handle('sab_sizes', 'sab_sizes_new', new Int32Array(100_000).fill(7), 100_000, lib.SAB_INT32, null);
  let isSeen = false;
  const progress = () => {
    if (sizes.pointer === null) return;
    const { pointer } = sizes;
    sizes.free();
    assert.equal(sizes.pointer, null);
    assert.equal(Number(lib.sab_sizes_count(pointer)), 100_000); // the memory is still there
    isSeen = sizeAt(pointer, 99_999) === 7;
  };
  const plan = planOf(sizes, { budgets: [100], progress });
  assert(isSeen);
  plan.free();
});

const listStream = () => {
  const data = Buffer.from('a');
  return new Handle('sab_stream', 'sab_list_stream_new', [1, 2, 3].map(() => ({ kind: lib.SAB_RECORD_BYTES, size: 1, data, length: 1 })), 3, null);
};
const countOf = (stream) => {
  let count = 0;
  const record = {};
  while (check(lib.sab_stream_next(stream, record)) === lib.SAB_OK) ++count;
  return count;
};

test('a stream that calls functions is refused under a stage with threads', () => {
  const stage = (maker, ...values) => new Handle('sab_stream', maker, ...values);
  const mapped = (source, values) => stage('sab_map_stream_new', source, options('sab_map_stream_options', values));
  const refused = /source: calls functions, which JavaScript cannot run in threads/;
  let calls = 0;
  const map = () => (++calls, 0);
  const raw = koffi.register(map, koffi.type('sab_map_fn'));
  for (const run of [map, raw]) {
    const stream = mapped(listStream(), { map: run });
    const above = stage('sab_batch_stream_new', stream, 2);
    assert.throws(() => stage('sab_prefetch_stream_new', above, 16), refused);
    const out = [null]; // pointers that C gave
    assert.throws(() => lib.sab_prefetch_stream_new(above.pointer, 16, out), refused);
    assert.throws(() => mapped(above, { map: run, threads: 2 }), refused);
    assert.equal(countOf(above), 2); // refused, not taken
    assert.throws(() => stage('sab_prefetch_stream_new', stage('sab_zip_stream_new', [mapped(listStream(), { map: run }), listStream()], 2), 4), refused);
  }
  koffi.unregister(raw);
  const source = listStream();
  const fine = mapped(stage('sab_prefetch_stream_new', source, 16), { map });
  assert.equal(source.pointer, null); // taken
  assert.throws(() => lib.sab_stream_next(source, {}), /sab_stream is freed, or was taken by a stage/);
  source.free();
  calls = 0;
  assert.deepEqual([countOf(fine), calls], [3, 3]);
  const thrower = mapped(listStream(), { map: () => assert.fail('mine') });
  assert.throws(() => lib.sab_stream_next(thrower, {}), /mine/);
  const inTurn = Array.from({ length: 10_000 }, () => mapped(listStream(), { map }).free()); // no more callbacks than koffi has
  assert.equal(inTurn.length, 10_000);
});

test('what a memory guard uses is not freed before it', () => {
  const probe = new Handle('sab_probe', 'sab_probe_new', 'host', null);
  const sampler = samplerOver(planOf(someSizes()));
  const guard = new Handle('sab_memory_guard', 'sab_memory_guard_new', probe, sampler, options('sab_memory_guard_options', { limit: 2 ** 40 }));
  for (const used of [probe, sampler]) assert.throws(() => used.free(), /a sab_memory_guard uses it/);
  guard.free();
  probe.free();
  sampler.free();
});

test('handles are freed once, in any order', () => {
  const twice = someSizes();
  lib.sab_sizes_free(twice);
  assert.throws(() => lib.sab_sizes_count(twice), /this sab_sizes is freed/);
  lib.sab_sizes_free(twice);
  twice.free();
  assert.throws(() => lib.sab_plan_free(someSizes()), /must be a sab_plan, not a sab_sizes/);
  lib.sab_sizes_free(null);
  const sizes = someSizes();
  const plan = planOf(sizes);
  sizes.free();
  sizes.free();
  assert.equal(sizes.pointer, null);
  const sampler = samplerOver(plan);
  plan.free();
  let samples = 0;
  for (const { indices } of batches(sampler)) samples += indices.length;
  assert.equal(samples, 4);
  sampler.free();
});

// The table of decision 3.
test('a second loop is the next epoch, or the same one from its start', () => {
  const many = Int32Array.from({ length: 60 }, (_, i) => 1 + ((i * 7) % 30));
  const sizes = new Handle('sab_sizes', 'sab_sizes_new', many, 60, lib.SAB_INT32, null);
  const plan = planOf(sizes, { budgets: [100] });
  const fresh = (epoch = 0) => samplerOver(plan, options('sab_sampler_options', { seed: 3, epoch }));
  const pass = (sampler, count = Infinity) => {
    const made = [];
    for (const { indices } of batches(sampler)) if (made.push(indices.join(' ')) === count) break;
    return made;
  };
  const stateOf = (sampler) => {
    const size = [0];
    check(lib.sab_sampler_state_save(sampler, null, 0, size));
    const state = new Uint8Array(size[0]);
    check(lib.sab_sampler_state_save(sampler, state, state.length, size));
    return state;
  };
  const restored = (state) => {
    const sampler = fresh();
    check(lib.sab_sampler_state_restore(sampler, state, state.length));
    return sampler;
  };
  const [first, second] = [pass(fresh()), pass(fresh(1))];
  assert(first.length > 4);
  assert.notDeepEqual(first, second);

  let sampler = fresh(); // nothing was taken; the last pass was finished
  batches(sampler);
  assert.deepEqual(pass(sampler), first);
  assert.deepEqual(pass(sampler), second);
  sampler = fresh(); // it was broken off
  assert.deepEqual(pass(sampler, 2), first.slice(0, 2));
  const middle = stateOf(sampler);
  assert.deepEqual(pass(sampler), first);
  const ended = stateOf(sampler);
  sampler = restored(middle); // a state was restored, its end had not been reported
  assert.deepEqual(pass(sampler), first.slice(2));
  assert.deepEqual(pass(sampler), second);
  sampler = fresh(); // nothing may be left
  assert.deepEqual(pass(sampler, first.length), first);
  sampler = restored(stateOf(sampler));
  assert.deepEqual(pass(sampler), []);
  assert.deepEqual(pass(sampler), second);
  assert.deepEqual(pass(restored(ended)), second); // its end had been reported
});

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
