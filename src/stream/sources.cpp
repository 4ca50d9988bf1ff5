/// Where records come from: lists, callbacks, chance.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/guard.h"
#include "base/hasher.h"
#include "base/python_random.h"
#include "base/saved_state.h"
#include "stream/stream.h"

namespace sab {
namespace {

class ListSource : public Stream {
public:
    ListSource(std::shared_ptr<const std::vector<Record>> records,
               const sab_list_stream_options& options)
        : records_(std::move(records)), options_(options) {
        rewind();
    }

    bool next(Record& record) override {
        if (options_.infinite == 0) {
            if (index_ >= end_) return false;
            record = (*records_)[index_++];
            return true;
        }
        record = (*records_)[order_[index_]];
        index_ += options_.world_size;
        wrap();
        return true;
    }

    void rewind() override {
        random_ = PythonRandom(options_.seed);
        begin(records_->size());
        index_ = options_.infinite == 0 ? begin_ : options_.rank;
        if (options_.infinite != 0) wrap();
    }

    void save(StateWriter& state) const override {
        state.number(index_);
        state.number(count_);
        state.number(hash_);
        if (options_.shuffle != 0) state.generator(before_.generator());
    }

    void restore(StateReader& state) override {
        const uint64_t index = state.number(), count = state.number(), hash = state.number();
        if (options_.shuffle != 0) state.generator(random_.generator());
        if (count > records_->size())
            mismatch_state("belongs to a list of ", count, " records, this list has ",
                           records_->size());
        begin(count);
        if (hash != hash_) mismatch_state("the first ", count, " records of the list have changed");
        if (options_.infinite == 0 ? index < begin_ || index > end_ : index >= count)
            StateReader::refuse();
        index_ = index;
    }

    void describe(Description& description) const override {
        description.add("list");
        for (const uint64_t number :
             {static_cast<uint64_t>(options_.infinite), static_cast<uint64_t>(options_.shuffle),
              options_.seed, options_.rank, options_.world_size})
            description.add(number);
    }

    StreamPtr fresh() const override { return std::make_unique<ListSource>(records_, options_); }
    uint64_t skipped() const override { return 0; }
    void add_objects(ObjectKinds&) const override {}

private:
    /// Once through the first `count` records; the generator before it is what a state needs.
    void begin(std::size_t count) {
        before_ = random_;
        if (count != count_ || hash_ == 0) {
            count_ = count;
            Hasher hash;
            for (std::size_t i = 0; i < count; ++i) {
                const std::string_view bytes = (*records_)[i].bytes();
                hash.add(uint64_t{bytes.size()});
                hash.add_bytes(bytes.data(), bytes.size());
            }
            hash_ = hash.digest();
        }
        if (options_.infinite == 0) {
            const uint64_t each = count / options_.world_size, more = count % options_.world_size;
            const auto edge = [&](uint64_t rank) { return rank * each + std::min(rank, more); };
            begin_ = edge(options_.rank);
            end_ = edge(options_.rank + 1);
            return;
        }
        order_.resize(count);
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        if (options_.shuffle != 0) random_.shuffle(order_);
    }
    /// Permutations that this rank has no part in are drawn too: all ranks draw the same. What the
    /// list has gained joins.
    void wrap() {
        while (index_ >= count_) {
            index_ -= count_;
            begin(records_->size());
        }
    }

    std::shared_ptr<const std::vector<Record>> records_;
    sab_list_stream_options options_;
    std::size_t count_ = 0;  ///< records of this time through
    uint64_t hash_ = 0;      ///< of their bytes
    uint64_t begin_ = 0, end_ = 0, index_ = 0;
    std::vector<std::size_t> order_;
    PythonRandom random_{0}, before_{0};
};

class CallbackSource : public Stream {
public:
    CallbackSource(const sab_source_functions& functions, Context context, ObjectsPtr objects)
        : functions_(functions), context_(std::move(context)), objects_(std::move(objects)) {}

    bool next(Record& record) override {
        copier_.reserve_object();
        if (!has_made_) {
            made_ = {};
            made_.size = -1;
            made_.length = unset_size;
            const int32_t code = called_back(
                "the source's next", [&] { return functions_.next(functions_.ctx, &made_); });
            if (code == SAB_END) return false;
            if (code != 0) fail_with_code("the source's next", code);
            if (made_.length == unset_size) {
                if (made_.kind == SAB_RECORD_BYTES) fail_unset("the source's next", "the record");
                made_.length = 0;
            }
            if (made_.size == -1) made_.size = static_cast<double>(made_.length);
        }
        has_made_ = true;
        try {
            record = taken("record", made_, Record{}, objects_, copier_);
        } catch (const std::bad_alloc&) {
            has_made_ = made_.kind == SAB_RECORD_BYTES;  // copied by the next call
            throw;
        } catch (...) {
            has_made_ = false;
            throw;
        }
        has_made_ = false;
        ++count_;
        return true;
    }

