/* Python's values in streams: what the callbacks of sab/stream.h do with them. Runs in any thread;
 * takes Python's lock where it touches an object. */

/* What the list of a stage holds. The list belongs to Python's pipeline, where the garbage
 * collector sees it: a function that reaches its own stream is collected. */
enum {
    SAB_PY_CALL, /* what the stage calls; a sequence, an iterable */
    SAB_PY_MORE, /* a second one, or what the first needs; None */
    SAB_PY_MADE, /* the iterator of a source; the last key of batches; None */
    /* exceptions by the codes that their failures come back with; of several threads maybe: the
       records before that of the last may fail, too */
    SAB_PY_ERRORS,
    SAB_PY_INNER /* iterators that select-many goes through, by their addresses in C */
};

/* A stage of Python's. Freed by the last one that uses it: Python's pipeline, the stream, streams
 * that it opened. */
typedef struct sab_py_stage {
    PyObject* held;  /* the list, borrowed; NULL when the pipeline is gone */
    int32_t users;   /* under Python's lock */
    int32_t is_text; /* bytes of records are shown as str */
    int32_t is_used; /* an item was asked of the iterator */
    uint64_t count;  /* number of the last key */
} sab_py_stage;

/* The interpreter is exiting: threads must not take its lock. It ends those that try, but only
 * until it is gone: later, PyGILState_Ensure() reads freed memory. */
static volatile int32_t sab_py_is_over;
static void sab_py_set_over(void) {
    sab_py_is_over = 1;
}

static int32_t sab_py_progress(void* ctx, uint64_t done, uint64_t total);

/* Cancels the call of a daemon thread when the interpreter is exiting. */
static int32_t sab_py_stream_progress(void* ctx, uint64_t done, uint64_t total) {
    return sab_py_is_over ? 1 : sab_py_progress(ctx, done, total);
}

static PyObject *sab_py_dumps, *sab_py_loads; /* of pickle */

/* The exception that is being raised, taken away. */
static PyObject* sab_py_raised(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    Py_XDECREF(kind);
    Py_XDECREF(traceback);
    return value;
}

/* Python's lock, and what a stage holds while it is used. */
typedef struct sab_py_entry {
    PyGILState_STATE lock;
    PyObject* held; /* NULL when the pipeline is gone */
} sab_py_entry;

static sab_py_entry sab_py_enter(sab_py_stage* stage) {
    while (sab_py_is_over) sleep(1); /* until the process ends; the main thread is not here */
    sab_py_entry entry = {PyGILState_Ensure(), NULL};
    entry.held = stage->held;
    Py_XINCREF(entry.held);
    return entry;
}

static int32_t sab_py_leave(sab_py_entry entry, int32_t code) {
    Py_XDECREF(entry.held);
    PyGILState_Release(entry.lock);
    return code;
}

static PyObject* sab_py_item(sab_py_entry entry, Py_ssize_t what) {
    return PyList_GetItem(entry.held, what);
}

/* Keeps the exception that is being raised; the code that it is found by. */
static int32_t sab_py_failed(sab_py_entry entry) {
    static int32_t last_code = 1 << 16; /* under Python's lock */
    last_code = last_code == INT32_MAX ? 1 << 16 : last_code + 1;
    const int32_t code = last_code;
    PyObject *value = sab_py_raised(), *key = PyLong_FromLong(code);
    if (entry.held == NULL || key == NULL ||
        PyDict_SetItem(sab_py_item(entry, SAB_PY_ERRORS), key, value) < 0)
        PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(value);
    return code;
}

/* The first two cache lines: more of them, or earlier, made decoding slower. */
static void sab_py_prefetch(const sab_record* record) {
    const size_t line = 64;
    if (record->kind != SAB_RECORD_BYTES) return;
    __builtin_prefetch(record->data);
    if (record->length > line) __builtin_prefetch((const char*)record->data + line);
}

