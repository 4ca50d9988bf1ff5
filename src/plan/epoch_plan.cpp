#include "plan/epoch_plan.h"

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "base/hasher.h"
#include "base/image.h"

namespace sab {
namespace {

class EpochPlan : public sab_plan {
public:
    EpochPlan(std::shared_ptr<const Plan> plan, std::shared_ptr<const CountedTurns> turns)
        : sab_plan(std::move(plan)), turns_(std::move(turns)) {}

    std::shared_ptr<const CountedTurns> turns() const override { return turns_; }
    uint64_t fingerprint() const override {
        Hasher hasher;
        hasher.add(impl->fingerprint());
        hasher.add_all(turns_->write());
        return hasher.digest();
    }
    std::size_t write(std::span<std::byte> room) const override {
        const std::vector<std::byte> of_turns = turns_->write();
        const std::size_t first = impl->write({}), size = first + of_turns.size();
        if (size > room.size()) return size;
        impl->write(room.first(first));
        std::ranges::copy(of_turns, room.begin() + static_cast<std::ptrdiff_t>(first));
        return size;
    }
    void save(const char* path) const override {
        std::vector<std::byte> image(write({}));
        write(image);
        replace_file(path, ImageParts{std::span<const std::byte>(image)});
    }
    std::unique_ptr<sab_plan> copy() const override {
        return make_epoch_plan(impl->copy(), turns_);
    }

private:
    std::shared_ptr<const CountedTurns> turns_;
};

/// What follows the image of a plan.
std::span<const std::byte> after_plan(std::span<const std::byte> image) {
    ImageHeader header;
    if (image.size() < sizeof header) return {};
    std::memcpy(&header, image.data(), sizeof header);
    if (header.length >= image.size()) return {};
    return image.subspan(header.length);
}

}  // namespace

std::unique_ptr<sab_plan> make_epoch_plan(std::shared_ptr<const Plan> plan,
                                          std::shared_ptr<const CountedTurns> turns) {
    return std::make_unique<EpochPlan>(std::move(plan), std::move(turns));
}

bool is_epoch_plan(std::span<const std::byte> image) {
    return CountedTurns::is_image(after_plan(image));
}

std::unique_ptr<sab_plan> read_epoch_plan(std::span<const std::byte> image, std::string_view name) {
    const std::span<const std::byte> rest = after_plan(image);
    auto plan = Plan::read(image.first(image.size() - rest.size()), name);
    auto turns = CountedTurns::read(rest, name);
    if (!plan->is_counted() || turns->columns != plan->columns() ||
        turns->all() != plan->facts().samples)
        fail_format(name, "the epoch of a mixture does not match the plan before it");
    return make_epoch_plan(std::move(plan), std::move(turns));
}

}  // namespace sab
