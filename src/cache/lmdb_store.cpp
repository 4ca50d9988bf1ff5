/// Values in a file of LMDB's: one database for each dataset name, keyed by the hash of the key.
#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "base/guard.h"
#include "cache/store.h"

namespace sab::cache {
namespace {

constexpr uint64_t largest_map = uint64_t{1} << 40;  // of addresses; the file grows as it must
constexpr uint64_t least_map = uint64_t{1} << 28;
constexpr unsigned most_readers = 4096;

using Key = std::array<char, 16>;

Key key_of(std::string_view key) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(key.data(), key.size()));
    Key made;
    std::memcpy(made.data(), canonical.digest, made.size());
    return made;
}

MDB_val val(const void* data, std::size_t size) { return {size, const_cast<void*>(data)}; }

std::string why(int code, const std::string& path) { return text("LMDB, \"", std::string_view(path), "\": ", std::string_view(mdb_strerror(code))); }

/// A file that this process has open. LMDB allows one environment a file and process; one that was open before a fork is the parent's.
class File {
public:
    explicit File(std::string name) : path(std::move(name)) {
        int code = ENOMEM;
        for (uint64_t size = largest_map; code == ENOMEM && size >= least_map; size /= 4) {  // as much as the process may map
            check_open(mdb_env_create(&env));
            mdb_env_set_maxdbs(env, 1024);
            mdb_env_set_maxreaders(env, most_readers);
            mdb_env_set_mapsize(env, size);
            code = mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, 0644);
            if (code != 0) mdb_env_close(env);
        }
        check_open(code);
        int dead = 0;
        mdb_reader_check(env, &dead);
        loading = open((path + "-loading").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    }
    ~File() {
        if (generation != fork_generation()) return;
        mdb_env_sync(env, 1);
        mdb_env_close(env);
        if (loading >= 0) close(loading);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    void check_open(int code) const {
        if (code != 0) fail(SAB_E_IO, std::string_view(why(code, path)));
    }

    const std::string path;
    const uint64_t generation = fork_generation();
    MDB_env* env = nullptr;
    int loading = -1;  // bytes of it are locked for the keys whose values are being made
    std::mutex writing;
    std::map<std::string, MDB_dbi> databases;
    Flights flights;
};

/// Files that are open, by what they are.
struct Files {
    std::mutex mutex;
    std::map<std::pair<dev_t, ino_t>, std::weak_ptr<File>> open;
    uint64_t generation = 0;
};

std::shared_ptr<File> open_file(const std::string& path) {
    static Files* files = new Files;  // never destroyed: values may outlive all
    if (files->generation != fork_generation()) {
        files = new Files;  // the parent's, and its lock, are left as they are
        files->generation = fork_generation();
    }
    const std::scoped_lock lock(files->mutex);
    struct stat info {};
    if (stat(path.c_str(), &info) == 0)
        if (auto known = files->open[{info.st_dev, info.st_ino}].lock()) return known;
    auto made = std::make_shared<File>(path);
    if (stat(path.c_str(), &info) == 0) files->open[{info.st_dev, info.st_ino}] = made;
    return made;
}

/// A write to a byte of the file of loads: held by this process alone, and gone with it however it ends.
class FileClaim : public Claim {
public:
    FileClaim(std::shared_ptr<File> file, off_t place) : file_(std::move(file)), place_(place) {}
    ~FileClaim() override {
        if (file_->generation == fork_generation()) set(file_->loading, place_, F_UNLCK);
    }
    static bool set(int descriptor, off_t place, short kind) {
        struct flock range {};
        range.l_type = kind;
        range.l_whence = SEEK_SET;
        range.l_start = place;
        range.l_len = 1;
        return fcntl(descriptor, F_SETLK, &range) == 0;
    }

private:
    std::shared_ptr<File> file_;
    off_t place_;
};

class LmdbStore : public Store {
public:
    LmdbStore(const std::string& path, const StoreOptions& options) : name_(options.dataset_name ? "values of " + *options.dataset_name : "values"), capacity_(options.capacity), file_(open_file(path)) {
        const std::scoped_lock writing(file_->writing);
        const auto known = file_->databases.find(name_);
        if (known != file_->databases.end()) {
            database_ = known->second;
            return;
        }
        MDB_txn* txn = nullptr;
        file_->check_open(mdb_txn_begin(file_->env, nullptr, 0, &txn));
        int code = mdb_dbi_open(txn, name_.c_str(), MDB_CREATE, &database_);
        if (code == 0)
            code = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
        file_->check_open(code);
        file_->databases[name_] = database_;
    }