static PyObject* sab_py_value(const sab_record* record, int is_text) {
    if (record->kind == SAB_RECORD_OBJECT) {
        PyObject* object = (PyObject*)record->data;
        Py_INCREF(object);
        return object;
    }
    if (record->kind == SAB_RECORD_BYTES)
        return is_text ? PyUnicode_DecodeUTF8(record->data, (Py_ssize_t)record->length, NULL)
                       : PyBytes_FromStringAndSize(record->data, (Py_ssize_t)record->length);
    const sab_record* items = record->data;
    PyObject* list = PyList_New((Py_ssize_t)record->length);
    const size_t soon = 8; /* the bytes of shuffled records lie anywhere */
    for (size_t i = 0; list != NULL && i < record->length; ++i) {
        if (i + soon < record->length) sab_py_prefetch(&items[i + soon]);
        PyObject* item = sab_py_value(&items[i], is_text);
        if (item == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* A value as a record: the value itself, whose size is its length where it has one. Takes over the
 * reference. */
static void sab_py_record(PyObject* value, sab_record* record) {
    record->kind = SAB_RECORD_OBJECT;
    record->data = value;
    record->length = 0;
    const Py_ssize_t length = PyObject_Size(value);
    if (length < 0) PyErr_Clear();
    record->size = length < 0 ? 1 : (double)length;
}

/* ---- handles ---- */

static void sab_py_release_object(void* ctx, void* object) {
    (void)ctx;
    if (sab_py_is_over) return;
    const PyGILState_STATE lock = PyGILState_Ensure();
    Py_DECREF((PyObject*)object);
    PyGILState_Release(lock);
}

/* Bytes of Python's, or its exception, for a state: as the functions of streams write. Takes over
 * the reference. */
static int32_t sab_py_write(sab_py_entry entry, PyObject* given, void* buffer, size_t capacity,
                            size_t* size) {
    char* bytes = NULL;
    Py_ssize_t length = 0;
    int32_t code = 0;
    if (given == NULL || PyBytes_AsStringAndSize(given, &bytes, &length) < 0) {
        code = sab_py_failed(entry);
    } else {
        *size = (size_t)length;
        if (capacity >= *size) memcpy(buffer, bytes, *size);
    }
    Py_XDECREF(given);
    return code;
}

/* Pickles; ctx is a stage for errors. */
static int32_t sab_py_save_object(void* ctx, void* object, void* buffer, size_t capacity,
                                  size_t* size) {
    const sab_py_entry entry = sab_py_enter(ctx);
    return sab_py_leave(
        entry,
        sab_py_write(entry, PyObject_CallFunctionObjArgs(sab_py_dumps, (PyObject*)object, NULL),
                     buffer, capacity, size));
}

static int32_t sab_py_load_object(void* ctx, const void* data, size_t size, void** object) {
    const sab_py_entry entry = sab_py_enter(ctx);
    PyObject* bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    *object = bytes == NULL ? NULL : PyObject_CallFunctionObjArgs(sab_py_loads, bytes, NULL);
    Py_XDECREF(bytes);
    return sab_py_leave(entry, *object == NULL ? sab_py_failed(entry) : 0);
}

static sab_object_functions sab_py_objects_of(sab_py_stage* stage) {
    sab_object_functions functions = SAB_OBJECT_FUNCTIONS_INIT;
    functions.ctx = stage;
    functions.release = sab_py_release_object;
    functions.save = sab_py_save_object;
    functions.load = sab_py_load_object;
    return functions;
}

/* ---- stages ---- */

static void sab_py_use_pickle(uintptr_t dumps, uintptr_t loads) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    sab_py_dumps = (PyObject*)dumps;
    sab_py_loads = (PyObject*)loads;
    Py_INCREF(sab_py_dumps);
    Py_INCREF(sab_py_loads);
    PyGILState_Release(lock);
}

/* A list as above is given as its address: id(). */
static sab_py_stage* sab_py_stage_new(uintptr_t held, int32_t is_text) {
    sab_py_stage* stage = calloc(1, sizeof *stage);
    if (stage == NULL) return NULL;
    stage->held = (PyObject*)held;
    stage->users = 1;
    stage->is_text = is_text;
    return stage;
}

static void sab_py_stage_use(sab_py_stage* stage) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    ++stage->users;
    PyGILState_Release(lock);
}

static void sab_py_stage_release(void* ctx) {
    sab_py_stage* stage = ctx;
    if (sab_py_is_over) return;
    const PyGILState_STATE lock = PyGILState_Ensure();
    if (--stage->users == 0) free(stage);
    PyGILState_Release(lock);
}

/* The stream was made, and releases the stage when it ends, or it was not. */
static sab_status sab_py_given(sab_py_stage* stage, sab_status status) {
    if (status != SAB_OK) sab_py_stage_release(stage);
    return status;
}

/* The pipeline is gone: what the stage would call from now on fails. */
static void sab_py_stage_close(sab_py_stage* stage) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    stage->held = NULL;
    PyGILState_Release(lock);
}

