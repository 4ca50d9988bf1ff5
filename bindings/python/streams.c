/* Python's values in streams: what the callbacks of sab/stream.h do with them. Runs in any thread; takes Python's lock where it touches an object. */

/* An exception that a function raised, and the code that its failure comes back with. */
typedef struct sab_py_error {
    PyObject *value;
    int32_t code;
    struct sab_py_error *next;
} sab_py_error;

/* A stage of Python's: its functions, and the exceptions that they raised. */
typedef struct sab_py_stage {
    PyObject *call;   /* what the stage calls; a sequence, an iterable */
    PyObject *more;   /* a second one, or what the first needs; NULL */
    PyObject *made;   /* the iterator of a source; the last key of batches; NULL */
    sab_py_error *errors; /* of several threads maybe: the records before that of the last may fail, too */
    int32_t is_text;      /* bytes of records are shown as str */
    int32_t is_used;      /* an item was asked of `made` */
    uint64_t count;   /* records taken of a source; number of the last key */
} sab_py_stage;

static PyObject *sab_py_dumps, *sab_py_loads; /* of pickle */

/* The exception that is being raised, taken away. */
static PyObject *sab_py_raised(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    Py_XDECREF(kind);
    Py_XDECREF(traceback);
    return value;
}

static int32_t sab_py_failed(sab_py_stage *stage) {
    static int32_t last_code = 1 << 16; /* under Python's lock */
    PyObject *value = sab_py_raised();
    sab_py_error *error = malloc(sizeof *error);
    if (error == NULL) {
        Py_XDECREF(value);
        return 1;
    }
    last_code = last_code == INT32_MAX ? 1 << 16 : last_code + 1;
    error->value = value;
    error->code = last_code;
    error->next = stage->errors;
    stage->errors = error;
    return last_code;
}

static PyObject *sab_py_value(const sab_record *record, int is_text) {
    if (record->kind == SAB_RECORD_OBJECT) {
        PyObject *object = (PyObject *)record->data;
        Py_INCREF(object);
        return object;
    }
    if (record->kind == SAB_RECORD_BYTES)
        return is_text ? PyUnicode_DecodeUTF8(record->data, (Py_ssize_t)record->length, NULL) : PyBytes_FromStringAndSize(record->data, (Py_ssize_t)record->length);
    const sab_record *items = record->data;
    PyObject *list = PyList_New((Py_ssize_t)record->length);
    for (size_t i = 0; list != NULL && i < record->length; ++i) {
        PyObject *item = sab_py_value(&items[i], is_text);
        if (item == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* A value as a record: the value itself, whose size is its length where it has one. Takes over the reference. */
static void sab_py_record(PyObject *value, sab_record *record) {
    record->kind = SAB_RECORD_OBJECT;
    record->data = value;
    record->length = 0;
    const Py_ssize_t length = PyObject_Size(value);
    if (length < 0) PyErr_Clear();
    record->size = length < 0 ? 1 : (double)length;
}

/* ---- handles ---- */

static void sab_py_release_object(void *ctx, void *object) {
    (void)ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    Py_DECREF((PyObject *)object);
    PyGILState_Release(lock);
}

/* Bytes of Python's, or its exception, for a state: as the functions of streams write. Takes over the reference. */
static int32_t sab_py_write(sab_py_stage *stage, PyObject *given, void *buffer, size_t capacity, size_t *size) {
    char *bytes = NULL;
    Py_ssize_t length = 0;
    int32_t code = 0;
    if (given == NULL || PyBytes_AsStringAndSize(given, &bytes, &length) < 0) {
        code = sab_py_failed(stage);
    } else {
        *size = (size_t)length;
        if (capacity >= *size) memcpy(buffer, bytes, *size);
    }
    Py_XDECREF(given);
    return code;
}

/* Pickles; ctx is a stage for errors. */
static int32_t sab_py_save_object(void *ctx, void *object, void *buffer, size_t capacity, size_t *size) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int32_t code = sab_py_write(ctx, PyObject_CallFunctionObjArgs(sab_py_dumps, (PyObject *)object, NULL), buffer, capacity, size);
    PyGILState_Release(lock);
    return code;
}

static int32_t sab_py_load_object(void *ctx, const void *data, size_t size, void **object) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    int32_t code = 0;
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    *object = bytes == NULL ? NULL : PyObject_CallFunctionObjArgs(sab_py_loads, bytes, NULL);
    Py_XDECREF(bytes);
    if (*object == NULL) code = sab_py_failed(ctx);
    PyGILState_Release(lock);
    return code;
}

static sab_object_functions sab_py_objects_of(sab_py_stage *stage) {
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
    sab_py_dumps = (PyObject *)dumps;
    sab_py_loads = (PyObject *)loads;
    Py_INCREF(sab_py_dumps);
    Py_INCREF(sab_py_loads);
    PyGILState_Release(lock);
}

/* Objects are given as their addresses: id(). */
static sab_py_stage *sab_py_stage_new(uintptr_t call, uintptr_t more, int32_t is_text) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    sab_py_stage *stage = calloc(1, sizeof *stage);
    if (stage != NULL) {
        stage->call = (PyObject *)call;
        stage->more = (PyObject *)more;
        stage->is_text = is_text;
        Py_XINCREF(stage->call);
        Py_XINCREF(stage->more);
    }
    PyGILState_Release(lock);
    return stage;
}

