/* Generated from the public headers by tools/abi.py: do not edit.
 * A C compiler needs <stddef.h> and <stdint.h> before them; readers without a preprocessor know
 * size_t, int32_t and the like themselves. A comment before the declarations of a header has its
 * name and tier: stable ones do not change, provisional ones may change in a minor release. */
/* sab/base.h, stable */
enum {
 SAB_OK = 0,
 SAB_E_ARGUMENT = -1,
 SAB_LID_OPEN = 0,
 SAB_LID_NOT_LOCKED = 1,
};
typedef int32_t sab_status;
typedef int32_t sab_lid;
typedef struct sab_box sab_box;
typedef sab_status (*sab_look_fn)(void *ctx, const sab_box *box, double *const *weights);
typedef struct sab_faces {
 uint32_t colours[6];
} sab_faces;
typedef struct sab_box_options {
 size_t struct_size;
 const double *weights;
 int32_t (*release)(void *ctx, uint64_t count);
 uint64_t end;
} sab_box_options;
sab_status sab_box_new(const char *name, sab_look_fn look, void (*release)(void *ctx), sab_box **box);
const char *sab_name(void);
/* sab/extra.h, provisional */
struct DLManagedTensor;
typedef struct sab_pair {
 int64_t first;
 const sab_box *function;
} sab_pair;
typedef struct sab_thing {
 size_t struct_size;
} sab_thing;
sab_status sab_pack(const sab_pair *pairs, struct DLManagedTensor *const *tensors);
sab_status sab_weigh(const sab_box *const *boxes, size_t count, sab_look_fn look, void *ctx, double *weights, double *total);