/* Who uses a stage besides the pipeline. */
static int32_t sab_py_stage_is_used(sab_py_stage* stage) {
    return stage->users > 1;
}

/* The next record, as a value in the first place of a list. */
static sab_status sab_py_next(sab_stream* stream, uintptr_t list, int32_t is_text) {
    sab_record record = {0};
    const sab_status status = sab_stream_next(stream, &record);
    if (status != SAB_OK) return status;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject* value = sab_py_value(&record, is_text);
    PyList_SetItem((PyObject*)list, 0, value != NULL ? value : sab_py_raised());
    PyGILState_Release(lock);
    return value == NULL ? 1000 : SAB_OK;
}

/* ---- sources ---- */

/* The items of an iterable, of what a function of no arguments gives each time, or of `more`, a
 * stateful iterator. */
static int32_t sab_py_begin_source(sab_py_stage* stage, sab_py_entry entry) {
    stage->is_used = 0;
    PyObject* source = sab_py_item(entry, SAB_PY_CALL);
    PyObject* iterable = PyCallable_Check(source) ? PyObject_CallFunctionObjArgs(source, NULL)
                                                  : (Py_INCREF(source), source);
    PyObject* iterator = iterable == NULL ? NULL : PyObject_GetIter(iterable);
    Py_XDECREF(iterable);
    if (iterator == NULL) return sab_py_failed(entry);
    PyList_SetItem(entry.held, SAB_PY_MADE, iterator);
    return 0;
}

static int32_t sab_py_source_next(void* ctx, sab_record* record) {
    sab_py_stage* stage = ctx;
    const sab_py_entry entry = sab_py_enter(stage);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    int32_t code =
        sab_py_item(entry, SAB_PY_MADE) == Py_None ? sab_py_begin_source(stage, entry) : 0;
    if (code == 0) {
        stage->is_used = 1;
        PyObject* iterator = sab_py_item(entry, SAB_PY_MADE);
        Py_INCREF(iterator);
        PyObject* value = PyIter_Next(iterator);
        Py_DECREF(iterator);
        if (value != NULL) {
            sab_py_record(value, record);
        } else {
            code = PyErr_Occurred() != NULL ? sab_py_failed(entry) : SAB_END;
        }
    }
    return sab_py_leave(entry, code);
}

static int32_t sab_py_source_rewind(void* ctx) {
    sab_py_stage* stage = ctx;
    const sab_py_entry entry = sab_py_enter(stage);
    const int32_t code = entry.held == NULL ? 1
                         : sab_py_item(entry, SAB_PY_MADE) == Py_None || !stage->is_used
                             ? 0
                             : sab_py_begin_source(stage, entry);
    return sab_py_leave(entry, code);
}

/* more: (state as bytes, restore from bytes or None) of an iterator that has a state of its own. */
static int32_t sab_py_source_save(void* ctx, void* buffer, size_t capacity, size_t* size) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject* state =
        PyObject_CallFunctionObjArgs(PyTuple_GetItem(sab_py_item(entry, SAB_PY_MORE), 0), NULL);
    return sab_py_leave(entry, sab_py_write(entry, state, buffer, capacity, size));
}