    void rewind() override {
        if (functions_.rewind == nullptr)
            fail(SAB_E_UNSUPPORTED, "sab_stream_rewind: the source has no rewind");
        call_back("the source's rewind", [&] { return functions_.rewind(functions_.ctx); });
        count_ = 0;
        has_made_ = false;
    }

    void save(StateWriter& state) const override {
        if (has_made_)
            refuse_argument("stream", no_value,
                            "failed to copy a record of the source: call sab_stream_next() until "
                            "it succeeds, or restore an earlier state");
        state.number(count_);
        if (functions_.state_save == nullptr) return;
        state.bytes(written_by("the source's state_save", [&](auto... room) {
            return functions_.state_save(functions_.ctx, room...);
        }));
    }

    void restore(StateReader& state) override {
        const uint64_t count = state.number();
        if (functions_.state_save != nullptr) {
            const auto bytes = state.bytes();
            call_back("the source's state_restore", [&] {
                return functions_.state_restore(functions_.ctx, bytes.data(), bytes.size());
            });
            has_made_ = false;
        } else {
            rewind();
            for (Record record; count_ < count;) {
                report_progress(count_, count);
                if (!next(record))
                    mismatch_state("the source has only ", count_, " records, the state is of the ",
                                   count, "th");
            }
        }
        count_ = count;
    }

    void describe(Description& description) const override { description.add("callback"); }
    StreamPtr fresh() const override {
        return std::make_unique<CallbackSource>(functions_, context_, objects_);
    }
    uint64_t skipped() const override { return 0; }
    void add_objects(ObjectKinds& kinds) const override {
        if (objects_ != nullptr) kinds.push_back(objects_);
    }

private:
    sab_source_functions functions_;
    Context context_;
    ObjectsPtr objects_;
    Copier copier_;
    sab_record made_ = {};   ///< what the source gave last
    bool has_made_ = false;  ///< it could not be copied yet, since memory ran out
    uint64_t count_ = 0;
};

class RandomSource : public Stream {
public:
    explicit RandomSource(uint64_t seed) : seed_(seed), random_(seed) {}
    bool next(Record& record) override {
        copier_.reserve(sizeof(double));
        const double number = random_.real();
        record = copier_.copy({reinterpret_cast<const char*>(&number), sizeof number}, number);
        return true;
    }
    void rewind() override { random_ = PythonRandom(seed_); }
    void save(StateWriter& state) const override { state.generator(random_.generator()); }
    void restore(StateReader& state) override { state.generator(random_.generator()); }
    void describe(Description& description) const override {
        description.add("random");
        description.add(seed_);
    }
    StreamPtr fresh() const override { return std::make_unique<RandomSource>(seed_); }
    uint64_t skipped() const override { return 0; }
    void add_objects(ObjectKinds&) const override {}

private:
    uint64_t seed_;
    PythonRandom random_;
    Copier copier_;
};

}  // namespace

StreamPtr make_list(std::span<const sab_record> records, const sab_list_stream_options& options) {
    for (const auto& [name, flag] :
         {std::pair{"options.infinite", options.infinite}, {"options.shuffle", options.shuffle}})
        check(flag == 0 || flag == 1, name, flag, "must be 0 or 1");
    check(options.world_size >= 1 && options.world_size <= 1u << 20, "options.world_size",
          options.world_size, "must be from 1 to 2^20");
    check(options.rank < options.world_size, "options.rank", options.rank,
          "must be below the world size, ", options.world_size);
    check(options.shuffle == 0 || options.infinite == 1, "options.shuffle", options.shuffle,
          "only an infinite list is shuffled");
    check(options.infinite == 0 || !records.empty(), "count", records.size(),
          "must be at least 1 for an infinite list");
    std::vector<Record> list;
    list.reserve(records.size());
    Copier copier;
    for (std::size_t i = 0; i < records.size(); ++i) {
        const std::string name = text("records[", i, "]");
        if (records[i].kind != SAB_RECORD_BYTES)
            refuse_argument(named(name, ".kind"), records[i].kind, "must be SAB_RECORD_BYTES (0)");
        list.push_back(taken(name, records[i], Record{}, nullptr, copier));
    }
    return std::make_unique<ListSource>(
        std::make_shared<const std::vector<Record>>(std::move(list)), options);
}

StreamPtr make_callback(const sab_source_functions& functions) {
    require(reinterpret_cast<const void*>(functions.next), "functions.next");
    if ((functions.state_save == nullptr) != (functions.state_restore == nullptr))
        refuse_argument(
            named("functions.", functions.state_save == nullptr ? "state_save" : "state_restore"),
            "NULL", "state_save and state_restore must be given together");
    Context context = context_of(functions.ctx, functions.release);
    auto source =
        std::make_unique<CallbackSource>(functions, context, objects_of(functions.objects));
    context->own();
    return source;
}

StreamPtr make_random(uint64_t seed) {
    return std::make_unique<RandomSource>(seed);
}

}  // namespace sab