    std::vector<std::optional<View>> get(std::span<const std::string_view> keys, Outcome& outcome) override {
        std::vector<std::optional<View>> found(keys.size());
        const std::scoped_lock lock(reading_);
        const std::shared_ptr<MDB_txn> now = current(outcome);
        if (now == nullptr) return found;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const Key key = key_of(keys[i]);
            MDB_val name = val(key.data(), key.size()), value{};
            const int code = mdb_get(now.get(), database_, &name, &value);
            if (code == 0)
                found[i] = View{std::shared_ptr<const void>(now, now.get()), {static_cast<const char*>(value.mv_data), value.mv_size}};
            else if (code != MDB_NOTFOUND)
                outcome.failure = why(code, file_->path);
        }
        return found;
    }

    void put(std::span<const Item> items, Outcome& outcome) override {
        const std::scoped_lock lock(file_->writing);
        const int code = write(items, outcome);
        if (code != 0) {
            outcome.dropped += items.size();
            outcome.failure = why(code, file_->path);
        }
        if ((code != 0) == is_out_of_reach_) return;
        is_out_of_reach_ = code != 0;
        log(code != 0 ? SAB_LOG_WARNING : SAB_LOG_INFO, code != 0 ? "cache: values are not kept: " + outcome.failure : "cache: values are kept again: " + url());
    }

    uint64_t count(Outcome& outcome) override {
        const std::scoped_lock lock(reading_);
        const std::shared_ptr<MDB_txn> now = current(outcome);
        MDB_stat stat{};
        if (now != nullptr)
            if (const int code = mdb_stat(now.get(), database_, &stat); code != 0) outcome.failure = why(code, file_->path);
        return stat.ms_entries;
    }

    void clear(Outcome& outcome) override {
        const std::scoped_lock lock(file_->writing);
        MDB_txn* txn = nullptr;
        int code = mdb_txn_begin(file_->env, nullptr, 0, &txn);
        if (code == 0) {
            code = mdb_drop(txn, database_, 0);
            if (code == 0)
                code = mdb_txn_commit(txn);
            else
                mdb_txn_abort(txn);
        }
        if (code != 0) outcome.failure = why(code, file_->path);
    }

    std::unique_ptr<Claim> claim(std::string_view key, double) override {
        const std::string whole = name_ + '\0' + std::string(key);
        const auto place = static_cast<off_t>(XXH3_64bits(whole.data(), whole.size()) >> 2);
        if (!FileClaim::set(file_->loading, place, F_WRLCK) && (errno == EAGAIN || errno == EACCES)) return nullptr;
        return std::make_unique<FileClaim>(file_, place);
    }

    Flights& flights() override { return file_->flights; }
    bool is_shared() const override { return true; }
    std::string url() const override { return "lmdb:" + file_->path; }

private:
    /// What is there now, shared by the values that were found in it.
    std::shared_ptr<MDB_txn> current(Outcome& outcome) {
        MDB_envinfo info{};
        mdb_env_info(file_->env, &info);
        if (snapshot_ != nullptr && mdb_txn_id(snapshot_.get()) == info.me_last_txnid) return snapshot_;
        if (snapshot_ != nullptr && snapshot_.use_count() == 1) {
            mdb_txn_reset(snapshot_.get());
            if (mdb_txn_renew(snapshot_.get()) == 0) return snapshot_;
        }
        snapshot_.reset();
        MDB_txn* txn = nullptr;
        int code = mdb_txn_begin(file_->env, nullptr, MDB_RDONLY, &txn);
        if (code == MDB_READERS_FULL) {
            int dead = 0;
            mdb_reader_check(file_->env, &dead);
            code = mdb_txn_begin(file_->env, nullptr, MDB_RDONLY, &txn);
        }
        if (code != 0) {
            outcome.failure = why(code, file_->path);
            return nullptr;
        }
        // A value keeps its snapshot, and that the file. In a child both are the parent's.
        snapshot_ = std::shared_ptr<MDB_txn>(txn, [file = file_](MDB_txn* old) {
            if (file->generation == fork_generation()) mdb_txn_abort(old);
        });
        return snapshot_;
    }

    /// One transaction: LMDB's code.
    int write(std::span<const Item> items, Outcome& outcome) {
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
            MDB_val name = val(key.data(), key.size()), value = val(item.value.data(), item.value.size());
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
        while (mdb_stat(txn, database_, &stat) == 0 && stat.ms_entries > 1 && (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) * stat.ms_psize > capacity_) {
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
    std::mutex reading_;
    std::shared_ptr<MDB_txn> snapshot_;
    std::mt19937_64 random_{std::random_device{}()};  // this and the next under `writing`
    bool is_out_of_reach_ = false;
};

}  // namespace

std::unique_ptr<Store> open_lmdb_store(const std::string& path, const StoreOptions& options) { return std::make_unique<LmdbStore>(path, options); }

}  // namespace sab::cache
