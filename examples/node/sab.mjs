// libsab through koffi: the C library as `lib`, with checked arguments and owned handles.
// pkg-config gives the paths of the library and its declarations.
//
// - Handles: functions take a Handle of the right kind, or null. A stage takes its sources over;
//   their Handles are freed. Pointers from C itself (BigInt) are not checked.
// - Numbers: 64-bit numbers are returned as Number, or as BigInt if a Number would not be exact.
//   Functions take both.
// - Arrays: sizes are copied from typed arrays. Other arrays are used during the call only. They
//   must have the length that the call states; a function that the call runs must not transfer
//   them.
// - Functions: JavaScript functions can be callbacks. The call throws their exceptions again. A
//   function runs only while JavaScript's thread is in a call of the library. Therefore a stream
//   that calls functions is refused under a stage with threads, and the log takes no function.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import koffi from 'koffi';

const installed = (variable) => execFileSync('pkg-config', ['--print-errors', `--variable=${variable}`, 'sab'], { encoding: 'utf8' }).trim();

// The range of each integer type; koffi would wrap or cut other numbers.
const RANGE = Object.fromEntries([8, 16, 32, 64].flatMap((bits) => [[`UInt${bits}`, [0n, 2n ** BigInt(bits) - 1n]], [`Int${bits}`, [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]]]));
function whole(name, [least, most], value) {
  if (typeof value === 'bigint' ? value >= least && value <= most : Number.isSafeInteger(value) && BigInt(value) >= least && BigInt(value) <= most) return value;
  throw new RangeError(`${name} = ${value}: must be a whole number from ${least} to ${most}`);
}

// The pointer of a handle of that kind. Pointers from C itself are not checked.
function pointerOf(name, kind, value) {
  if (value === null || typeof value === 'bigint') return value;
  if (!(value instanceof Handle)) throw new TypeError(`${name}: must be a Handle of a ${kind}, not ${typeof value}`);
  if (value.kind !== kind) throw new TypeError(`${name}: must be a ${kind}, not a ${value.kind}`);
  if (value.pointer === null) throw new TypeError(`${name}: this ${kind} is freed, or was taken by a stage`);
  return value.pointer;
}

function withoutNul(name, value) {
  if (typeof value === 'string' && value.includes('\0')) throw new TypeError(`${name} = ${JSON.stringify(value)}: must not contain a NUL character`);
  return value;
}

// ---- Calls ----

const running = []; // calls in progress, the innermost last: callbacks can call the library, too
const freedLater = []; // frees handles that callbacks freed, which the calls may still use
const kept = new Map(); // callbacks that handles continue to use, by the pointer of the handle
const calling = new Set(); // pointers of the streams that call functions for a record
const NONE = Object.freeze([]);
const KEEPS_CALLBACKS = ['sab_cost', 'sab_stream', 'sab_sampler', 'sab_probe', 'sab_memory_guard'];

// A callback that the library can call. No exception may pass through C: it is kept for the
// innermost call.
function guarded(run) {
  return (...values) => {
    try {
      const code = run(...values) ?? 0;
      if (!Number.isInteger(code)) throw new TypeError(`a callback must return a whole number or nothing, not ${code?.constructor?.name ?? typeof code}`);
      return code;
    } catch (error) {
      const call = running.at(-1);
      if (call) call.thrown ??= { error };
      return -1;
    }
  };
}

// One call of the library: its callbacks, the streams that it takes, and an exception of a
// callback.
class Call {
  callbacks = NONE;
  sources = NONE;
  hasFunctions = false;
  threads = 0;
  thrown = null;

  callback(type, value) {
    if (value === null || value === undefined || value === 0n) return null;
    this.hasFunctions = true;
    if (typeof value !== 'function') return value;
    const pointer = koffi.register(guarded(value), koffi.type(type));
    this.callbacks = [...this.callbacks, pointer];
    return pointer;
  }

  source(name, value) {
    const pointer = pointerOf(name, 'sab_stream', value);
    this.sources = [...this.sources, [pointer, value]];
    return pointer;
  }