/* Lets go of what the stage holds. The stage itself stays until Python, which knows when nothing can ask it for its error any more, frees it. */
static void sab_py_stage_release(void *ctx) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    Py_CLEAR(stage->call);
    Py_CLEAR(stage->more);
    Py_CLEAR(stage->made);
    PyGILState_Release(lock);
}

static void sab_py_stage_free(sab_py_stage *stage) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    sab_py_stage_release(stage);
    while (stage->errors != NULL) {
        sab_py_error *error = stage->errors;
        stage->errors = error->next;
        Py_XDECREF(error->value);
        free(error);
    }
    free(stage);
    PyGILState_Release(lock);
}

/* Moves the exception of a code into the first place of a list; 0 where there is none. */
static int32_t sab_py_stage_error(sab_py_stage *stage, int32_t code, uintptr_t list) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    sab_py_error **place = &stage->errors;
    while (*place != NULL && (*place)->code != code) place = &(*place)->next;
    sab_py_error *error = *place;
    if (error != NULL) {
        *place = error->next;
        PyList_SetItem((PyObject *)list, 0, error->value);
        free(error);
    }
    PyGILState_Release(lock);
    return error != NULL;
}

/* The next record, as a value in the first place of a list. */
static sab_status sab_py_next(sab_stream *stream, uintptr_t list, int32_t is_text) {
    sab_record record = SAB_RECORD_INIT;
    const sab_status status = sab_stream_next(stream, &record);
    if (status != SAB_OK) return status;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *value = sab_py_value(&record, is_text);
    PyList_SetItem((PyObject *)list, 0, value != NULL ? value : sab_py_raised());
    PyGILState_Release(lock);
    return value == NULL ? 1000 : SAB_OK;
}

/* ---- sources ---- */

/* The items of an iterable, of what a function of no arguments gives each time, or of `more`, a stateful iterator. */
static int32_t sab_py_begin_source(sab_py_stage *stage) {
    Py_CLEAR(stage->made);
    stage->is_used = 0;
    PyObject *iterable = PyCallable_Check(stage->call) ? PyObject_CallFunctionObjArgs(stage->call, NULL) : stage->call;
    if (iterable == stage->call) Py_XINCREF(iterable);
    stage->made = iterable == NULL ? NULL : PyObject_GetIter(iterable);
    Py_XDECREF(iterable);
    return stage->made == NULL ? sab_py_failed(stage) : 0;
}

static int32_t sab_py_source_next(void *ctx, sab_record *record) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    int32_t code = stage->made == NULL ? sab_py_begin_source(stage) : 0;
    if (code == 0) {
        stage->is_used = 1;
        PyObject *value = PyIter_Next(stage->made);
        if (value != NULL) {
            sab_py_record(value, record);
        } else {
            code = PyErr_Occurred() != NULL ? sab_py_failed(stage) : SAB_END;
        }
    }
    PyGILState_Release(lock);
    return code;
}

static int32_t sab_py_source_rewind(void *ctx) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int32_t code = stage->made == NULL || !stage->is_used ? 0 : sab_py_begin_source(stage);
    PyGILState_Release(lock);
    return code;
}

