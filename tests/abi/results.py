"""Checks what callbacks and buffers get: results.py PREFIX. Prints "N passed, N failed".

Each callback and each buffer of sab_abi.json has a case here. A callback that returns 0 and sets
nothing is refused: runtimes whose callbacks throw return 0. Too small a buffer is refused, with
the size that it needs, and stays as it was.
"""

import ctypes
import sys

from checks import run_all
from description import PREFIX, Library, entries

LENGTHS = (12, 7, 30, 8, 9, 31, 7, 12, 29, 8)
# What they would set has a value before the call, or is NULL, which means none.
MAY_SET_NOTHING = {"sab_map_fn", "sab_recur_fn", "sab_random_map_fn", "sab_select_fn"}
NO_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)()


def sizes_of(sab, lengths=LENGTHS):
    data = (ctypes.c_int32 * len(lengths))(*lengths)
    return sab.new(
        "sab_sizes_new", data, len(lengths), sab.SAB_INT32, sab.sab_sizes_options(copy=1)
    )


def plan_of(sab, lengths=LENGTHS, **budget):
    options = sab.sab_plan_options(budget_count=1, oversize=sab.SAB_OVERSIZE_SKIP)
    options.budgets = ctypes.pointer(sab.sab_budget(limit=64, **budget))
    return sab.new("sab_plan_new", sizes_of(sab, lengths), options)


def sampler_of(sab, plan):
    return sab.new("sab_bucket_sampler_new", plan, None)


# ---- Callbacks ----


def callbacks():
    """name -> its parameters, of the callbacks that set something."""
    every = {each["name"]: each for _, each in entries("callbacks")}
    for _, struct in entries("structs"):
        for field in struct["fields"]:
            if "callback" in field:
                every[f"{struct['name']}.{field['name']}"] = field["callback"]
    return {
        name: each
        for name, each in every.items()
        if any(parameter.get("direction") == "out" for parameter in each["parameters"])
    }


def of_probe(sab, name, callback):
    given = sab.sab_probe_callbacks()
    types = dict(given._fields_)
    given.reset = types["reset"](lambda _: 0)
    for each in ("current", "peak"):
        setattr(given, each, types[each](one_byte))
    setattr(given, name, callback)
    probe = sab.new("sab_probe_callbacks_new", given)
    sab.sab_probe_get_stats(probe, sab.sab_probe_stats())


def one_byte(_, result):
    result[0] = 1
    return 0


def of_window(sab, **options):
    given = sab.sab_readahead_stream_options(read_ahead=4, **options)
    numbers = sab.new("sab_random_stream_new", 1)
    sab.sab_stream_next(sab.new("sab_readahead_stream_new", numbers, given), sab.sab_record())


def of_rows(sab, callback):
    capacities = (ctypes.c_double * 2)(9, 9)
    given = sab.sab_pack_stream_options(capacities=capacities, capacity_count=2, sizes_fn=callback)
    numbers = sab.new("sab_random_stream_new", 1)
    sab.sab_stream_next(sab.new("sab_pack_stream_new", numbers, given), sab.sab_record())


def of_source(sab, callback, state_save=None):
    given = sab.sab_source_functions()
    types = dict(given._fields_)
    given.next = callback or types["next"](lambda *_: sab.SAB_END)
    if state_save is not None:
        given.state_save = state_save
        given.state_restore = types["state_restore"](lambda *_: 0)
    stream = sab.new("sab_callback_stream_new", given)
    if state_save is None:
        sab.sab_stream_next(stream, sab.sab_record())
    else:
        sab.sab_stream_state_save(stream, None, 0, ctypes.c_size_t())


def of_object(sab, **functions):
    """Of the objects of a source of which a window keeps one: its state is saved and restored."""
    kept = sab.sab_object_functions()
    types = dict(kept._fields_)

    def save(_, data, room, capacity, size):
        size[0] = 1
        return 0

    kept.save, kept.load = types["save"](save), types["load"](lambda *_: 0)
    for name, callback in functions.items():
        setattr(kept, name, callback)
    given = sab.sab_source_functions()

    def following(_, record):
        record[0].kind, record[0].size, record[0].data = sab.SAB_RECORD_OBJECT, 1, 8
        return 0

    given.next = dict(given._fields_)["next"](following)
    given.objects = ctypes.pointer(kept)
    stream = sab.new("sab_callback_stream_new", given)
    stream = sab.new("sab_shuffle_stream_new", stream, sab.SAB_SHUFFLE_BUFFER, 2, 1)
    sab.sab_stream_next(stream, sab.sab_record())
    size = ctypes.c_size_t()
    sab.sab_stream_state_save(stream, None, 0, size)
    state = ctypes.create_string_buffer(size.value)
    sab.sab_stream_state_save(stream, state, size.value, size)
    sab.sab_stream_state_restore(stream, state, size.value)


def of_peaks(sab, callback):
    probe, peaks = sab.new("sab_probe_new", b"host", None), sab.new("sab_peaks_new")
    sab.sab_collect_peak(probe, sab.sab_collect_peak_options(work=callback, item_count=2), peaks)


def of_stream_of_indices(sab, callback):
    given = [callback, None, NO_RELEASE, 9]
    sampler = sab.new("sab_bionemo_size_aware_stream_sampler_new", *given)
    sab.sab_next_batch(sampler, sab.sab_batch())


