/* Windows: what it lacks is refused by name, and names of files are UTF-8. */
#include <stdlib.h>
#include <wchar.h>

#include "helpers.h"

static void WhatNeedsPosix_IsRefused(void) {
    sab_cache *cache = NULL;
    sab_probe *probe = NULL;
    EXPECT_FAILS(sab_cache_new("lmdb:values", NULL, &cache), SAB_E_UNSUPPORTED,
                 "\"lmdb:...\": not on Windows");
    EXPECT_FAILS(sab_cache_new("redis://localhost", NULL, &cache), SAB_E_UNSUPPORTED,
                 "\"redis:...\": not on Windows");
    EXPECT_FAILS(sab_cache_new("redis-server:", NULL, &cache), SAB_E_UNSUPPORTED,
                 "\"redis-server:...\": not on Windows");
    EXPECT_FAILS(sab_probe_new("host", NULL, &probe), SAB_E_UNSUPPORTED,
                 "\"host\": not on Windows");
    EXPECT_FAILS(sab_torch_open(NULL, NULL), SAB_E_UNSUPPORTED, "not on Windows");
    EXPECT(cache == NULL && probe == NULL);
}

static void Cache_InMemory_KeepsValues(void) {
    sab_cache *cache = NULL;
    sab_cache_value *value = NULL;
    size_t size = 0;
    EXPECT_OK(sab_cache_new("memory:", NULL, &cache));
    EXPECT_OK(sab_cache_put(cache, "key", 3, "value", 5));
    EXPECT_OK(sab_cache_get(cache, "key", 3, &value));
    const void *data = sab_cache_value_data(value, &size);
    EXPECT(size == 5 && memcmp(data, "value", 5) == 0);
    sab_cache_value_free(value);
    sab_cache_free(cache);
}

static void NamesOfFiles_AreUtf8(void) {
    sab_plan *plan = a_plan(), *again = NULL;
    EXPECT_OK(sab_plan_save(plan, "pl\xC3\xA4ne \xF0\x9F\x98\x80"));
    EXPECT_OK(sab_plan_file_new("pl\xC3\xA4ne \xF0\x9F\x98\x80", &again));
    sab_plan_free(again);
    sab_plan_free(plan);
    EXPECT(_wunlink(L"pl\xE4ne \xD83D\xDE00") == 0);
}

int main(void) {
    RUN(WhatNeedsPosix_IsRefused);
    RUN(Cache_InMemory_KeepsValues);
    RUN(NamesOfFiles_AreUtf8);
    return finish();
}