/* more: (state as bytes, restore from bytes or None) of an iterator that has a state of its own. */
static int32_t sab_py_source_save(void *ctx, void *buffer, size_t capacity, size_t *size) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int32_t code = sab_py_write(stage, PyObject_CallFunctionObjArgs(PyTuple_GetItem(stage->more, 0), NULL), buffer, capacity, size);
    PyGILState_Release(lock);
    return code;
}

static int32_t sab_py_source_restore(void *ctx, const void *data, size_t size) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *bytes = data == NULL && size == 0 ? (Py_INCREF(Py_None), Py_None) : PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    PyObject *done = bytes == NULL ? NULL : PyObject_CallFunctionObjArgs(PyTuple_GetItem(stage->more, 1), bytes, NULL);
    int32_t code = 0;
    Py_CLEAR(stage->made);
    if (done == NULL || (stage->made = PyObject_GetIter(stage->call)) == NULL) code = sab_py_failed(stage);
    Py_XDECREF(bytes);
    Py_XDECREF(done);
    PyGILState_Release(lock);
    return code;
}

static int32_t sab_py_source_rewind_by_state(void *ctx) { return sab_py_source_restore(ctx, NULL, 0); }

static sab_status sab_py_source_new(sab_py_stage *stage, sab_stream **stream) {
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    const sab_object_functions objects = sab_py_objects_of(stage);
    functions.ctx = stage;
    functions.next = sab_py_source_next;
    functions.rewind = sab_py_source_rewind;
    functions.release = sab_py_stage_release;
    functions.objects = &objects;
    if (stage->more != NULL) {
        functions.rewind = sab_py_source_rewind_by_state;
        functions.state_save = sab_py_source_save;
        functions.state_restore = sab_py_source_restore;
    }
    return sab_callback_stream_new(&functions, stream);
}

/* ---- maps ---- */

static PyObject *sab_py_argument(sab_py_stage *stage, const sab_record *record) { return sab_py_value(record, stage->is_text); }

/* Of a record that is passed on as it is the stream has its reference already. */
static void sab_py_give(PyObject *value, const sab_record *record, sab_record *made) {
    sab_py_record(value, made);
    if (record->kind == SAB_RECORD_OBJECT && record->data == value) Py_DECREF(value);
}

static int32_t sab_py_made(sab_py_stage *stage, PyObject *value, const sab_record *record, sab_record *made) {
    if (value == NULL) return sab_py_failed(stage);
    sab_py_give(value, record, made);
    return 0;
}

static int32_t sab_py_call_map(void *ctx, const sab_record *record, sab_record *made) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, record);
    const int32_t code = sab_py_made(stage, argument == NULL ? NULL : PyObject_CallFunctionObjArgs(stage->call, argument, NULL), record, made);
    Py_XDECREF(argument);
    PyGILState_Release(lock);
    return code;
}

/* The item of `call`, a sequence, whose number the record is. */
static int32_t sab_py_call_item(void *ctx, const sab_record *record, sab_record *made) {
    sab_py_stage *stage = ctx;
    int64_t index = 0;
    memcpy(&index, record->data, sizeof index);
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int32_t code = sab_py_made(stage, PySequence_GetItem(stage->call, (Py_ssize_t)index), record, made);
    PyGILState_Release(lock);
    return code;
}

/* Only the size is made. */
static int32_t sab_py_call_size(void *ctx, const sab_record *record, sab_record *made) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, record);
    PyObject *size = argument == NULL ? NULL : PyObject_CallFunctionObjArgs(stage->call, argument, NULL);
    int32_t code = 0;
    if (size != NULL) made->size = PyFloat_AsDouble(size);
    if (size == NULL || PyErr_Occurred() != NULL) code = sab_py_failed(stage);
    Py_XDECREF(argument);
    Py_XDECREF(size);
    PyGILState_Release(lock);
    return code;
}

/* Sizes of text without Python: its characters, its words. Of a list the number of its items, of other values their len(). */
static int32_t sab_py_call_chars(void *ctx, const sab_record *record, sab_record *made) {
    (void)ctx;
    if (record->kind == SAB_RECORD_OBJECT) return 0;
    const unsigned char *text = record->data;
    size_t count = record->length;
    if (record->kind == SAB_RECORD_BYTES) {
        size_t i = 0;
        for (; i + 8 <= record->length; i += 8) { /* eight bytes at once: those that go on a character begin with the bits 10 */
            uint64_t bytes;
            memcpy(&bytes, text + i, sizeof bytes);
            count -= (size_t)__builtin_popcountll((bytes >> 7) & ~(bytes >> 6) & 0x0101010101010101u);
        }
        for (; i < record->length; ++i) count -= (text[i] & 0xC0) == 0x80;
    }
    made->size = (double)count;
    return 0;
}