def of_cache(sab, callback):
    cache = sab.new("sab_cache_new", b"memory:", None)
    sab.new("sab_cache_get_or_load", cache, b"key", 3, callback, None, None)


def of_ranks(sab, callback):
    sab.sab_ranks_check(sampler_of(sab, plan_of(sab)), 0, 1, callback, None)


CALLBACKS = {
    "sab_size_fn": lambda sab, f: sab.new("sab_sizes_callback_new", 3, f, None, None),
    "sab_cost_fn": lambda sab, f: plan_of(
        sab, cost=sab.new("sab_cost_callback_new", f, None, NO_RELEASE).value
    ),
    "sab_all_gather_fn": of_ranks,
    "sab_work_fn": of_peaks,
    "sab_index_fn": of_stream_of_indices,
    "sab_cache_load_fn": of_cache,
    "sab_probe_callbacks.current": lambda sab, f: of_probe(sab, "current", f),
    "sab_probe_callbacks.peak": lambda sab, f: of_probe(sab, "peak", f),
    "sab_probe_callbacks.reserved": lambda sab, f: of_probe(sab, "reserved", f),
    "sab_probe_callbacks.total": lambda sab, f: of_probe(sab, "total", f),
    "sab_object_functions.save": lambda sab, f: of_object(sab, save=f),
    "sab_object_functions.load": lambda sab, f: of_object(sab, load=f),
    "sab_source_functions.next": of_source,
    "sab_source_functions.state_save": lambda sab, f: of_source(sab, None, f),
    "sab_readahead_stream_options.batch_size_fn": lambda sab, f: of_window(sab, batch_size_fn=f),
    "sab_readahead_stream_options.boundary_key_fn": lambda sab, f: of_window(
        sab, batch_size=3, boundary_key_fn=f
    ),
    "sab_readahead_stream_options.sizes_fn": lambda sab, f: of_window(
        sab, batch_size=3, columns=2, sizes_fn=f
    ),
    "sab_pack_stream_options.sizes_fn": of_rows,
}


def check_callbacks_that_set_nothing(library):
    sab = Library(library)
    assert callbacks().keys() == CALLBACKS.keys() | MAY_SET_NOTHING, callbacks().keys() ^ (
        CALLBACKS.keys() | MAY_SET_NOTHING
    )
    for name, use in CALLBACKS.items():
        callback = sab.callback(callbacks()[name])(lambda *_: 0)
        try:
            use(sab, callback)
        except RuntimeError:
            continue
        raise AssertionError(f"{name} sets nothing and is not refused")


# ---- Buffers ----


def a_histogram(sab):
    histogram = sab.new("sab_histogram_new")
    sab.sab_histogram_add(histogram, sizes_of(sab), None)
    return histogram


def a_model(sab):
    points = [(count, length) for count in (1, 2, 4, 8) for length in (8, 32, 128, 256)]
    features = (ctypes.c_double * 32)(*sum(points, ()))
    peaks = (ctypes.c_double * 16)(*(1000 + 10 * n + 5 * n * size for n, size in points))
    return sab.new("sab_memory_model_fit_new", features, 16, 2, peaks, None)


BUFFERS = {
    "sab_plan_get_skipped": lambda sab: [plan_of(sab, (1, 2, 3, 900, 901))],
    "sab_plan_write": lambda sab: [plan_of(sab)],
    "sab_sampler_get_skipped": lambda sab: [sampler_of(sab, plan_of(sab, (1, 2, 3, 900, 901)))],
    "sab_sampler_state_save": lambda sab: [sampler_of(sab, plan_of(sab))],
    "sab_sampler_state_save_at": lambda sab: [sampler_of(sab, plan_of(sab)), 1],
    "sab_memory_model_write": lambda sab: [a_model(sab)],
    "sab_histogram_write": lambda sab: [a_histogram(sab)],
    "sab_stream_state_save": lambda sab: [sab.new("sab_random_stream_new", 1)],
    "sab_bionemo_create_buckets": lambda sab: [sizes_of(sab), 5, 2],  # fills two
}


def check_buffers(library):
    sab = Library(library)
    functions = {
        each["name"]: each
        for _, each in entries("functions")
        if any(parameter["name"] == "capacity" for parameter in each["parameters"])
    }
    assert functions.keys() == BUFFERS.keys(), functions.keys() ^ BUFFERS.keys()
    for name, made in BUFFERS.items():
        call, given, size = (
            sab.function(functions[name], is_checked=False),
            made(sab),
            ctypes.c_size_t(),
        )
        rooms = call.argtypes[len(given) : -2]
        assert call(*given, *[None] * len(rooms), 0, size) == sab.SAB_OK and size.value > 1, name
        needed, marks = size.value, b"\xa5" * (8 * size.value + 8)
        buffers = [ctypes.create_string_buffer(marks, len(marks)) for _ in rooms]
        passed = [ctypes.cast(each, kind) for each, kind in zip(buffers, rooms, strict=True)]
        assert call(*given, *passed, needed - 1, size) == sab.SAB_E_ARGUMENT, name
        assert size.value == needed and all(each.raw == marks for each in buffers), name
        assert sab.sab_last_error_argument() == b"capacity", name
        assert call(*given, *passed, needed, size) == sab.SAB_OK and size.value == needed, name
        assert all(each.raw != marks for each in buffers), name


if __name__ == "__main__":
    checks = [check_callbacks_that_set_nothing, check_buffers]
    sys.exit(run_all(checks, str(next(PREFIX.rglob("libsab.so")))))
