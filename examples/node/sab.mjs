// libsab through koffi: the raw library as `lib`, and the little that makes it safe. Where things lie is asked of pkg-config.
//
// Where C has a handle, functions take a Handle of its kind, or null. Other pointers are BigInts, as everywhere in koffi. 64-bit numbers come as Number, or as BigInt where a Number would not be
// exact; both may be given.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import koffi from 'koffi';

const installed = (variable) => execFileSync('pkg-config', ['--print-errors', `--variable=${variable}`, 'sab'], { encoding: 'utf8' }).trim();

// The whole numbers of each type, which koffi would wrap or cut.
const RANGE = Object.fromEntries([8, 16, 32, 64].flatMap((bits) => [[`UInt${bits}`, [0n, 2n ** BigInt(bits) - 1n]], [`Int${bits}`, [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]]]));
function whole(name, [least, most], value) {
  if (typeof value === 'bigint' ? value >= least && value <= most : Number.isSafeInteger(value) && BigInt(value) >= least && BigInt(value) <= most) return value;
  throw new RangeError(`${name} = ${value}: must be a whole number from ${least} to ${most}`);
}

// The pointer of a handle of that kind; those that C itself gave are taken as they are.
function pointerOf(name, kind, value) {
  if (value === null || typeof value === 'bigint') return value;
  if (!(value instanceof Handle)) throw new TypeError(`${name}: must be a Handle of a ${kind}, not ${typeof value}`);
  if (value.kind !== kind) throw new TypeError(`${name}: must be a ${kind}, not a ${value.kind}`);
  if (value.pointer === null) throw new TypeError(`${name}: this ${kind} is freed`);
  return value.pointer;
}

export const lib = {}; // functions and constants by their names in C
declare(readFileSync(installed('declarations'), 'utf8'), koffi.load(`${installed('libdir')}/libsab.so.0`));