static int32_t sab_py_call_words(void *ctx, const sab_record *record, sab_record *made) {
    (void)ctx;
    if (record->kind != SAB_RECORD_BYTES) return 0;
    const unsigned char *text = record->data;
    size_t count = 0;
    int was_space = 1;
    for (size_t i = 0; i < record->length; ++i) {
        const int is_space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
        count += was_space && !is_space;
        was_space = is_space;
    }
    made->size = (double)count;
    return 0;
}

static sab_status sab_py_map_new(sab_stream *source, sab_py_stage *stage, int32_t what, uint64_t threads, sab_stream **stream) {
    static const sab_map_fn maps[] = {sab_py_call_map, sab_py_call_item, sab_py_call_size, sab_py_call_chars, sab_py_call_words};
    sab_map_stream_options options = SAB_MAP_STREAM_OPTIONS_INIT;
    const sab_object_functions objects = sab_py_objects_of(stage);
    options.map = maps[what];
    options.ctx = stage;
    options.release = sab_py_stage_release;
    options.threads = threads;
    if (what < 2) options.objects = &objects;
    return sab_map_stream_new(source, &options, stream);
}

/* ---- select-many: what the function gives is gone through once ---- */

typedef struct sab_py_inner {
    sab_py_stage *stage; /* for errors */
    PyObject *iterator;
    uint64_t count;
} sab_py_inner;

static int32_t sab_py_inner_next(void *ctx, sab_record *record) {
    sab_py_inner *inner = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *value = PyIter_Next(inner->iterator);
    int32_t code = 0;
    if (value != NULL) {
        sab_py_record(value, record);
        ++inner->count;
    } else {
        code = PyErr_Occurred() != NULL ? sab_py_failed(inner->stage) : SAB_END;
    }
    PyGILState_Release(lock);
    return code;
}

/* A restore opens it anew, so that nothing was taken. */
static int32_t sab_py_inner_rewind(void *ctx) { return ((sab_py_inner *)ctx)->count == 0 ? 0 : 1; }

static void sab_py_inner_release(void *ctx) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    Py_DECREF(((sab_py_inner *)ctx)->iterator);
    free(ctx);
    PyGILState_Release(lock);
}

static int32_t sab_py_call_select(void *ctx, const sab_record *record, sab_stream **made) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, record), *given = NULL, *iterator = NULL;
    if (argument != NULL) given = stage->call == Py_None ? (Py_INCREF(argument), argument) : PyObject_CallFunctionObjArgs(stage->call, argument, NULL);
    if (given != NULL) iterator = PyObject_GetIter(given);
    sab_py_inner *inner = iterator == NULL ? NULL : calloc(1, sizeof *inner);
    if (iterator != NULL && inner == NULL) PyErr_NoMemory();
    const int32_t code = inner == NULL ? sab_py_failed(stage) : 0;
    Py_XDECREF(given);
    Py_XDECREF(argument);
    PyGILState_Release(lock);
    if (code != 0) return code;
    inner->stage = stage;
    inner->iterator = iterator;
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

static sab_status sab_py_select_new(sab_stream *source, sab_py_stage *stage, sab_stream **stream) {
    const sab_object_functions objects = sab_py_objects_of(stage);
    return sab_select_stream_new(source, sab_py_call_select, stage, sab_py_stage_release, &objects, stream);
}

/* ---- steps with a state, and chance ---- */

