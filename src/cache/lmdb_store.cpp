/// Values in a file of LMDB's: one database for each dataset name, keyed by the hash of the key.
#include <fcntl.h>
#include <lmdb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <system_error>
#include <thread>

#include "base/files.h"
#include "base/forks.h"
#include "base/log.h"
#include "base/xxhash.h"
#include "cache/forks.h"
#include "cache/store.h"

namespace sab::cache {
namespace {

constexpr uint64_t largest_map = uint64_t{1} << 40;  // of addresses; the file grows as it must
constexpr uint64_t least_map = uint64_t{1} << 28;
constexpr unsigned most_readers = 4096;
// states of a file that a process keeps in it; more values are copied
constexpr std::size_t most_held = 64;

using Clock = std::chrono::steady_clock;
using Key = std::array<char, 16>;

Key key_of(std::string_view key) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(key.data(), key.size()));
    Key made;
    std::memcpy(made.data(), canonical.digest, made.size());
    return made;
}

MDB_val val(const void* data, std::size_t size) {
    return {size, const_cast<void*>(data)};
}

/// Of a call of LMDB's, which allocates, too.
int checked(int code) {
    if (code == ENOMEM) throw std::bad_alloc();
    return code;
}

/// As many addresses as the process may map, up to the largest map.
uint64_t mappable() {
    for (uint64_t size = largest_map; size > least_map; size /= 4) {
        void* const room =
            mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) continue;
        munmap(room, size);
        return size;
    }
    return least_map;
}

constexpr int replaced = MDB_KEYEXIST + 1;  // no code of LMDB's

std::string_view told_by_lmdb(int code) {
    return code == replaced
               ? "it, or the file of its locks, was removed or replaced while it was open"
               : mdb_strerror(code);
}

std::string why(int code, const std::string& path) {
    return text("LMDB, \"", path, "\": ", told_by_lmdb(code));
}

/// A byte of a file, locked for this process alone, and free again however that ends.
bool set_lock(int descriptor, off_t offset, short kind) {
    struct flock range{};
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    range.l_start = offset;
    range.l_len = 1;
    return fcntl(descriptor, F_SETLK, &range) == 0;
}

bool is_locked_by_another() {
    return errno == EAGAIN || errno == EACCES;
}

/// What a name of a dataset has in a file.
struct Database {
    MDB_dbi number = 0;
    Flights flights;
};

using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const std::string& path) {
    struct stat info{};
    return stat(path.c_str(), &info) == 0 ? Identity{info.st_dev, info.st_ino} : Identity{};
}

/// A file that this process has open. LMDB allows one environment a file and process; one that was
/// open before a fork is the parent's.
class File {
public:
    File(std::string name, unsigned mode) : path(std::move(name)), lock_path_(path + "-lock") {
        try {
            open_all(mode);
        } catch (...) {
            close_all();
            throw;
        }
    }
    ~File() {
        if (generation != count_forks()) return;
        for (MDB_txn* const each : idle_) mdb_txn_abort(each);
        mdb_env_sync(env, 1);
        close_all();
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    void check_open(int code) const {
        if (checked(code) != 0) fail_io(std::max(code, 0), "LMDB,", path, told_by_lmdb(code));
    }
    /// Gives up what processes that were killed looked at: it could not be written over.
    void check_readers() {
        int dead = 0;
        mdb_reader_check(env, &dead);
    }
    const Identity& identity() const { return opened_.first; }
    /// Whether others who open the path now get another file than this, or do not see that this
    /// process uses it.
    bool is_replaced() const {
        return opened_ != std::pair{identity_of(path), identity_of(lock_path_)};
    }

    /// A look at what is there now.
    int begin_read(MDB_txn*& txn) {
        while (true) {
            {
                const std::scoped_lock lock(idling_);
                if (idle_.empty()) break;
                txn = idle_.back();
                idle_.pop_back();
            }
            if (mdb_txn_renew(txn) == 0) return 0;
            mdb_txn_abort(txn);
        }
        int code = mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn);
        if (code != MDB_READERS_FULL) return code;
        check_readers();
        return mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn);
    }
    void end_read(MDB_txn* txn) {
        mdb_txn_reset(txn);
        {
            const std::scoped_lock lock(idling_);
            if (idle_.size() < most_idle) return idle_.push_back(txn);
        }
        mdb_txn_abort(txn);
    }

    const std::string path;
    const uint64_t generation = count_forks();
    MDB_env* env = nullptr;
    // bytes of it are locked for the keys whose values are being made, and one while the file is
    // opened
    int loading = -1;
    std::mutex writing;
    std::map<std::string, Database> databases;  // this and the next under `writing`
    uint64_t written = 0;                       // since readers were checked
    std::atomic<std::size_t> snapshots{0};

