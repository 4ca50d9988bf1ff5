// The LibTorch component, seen from a native trainer: probes, out-of-memory errors, generators,
// DLPack, torch's orders.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sab.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../c/budgets.h"
#include "free_port.h"

namespace {

#define OK(call) ASSERT_EQ(call, SAB_OK) << sab_last_error_message()

class Torch : public ::testing::Test {
protected:
    void SetUp() override { OK(sab_torch_open(nullptr, nullptr)); }
};

struct Probe {
    explicit Probe(int64_t total_bytes = 0) {
        sab_probe_options options = SAB_PROBE_OPTIONS_INIT;
        options.total_bytes = total_bytes;
        EXPECT_EQ(sab_probe_new("cpu", &options, &handle), SAB_OK) << sab_last_error_message();
    }
    ~Probe() { sab_probe_free(handle); }
    sab_probe_stats read() const {
        sab_probe_stats stats = SAB_PROBE_STATS_INIT;
        EXPECT_EQ(sab_probe_get_stats(handle, &stats), SAB_OK);
        return stats;
    }
    sab_probe* handle = nullptr;
};

at::Tensor bytes(int64_t count) {
    return at::empty({count}, at::TensorOptions(at::kByte));
}

int64_t address_space() {
    long pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    EXPECT_EQ(std::fscanf(file, "%ld", &pages), 1);
    std::fclose(file);
    return int64_t{pages} * 4096;
}

// LibTorch keeps for good what it finds when it first asks for its CUDA part, so this test has a
// process of its own.
TEST(CudaPart, IsUsedOnceItIsLoaded) {
    OK(sab_torch_open(nullptr, nullptr));
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD) == nullptr)
        GTEST_SKIP() << "this LibTorch has no CUDA part";
    EXPECT_TRUE(at::detail::getCUDAHooks().compiledWithCuDNN());
}

TEST_F(Torch, Info_NamesTheLibTorchThatIsLoaded) {
    sab_torch_info info = SAB_TORCH_INFO_INIT;
    OK(sab_torch_open(nullptr, &info));
    EXPECT_GE(std::atoi(info.torch_version), 1);
    EXPECT_NE(std::strstr(info.component_path, "sab_torch"), nullptr);
    EXPECT_GE(info.cuda_devices, 0);
}

TEST_F(Torch, CpuProbe_RandomPrograms_AreSeenToTheByte) {
    std::mt19937 random(1);
    for (int program = 0; program < 100; ++program) {
        std::vector<at::Tensor> outside{bytes(1000), bytes(2000)};
        const Probe probe;
        int64_t current = 0, peak = 0;
        std::vector<std::pair<at::Tensor, int64_t>> held;
        const auto count = [&](int64_t size) {
            current += size;
            peak = std::max(peak, current);
        };
        for (int i = 0; i < 60; ++i) {
            switch (random() % 6) {
                case 0:
                case 1:
                case 2: {
                    const int64_t size = 1 + random() % 100000;
                    held.emplace_back(bytes(size), size);
                    count(size);
                    break;
                }
                case 3:  // a view holds no memory of its own
                    if (!held.empty())
                        held.emplace_back(held[random() % held.size()].first.slice(0, 0, 1), 0);
                    break;
                case 4:
                    if (!held.empty()) {
                        const std::size_t which = random() % held.size();
                        const at::Tensor gone = held[which].first;
                        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
                    }
                    break;
                default: {
                    if (random() % 4 != 0) break;
                    sab_probe_reset(probe.handle);
                    peak = 0;
                }
            }
            // What is still held, by storage: views keep the storage of what they look at.
            std::vector<std::pair<void*, int64_t>> storages;
            for (const auto& [tensor, size] : held) {
                void* const start =
                    const_cast<void*>(tensor.storage().unsafeGetStorageImpl()->data());
                if (std::ranges::none_of(storages,
                                         [&](const auto& seen) { return seen.first == start; }))
                    storages.emplace_back(start, static_cast<int64_t>(tensor.storage().nbytes()));
            }
            current = 0;
            for (const auto& storage : storages) current += storage.second;
            peak = std::max(peak, current);
            ASSERT_EQ(probe.read().current, current);
            ASSERT_EQ(probe.read().peak, peak);
        }
        if (program % 2 == 0) outside.clear();  // from before the probe: not seen
        ASSERT_EQ(probe.read().current, current);
    }
}

