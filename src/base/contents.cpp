#include "base/contents.h"

#include <isa-l/igzip_lib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/files.h"

namespace sab {
namespace {

class PlainContents : public Contents {
public:
    using Contents::Contents;
    std::size_t read(char* to, std::size_t room) override {
        const std::size_t count = file_.read(offset_, to, room);
        offset_ += count;
        return count;
    }
    uint64_t seek(uint64_t offset) override { return offset_ = offset; }
};

class GzipContents : public Contents {
public:
    explicit GzipContents(Readable& file) : Contents(file), state_(new inflate_state) { begin(); }

    std::size_t read(char* to, std::size_t room) override {
        room = std::min<std::size_t>(room, 1u << 30);
        state_->next_out = reinterpret_cast<uint8_t*>(to);
        state_->avail_out = static_cast<uint32_t>(room);
        while (state_->avail_out == room) {
            if (state_->avail_in == 0 && !is_at_end_) {
                is_at_end_ = !fill();
                state_->next_in = reinterpret_cast<uint8_t*>(buffer_.data());
                state_->avail_in = static_cast<uint32_t>(end_);
            }
            if (state_->block_state == ISAL_BLOCK_FINISH) {
                if (is_at_end_) return 0;
                if (*state_->next_in == 0) {  // padding of archives
                    ++state_->next_in;
                    --state_->avail_in;
                    continue;
                }
                reset();  // one member after the other
            }
            const uint32_t in_before = state_->avail_in;
            const int status = isal_inflate(state_.get());
            if (status == ISAL_INCORRECT_CHECKSUM) refuse("the checksum does not match");
            if (status < 0) refuse("no gzip data (RFC 1952)");
            const bool is_stuck = state_->avail_out == room && state_->avail_in == in_before &&
                                  state_->block_state != ISAL_BLOCK_FINISH;
            if (is_stuck && is_at_end_) refuse_end();
        }
        return room - state_->avail_out;
    }
    uint64_t seek(uint64_t) override {
        go_to(0);
        begin();
        return 0;
    }

private:
    void begin() {
        isal_inflate_init(state_.get());
        state_->crc_flag = ISAL_GZIP;
        state_->avail_in = 0;
        is_at_end_ = false;
    }
    void reset() {
        isal_inflate_reset(state_.get());
        state_->crc_flag = ISAL_GZIP;
    }

    std::unique_ptr<inflate_state> state_;
    bool is_at_end_ = false;  ///< of the file
};

class ZstdContents : public Contents {
public:
    explicit ZstdContents(Readable& file)
        : Contents(file), stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
        if (stream_ == nullptr) throw std::bad_alloc();
    }

    std::size_t read(char* to, std::size_t room) override {
        ZSTD_outBuffer out{to, room, 0};
        while (out.pos == 0) {
            if (begin_ == end_ && !fill()) {
                if (is_inside_) refuse_end();
                return 0;
            }
            ZSTD_inBuffer in{buffer_.data(), end_, begin_};
            const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
            begin_ = in.pos;
            if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
            if (ZSTD_isError(left) != 0) refuse(ZSTD_getErrorName(left));
            is_inside_ = left != 0;
        }
        return out.pos;
    }
    uint64_t seek(uint64_t offset) override {
        ZSTD_DCtx_reset(stream_.get(), ZSTD_reset_session_only);
        is_inside_ = false;
        const auto file = map_file(file_.name().c_str());
        const auto* const bytes = reinterpret_cast<const char*>(file->data());
        std::size_t from = 0;
        uint64_t at = 0;
        while (from < file->size()) {
            const unsigned long long content =
                ZSTD_getFrameContentSize(bytes + from, file->size() - from);
            if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR ||
                content > offset - at)
                break;
            const std::size_t frame =
                ZSTD_findFrameCompressedSize(bytes + from, file->size() - from);
            if (ZSTD_isError(frame) != 0) break;
            from += frame;
            at += content;
        }
        go_to(from);
        return at;
    }

private:
    std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
    bool is_inside_ = false;  ///< a frame
};

}  // namespace

Compression compression_of(Readable& file) {
    std::array<unsigned char, 4> begin{};
    const std::size_t count = file.read(0, reinterpret_cast<char*>(begin.data()), begin.size());
    const bool is_zstd =
        count == 4 && begin[1] == 0xB5 && begin[2] == 0x2F && begin[3] == 0xFD && begin[0] == 0x28;
    const bool is_skippable = count == 4 && (begin[0] & 0xF0) == 0x50 && begin[1] == 0x2A &&
                              begin[2] == 0x4D && begin[3] == 0x18;
    if (is_zstd || is_skippable) return Compression::zstd;
    return count >= 2 && begin[0] == 0x1F && begin[1] == 0x8B ? Compression::gzip
                                                              : Compression::none;
}

std::unique_ptr<Contents> open_contents(Readable& file) {
    switch (compression_of(file)) {
        case Compression::zstd: return std::make_unique<ZstdContents>(file);
        case Compression::gzip: return std::make_unique<GzipContents>(file);
        default: return std::make_unique<PlainContents>(file);
    }
}

}  // namespace sab
