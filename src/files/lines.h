#pragma once
/// Lines of text, and the formats that have a sample on each line or on several.

#include <optional>
#include <string_view>
#include <vector>

#include "files/input.h"
#include "sab/files.h"
#include "sizes/sizes.h"

namespace sab {

/// The lines of a file, or of what comes out of a compressed one.
class Lines {
public:
    /// So many bytes behind each line can be read; they have no meaning.
    static constexpr std::size_t padding = 64, head_size = 1 << 16;

    explicit Lines(Input& input);
    Compression compression() const { return compression_; }
    /// The first bytes, before any line is taken: all, if there are fewer than 64 KiB.
    std::string_view head();
    /// The next line, without its end (a line feed, or carriage return and line feed). Valid until
    /// the next call. False at the end.
    bool next(std::string_view& line);
    /// Whole lines, at least one, that are taken by take() or next(). Empty at the end.
    std::string_view block();
    /// Takes the first lines of a block: so many, in so many bytes.
    void take(std::size_t count, std::size_t size);
    uint64_t taken() const { return taken_; }  // bytes of all lines that were taken
    /// Of the line that was taken last, from 1.
    uint64_t number() const { return number_; }
    const std::string& name() const { return input_.name(); }
    [[noreturn]] void refuse(const auto&... why) const {
        fail_named(SAB_E_FORMAT, text("\"", input_.name(), "\""), ", ", "line ", number_, ": ",
                   why...);
    }

private:
    void begin();
    bool more();

    Input& input_;
    Compression compression_;
    std::unique_ptr<Contents> contents_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0;  ///< of what was read and not taken yet
    bool is_begun_ = false;
    uint64_t number_ = 0, taken_ = 0;
};

/// The sizes that a reader of lines has found.
class FoundSizes {
public:
    void add(int64_t size);  // from 0 to 2^53
    void add(double size);   // in the same way
    std::size_t count() const { return count_; }
    Sizes finish(std::string description);

private:
    void flush();

    static constexpr std::size_t most_waiting = 1024;
    DenseBuilder builder_{0};
    std::vector<int64_t> waiting_{};
    std::size_t count_ = 0;
};

std::string_view trimmed(std::string_view line);  // without ASCII white space at both ends
int64_t text_size(std::string_view text, sab_text_unit unit);

Sizes read_numbers(Lines& lines);
Sizes read_text(Lines& lines, sab_text_unit unit);
Sizes read_kaldi(Lines& lines);
Sizes read_fasta(Lines& lines);
Sizes read_json_lines(Lines& lines, const sab_sizes_file_options& options);

/// Whether a line is a number as JSON writes it.
bool is_number(std::string_view line);
/// The first number of a line that is a name and a number, or a shape such as 325,80.
std::optional<double> named_number(std::string_view line);

}  // namespace sab