// Declares to koffi what the file says. One declaration ends with each semicolon outside braces.
function declare(text, library) {
  const structs = new Set();
  const handles = new Set();
  // What is neither const nor a handle is written to: a pointer to a handle, a number, a struct. Arrays, typed arrays and objects are all taken.
  const parameter = (declaration) => {
    const plain = declaration.replace(/\w+ \(\*(\w+)\)\(.*\)/, 'void *$1').replace(/\bstruct /g, '');
    const [, target, stars] = /^(\w+) (\*+)\w+$/.exec(plain) ?? [];
    const isWritten = stars === '**' || (stars === '*' && (structs.has(target) || /^(u?int\d+_t|size_t|double)$/.test(target)));
    return (isWritten ? '_Inout_ ' : '') + plain;
  };
  const split = (list) => list.split(/,(?![^(]*\))/).map((each) => each.trim());
  const taken = (declaration) => {
    const [, target, star, name] = /^(?:const )?(?:struct )?(\w+) (\*?)(\w+)$/.exec(declaration) ?? [];
    if (star && handles.has(target)) return (value) => pointerOf(name, target, value);
    const range = star === '' && RANGE[koffi.type(target).primitive];
    return range && ((value) => whole(name, range, value));
  };
  const declared = (declaration) => {
    const [, head, list] = /^([^(]*)\((.*)\)$/.exec(declaration);
    const call = library.func(`${head}(${split(list).map(parameter).join(', ')})`);
    const takes = split(list).map((each, at) => [at, taken(each)]).filter(([, take]) => take);
    return (...values) => {
      for (const [at, take] of takes) values[at] = take(values[at]);
      return call(...values);
    };
  };
  const statements = text.replace(/\/\*.*?\*\//gs, '').split(/;(?![^{]*\})/);
  for (const statement of statements.map((each) => each.replace(/\s+/g, ' ').trim())) {
    let found;
    if ((found = /^enum \{(.*)\}$/.exec(statement))) {
      for (const [, name, value] of found[1].matchAll(/(\w+) = (-?\d+)/g)) lib[name] = Number(value);
    } else if ((found = /^typedef struct \w+ \{(.*)\} (\w+)$/.exec(statement))) {
      const fields = found[1].split(';').map((each) => parameter(each.trim()).replace('_Inout_ ', '')).filter((each) => each);
      koffi.struct(found[2], Object.fromEntries(fields.map((each) => /^(.*?)(\w+)$/.exec(each).slice(1, 3).reverse())));
      structs.add(found[2]);
    } else if ((found = /^(?:typedef )?struct (\w+)/.exec(statement))) {
      koffi.opaque(found[1]);
      handles.add(found[1]);
    } else if ((found = /^typedef (\w+) \(\*(\w+)\)(\(.*\))$/.exec(statement))) {
      koffi.pointer(found[2], koffi.proto(`${found[1]} ${found[2]}_call${found[3]}`));
    } else if ((found = /^typedef (\w+) (\w+)$/.exec(statement))) {
      koffi.alias(found[2], found[1]);
    } else if ((found = /\b(sab_\w+)\(/.exec(statement))) {
      lib[found[1]] = declared(statement);
    }
  }
}

// A failure of the library.
export class SabError extends Error {
  constructor(status) {
    super(lib.sab_last_error_message());
    this.status = lib.sab_status_name(status);
  }
}

// Throws for a failure; gives other statuses back.
export function check(status) {
  if (status < 0) throw new SabError(status);
  return status;
}

// An options struct with its defaults, and with `values`.
export function options(kind, values = {}) {
  const made = {};
  lib[`${kind}_init`](made, koffi.sizeof(kind));
  const { members } = koffi.type(kind);
  for (const [name, value] of Object.entries(values)) {
    if (!(name in made)) throw new TypeError(`${kind} has no field ${name}`);
    const { primitive, ref } = members[name].type;
    if (RANGE[primitive]) whole(name, RANGE[primitive], value);
    made[name] = value instanceof Handle ? pointerOf(name, ref?.name, value) : value;
  }
  return made;
}

// Owns a handle: `pointer` until free(), which the collector calls where the program does not.
export class Handle {
  static #forgotten = new FinalizationRegistry(({ kind, pointer }) => lib[`${kind}_free`](pointer));

  // The handle that a constructor gives through its last argument: new Handle('sab_plan', 'sab_plan_new', sizes, options).
  constructor(kind, maker, ...values) {
    const out = [null];
    check(lib[maker](...values, out));
    this.kind = kind;
    this.pointer = out[0];
    this.kept = values; // what the library may borrow lives as long
    Handle.#forgotten.register(this, { kind, pointer: this.pointer }, this);
  }

  free() {
    if (this.pointer === null) return;
    Handle.#forgotten.unregister(this);
    lib[`${this.kind}_free`](this.pointer);
    this.pointer = null;
    this.kept = null;
  }
}

const memcpy = koffi.load(null).func('void *memcpy(void *to, const void *from, size_t size)');

function copied(Type, pointer, count) {
  if (pointer === 0n) return null;
  const made = new Type(count);
  memcpy(made, pointer, made.byteLength);
  return made;
}

// Reads a field: by primitive type, as koffi names them.
const READ = {
  Float64: (view, at) => view.getFloat64(at, true),
  Int64: (view, at) => Number(view.getBigInt64(at, true)),
  UInt64: (view, at) => {
    const value = view.getBigUint64(at, true);
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  },
  Pointer: (view, at) => view.getBigUint64(at, true),
};

// The batches of an epoch from where the sampler stands, as objects with the fields of sab_batch. `indices` is a BigInt64Array of its own memory; so are, where
// there are any, `cu_seqlens` (an Int32Array) and `starts` (a BigInt64Array). Fields are read from memory: converting a struct would cost ten times the call.
export function* batches(sampler) {
  const fields = Object.values(koffi.type('sab_batch').members).map(({ name, type, offset }) => [name, READ[type.primitive], offset]);
  const memory = new Uint8Array(koffi.sizeof('sab_batch'));
  const view = new DataView(memory.buffer);
  view.setBigUint64(koffi.offsetof('sab_batch', 'struct_size'), BigInt(memory.length), true);
  while (check(lib.sab_next_batch(sampler, memory)) === lib.SAB_OK) {
    const batch = {};
    for (const [name, read, offset] of fields) batch[name] = read(view, offset);
    batch.indices = copied(BigInt64Array, batch.indices, batch.count) ?? new BigInt64Array(0);
    batch.cu_seqlens = copied(Int32Array, batch.cu_seqlens, batch.count + 1);
    batch.starts = copied(BigInt64Array, batch.starts, batch.count);
    yield batch;
  }
}