static int32_t sab_py_source_restore(void* ctx, const void* data, size_t size) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject* bytes = data == NULL && size == 0 ? (Py_INCREF(Py_None), Py_None)
                                                : PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    PyObject* done = bytes == NULL
                         ? NULL
                         : PyObject_CallFunctionObjArgs(
                               PyTuple_GetItem(sab_py_item(entry, SAB_PY_MORE), 1), bytes, NULL);
    PyObject* iterator = done == NULL ? NULL : PyObject_GetIter(sab_py_item(entry, SAB_PY_CALL));
    const int32_t code = iterator == NULL ? sab_py_failed(entry) : 0;
    if (iterator != NULL) PyList_SetItem(entry.held, SAB_PY_MADE, iterator);
    Py_XDECREF(bytes);
    Py_XDECREF(done);
    return sab_py_leave(entry, code);
}

static int32_t sab_py_source_rewind_by_state(void* ctx) {
    return sab_py_source_restore(ctx, NULL, 0);
}

static sab_status sab_py_source_new(sab_py_stage* stage, int32_t has_state, sab_stream** stream) {
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    const sab_object_functions objects = sab_py_objects_of(stage);
    functions.ctx = stage;
    functions.next = sab_py_source_next;
    functions.rewind = sab_py_source_rewind;
    functions.release = sab_py_stage_release;
    functions.objects = &objects;
    if (has_state) {
        functions.rewind = sab_py_source_rewind_by_state;
        functions.state_save = sab_py_source_save;
        functions.state_restore = sab_py_source_restore;
    }
    sab_py_stage_use(stage);
    return sab_py_given(stage, sab_callback_stream_new(&functions, stream));
}

/* ---- maps ---- */

static PyObject* sab_py_argument(sab_py_stage* stage, const sab_record* record) {
    return sab_py_value(record, stage->is_text);
}

/* Of a record that is passed on as it is the stream has its reference already. */
static void sab_py_give(PyObject* value, const sab_record* record, sab_record* made) {
    sab_py_record(value, made);
    if (record->kind == SAB_RECORD_OBJECT && record->data == value) Py_DECREF(value);
}

static int32_t sab_py_made(sab_py_entry entry, PyObject* value, const sab_record* record,
                           sab_record* made) {
    if (value == NULL) return sab_py_failed(entry);
    sab_py_give(value, record, made);
    return 0;
}

/* What a function of the stage gives for a record; NULL when it raised. */
static PyObject* sab_py_called(sab_py_stage* stage, sab_py_entry entry, Py_ssize_t what,
                               const sab_record* record) {
    PyObject* argument = sab_py_argument(stage, record);
    PyObject* value = argument == NULL
                          ? NULL
                          : PyObject_CallFunctionObjArgs(sab_py_item(entry, what), argument, NULL);
    Py_XDECREF(argument);
    return value;
}

static int32_t sab_py_call_map(void* ctx, const sab_record* record, sab_record* made) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    return sab_py_leave(
        entry, sab_py_made(entry, sab_py_called(ctx, entry, SAB_PY_CALL, record), record, made));
}

/* The item of `call`, a sequence, whose number the record is. */
static int32_t sab_py_call_item(void* ctx, const sab_record* record, sab_record* made) {
    int64_t index = 0;
    memcpy(&index, record->data, sizeof index);
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    return sab_py_leave(
        entry,
        sab_py_made(entry, PySequence_GetItem(sab_py_item(entry, SAB_PY_CALL), (Py_ssize_t)index),
                    record, made));
}

/* Only the size is made. */
static int32_t sab_py_call_size(void* ctx, const sab_record* record, sab_record* made) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject* size = sab_py_called(ctx, entry, SAB_PY_CALL, record);
    if (size != NULL) made->size = PyFloat_AsDouble(size);
    const int32_t code = size == NULL || PyErr_Occurred() != NULL ? sab_py_failed(entry) : 0;
    Py_XDECREF(size);
    return sab_py_leave(entry, code);
}