TEST_F(Torch, CpuProbe_ThreadsThatLibTorchRuns_AreSeen) {
    const Probe probe;
    const at::ThreadLocalState state;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&state] {
            const at::ThreadLocalStateGuard guard(state);  // as backward's threads do
            for (int i = 0; i < 1000; ++i) {
                const at::Tensor tensor = bytes(1 + i);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(probe.read().current, 0);
    EXPECT_GE(probe.read().peak, 1000);
    EXPECT_LE(probe.read().peak, 4000);
    std::thread([] { bytes(1 << 20); }).join();  // another program's thread
    EXPECT_LE(probe.read().peak, 4000);
}

TEST_F(Torch, CpuProbe_Nested_BothCount) {
    const Probe outer;
    const at::Tensor first = bytes(100);
    {
        const Probe inner;
        const at::Tensor second = bytes(50);
        EXPECT_EQ(inner.read().current, 50);
        EXPECT_EQ(outer.read().current, 150);
    }
    EXPECT_EQ(outer.read().current, 100);
    EXPECT_EQ(outer.read().peak, 150);
}

TEST_F(Torch, CpuProbe_FreedInAnotherThreadOrOrder_DoesNoHarm) {
    auto* const first = new Probe;
    auto* const second = new Probe;
    const at::Tensor tensor = bytes(100);
    delete first;
    EXPECT_EQ(second->read().current, 100);
    std::thread([second] { delete second; }).join();
    const at::Tensor more = bytes(100);
    const Probe third;
    const at::Tensor last = bytes(7);
    EXPECT_EQ(third.read().current, 7);
}

TEST_F(Torch, EmulatedDevice_FullOne_RaisesLibTorchsOwnErrorAndCountsNothing) {
    const Probe probe(1000);
    EXPECT_EQ(probe.read().total, 1000);
    const at::Tensor tensor = bytes(600);
    EXPECT_THROW(bytes(401), c10::OutOfMemoryError);
    EXPECT_EQ(probe.read().current, 600);
    const at::Tensor rest = bytes(400);
    EXPECT_EQ(probe.read().current, 1000);
    EXPECT_EQ(probe.read().peak, 1000);
    EXPECT_THROW(bytes(1), c10::OutOfMemoryError);
}

TEST_F(Torch, EmulatedDevice_RefusedBlocks_AreNotLeaked) {
    const Probe probe(1000);
    const int64_t before = address_space();
    for (int i = 0; i < 300; ++i) EXPECT_THROW(bytes(100'000'000), c10::OutOfMemoryError);
    for (int i = 0; i < 300; ++i) EXPECT_THROW(bytes(1'000'000), c10::OutOfMemoryError);
    EXPECT_LT(address_space() - before, 200'000'000);
    EXPECT_EQ(probe.read().current, 0);
}

TEST_F(Torch, EmulatedDevice_UnderAnother_WhatTheInnerRefusesIsNotCountedByTheOuter) {
    const Probe outer(1000000);
    const Probe inner(5000);
    const at::Tensor held = bytes(100);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(bytes(16000), c10::OutOfMemoryError);
    EXPECT_EQ(outer.read().current, 100);
    EXPECT_EQ(outer.read().peak, 100);
    EXPECT_EQ(inner.read().peak, 100);
}

TEST_F(Torch, EmulatedDevice_UnderAnother_TheOuterLimitHolds) {
    const Probe outer(1000);
    const Probe inner(5000);
    EXPECT_THROW(bytes(1001), c10::OutOfMemoryError);
    EXPECT_EQ(inner.read().current, 0);
    EXPECT_EQ(outer.read().current, 0);
    const at::Tensor fits = bytes(1000);
    EXPECT_EQ(inner.read().current, 1000);
}

TEST_F(Torch, CollectPeak_WorkThatThrowsLibTorchsError_IsListed) {
    const Probe probe(1 << 20);
    sab_peaks* peaks = nullptr;
    OK(sab_peaks_new(&peaks));
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.item_count = 4;
    options.work = [](void*, uint64_t item, double* features, std::size_t,
                      std::size_t* count) -> int32_t {
        const at::Tensor tensor = bytes((1 << 19) * static_cast<int64_t>(item + 1));
        features[0] = static_cast<double>(item);
        *count = 1;
        return 0;
    };
    OK(sab_collect_peak(probe.handle, &options, peaks));
    sab_peaks_view view = SAB_PEAKS_VIEW_INIT;
    OK(sab_peaks_get_view(peaks, &view));
    ASSERT_EQ(view.count, 2u);
    EXPECT_EQ(view.peaks[0], 1 << 19);
    EXPECT_EQ(view.peaks[1], 1 << 20);
    ASSERT_EQ(view.out_of_memory_count, 2u);
    EXPECT_EQ(view.out_of_memory[1], 3u);

    options.work = [](void*, uint64_t, double*, std::size_t, std::size_t*) -> int32_t {
        throw std::runtime_error("not for lack of space");
    };
    EXPECT_EQ(sab_collect_peak(probe.handle, &options, peaks), SAB_E_CALLBACK);
    EXPECT_NE(std::strstr(sab_last_error_message(), "not for lack of space"), nullptr);
    EXPECT_EQ(probe.read().current, 0);
    sab_peaks_free(peaks);
}

TEST_F(Torch, FindMaxBatch_GivesTheSameRandomNumbersEachTimeAndAfterwards) {
    const Probe probe(1 << 20);
    std::vector<float> seen;
    const auto trial = [](void* ctx, uint64_t count, double) -> int32_t {
        const at::Tensor drawn =
            at::randn({static_cast<int64_t>(count), 100}, at::TensorOptions(at::kFloat));
        static_cast<std::vector<float>*>(ctx)->push_back(drawn.data_ptr<float>()[0]);
        return 0;
    };
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(5);
    const float first = at::randn({100}, at::TensorOptions(at::kFloat)).data_ptr<float>()[0];
    generator.set_current_seed(5);
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    OK(sab_max_batch_find(probe.handle, trial, &seen, nullptr, nullptr, &found));
    EXPECT_EQ(found.batch_size, (1u << 20) / 400);
    EXPECT_EQ(found.out_of_memory, 0u);
    for (const float number : seen) EXPECT_EQ(number, seen[0]);
    EXPECT_EQ(at::randn({100}, at::TensorOptions(at::kFloat)).data_ptr<float>()[0], first);
}

TEST_F(Torch, BatchIndices_BecomeATensor) {
    const int64_t indices[] = {5, 3, 9};
    sab_batch batch = SAB_BATCH_INIT;
    batch.indices = indices;
    batch.count = 3;
    DLManagedTensor* exported = nullptr;
    OK(sab_torch_indices_new(&batch, "cpu", &exported));
    const at::Tensor tensor = at::fromDLPack(exported);
    EXPECT_EQ(tensor.numel(), 3);
    EXPECT_EQ(tensor.data_ptr<int64_t>()[2], 9);
    EXPECT_EQ(sab_torch_indices_new(&batch, "gpu", &exported), SAB_E_ARGUMENT);
    EXPECT_EQ(exported, nullptr);
    EXPECT_EQ(sab_torch_indices_new(&batch, "meta", &exported), SAB_E_ARGUMENT);
    batch.count = 0;
    OK(sab_torch_indices_new(&batch, "cpu", &exported));
    EXPECT_EQ(at::fromDLPack(exported).numel(), 0);
    const Probe full(8);
    batch.count = 3;
    EXPECT_EQ(sab_torch_indices_new(&batch, "cpu", &exported), SAB_E_DEVICE_MEMORY);
    EXPECT_EQ(exported, nullptr);
}

TEST_F(Torch, CpuProbe_BlocksFreedInThreadsOfTheCallersOwn_CountUntilTheirAddressComesAgain) {
    const Probe probe(0);
    for (int i = 0; i < 100; ++i) {  // the allocator gives the same few addresses again and again
        at::Tensor tensor = bytes(1 << 19);
        std::thread([&] { tensor = at::Tensor(); }).join();
    }
    EXPECT_LE(probe.read().current, 10 << 19);
}

TEST_F(Torch, Exceptions_OfEveryCallback_AreItsFailure) {
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.reset = [](void*) { return int32_t{0}; };
    callbacks.current =
        callbacks.peak = [](void*, int64_t* bytes) { return static_cast<int32_t>(*bytes = 0); };
    callbacks.is_out_of_memory = [](void*, int32_t) -> int32_t {
        throw std::runtime_error("no answer");
    };
    sab_probe* probe = nullptr;
    OK(sab_probe_callbacks_new(&callbacks, &probe));
    sab_peaks* peaks = nullptr;
    OK(sab_peaks_new(&peaks));
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.item_count = 1;
    options.work = [](void*, uint64_t, double*, std::size_t, std::size_t*) { return int32_t{7}; };
    EXPECT_EQ(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK);
    EXPECT_NE(std::strstr(sab_last_error_message(), "no answer"), nullptr)
        << sab_last_error_message();
    options.progress = [](void*, uint64_t, uint64_t) -> int32_t {
        throw std::runtime_error("no progress");
    };
    EXPECT_EQ(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK);
    EXPECT_NE(std::strstr(sab_last_error_message(), "no progress"), nullptr)
        << sab_last_error_message();
    options.progress = nullptr;
    options.work = [](void*, uint64_t, double*, std::size_t, std::size_t*) -> int32_t {
        throw std::runtime_error("the words out of memory in another error");
    };
    EXPECT_EQ(sab_collect_peak(probe, &options, peaks), SAB_E_CALLBACK);
    options.work = [](void*, uint64_t, double*, std::size_t, std::size_t*) -> int32_t {
        throw std::bad_alloc();
    };
    OK(sab_collect_peak(probe, &options, peaks));
    sab_max_batch_options search = SAB_MAX_BATCH_OPTIONS_INIT;
    search.limit = 1;
    search.reduce = [](void*, int64_t*, std::size_t) -> int32_t {
        throw std::runtime_error("no meeting");
    };
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    const auto trial = [](void*, uint64_t, double) { return int32_t{0}; };
    EXPECT_EQ(sab_max_batch_find(probe, trial, nullptr, &search, nullptr, &found), SAB_E_CALLBACK);
    search.max_batch_size = UINT64_MAX;  // what failed first is told
    EXPECT_EQ(sab_max_batch_find(probe, trial, nullptr, &search, nullptr, &found), SAB_E_ARGUMENT);
    sab_peaks_free(peaks);
    sab_probe_free(probe);
}

TEST_F(Torch, DevicesThatAreNotThere_AreRefusedByName) {
    sab_probe* probe = nullptr;
    for (const char* device :
         {"gpu", "cuda:x", "cuda:-1", "", "cuda:99", "xpu:99", "cuda:256", "cuda:300", "cpu:5"}) {
        const sab_status status = sab_probe_new(device, nullptr, &probe);
        EXPECT_EQ(status, SAB_E_ARGUMENT) << device;
        EXPECT_NE(std::strstr(sab_last_error_message(), device), nullptr)
            << sab_last_error_message();
        EXPECT_STREQ(sab_last_error_argument(), "device");
        EXPECT_NE(std::strstr(sab_last_error_value(), device), nullptr) << sab_last_error_value();
        EXPECT_STRNE(sab_last_error_rule(), "");
        EXPECT_EQ(probe, nullptr);
    }
}

TEST_F(Torch, TorchOrder_IsLibTorchsRandperm) {
    // One bucket, one batch: the order of its samples is a permutation drawn from the generator.
    for (const int64_t count : {1, 2, 10, 1000}) {
        std::vector<int32_t> lengths(static_cast<std::size_t>(count), 1);
        sab_sizes* sizes = nullptr;
        OK(sab_sizes_new(lengths.data(), lengths.size(), SAB_INT32, nullptr, &sizes));
        const double boundaries[] = {0, 2};
        const auto batch_size = static_cast<uint64_t>(count);
        sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
        options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
        options.boundaries = boundaries;
        options.boundary_count = 2;
        options.batch_sizes = &batch_size;
        options.batch_size_count = 1;
        sab_plan* plan = nullptr;
        OK(sab_plan_new(sizes, &options, &plan));
        sab_bionemo_options order = SAB_BIONEMO_OPTIONS_INIT;
        order.seed = 17;
        sab_sampler* sampler = nullptr;
        OK(sab_bionemo_sampler_new(plan, &order, &sampler));
        sab_batch batch = SAB_BATCH_INIT;
        OK(sab_next_batch(sampler, &batch));
        const at::Tensor expected =
            at::randperm(count, at::make_generator<at::CPUGeneratorImpl>(17));
        EXPECT_TRUE(std::equal(batch.indices, batch.indices + batch.count,
                               expected.data_ptr<int64_t>(), expected.data_ptr<int64_t>() + count));
        sab_sampler_free(sampler);
        sab_plan_free(plan);
        sab_sizes_free(sizes);
    }
}

/// Runs `body(store, rank)` on each of some ranks, which are threads with a store each.
template <class Body>
void on_ranks(uint64_t world_size, double timeout, Body&& body) {
    const auto port = free_port();
    std::vector<std::thread> threads;
    for (uint64_t rank = 0; rank < world_size; ++rank)
        threads.emplace_back([&, rank] {
            sab_torch_store* store = nullptr;
            OK(sab_torch_store_new("127.0.0.1", port, rank, world_size, timeout, &store));
            body(store, rank);
            sab_torch_store_free(store);
        });
    for (std::thread& thread : threads) thread.join();
}

TEST_F(Torch, Store_GathersInTheOrderOfRanks) {
    on_ranks(4, 60, [](sab_torch_store* store, uint64_t rank) {
        for (int round = 0; round < 5; ++round) {
            const uint64_t mine[2] = {rank * 10, static_cast<uint64_t>(round)};
            uint64_t all[4][2] = {};
            OK(sab_torch_store_all_gather(store, mine, sizeof mine, all));
            for (uint64_t r = 0; r < 4; ++r)
                EXPECT_TRUE(all[r][0] == r * 10 && all[r][1] == static_cast<uint64_t>(round));
        }
        OK(sab_torch_store_all_gather(store, nullptr, 0, nullptr));
    });
}

TEST_F(Torch, Store_MakesOneSamplerOfShardsAndChecksIt) {
    on_ranks(3, 60, [](sab_torch_store* store, uint64_t rank) {
        const std::vector<int32_t> lengths(100 * (rank + 1), static_cast<int32_t>(rank + 3));
        sab_sizes* sizes = nullptr;
        OK(sab_sizes_new(lengths.data(), lengths.size(), SAB_INT32, nullptr, &sizes));
        sab_plan_options plan = SAB_PLAN_OPTIONS_INIT;
        SET_BUDGET(plan, 60);
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        options.rank = rank;
        options.world_size = 3;
        sab_sampler* sampler = nullptr;
        OK(sab_sharded_sampler_new(sizes, &plan, &options, &sab_torch_store_all_gather, store,
                                   &sampler));
        OK(sab_ranks_check(sampler, rank, 3, &sab_torch_store_all_gather, store));
        uint64_t seen = 0;
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) seen += batch.count;
        EXPECT_EQ(seen, lengths.size());
        sab_sampler_free(sampler);
        sab_sizes_free(sizes);
    });
}

