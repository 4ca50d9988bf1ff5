/* The schedule of a sampler as a capsule of Arrow's interface. */

/* What the stream of a capsule holds. */
typedef struct sab_py_schedule {
    struct ArrowArrayStream stream; /* the library's */
    PyObject* sampler;              /* has the sizes that the stream may read in place */
} sab_py_schedule;

static int sab_py_schedule_get_schema(struct ArrowArrayStream* stream, struct ArrowSchema* schema) {
    sab_py_schedule* schedule = stream->private_data;
    return schedule->stream.get_schema(&schedule->stream, schema);
}

static int sab_py_schedule_get_next(struct ArrowArrayStream* stream, struct ArrowArray* array) {
    sab_py_schedule* schedule = stream->private_data;
    return schedule->stream.get_next(&schedule->stream, array);
}

static const char* sab_py_schedule_get_last_error(struct ArrowArrayStream* stream) {
    sab_py_schedule* schedule = stream->private_data;
    return schedule->stream.get_last_error(&schedule->stream);
}

/* In any thread. */
static void sab_py_schedule_release(struct ArrowArrayStream* stream) {
    sab_py_schedule* schedule = stream->private_data;
    schedule->stream.release(&schedule->stream);
    sab_py_release_object(NULL, schedule->sampler);
    free(schedule);
    stream->release = NULL;
}

/* A consumer that took the stream has left the capsule one without `release`. */
static void sab_py_schedule_close(PyObject* capsule) {
    struct ArrowArrayStream* stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream->release != NULL) stream->release(stream);
    free(stream);
}

/* Puts the capsule into the first place of a list, which keeps None if memory runs out. The list
 * and the sampler of Python are given as their addresses: id(). */
static sab_status sab_py_schedule_new(sab_sampler* handle, uintptr_t sampler, uintptr_t list) {
    struct ArrowArrayStream* stream = calloc(1, sizeof *stream);
    sab_py_schedule* schedule = calloc(1, sizeof *schedule);
    const int has_memory = stream != NULL && schedule != NULL;
    const sab_status status =
        has_memory ? sab_arrow_schedule_new(handle, &schedule->stream) : SAB_OK;
    if (!has_memory || status != SAB_OK) {
        free(stream);
        free(schedule);
        return status;
    }
    const PyGILState_STATE lock = PyGILState_Ensure();
    schedule->sampler = (PyObject*)sampler;
    Py_INCREF(schedule->sampler);
    *stream = (struct ArrowArrayStream){sab_py_schedule_get_schema, sab_py_schedule_get_next,
                                        sab_py_schedule_get_last_error, sab_py_schedule_release,
                                        schedule};
    PyObject* capsule = PyCapsule_New(stream, "arrow_array_stream", sab_py_schedule_close);
    if (capsule != NULL) {
        PyList_SetItem((PyObject*)list, 0, capsule);
    } else {
        PyErr_Clear();
        stream->release(stream);
        free(stream);
    }
    PyGILState_Release(lock);
    return SAB_OK;
}
