/* Batches as a list for R, which needs a function in C for each call. Build, with `export
 * PKG_CFLAGS=$(pkg-config --cflags sab) PKG_LIBS=$(pkg-config --libs sab)`: R CMD SHLIB first_r.c
 */
#include <R.h>
#include <Rinternals.h>
#include <sab.h>

static SEXP batch_of_r(const sab_batch* batch) { /* samples are counted from 1 */
    SEXP made = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)batch->count));
    for (uint64_t i = 0; i < batch->count; ++i) REAL(made)[i] = (double)batch->indices[i] + 1;
    Rf_setAttrib(made, Rf_install("padded"), Rf_ScalarReal(*batch->padded_length));
    UNPROTECT(1);
    return made;
}

/* Rf_error() is a longjmp: call it only when no function of libsab is running, and not before the
 * handles are freed. Long programs keep handles in external pointers with a finalizer. */
SEXP batches_of(SEXP lengths, SEXP limit) {
    sab_sizes* sizes = NULL;
    sab_plan* plan = NULL;
    sab_sampler* sampler = NULL;
    sab_budget budget = {0};
    sab_plan_options options = {sizeof options};
    sab_batch batch = {sizeof batch};
    uint64_t count = 0;
    budget.limit = Rf_asReal(limit);
    options.budgets = &budget;
    options.budget_count = 1;
    if (sab_sizes_new(INTEGER(lengths), (size_t)XLENGTH(lengths), SAB_INT32, NULL, &sizes) >= 0 &&
        sab_plan_new(sizes, &options, &plan) >= 0 &&
        sab_bucket_sampler_new(plan, NULL, &sampler) >= 0)
        sab_sampler_get_batch_count(sampler, &count);
    sab_sizes_free(sizes);
    sab_plan_free(plan);
    if (sampler == NULL) Rf_error("%s", sab_last_error_message());
    SEXP batches = PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)count));
    sab_status status = SAB_OK;
    for (uint64_t i = 0; i < count && (status = sab_next_batch(sampler, &batch)) == SAB_OK; ++i)
        SET_VECTOR_ELT(batches, (R_xlen_t)i, batch_of_r(&batch));
    sab_sampler_free(sampler);
    if (status < 0) Rf_error("%s", sab_last_error_message());
    UNPROTECT(1);
    return batches;
}