private:
    static constexpr off_t opening_place = off_t{1} << 62;  // above those of keys
    static constexpr std::size_t most_idle = 16;

    void open_all(unsigned mode) {
        const std::string loading_path = path + "-loading";
        const StandardStreams streams;
        loading = open(loading_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode);
        const bool is_alone = lock_opening();
        struct stat info{};
        // of a file that was removed
        if (is_alone && stat(path.c_str(), &info) == 0 && info.st_size == 0)
            unlink(lock_path_.c_str());
        int code = mdb_env_create(&env);
        if (code == 0) {
            mdb_env_set_maxdbs(env, 1024);
            mdb_env_set_maxreaders(env, most_readers);
            mdb_env_set_mapsize(env, mappable());
            code = mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, mode);
        }
        if (is_alone) set_lock(loading, opening_place, F_UNLCK);
        check_open(code);
        check_readers();
        opened_ = {identity_of(path), identity_of(lock_path_)};
    }
    void close_all() noexcept {
        if (env != nullptr) mdb_env_close(env);
        if (loading >= 0) close(loading);
    }
    /// False where somebody does not get on with it, and where it cannot be known.
    bool lock_opening() const {
        for (const auto end = Clock::now() + std::chrono::seconds(5);
             !set_lock(loading, opening_place, F_WRLCK);
             std::this_thread::sleep_for(std::chrono::milliseconds(1)))
            if (!is_locked_by_another() || Clock::now() >= end) return false;
        return true;
    }

    const std::string lock_path_;
    std::pair<Identity, Identity> opened_;  // the file, and that of its locks
    std::mutex idling_;
    std::vector<MDB_txn*> idle_ = room();  // looks that are over, to be taken again
    static std::vector<MDB_txn*> room() {
        std::vector<MDB_txn*> none;
        none.reserve(most_idle);
        return none;
    }
};

/// Files that are open, by what they are. One that is being closed counts: its locks go with it.
struct Files {
    std::recursive_mutex mutex;
    std::map<Identity, std::weak_ptr<File>> open;
};

// a child makes them anew, which must need no memory
alignas(Files) unsigned char room_for_files[sizeof(Files)];
// never destroyed: values may outlive all
Files* files = nullptr;

void close_file(File* file) {
    if (file->generation != count_forks()) return delete file;
    const std::scoped_lock lock(files->mutex);
    files->open.erase(file->identity());
    delete file;
}

std::shared_ptr<File> open_file(const std::string& path, unsigned mode) {
    std::unique_lock lock(files->mutex);
    while (true) {
        const auto known = files->open.find(identity_of(path));
        if (known == files->open.end()) {
            const std::shared_ptr<File> made(new File(path, mode), close_file);
            files->open[made->identity()] = made;
            return made;
        }
        if (auto file = known->second.lock()) return file;
        lock.unlock();  // another thread is closing it
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        lock.lock();
    }
}

/// What was there at one time, for the values that were found in it.
class Snapshot {
public:
    explicit Snapshot(std::shared_ptr<File> file) : file_(std::move(file)) {}
    ~Snapshot() {
        // in a child it is the parent's
        if (txn == nullptr || file_->generation != count_forks()) return;
        file_->end_read(txn);
        --file_->snapshots;
    }
    /// LMDB's code.
    int begin() {
        const int code = file_->begin_read(txn);
        if (code != 0)
            txn = nullptr;
        else
            ++file_->snapshots;
        return code;
    }
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    MDB_txn* txn = nullptr;

private:
    const std::shared_ptr<File> file_;
};