  // A struct that the library reads: an object of its fields, an array of those, or its memory.
  struct(kind, value) {
    if (Array.isArray(value)) return value.map((each) => this.struct(kind, each));
    if (value === null || value === undefined) return null;
    const { members } = koffi.type(kind);
    if (typeof value === 'bigint' || ArrayBuffer.isView(value)) {
      const fields = koffi.decode(value, kind);
      this.hasFunctions ||= Object.values(members).some(({ name, type }) => type.primitive === 'Callback' && fields[name]);
      this.threads = fields.threads ?? 0;
      return value;
    }
    for (const name of Object.keys(value)) if (!(name in members)) throw new TypeError(`${kind} has no field ${name}`);
    this.threads = value.threads ?? 0;
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, this.field(name, members[name].type, field)]));
  }

  field(name, type, value) {
    if (RANGE[type.primitive]) return whole(name, RANGE[type.primitive], value);
    if (type.primitive === 'Callback') return this.callback(type.name, value);
    if (type.primitive === 'Pointer' && value?.constructor === Object) return this.struct(type.ref.name, value);
    if (type.primitive === 'Pointer' && Array.isArray(value)) return value.map((each) => this.element(name, type.ref, each));
    if (value instanceof Handle) return pointerOf(name, type.ref?.name, value);
    return withoutNul(name, value);
  }

  // An element of an array that a struct points to: a struct, a handle, or a number.
  element(name, type, value) {
    return type.primitive === 'Record' ? this.struct(type.name, value) : this.field(name, type, value);
  }

  // Runs the call. `made` is the kind of handle that it returns through its last argument.
  run(name, raw, given, made) {
    const hasFunctions = this.hasFunctions || name === 'sab_callback_stream_new' || this.sources.some(([pointer]) => calling.has(pointer));
    if (hasFunctions && (name === 'sab_prefetch_stream_new' || (name === 'sab_map_stream_new' && this.threads > 0)))
      throw new TypeError('source: calls functions, which JavaScript cannot run in threads of the library: put prefetch under the stages that call functions, and leave threads = 0');
    running.push(this);
    let status;
    try {
      status = raw(...given);
    } finally {
      running.pop();
    }
    if (made && status >= 0) this.#keep(made, given.at(-1)[0], hasFunctions);
    if (this.thrown) throw this.thrown.error;
    return status;
  }

  // Keeps what a new handle uses: the callbacks, and the streams that it took, with theirs.
  #keep(kind, pointer, hasFunctions) {
    forget(pointer); // of a handle that was at the same address
    for (const [source, value] of this.sources) {
      this.callbacks = [...this.callbacks, ...(kept.get(source) ?? [])];
      kept.delete(source);
      calling.delete(source);
      if (value instanceof Handle) value.disown();
    }
    if (hasFunctions && kind === 'sab_stream') calling.add(pointer);
    if (KEEPS_CALLBACKS.includes(kind)) this.keepCallbacks(pointer);
  }

  keepCallbacks(pointer) {
    if (this.callbacks.length > 0) kept.set(pointer, [...(kept.get(pointer) ?? []), ...this.callbacks]);
    this.callbacks = NONE;
  }

  end() {
    for (const each of this.callbacks) koffi.unregister(each);
    if (running.length === 0 && freedLater.length > 0) for (const free of freedLater.splice(0)) free();
  }
}

// Releases the callbacks of a handle that is freed.
function forget(pointer) {
  kept.get(pointer)?.forEach((each) => koffi.unregister(each));
  kept.delete(pointer);
  calling.delete(pointer);
}

const BYTES = [0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8]; // of SAB_INT8 ... SAB_FLOAT64

// Functions with further checks.
const CAREFUL = {
  // Copies: a typed array can be transferred to another thread, or resized, before the library
  // reads it.
  sab_sizes_new(given) {
    const [data, count, dtype, how] = given;
    if (!ArrayBuffer.isView(data)) return;
    const chosen = typeof how === 'bigint' ? koffi.decode(how, 'sab_sizes_options') : (how ?? options('sab_sizes_options'));
    const size = BYTES[dtype] ?? 0;
    const reach = (Math.max(Number(count), 1) - 1) * (Number(chosen.stride) || size);
    if (count > 0 && (reach < 0 ? data.byteOffset + reach < 0 || data.byteLength < size : reach + size > data.byteLength))
      throw new RangeError(`count = ${count}: data has only ${data.byteLength} bytes`);
    given[3] = { ...chosen, copy: 1 };
  },
  sab_log_set_callback([log]) {
    if (log !== null) throw new TypeError('callback: must be null: lines come from threads of the library, where JavaScript cannot run');
  },
};

