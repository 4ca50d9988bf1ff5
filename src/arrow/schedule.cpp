/// Arrow's C stream interface over the batches of all ranks. An array is made when it is asked for.
/// https://arrow.apache.org/docs/format/CStreamInterface.html
#include "arrow/schedule.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>

#include "base/guard.h"

namespace sab {
namespace {

/// An array ends with the batch that brings it to this many indices, or with this many batches.
constexpr std::size_t array_size = std::size_t{1} << 16;

constexpr std::array<const char*, 5> names = {"step", "rank", "batch", "indices", "padded_length"};
constexpr std::size_t lists = 3, lengths = 4;  // of these

/// What the structs of a schema or an array hold. The children of a struct can be moved out of it,
/// so all of them have it in common: the last one that is released frees it.
template <class Interface, class Content>
struct Shared {
    Content content;
    std::array<Interface, names.size()> columns{};
    Interface indices{};         ///< in the lists
    Interface padded_lengths{};  ///< in the lists, if sizes have several columns
    std::array<Interface*, names.size()> column_pointers{};
    Interface *indices_pointer = &indices, *padded_lengths_pointer = &padded_lengths;
    std::atomic<std::size_t> users{0};

    /// Says how the structs belong together; `root` is the consumer's.
    void connect(Interface& root, bool has_several_columns) noexcept {
        use(root);
        root.n_children = names.size();
        root.children = column_pointers.data();
        for (std::size_t i = 0; i < names.size(); ++i) {
            use(columns[i]);
            column_pointers[i] = &columns[i];
        }
        use(indices);
        columns[lists].n_children = 1;
        columns[lists].children = &indices_pointer;
        if (!has_several_columns) return;
        use(padded_lengths);
        columns[lengths].n_children = 1;
        columns[lengths].children = &padded_lengths_pointer;
    }

    void use(Interface& user) noexcept {
        user.release = &release;
        user.private_data = this;
        ++users;
    }
    static void release(Interface* released) {
        for (int64_t i = 0; i < released->n_children; ++i)
            if (Interface* const child = released->children[i]; child->release != nullptr)
                child->release(child);
        released->release = nullptr;
        auto* const shared = static_cast<Shared*>(released->private_data);
        if (--shared->users == 0) delete shared;
    }
};

using SharedSchema = Shared<ArrowSchema, std::string>;  // with the format of padded lengths

void make_schema(std::size_t columns, ArrowSchema& root) {
    auto shared = std::make_unique<SharedSchema>();
    shared->content = columns == 1 ? "g" : text("+w:", columns);
    const std::array<const char*, names.size()> formats = {"l", "l", "l", "+l",
                                                           shared->content.c_str()};
    for (std::size_t i = 0; i < names.size(); ++i) {
        shared->columns[i].name = names[i];
        shared->columns[i].format = formats[i];
    }
    shared->indices.name = shared->padded_lengths.name = "item";
    shared->indices.format = "l";
    shared->padded_lengths.format = "g";
    root = {};
    root.name = "";
    root.format = "+s";
    shared.release()->connect(root, columns > 1);
}

/// The columns of an array.
struct Columns {
    std::vector<int64_t> step, rank, batch, indices;
    std::vector<int32_t> offsets{0};
    std::vector<double> padded_length;  ///< of each row as many as there are columns of sizes
    /// of each struct: no bitmap of nulls, then the values
    std::array<std::array<const void*, 2>, names.size() + 3> buffers{};

    bool is_full() const { return std::max(step.size(), indices.size()) >= array_size; }

