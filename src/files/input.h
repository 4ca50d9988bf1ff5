#pragma once
/// The bytes of a file, or of standard input.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/contents.h"
#include "base/files.h"
#include "base/progress.h"

namespace sab {

class Input : public Readable {
public:
    /// "-" is standard input.
    Input(const std::string& name, const Progress& progress, bool copy);

    const std::string& name() const override { return name_; }
    /// From standard input: the beginning at any time, the rest in order.
    std::size_t read(uint64_t offset, char* to, std::size_t room) override;
    /// All bytes: of a file mapped, of standard input or with `copy` copied. What was read of
    /// standard input must be its beginning.
    std::shared_ptr<const std::span<const std::byte>> image();
    const Progress& progress() const { return progress_; }

private:
    std::string name_;
    Progress progress_;
    bool copy_;
    std::optional<OpenFile> file_{};  ///< none: standard input
    std::vector<char> beginning_{};   ///< of standard input
    uint64_t taken_ = 0;              ///< bytes taken from standard input
    std::shared_ptr<const std::span<const std::byte>> image_{};
};

}  // namespace sab