static sab_status sab_py_map_new(sab_stream* source, sab_py_stage* stage, int32_t what,
                                 uint64_t threads, sab_stream** stream) {
    static const sab_map_fn maps[] = {sab_py_call_map, sab_py_call_item, sab_py_call_size};
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    const sab_object_functions objects = sab_py_objects_of(stage);
    options.map = maps[what];
    options.ctx = stage;
    options.release = sab_py_stage_release;
    options.threads = threads;
    if (what < 2) options.objects = &objects;
    sab_py_stage_use(stage);
    return sab_py_given(stage, sab_map_stream_new(source, &options, stream));
}

/* ---- select-many: what the function gives is gone through once ---- */

typedef struct sab_py_inner {
    sab_py_stage* stage; /* has the iterator */
    uint64_t count;
} sab_py_inner;

/* The iterator, borrowed; NULL when the pipeline is gone. */
static PyObject* sab_py_inner_iterator(sab_py_entry entry, sab_py_inner* inner) {
    PyObject* key = entry.held == NULL ? NULL : PyLong_FromVoidPtr(inner);
    PyObject* iterator = key == NULL ? NULL : PyDict_GetItem(sab_py_item(entry, SAB_PY_INNER), key);
    Py_XDECREF(key);
    return iterator;
}

static int32_t sab_py_inner_next(void* ctx, sab_record* record) {
    sab_py_inner* inner = ctx;
    const sab_py_entry entry = sab_py_enter(inner->stage);
    PyObject* iterator = sab_py_inner_iterator(entry, inner);
    if (iterator == NULL) return sab_py_leave(entry, 1);
    Py_INCREF(iterator);
    PyObject* value = PyIter_Next(iterator);
    Py_DECREF(iterator);
    int32_t code = 0;
    if (value != NULL) {
        sab_py_record(value, record);
        ++inner->count;
    } else {
        code = PyErr_Occurred() != NULL ? sab_py_failed(entry) : SAB_END;
    }
    return sab_py_leave(entry, code);
}

/* A restore opens it anew, so that nothing was taken. */
static int32_t sab_py_inner_rewind(void* ctx) {
    return ((sab_py_inner*)ctx)->count == 0 ? 0 : 1;
}

static void sab_py_inner_release(void* ctx) {
    sab_py_inner* inner = ctx;
    if (sab_py_is_over) return;
    const sab_py_entry entry = sab_py_enter(inner->stage);
    PyObject* key = entry.held == NULL ? NULL : PyLong_FromVoidPtr(inner);
    if (key != NULL && PyDict_DelItem(sab_py_item(entry, SAB_PY_INNER), key) < 0) PyErr_Clear();
    Py_XDECREF(key);
    sab_py_stage_release(inner->stage);
    free(inner);
    sab_py_leave(entry, 0);
}

/* A new inner stream's context, which has the iterator; NULL when Python raised. */
static sab_py_inner* sab_py_inner_new(sab_py_stage* stage, sab_py_entry entry, PyObject* iterator) {
    sab_py_inner* inner = calloc(1, sizeof *inner);
    PyObject* key = inner == NULL ? PyErr_NoMemory() : PyLong_FromVoidPtr(inner);
    const int is_kept =
        key != NULL && PyDict_SetItem(sab_py_item(entry, SAB_PY_INNER), key, iterator) == 0;
    Py_XDECREF(key);
    if (!is_kept) {
        free(inner);
        return NULL;
    }
    inner->stage = stage;
    ++stage->users;
    return inner;
}

static int32_t sab_py_call_select(void* ctx, const sab_record* record, sab_stream** made) {
    sab_py_stage* stage = ctx;
    const sab_py_entry entry = sab_py_enter(stage);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject* given = sab_py_item(entry, SAB_PY_CALL) == Py_None
                          ? sab_py_argument(stage, record)
                          : sab_py_called(stage, entry, SAB_PY_CALL, record);
    PyObject* iterator = given == NULL ? NULL : PyObject_GetIter(given);
    Py_XDECREF(given);
    sab_py_inner* inner = iterator == NULL ? NULL : sab_py_inner_new(stage, entry, iterator);
    Py_XDECREF(iterator);
    const int32_t code = sab_py_leave(entry, inner == NULL ? sab_py_failed(entry) : 0);
    if (inner == NULL) return code;
    const sab_object_functions objects = sab_py_objects_of(stage);
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = inner;
    functions.next = sab_py_inner_next;
    functions.rewind = sab_py_inner_rewind;
    functions.release = sab_py_inner_release;
    functions.objects = &objects;
    if (sab_callback_stream_new(&functions, made) == SAB_OK) return 0;
    sab_py_inner_release(inner);
    return 1;
}