    void add(uint64_t of_rank, const EpochBatch& placed) {
        const Batch& added = placed.batch;
        if (added.count > std::numeric_limits<int32_t>::max() - indices.size())
            fail(SAB_E_ARGUMENT, "batch of ", added.count,
                 " samples: a list of Arrow has at most 2^31 - 1 items");
        step.push_back(static_cast<int64_t>(placed.step));
        rank.push_back(static_cast<int64_t>(of_rank));
        batch.push_back(static_cast<int64_t>(placed.position));
        indices.insert(indices.end(), added.buffer.data(), added.buffer.data() + added.count);
        offsets.push_back(static_cast<int32_t>(indices.size()));
        padded_length.insert(padded_length.end(), added.padded_length.begin(),
                             added.padded_length.begin() + added.columns);
    }
};
using SharedArray = Shared<ArrowArray, Columns>;

void make_array(std::unique_ptr<SharedArray> shared, std::size_t columns,
                ArrowArray& root) noexcept {
    Columns& content = shared->content;
    auto buffers = content.buffers.begin();
    const auto describe = [&](ArrowArray& array, std::size_t length, const void* values) {
        *buffers = {nullptr, values};
        array.length = static_cast<int64_t>(length);
        array.n_buffers = 2;
        array.buffers = (buffers++)->data();
    };
    const std::size_t rows = content.step.size();
    const std::array<const void*, names.size()> values = {
        content.step.data(), content.rank.data(), content.batch.data(), content.offsets.data(),
        content.padded_length.data()};
    for (std::size_t i = 0; i < names.size(); ++i) describe(shared->columns[i], rows, values[i]);
    describe(shared->indices, content.indices.size(), content.indices.data());
    describe(shared->padded_lengths, content.padded_length.size(), content.padded_length.data());
    root = {};
    describe(root, rows, nullptr);
    root.n_buffers = 1;
    if (columns > 1) shared->columns[lengths].n_buffers = 1;
    shared.release()->connect(root, columns > 1);
}

/// What the stream holds.
class Schedule {
public:
    explicit Schedule(std::unique_ptr<Cursor> cursor)
        : cursor_(std::move(cursor)), position_(cursor_->first_position()) {}

    /// Fills what the consumer gave. Returns 0, or a number of errno as the interface says.
    template <class Body>
    static int fill(ArrowArrayStream* stream, Body&& body) noexcept {
        auto* const schedule = static_cast<Schedule*>(stream->private_data);
        if (schedule == nullptr) return EINVAL;
        const sab_status status = guard([&] { body(*schedule); });
        if (status == SAB_OK) return 0;
        std::ranges::copy(last_error().message, schedule->message_.begin());
        return status == SAB_E_NO_MEMORY ? ENOMEM : EIO;
    }

    static int get_schema(ArrowArrayStream* stream, ArrowSchema* schema) noexcept {
        return fill(stream, [&](Schedule& schedule) {
            make_schema(schedule.cursor_->sequence().columns(), *schema);
        });
    }
    static int get_next(ArrowArrayStream* stream, ArrowArray* array) noexcept {
        return fill(stream, [&](Schedule& schedule) { schedule.next(*array); });
    }
    static const char* get_last_error(ArrowArrayStream* stream) noexcept {
        const auto* const schedule = static_cast<const Schedule*>(stream->private_data);
        return schedule == nullptr ? "the stream was released" : schedule->message_.data();
    }
    static void release(ArrowArrayStream* stream) noexcept {
        delete static_cast<Schedule*>(stream->private_data);
        stream->private_data = nullptr;
        stream->release = nullptr;
    }

private:
    void next(ArrowArray& array) {
        const uint64_t end = cursor_->batch_count(), world_size = cursor_->options().world_size;
        if (position_ >= end) {
            array = {};
            return;
        }
        auto made = std::make_unique<SharedArray>();
        uint64_t position = position_, rank = rank_;  // those of the stream when all are there
        while (position < end && !made->content.is_full()) {
            cursor_->fill(position, rank, scratch_);
            made->content.add(rank, scratch_);
            if (++rank == world_size) {
                rank = 0;
                ++position;
            }
        }
        make_array(std::move(made), cursor_->sequence().columns(), array);
        position_ = position;
        rank_ = rank;
    }

    std::unique_ptr<Cursor> cursor_;
    EpochBatch scratch_;
    uint64_t position_, rank_ = 0;  ///< of the next row
    std::array<char, sizeof(LastError::message)> message_{};
};

}  // namespace

void make_schedule(std::unique_ptr<Cursor> cursor, ArrowArrayStream& stream) {
    auto schedule = std::make_unique<Schedule>(std::move(cursor));
    stream = {&Schedule::get_schema, &Schedule::get_next, &Schedule::get_last_error,
              &Schedule::release, schedule.release()};
}

}  // namespace sab