/// A write to a byte of the file of loads: held by this process alone, and gone with it however it
/// ends.
class FileClaim : public Claim {
public:
    FileClaim(std::shared_ptr<File> file, off_t offset) : file_(std::move(file)), offset_(offset) {}
    ~FileClaim() override {
        if (is_held_ && file_->generation == count_forks())
            set_lock(file_->loading, offset_, F_UNLCK);
    }
    /// False while another process has it.
    bool take() {
        is_held_ = set_lock(file_->loading, offset_, F_WRLCK);
        return is_held_ || !is_locked_by_another();
    }

private:
    std::shared_ptr<File> file_;
    off_t offset_;
    bool is_held_ = false;
};

class LmdbStore : public Store {
public:
    LmdbStore(const std::string& path, const StoreOptions& options)
        : name_(options.dataset_name ? "values of " + *options.dataset_name : "values"),
          capacity_(options.capacity),
          file_(open_file(path, options.file_mode)) {
        const std::scoped_lock writing(file_->writing);
        const auto [entry, is_new] = file_->databases.try_emplace(name_);
        if (is_new) {
            try {
                open_database(entry->second.number);
            } catch (...) {
                file_->databases.erase(entry);
                throw;
            }
        }
        database_ = entry->second.number;
        flights_ = &entry->second.flights;
    }

    std::vector<std::optional<View>> get(std::span<const std::string_view> keys,
                                         Outcome& outcome) override {
        std::vector<std::optional<View>> found(keys.size());
        const std::scoped_lock lock(reading_);
        const std::shared_ptr<Snapshot> now = current(outcome);
        if (now == nullptr) return found;
        const bool is_too_much_held = file_->snapshots.load() > most_held;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const Key key = key_of(keys[i]);
            MDB_val name = val(key.data(), key.size()), value{};
            const int code = mdb_get(now->txn, database_, &name, &value);
            const std::string_view bytes(static_cast<const char*>(value.mv_data), value.mv_size);
            if (code == MDB_NOTFOUND) continue;
            if (checked(code) != 0) {
                outcome.failure = why(code, file_->path);
            } else if (is_too_much_held) {
                auto copy = std::make_shared<const std::string>(bytes);
                found[i] = View{copy, *copy};
            } else {
                found[i] = View{now, bytes};
            }
        }
        return found;
    }

    void put(std::span<const Item> items, Outcome& outcome) override {
        const std::scoped_lock lock(file_->writing);
        const int code = checked(write(items, outcome));
        if (code != 0) {
            outcome.dropped += items.size();
            outcome.failure = why(code, file_->path);
        }
        if ((code != 0) == is_out_of_reach_) return;
        is_out_of_reach_ = code != 0;
        log(code != 0 ? SAB_LOG_WARNING : SAB_LOG_INFO,
            code != 0 ? "cache: values are not kept: " + outcome.failure
                      : "cache: values are kept again: " + url());
    }

    uint64_t count(Outcome& outcome) override {
        const std::scoped_lock lock(reading_);
        const std::shared_ptr<Snapshot> now = current(outcome);
        MDB_stat stat{};
        if (now != nullptr)
            if (const int code = checked(mdb_stat(now->txn, database_, &stat)); code != 0)
                outcome.failure = why(code, file_->path);
        return stat.ms_entries;
    }

    void clear(Outcome& outcome) override {
        const std::scoped_lock lock(file_->writing);
        MDB_txn* txn = nullptr;
        int code = file_->is_replaced() ? replaced : mdb_txn_begin(file_->env, nullptr, 0, &txn);
        if (code == 0) {
            code = mdb_drop(txn, database_, 0);
            if (code == 0)
                code = mdb_txn_commit(txn);
            else
                mdb_txn_abort(txn);
        }
        if (checked(code) != 0) outcome.failure = why(code, file_->path);
    }

    std::unique_ptr<Claim> claim(std::string_view key, double) override {
        const std::string whole = name_ + '\0' + std::string(key);
        const auto offset = static_cast<off_t>(XXH3_64bits(whole.data(), whole.size()) >> 2);
        auto claim = std::make_unique<FileClaim>(file_, offset);
        if (!claim->take()) return nullptr;
        return claim;
    }

    Flights& flights() override { return *flights_; }
    std::string url() const override { return "lmdb:" + file_->path; }