static sab_status sab_py_select_new(sab_stream* source, sab_py_stage* stage, sab_stream** stream) {
    const sab_object_functions objects = sab_py_objects_of(stage);
    sab_py_stage_use(stage);
    return sab_py_given(stage, sab_select_stream_new(source, sab_py_call_select, stage,
                                                     sab_py_stage_release, &objects, stream));
}

/* ---- steps with a state, and chance ---- */

/* A pair of Python's as the next state and what is made. The first state, of no bytes, is what
 * `more` gives. */
static int32_t sab_py_call_recur(void* ctx, const sab_record* state, const sab_record* record,
                                 sab_record* next, sab_record* made) {
    sab_py_stage* stage = ctx;
    const sab_py_entry entry = sab_py_enter(stage);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject *argument = sab_py_argument(stage, record), *before = NULL, *pair = NULL,
             *after = NULL, *value = NULL;
    if (argument != NULL)
        before = state->kind == SAB_RECORD_OBJECT
                     ? sab_py_value(state, 0)
                     : PyObject_CallFunctionObjArgs(sab_py_item(entry, SAB_PY_MORE), NULL);
    if (before != NULL)
        pair =
            PyObject_CallFunctionObjArgs(sab_py_item(entry, SAB_PY_CALL), before, argument, NULL);
    if (pair != NULL) after = PySequence_GetItem(pair, 0);
    if (after != NULL) value = PySequence_GetItem(pair, 1);
    int32_t code = 0;
    if (value == NULL) {
        code = sab_py_failed(entry);
        Py_XDECREF(after);
    } else {
        sab_py_give(after, state, next);
        sab_py_give(value, record, made);
    }
    Py_XDECREF(pair);
    Py_XDECREF(before);
    Py_XDECREF(argument);
    return sab_py_leave(entry, code);
}

static sab_status sab_py_recurrent_new(sab_stream* source, sab_py_stage* stage,
                                       sab_stream** stream) {
    const sab_object_functions objects = sab_py_objects_of(stage);
    sab_py_stage_use(stage);
    return sab_py_given(
        stage, sab_recurrent_stream_new(source, sab_py_call_recur, stage, sab_py_stage_release,
                                        NULL, &objects, stream));
}

/* `more` makes a random generator of an address. */
static int32_t sab_py_call_random(void* ctx, sab_random* random, const sab_record* record,
                                  sab_record* made) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject *argument = sab_py_argument(ctx, record), *address = PyLong_FromVoidPtr(random),
             *generator = NULL, *value = NULL;
    if (argument != NULL && address != NULL)
        generator = PyObject_CallFunctionObjArgs(sab_py_item(entry, SAB_PY_MORE), address, NULL);
    if (generator != NULL)
        value = PyObject_CallFunctionObjArgs(sab_py_item(entry, SAB_PY_CALL), generator, argument,
                                             NULL);
    const int32_t code = sab_py_made(entry, value, record, made);
    Py_XDECREF(generator);
    Py_XDECREF(address);
    Py_XDECREF(argument);
    return sab_py_leave(entry, code);
}

static sab_status sab_py_random_map_new(sab_stream* source, sab_py_stage* stage, uint64_t seed,
                                        sab_stream** stream) {
    const sab_object_functions objects = sab_py_objects_of(stage);
    sab_py_stage_use(stage);
    return sab_py_given(
        stage, sab_random_map_stream_new(source, sab_py_call_random, stage, sab_py_stage_release,
                                         seed, &objects, stream));
}

