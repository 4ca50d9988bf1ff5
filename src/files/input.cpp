#include "files/input.h"

#include <algorithm>
#include <cstring>

namespace sab {
namespace {

/// More than is read to detect the format.
constexpr std::size_t kept = 1 << 20;

}  // namespace

Input::Input(const std::string& name, const Progress& progress, bool copy)
    : name_(name), progress_(progress), copy_(copy) {
    if (name != "-") file_.emplace(name, "; \"-\" reads a pipe from standard input");
}

std::size_t Input::read(uint64_t offset, char* to, std::size_t room) {
    if (file_) {
        progress_.report(std::min(offset, file_->size()), file_->size());
        return file_->read(offset, to, room);
    }
    progress_.report(offset, 0);
    std::size_t count = 0;
    if (offset < beginning_.size()) {
        const auto from = static_cast<std::size_t>(offset);
        count = std::min(room, beginning_.size() - from);
        std::memcpy(to, beginning_.data() + from, count);
    }
    while (count < room) {  // a pipe gives less than there is room for
        const std::optional<std::size_t> more = read_standard_input(to + count, room - count);
        if (!more) {  // the callback of an interpreter sees Ctrl-C
            progress_.report(taken_, 0);
            continue;
        }
        if (*more == 0) break;
        if (beginning_.size() == taken_ && taken_ + *more <= kept)
            beginning_.insert(beginning_.end(), to + count, to + count + *more);
        taken_ += *more;
        count += *more;
    }
    return count;
}

std::shared_ptr<const std::span<const std::byte>> Input::image() {
    if (image_) return image_;
    if (file_ && !copy_) return image_ = map_file(name_.c_str());
    struct Copy {
        std::vector<char> bytes;
        std::span<const std::byte> view;
    };
    std::vector<char> bytes;
    constexpr std::size_t block = 1 << 20;
    for (std::size_t end = 0;;) {
        bytes.resize(end + block);
        const std::size_t count = read(end, bytes.data() + end, block);
        end += count;
        if (count > 0) continue;
        bytes.resize(end);
        const auto copy = std::make_shared<Copy>();
        copy->bytes.assign(bytes.begin(), bytes.end());  // without the room behind the end
        copy->view = std::as_bytes(std::span<const char>(copy->bytes));
        return image_ = {copy, &copy->view};
    }
}

}  // namespace sab