private:
    void open_database(MDB_dbi& number) const {
        MDB_txn* txn = nullptr;
        file_->check_open(mdb_txn_begin(file_->env, nullptr, 0, &txn));
        int code = mdb_dbi_open(txn, name_.c_str(), MDB_CREATE, &number);
        if (code == 0)
            code = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
        file_->check_open(code);
    }

    /// What is there now. It goes with the last value that was found in it, so that nothing which
    /// nobody looks at keeps its place in the file.
    std::shared_ptr<Snapshot> current(Outcome& outcome) {
        MDB_envinfo info{};
        mdb_env_info(file_->env, &info);
        if (auto held = snapshot_.lock();
            held != nullptr && mdb_txn_id(held->txn) == info.me_last_txnid)
            return held;
        auto made = std::make_shared<Snapshot>(file_);
        if (const int code = checked(made->begin()); code != 0) {
            outcome.failure = why(code, file_->path);
            return nullptr;
        }
        snapshot_ = made;
        return made;
    }

    /// One transaction: LMDB's code.
    int write(std::span<const Item> items, Outcome& outcome) {
        if (file_->is_replaced()) return replaced;
        for (const Item& item : items) file_->written += 4096 + item.value.size();
        if (file_->written > 1 << 20) {
            file_->written = 0;
            file_->check_readers();
        }
        MDB_txn* txn = nullptr;
        if (const int code = mdb_txn_begin(file_->env, nullptr, 0, &txn); code != 0) return code;
        uint64_t evictions = 0, dropped = 0;
        int code = 0;
        for (const Item& item : items) {
            if (capacity_ > 0 && item.value.size() > capacity_) {
                ++dropped;
                continue;
            }
            const Key key = key_of(item.key);
            MDB_val name = val(key.data(), key.size()),
                    value = val(item.value.data(), item.value.size());
            code = mdb_put(txn, database_, &name, &value, 0);
            if (code == 0 && capacity_ > 0) code = make_room(txn, key, evictions);
            if (code != 0) break;
        }
        if (code != 0) {
            mdb_txn_abort(txn);
            return code;
        }
        code = mdb_txn_commit(txn);
        if (code != 0) return code;
        outcome.evictions += evictions;
        outcome.dropped += dropped;
        return 0;
    }

    /// Evicts at random while there is more than may be, but not what has just come.
    int make_room(MDB_txn* txn, const Key& latest, uint64_t& evictions) {
        MDB_stat stat{};
        while (mdb_stat(txn, database_, &stat) == 0 && stat.ms_entries > 1 &&
               (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) *
                       stat.ms_psize >
                   capacity_) {
            MDB_cursor* cursor = nullptr;
            if (const int code = mdb_cursor_open(txn, database_, &cursor); code != 0) return code;
            const uint64_t drawn[2] = {random_(), random_()};  // keys are hashes: evenly spread
            MDB_val name = val(drawn, sizeof drawn), value{};
            int code = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
            if (code == MDB_NOTFOUND) code = mdb_cursor_get(cursor, &name, &value, MDB_FIRST);
            if (code == 0 && std::memcmp(name.mv_data, latest.data(), latest.size()) == 0) {
                code = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
                if (code == MDB_NOTFOUND) code = mdb_cursor_get(cursor, &name, &value, MDB_FIRST);
            }
            if (code == 0) code = mdb_cursor_del(cursor, 0);
            mdb_cursor_close(cursor);
            if (code != 0) return code;
            ++evictions;
        }
        return 0;
    }

    const std::string name_;
    const uint64_t capacity_;
    const std::shared_ptr<File> file_;
    MDB_dbi database_ = 0;
    Flights* flights_ = nullptr;
    std::mutex reading_;
    std::weak_ptr<Snapshot> snapshot_;
    std::mt19937_64 random_{std::random_device{}()};  // this and the next under `writing`
    bool is_out_of_reach_ = false;
};

}  // namespace

void forget_files() noexcept {
    files = new (room_for_files) Files;
}

std::string resolved_path(const std::string& path, unsigned file_mode) {
    const int made = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, file_mode);
    const std::unique_ptr<char, decltype(&std::free)> whole(
        made < 0 ? nullptr : realpath(path.c_str(), nullptr), &std::free);
    const int code = errno;
    if (made >= 0) close(made);
    if (whole == nullptr && checked(code) != 0) fail_io(code, "cannot open", path);
    return whole.get();
}

std::unique_ptr<Store> open_lmdb_store(const std::string& path, const StoreOptions& options) {
    return std::make_unique<LmdbStore>(path, options);
}

}  // namespace sab::cache