/* A pair of Python's as the next state and what is made. The first state, of no bytes, is `more`. */
static int32_t sab_py_call_recur(void *ctx, const sab_record *state, const sab_record *record, sab_record *next, sab_record *made) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, record), *before = NULL, *pair = NULL, *after = NULL, *value = NULL;
    if (argument != NULL) before = state->kind == SAB_RECORD_OBJECT ? sab_py_value(state, 0) : PyObject_CallFunctionObjArgs(stage->more, NULL);
    if (before != NULL) pair = PyObject_CallFunctionObjArgs(stage->call, before, argument, NULL);
    if (pair != NULL) after = PySequence_GetItem(pair, 0);
    if (after != NULL) value = PySequence_GetItem(pair, 1);
    int32_t code = 0;
    if (value == NULL) {
        code = sab_py_failed(stage);
        Py_XDECREF(after);
    } else {
        sab_py_give(after, state, next);
        sab_py_give(value, record, made);
    }
    Py_XDECREF(pair);
    Py_XDECREF(before);
    Py_XDECREF(argument);
    PyGILState_Release(lock);
    return code;
}

static sab_status sab_py_recurrent_new(sab_stream *source, sab_py_stage *stage, sab_stream **stream) {
    const sab_object_functions objects = sab_py_objects_of(stage);
    return sab_recurrent_stream_new(source, sab_py_call_recur, stage, sab_py_stage_release, NULL, &objects, stream);
}

/* `more` makes a random generator of an address. */
static int32_t sab_py_call_random(void *ctx, sab_random *random, const sab_record *record, sab_record *made) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, record), *address = PyLong_FromVoidPtr(random), *generator = NULL, *value = NULL;
    if (argument != NULL && address != NULL) generator = PyObject_CallFunctionObjArgs(stage->more, address, NULL);
    if (generator != NULL) value = PyObject_CallFunctionObjArgs(stage->call, generator, argument, NULL);
    const int32_t code = sab_py_made(stage, value, record, made);
    Py_XDECREF(generator);
    Py_XDECREF(address);
    Py_XDECREF(argument);
    PyGILState_Release(lock);
    return code;
}

static sab_status sab_py_random_map_new(sab_stream *source, sab_py_stage *stage, uint64_t seed, sab_stream **stream) {
    const sab_object_functions objects = sab_py_objects_of(stage);
    return sab_random_map_stream_new(source, sab_py_call_random, stage, sab_py_stage_release, seed, &objects, stream);
}

/* ---- batches ---- */

static int32_t sab_py_call_batch_size(void *ctx, const sab_record *largest, uint64_t *batch_size) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, largest);
    PyObject *size = argument == NULL ? NULL : PyObject_CallFunctionObjArgs(stage->call, argument, NULL);
    PyObject *whole = size == NULL ? NULL : PyNumber_Index(size);
    const long long number = whole == NULL ? -1 : PyLong_AsLongLong(whole);
    int32_t code = 0;
    if (PyErr_Occurred() != NULL)
        code = sab_py_failed(stage);
    else
        *batch_size = number < 1 ? 1 : (uint64_t)number; /* a batch has at least the one that it is made for */
    Py_XDECREF(whole);
    Py_XDECREF(size);
    Py_XDECREF(argument);
    PyGILState_Release(lock);
    return code;
}

/* Values of any kind that can be compared, as numbers: records are asked for in the order in which batches are cut, so that it is enough to know the last. */
static int32_t sab_py_call_boundary_key(void *ctx, const sab_record *record, uint64_t *key) {
    sab_py_stage *stage = ctx;
    const PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *argument = sab_py_argument(stage, record);
    PyObject *own = argument == NULL ? NULL : PyObject_CallFunctionObjArgs(stage->more, argument, NULL);
    int32_t code = 0;
    const int differs = own == NULL ? -1 : stage->made == NULL ? 1 : PyObject_RichCompareBool(own, stage->made, Py_NE);
    if (differs < 0) {
        code = sab_py_failed(stage);
        Py_XDECREF(own);
    } else {
        Py_XDECREF(stage->made);
        stage->made = own;
        stage->count += differs != 0;
        *key = stage->count;
    }
    Py_XDECREF(argument);
    PyGILState_Release(lock);
    return code;
}

static sab_status sab_py_readahead_new(sab_stream *source, sab_readahead_stream_options *options, sab_py_stage *stage, int32_t has_batch_size, int32_t has_boundary_key,
                                       sab_stream **stream) {
    options->batch_size_fn = has_batch_size ? sab_py_call_batch_size : NULL;
    options->boundary_key_fn = has_boundary_key ? sab_py_call_boundary_key : NULL;
    options->ctx = stage;
    options->release = sab_py_stage_release;
    return sab_readahead_stream_new(source, options, stream);
}