TEST_F(Torch, Store_NamesTheRankThatDoesNotCome) {
    on_ranks(3, 1, [](sab_torch_store* store, uint64_t rank) {
        char mine = 1, all[3];
        if (rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2500));
            return;
        }
        EXPECT_EQ(sab_torch_store_all_gather(store, &mine, 1, all), SAB_E_TIMEOUT);
        EXPECT_NE(std::strstr(sab_last_error_message(), "rank 1 of 3 did not come within 1 s"),
                  nullptr)
            << sab_last_error_message();
    });
}

TEST_F(Torch, Store_RefusesOtherSizes) {
    on_ranks(2, 60, [](sab_torch_store* store, uint64_t rank) {
        char mine[2] = {}, all[4];
        EXPECT_EQ(sab_torch_store_all_gather(store, mine, 1 + rank, all), SAB_E_MISMATCH);
        EXPECT_NE(std::strstr(sab_last_error_message(), "they do not call the same"), nullptr);
    });
}

TEST_F(Torch, Store_SaysWhyACheckFailed) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 10);
    const int32_t lengths[3] = {1, 2, 3};
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    OK(sab_sizes_new(lengths, 3, SAB_INT32, nullptr, &sizes));
    OK(sab_plan_new(sizes, &options, &plan));
    on_ranks(2, 1, [&](sab_torch_store* store, uint64_t rank) {
        if (rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2000));
            return;
        }
        sab_sampler* sampler = nullptr;
        OK(sab_bucket_sampler_new(plan, nullptr, &sampler));
        EXPECT_EQ(sab_ranks_check(sampler, rank, 2, &sab_torch_store_all_gather, store),
                  SAB_E_CALLBACK);
        EXPECT_EQ(sab_last_error_code(), SAB_E_TIMEOUT);
        EXPECT_NE(std::strstr(sab_last_error_message(), "rank 1 of 2 did not come"), nullptr)
            << sab_last_error_message();
        sab_sampler_free(sampler);
    });
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

TEST_F(Torch, Store_ThatCannotBeReached) {
    sab_torch_store* store = nullptr;
    EXPECT_EQ(sab_torch_store_new("127.0.0.1", free_port(), 1, 2, 0.5, &store), SAB_E_IO);
    EXPECT_NE(std::strstr(sab_last_error_message(), "cannot reach the store at \"127.0.0.1:"),
              nullptr)
        << sab_last_error_message();
    EXPECT_EQ(std::string(sab_last_error_value()).find("127.0.0.1:"), 0u);
    EXPECT_STRNE(sab_last_error_rule(), "");
    EXPECT_EQ(store, nullptr);
}

}  // namespace