/* ---- batches ---- */

static int32_t sab_py_call_batch_size(void* ctx, const sab_record* largest, uint64_t* batch_size) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject* size = sab_py_called(ctx, entry, SAB_PY_CALL, largest);
    PyObject* whole = size == NULL ? NULL : PyNumber_Index(size);
    const long long number = whole == NULL ? -1 : PyLong_AsLongLong(whole);
    int32_t code = 0;
    if (PyErr_Occurred() != NULL)
        code = sab_py_failed(entry);
    else
        /* a batch has at least the one that it is made for */
        *batch_size = number < 1 ? 1 : (uint64_t)number;
    Py_XDECREF(whole);
    Py_XDECREF(size);
    return sab_py_leave(entry, code);
}

/* Values of any kind that can be compared, as numbers: records are asked for in the order in which
 * batches are cut, so that it is enough to know the last. */
static int32_t sab_py_call_boundary_key(void* ctx, const sab_record* record, uint64_t* key) {
    sab_py_stage* stage = ctx;
    const sab_py_entry entry = sab_py_enter(stage);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject *own = sab_py_called(stage, entry, SAB_PY_MORE, record),
             *last = sab_py_item(entry, SAB_PY_MADE);
    Py_INCREF(last);
    const int differs = own == NULL         ? -1
                        : stage->count == 0 ? 1
                                            : PyObject_RichCompareBool(own, last, Py_NE);
    Py_DECREF(last);
    int32_t code = 0;
    if (differs < 0) {
        code = sab_py_failed(entry);
        Py_XDECREF(own);
    } else {
        PyList_SetItem(entry.held, SAB_PY_MADE, own);
        stage->count += differs != 0;
        *key = stage->count;
    }
    return sab_py_leave(entry, code);
}

/* The sizes of a record: what each function of `call`, a tuple, gives for it. */
static int32_t sab_py_call_sizes(void* ctx, const sab_record* record, double* sizes) {
    const sab_py_entry entry = sab_py_enter(ctx);
    if (entry.held == NULL) return sab_py_leave(entry, 1);
    PyObject *functions = sab_py_item(entry, SAB_PY_CALL), *argument = sab_py_argument(ctx, record);
    const Py_ssize_t columns = PyTuple_Size(functions);
    int is_set = argument != NULL;
    for (Py_ssize_t j = 0; is_set && j < columns; ++j) {
        PyObject* size =
            PyObject_CallFunctionObjArgs(PyTuple_GetItem(functions, j), argument, NULL);
        if (size != NULL) sizes[j] = PyFloat_AsDouble(size);
        is_set = size != NULL && PyErr_Occurred() == NULL;
        Py_XDECREF(size);
    }
    Py_XDECREF(argument);
    return sab_py_leave(entry, is_set ? 0 : sab_py_failed(entry));
}

/* `options`: with columns, whose sizes the functions of the stage give. */
static sab_status sab_py_pack_new(sab_stream* source, sab_pack_stream_options* options,
                                  sab_py_stage* stage, sab_stream** stream) {
    options->sizes_fn = sab_py_call_sizes;
    options->ctx = stage;
    options->release = sab_py_stage_release;
    sab_py_stage_use(stage);
    return sab_py_given(stage, sab_pack_stream_new(source, options, stream));
}

static sab_status sab_py_readahead_new(sab_stream* source, sab_readahead_stream_options* options,
                                       sab_py_stage* stage, int32_t has_batch_size,
                                       int32_t has_boundary_key, sab_stream** stream) {
    options->batch_size_fn = has_batch_size ? sab_py_call_batch_size : NULL;
    options->boundary_key_fn = has_boundary_key ? sab_py_call_boundary_key : NULL;
    options->sizes_fn = options->columns > 0 ? sab_py_call_sizes : NULL;
    options->ctx = stage;
    options->release = sab_py_stage_release;
    sab_py_stage_use(stage);
    return sab_py_given(stage, sab_readahead_stream_new(source, options, stream));
}
