// What the LibTorch component and the Python package both implement, by the vectors that both test
// against: tests/golden/torch.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <sab/torch.hpp>

#include <fstream>
#include <sstream>
#include <thread>

#include "free_port.h"

namespace {

std::vector<std::string> lines_of(const char* name) {
    std::ifstream file(std::string(SAB_GOLDEN "/torch/") + name);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') lines.push_back(line);
    EXPECT_GT(lines.size(), 5U) << name;
    return lines;
}

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == by)
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

class SharedVectors : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(sab_torch_open(nullptr, nullptr), SAB_OK) << sab_last_error_message();
    }
};

TEST_F(SharedVectors, Signatures_AreReadAndRefused) {
    for (const std::string& line : lines_of("signatures.txt")) {
        const auto parts = split(line, '|');
        if (parts[0] == "refuse") {
            try {
                sab::Collection(std::vector<at::Tensor>{at::zeros({2})}, parts[1]);
                ADD_FAILURE() << line;
            } catch (const sab::Error& error) {
                EXPECT_NE(std::string(error.what()).find(parts[2]), std::string::npos)
                    << line << ": " << error.what();
            }
            continue;
        }
        std::vector<int64_t> sample, stacked;
        for (const std::string& dimension : split(parts[2], ' ')) {
            const int64_t size = dimension[0] == 'L' ? 2 : dimension[0] == 'M' ? 3 : 5;
            const bool is_number = dimension.find_first_not_of("0123456789") == std::string::npos;
            if (dimension != "B") sample.push_back(is_number ? std::stoll(dimension) : size);
            stacked.push_back(dimension == "B" ? 4 : sample.back());
        }
        const std::vector<at::Tensor> samples(4, at::zeros(sample));
        EXPECT_EQ(
            sab::Collection(samples, parts[1]).group(sab::Grouping::uni(4))[0].toTensor().sizes(),
            at::IntArrayRef(stacked))
            << line;
    }
}

TEST_F(SharedVectors, Gathering_GivesAllOrNamesTheRank) {
    for (const std::string& line : lines_of("gather.txt")) {
        const auto parts = split(line, '|');
        const auto sizes = split(parts[1], ' ');
        const uint64_t world = sizes.size();
        const uint16_t port = free_port();
        const bool waits = parts[0] == "missing";
        const auto rank_of = [&](uint64_t rank) {
            sab_torch_store* store = nullptr;
            // Rank 0 holds the store, so it opens it even where it does not gather.
            ASSERT_EQ(sab_torch_store_new("127.0.0.1", port, rank, world, waits ? 1 : 60, &store),
                      SAB_OK)
                << sab_last_error_message();
            if (sizes[rank] == "-") {
                std::this_thread::sleep_for(std::chrono::milliseconds(2500));
            } else {
                const std::string mine(std::stoul(sizes[rank]), static_cast<char>(rank));
                std::string all(mine.size() * world, 'x'), expected;
                for (uint64_t r = 0; r < world; ++r)
                    expected += std::string(mine.size(), static_cast<char>(r));
                const sab_status status =
                    sab_torch_store_all_gather(store, mine.data(), mine.size(), all.data());
                const std::string message = status < 0 ? sab_last_error_message() : "";
                if (parts[0] == "all") {
                    EXPECT_TRUE(status == SAB_OK && all == expected) << line << ": " << message;
                } else {
                    EXPECT_EQ(status, waits ? SAB_E_TIMEOUT : SAB_E_MISMATCH) << line;
                    EXPECT_EQ(message, parts[2]);
                }
            }
            sab_torch_store_free(store);
        };
        std::vector<std::thread> threads;
        for (uint64_t rank = 0; rank < world; ++rank) threads.emplace_back(rank_of, rank);
        for (std::thread& thread : threads) thread.join();
    }
}

struct Group {
    std::vector<int64_t> indices, shape;
    std::vector<double> values;
    std::string mask_names;
    std::vector<int64_t> mask;
};

struct Case {
    std::string signature;
    std::vector<std::vector<int64_t>> samples;
    double padding = 0;
    std::string length;
    std::vector<double> thresholds;
    std::vector<Group> groups;
};

template <class T>
std::vector<T> numbers(std::istringstream& words) {
    std::vector<T> read;
    for (T number; words >> number;) read.push_back(number);
    return read;
}

std::vector<Case> cases() {
    std::vector<Case> read;
    for (const std::string& line : lines_of("collections.txt")) {
        std::istringstream words(line);
        std::string key;
        words >> key;
        if (key == "signature") {
            read.emplace_back().signature = line.substr(key.size() + 1);
            continue;
        }
        Case& current = read.back();
        if (key == "sample") current.samples.push_back(numbers<int64_t>(words));
        if (key == "padding") words >> current.padding;
        if (key == "thresholds") {
            words >> current.length;
            current.thresholds = numbers<double>(words);
        }
        if (key == "group") current.groups.emplace_back().indices = numbers<int64_t>(words);
        if (key == "shape") current.groups.back().shape = numbers<int64_t>(words);
        if (key == "values") current.groups.back().values = numbers<double>(words);
        if (key == "mask") {
            words >> current.groups.back().mask_names;
            current.groups.back().mask = numbers<int64_t>(words);
        }
    }
    return read;
}

TEST_F(SharedVectors, Collections_AreGroupedPaddedAndMasked) {
    for (const Case& each : cases()) {
        std::vector<at::Tensor> samples;
        int64_t first = 1;
        for (const auto& shape : each.samples) {
            const int64_t count = at::zeros(shape).numel();
            samples.push_back(at::arange(first, first + count, at::kDouble).reshape(shape));
            first += count;
        }
        const sab::Collection collection(samples, each.signature, each.padding);
        const sab::Grouping grouping = collection.grouping({{each.length, each.thresholds}});
        const sab::Collection grouped = collection.group(grouping);
        const sab_grouping_view seen = grouping.groups();
        ASSERT_EQ(seen.groups, each.groups.size()) << each.signature;
        for (std::size_t g = 0; g < each.groups.size(); ++g) {
            const Group& expected = each.groups[g];
            EXPECT_EQ(std::vector<int64_t>(seen.permutation + seen.offsets[g],
                                           seen.permutation + seen.offsets[g + 1]),
                      expected.indices);
            const at::Tensor made = grouped[g].toTensor();
            EXPECT_EQ(made.sizes(), at::IntArrayRef(expected.shape)) << each.signature;
            EXPECT_TRUE(at::equal(made.flatten(), at::tensor(expected.values, at::kDouble)))
                << each.signature << made;
            EXPECT_TRUE(at::equal(grouped.mask(g, expected.mask_names).flatten().to(at::kLong),
                                  at::tensor(expected.mask)))
                << each.signature;
        }
    }
}

}  // namespace