export const lib = {}; // functions and constants by their names in C
declare(readFileSync(installed('declarations'), 'utf8'), koffi.load(`${installed('libdir')}/libsab.so.0`));

// Declares the contents of the file to koffi. Each semicolon outside braces ends a declaration.
function declare(text, library) {
  const structs = new Set();
  const handles = new Set();
  const callback = (name, result, parameters) => koffi.pointer(name, koffi.proto(`${result} ${name}_call${parameters.replace(/\bstruct /g, '')}`));
  // The type of a function pointer is named after its owner and itself.
  const named = (owner, declaration) =>
    declaration.replace(/^(\w+) \(\*(\w+)\)(\(.*\))$/, (_, result, name, parameters) => {
      callback(`${owner}_${name}`, result, parameters);
      return `${owner}_${name} ${name}`;
    });
  // Pointers that are neither const nor handles are written to: to a handle, a number, a struct.
  // Arrays, typed arrays and objects are accepted.
  const parameter = (declaration) => {
    const plain = declaration.replace(/\bstruct /g, '');
    const [, target, stars] = /^(\w+) (\*+)\w+$/.exec(plain) ?? [];
    const isWritten = stars === '**' || (stars === '*' && (structs.has(target) || /^(u?int\d+_t|size_t|double)$/.test(target)));
    return (isWritten ? '_Inout_ ' : '') + plain;
  };
  const split = (list) => list.split(/,(?![^(]*\))/).map((each) => each.trim());
  // How an argument is checked and converted: a function of the value and the Call.
  const taken = (declaration) => {
    const [, constant, target, star, name] = /^(const )?(?:struct )?(\w+) (\*?)(\w+)$/.exec(declaration) ?? [];
    if (star && !constant && target === 'sab_stream' && /^(source|control)$/.test(name)) return (value, call) => call.source(name, value);
    if (star && handles.has(target)) return (value) => pointerOf(name, target, value);
    if (star && target === 'char') return (value) => withoutNul(name, value);
    if (star && constant && structs.has(target)) return (value, call) => call.struct(target, value);
    if (/^sab_stream \*const \*sources$/.test(declaration)) return (value, call) => Array.from(value, (each) => call.source('sources', each));
    if (star !== '') return null;
    const { primitive } = koffi.type(target);
    if (primitive === 'Callback') return (value, call) => call.callback(target, value);
    return RANGE[primitive] && ((value) => whole(name, RANGE[primitive], value));
  };
  const declared = (name, declaration) => {
    const [, head, list] = /^([^(]*)\((.*)\)$/.exec(declaration);
    const parameters = split(list).map((each) => named(name, each));
    const raw = library.func(`${head}(${parameters.map(parameter).join(', ')})`);
    const takes = parameters.map((each, at) => [at, taken(each)]).filter(([, take]) => take);
    const careful = CAREFUL[name];
    const made = name.endsWith('_new') && /^(\w+) \*\*\w+$/.exec(parameters.at(-1))?.[1];
    const called = (...given) => {
      const call = new Call();
      try {
        for (const [at, take] of takes) given[at] = take(given[at], call);
        careful?.(given);
        const status = call.run(name, raw, given, made);
        if (name === 'sab_stream_set_progress') call.keepCallbacks(given[0]);
        return status;
      } finally {
        call.end();
      }
    };
    return name.endsWith('_free') ? freeing(name.slice(0, -5), called) : called;
  };
  // Frees once, and not before the calls in progress return.
  const freeing = (kind, raw) => (value) => {
    if (value instanceof Handle) return value.kind === kind ? value.free() : pointerOf(kind, kind, value);
    const free = () => (raw(value), forget(value));
    running.length > 0 ? freedLater.push(free) : free();
  };
  const statements = text
    .replace(/\/\*.*?\*\//gs, '')
    .split(/;(?![^{]*\})/)
    .map((each) => each.replace(/\s+/g, ' ').trim());
  // A struct that is declared before it is defined is no handle.
  const defined = new Set(statements.map((each) => /^typedef struct (\w+) \{/.exec(each)?.[1]));
  // Functions come behind all types, and before them callbacks whose structs are defined later.
  const isFunction = (each) => /^\w[\w *]*\bsab_\w+\(/.test(each) && !each.startsWith('typedef');
  const rank = (each) => (isFunction(each) ? 2 : /^typedef \w+ \(\*.*\bstruct /.test(each) ? 1 : 0);
  for (const statement of statements.sort((a, b) => rank(a) - rank(b))) {
    let found;
    if ((found = /^enum \{(.*)\}$/.exec(statement))) {
      for (const [, name, value] of found[1].matchAll(/(\w+) = (-?\d+)/g)) lib[name] = Number(value);
    } else if ((found = /^typedef struct \w+ \{(.*)\} (\w+)$/.exec(statement))) {
      const [, fields, struct] = found;
      const members = fields.split(';').map((each) => parameter(named(struct, each.trim())).replace('_Inout_ ', '')).filter((each) => each);
      const member = (each) => {
        const [, type, name, length] = /^(.*?)(\w+)(?:\[(\d+)\])?$/.exec(each);
        return [name, length ? koffi.array(type.trim(), Number(length)) : type];
      };
      koffi.struct(struct, Object.fromEntries(members.map(member)));
      structs.add(struct);
    } else if ((found = /^(?:typedef )?struct (\w+)/.exec(statement))) {
      if (defined.has(found[1]) || handles.has(found[1])) continue;
      koffi.opaque(found[1]);
      handles.add(found[1]);
    } else if ((found = /^typedef (\w+) \(\*(\w+)\)(\(.*\))$/.exec(statement))) {
      callback(found[2], found[1], found[3]);
    } else if ((found = /^typedef (\w+) (\w+)$/.exec(statement))) {
      koffi.alias(found[2], found[1]);
    } else if ((found = /\b(sab_\w+)\(/.exec(statement))) {
      lib[found[1]] = declared(found[1], statement);
    }
  }
}

// A failure of the library: its message, the parts of it, and the code of the system or a callback.
export class SabError extends Error {
  constructor(status) {
    super(lib.sab_last_error_message());
    this.status = lib.sab_status_name(status);
    for (const part of ['argument', 'value', 'rule', 'code']) this[part] = lib[`sab_last_error_${part}`]();
  }
}

// Throws for a failure; returns any other status.
export function check(status) {
  if (status < 0) throw new SabError(status);
  return status;
}

// An options struct with its defaults, and with `values`. Arrays of budgets and of costs to balance
// set their length as well; a budget can be its limit: { budgets: [64, { cost, limit: 1000 }] }.
export function options(kind, values = {}) {
  const { members } = koffi.type(kind);
  // Zero is the default of every field.
  const made = Object.fromEntries(Object.entries(members).map(([name, { type }]) => [name, RANGE[type.primitive] || type.primitive.startsWith('Float') ? 0 : null]));
  made.struct_size = koffi.sizeof(kind);
  for (let [name, value] of Object.entries(values)) {
    if (!(name in made)) throw new TypeError(`${kind} has no field ${name}`);
    if (Array.isArray(value) && /^(budgets|balance)$/.test(name)) {
      value = value.map((each) => (typeof each === 'number' ? { cost: null, limit: each } : each));
      made[`${name.replace(/s$/, '')}_count`] = value.length;
    }
    const { primitive, ref } = members[name].type;
    if (RANGE[primitive]) whole(name, RANGE[primitive], value);
    if (value instanceof Handle) pointerOf(name, ref?.name, value);
    made[name] = value;
  }
  return made;
}

// Owns a handle. `pointer` is valid until free(), which the garbage collector calls otherwise.
export class Handle {
  #users = []; // memory guards, which use their sampler and probe until they are freed

  static #forgotten = new FinalizationRegistry(({ kind, pointer }) => lib[`${kind}_free`](pointer));

  // new Handle('sab_plan', 'sab_plan_new', sizes, options)
  constructor(kind, maker, ...values) {
    const out = [null];
    check(lib[maker](...values, out));
    this.kind = kind;
    this.pointer = out[0];
    this.kept = values; // the library may borrow them
    if (kind === 'sab_memory_guard') for (const each of values) if (each instanceof Handle) each.#users.push(this);
    Handle.#forgotten.register(this, { kind, pointer: this.pointer }, this);
  }

  free() {
    if (this.pointer === null) return;
    if (this.#users.some((guard) => guard.pointer !== null)) throw new TypeError(`${this.kind}: a sab_memory_guard uses it: free that first`);
    lib[`${this.kind}_free`](this.disown());
    this.kept = null;
  }

  // Gives the pointer to a new owner, who frees it.
  disown() {
    const { pointer } = this;
    Handle.#forgotten.unregister(this);
    this.pointer = null;
    return pointer;
  }
}

const memcpy = koffi.load(null).func('void *memcpy(void *to, const void *from, size_t size)');

function copied(Type, pointer, count) {
  if (pointer === 0n) return null;
  const made = new Type(count);
  memcpy(made, pointer, made.byteLength);
  return made;
}

// Reads a field, by koffi's name of its type.
const READ = {
  Int32: (view, at) => view.getInt32(at, true),
  Int64: (view, at) => Number(view.getBigInt64(at, true)),
  UInt64: (view, at) => {
    const value = view.getBigUint64(at, true);
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  },
  Float64: (view, at) => view.getFloat64(at, true),
  Pointer: (view, at) => view.getBigUint64(at, true),
};

// Reads a struct that a function of the library fills. Its fields are read from memory, because
// converting a struct takes ten times as long as the call.
function reader(kind) {
  const fields = Object.values(koffi.type(kind).members).map(({ name, type, offset }) => [name, READ[type.primitive], offset]);
  const memory = new Uint8Array(koffi.sizeof(kind));
  const view = new DataView(memory.buffer);
  view.setBigUint64(koffi.offsetof(kind, 'struct_size'), BigInt(memory.length), true);
  const read = () => {
    const made = {};
    for (const [name, readField, offset] of fields) if (name !== 'struct_size') made[name] = readField(view, offset);
    return made;
  };
  return { memory, read };
}

// The number of the only column, or an array of those of several.
const perColumn = (pointer, columns) => (columns === 1 ? koffi.decode.double(pointer) : copied(Float64Array, pointer, columns));

// Begins a pass and returns its batches as objects with the fields of sab_batch. `indices` is a
// copy in a BigInt64Array; `longest`, `padded_length`, `total` and `token_weight` are numbers. Of a
// batch in one row, `cu_seqlens`, `cu_seqlens_unpadded` (Int32Array) and `starts` (BigInt64Array)
// are copies; otherwise they are null. Of sizes with several columns the numbers are a Float64Array each, and
// `cu_seqlens` and `cu_seqlens_unpadded` are arrays.
export function batches(sampler) {
  check(lib.sab_sampler_begin(sampler));
  return walk(sampler);
}

function* walk(sampler) {
  const shown = reader('sab_batch');
  const rows = reader('sab_rows');
  while (check(lib.sab_next_batch(sampler, shown.memory)) === lib.SAB_OK) {
    const batch = shown.read();
    for (const name of ['longest', 'padded_length', 'total', 'token_weight']) batch[name] = perColumn(batch[name], batch.columns);
    batch.indices = copied(BigInt64Array, batch.indices, batch.count) ?? new BigInt64Array(0);
    batch.cu_seqlens = batch.cu_seqlens_unpadded = batch.starts = null;
    if (batch.layout === lib.SAB_LAYOUT_ROW) {
      check(lib.sab_sampler_get_rows(sampler, rows.memory));
      const own = rows.read();
      for (const name of ['cu_seqlens', 'cu_seqlens_unpadded']) {
        if (own[name] === 0n) continue;
        const each = Array.from(copied(BigUint64Array, own[name], batch.columns), (ends) => copied(Int32Array, ends, batch.count + 1));
        batch[name] = batch.columns === 1 ? each[0] : each;
      }
      batch.starts = copied(BigInt64Array, own.starts, batch.count);
    }
    yield batch;
  }
}

// The step of the batch that was shown last: `micro_batches`, `samples` and `total` over all ranks,
// for the weights of a loss.
export function step(sampler) {
  const shown = reader('sab_step');
  check(lib.sab_sampler_get_step(sampler, shown.memory));
  const { micro_batches, samples, columns, totals } = shown.read();
  return { micro_batches, samples, total: perColumn(totals, columns) };
}
