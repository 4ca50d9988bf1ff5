// How much memory a plan takes, and how much more it takes to make one. All memory of the program
// comes from an operator new of its own, which counts.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "budgets.h"
#include "expect.h"

static std::atomic<std::size_t> held{0}, most{0};

// The size and the begin of a block stand before it.
static void *take(std::size_t size, std::size_t alignment) {
    const std::size_t before = alignment < 16 ? 16 : alignment;
    auto *const begin = static_cast<char *>(std::malloc(size + 2 * before));
    if (begin == nullptr) throw std::bad_alloc();
    char *const block = begin + 2 * before - reinterpret_cast<std::uintptr_t>(begin) % before;
    reinterpret_cast<std::size_t *>(block)[-1] = size;
    reinterpret_cast<char **>(block)[-2] = begin;
    const std::size_t now = held += size;
    for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    return block;
}
static void give_back(void *block) {
    if (block == nullptr) return;
    held -= static_cast<std::size_t *>(block)[-1];
    std::free(static_cast<char **>(block)[-2]);
}

void *operator new(std::size_t size) {
    return take(size, 1);
}
void *operator new(std::size_t size, std::align_val_t alignment) {
    return take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *block) noexcept {
    give_back(block);
}
void operator delete(void *block, std::size_t) noexcept {
    give_back(block);
}
void operator delete(void *block, std::align_val_t) noexcept {
    give_back(block);
}
void operator delete(void *block, std::size_t, std::align_val_t) noexcept {
    give_back(block);
}

static constexpr std::size_t count = std::size_t{1} << 21;

static std::vector<uint16_t> some_lengths() {
    std::vector<uint16_t> lengths(count);
    uint32_t state = 1;
    for (uint16_t &length : lengths) {
        state = state * 1664525u + 1013904223u;
        length = static_cast<uint16_t>(1 + (state >> 24) * (state >> 22) / 1024);
    }
    return lengths;
}

static void expect_little_memory(const sab_sizes *sizes) {
    for (const uint32_t threads : {1u, 2u}) {
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET(options, 16384);
        options.threads = threads;
        const std::size_t before = held;
        most = before;
        sab_plan *plan = nullptr;
        EXPECT_OK(sab_plan_new(sizes, &options, &plan));
        EXPECT(held - before >= 4 * count && held - before <= 5 * count);
        EXPECT(most - before <= 5 * count);
        sab_plan_free(plan);
        EXPECT(held == before);
    }
}

static void Plan_OfOneArray_TakesLittleMemory() {
    const std::vector<uint16_t> lengths = some_lengths();
    sab_sizes *sizes = nullptr;
    EXPECT_OK(sab_sizes_new(lengths.data(), count, SAB_UINT16, nullptr, &sizes));
    expect_little_memory(sizes);
    sab_sizes_free(sizes);
}

static void Plan_OfChunksAndStrides_MakesNoCopyOfTheSizes() {
    const std::vector<uint16_t> lengths = some_lengths();
    sab_sizes_options every_second = SAB_SIZES_OPTIONS_INIT;
    every_second.stride = 2 * sizeof(uint16_t);
    std::vector<sab_sizes *> parts(32);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t some = count / parts.size();
        EXPECT_OK(i % 2 == 0
                      ? sab_sizes_new(&lengths[i * some], some, SAB_UINT16, nullptr, &parts[i])
                      : sab_sizes_new(&lengths[(i - 1) * some], some, SAB_UINT16, &every_second,
                                      &parts[i]));
    }
    sab_sizes *sizes = nullptr;
    EXPECT_OK(sab_sizes_join_new(parts.data(), parts.size(), &sizes));
    expect_little_memory(sizes);
    sab_sizes_free(sizes);
    for (sab_sizes *part : parts) sab_sizes_free(part);
}

static void Plan_OfTextsInArrow_MakesNoCopyOfTheirLengths() {
    const std::vector<uint16_t> lengths = some_lengths();
    std::vector<int32_t> offsets(count + 1);
    for (std::size_t i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + lengths[i];
    const void *buffers[] = {nullptr, offsets.data(), nullptr};
    ArrowSchema schema{};
    schema.format = "u";
    schema.release = [](ArrowSchema *released) { released->release = nullptr; };
    ArrowArray array{};
    array.length = count;
    array.n_buffers = 3;
    array.buffers = buffers;
    array.release = [](ArrowArray *released) { released->release = nullptr; };
    sab_sizes *sizes = nullptr;
    EXPECT_OK(sab_sizes_arrow_new(&array, &schema, nullptr, nullptr, &sizes));
    expect_little_memory(sizes);
    sab_sizes_free(sizes);
}

int main() {
    RUN(Plan_OfOneArray_TakesLittleMemory);
    RUN(Plan_OfChunksAndStrides_MakesNoCopyOfTheSizes);
    RUN(Plan_OfTextsInArrow_MakesNoCopyOfTheirLengths);
    return finish();
}
