/* What needs LibTorch, without it. */
#include "helpers.h"

static void Stores_WithoutLibTorch_AreRefused(void) {
    sab_torch_store *store = NULL;
    EXPECT_FAILS(sab_torch_store_new(NULL, 1, 0, 1, 1, &store), SAB_E_ARGUMENT, "host");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 1, 1, 1, &store), SAB_E_ARGUMENT, "rank = 1");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 0, 0, 1, &store), SAB_E_ARGUMENT,
                 "world_size = 0");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 0, 1, 0, &store), SAB_E_ARGUMENT,
                 "timeout = 0");
    EXPECT_FAILS(sab_torch_store_new("localhost", 1, 0, 1, 1, &store), SAB_E_UNSUPPORTED,
                 "sab_torch_open");
    EXPECT_FAILS(sab_torch_store_all_gather(NULL, NULL, 0, NULL), SAB_E_ARGUMENT, "store");
    sab_torch_store_free(NULL);
    EXPECT(strcmp(sab_status_name(SAB_E_TIMEOUT), "SAB_E_TIMEOUT") == 0);
}

int main(void) {
    RUN(Stores_WithoutLibTorch_AreRefused);
    return finish();
}
