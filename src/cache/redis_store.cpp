/// Values on Redis servers, dealt out by the hash of the key.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/forks.h"
#include "base/xxhash.h"
#include "cache/random_word.h"
#include "cache/redis_exchange.h"
#include "cache/store.h"

namespace sab::cache {
namespace {

constexpr std::size_t largest_frame = std::size_t{1} << 29;  // Redis's own bound
// of one command: others are sent while it is answered
constexpr std::size_t most_keys = 128, most_bytes = std::size_t{1} << 16;
// of one answer: it has 8 GiB at most
constexpr std::size_t most_values = 16;
constexpr ReplyBounds a_value{largest_frame + 64, 0, largest_frame},
    some_keys{largest_frame, std::size_t{1} << 20, largest_frame};

// Names on the servers are keys, but for those that begin with "sab:": that of a claim is
// "sab:loading:" and the key, that of a value "sab:value:" and the key.
constexpr std::string_view reserved = "sab:", claims = "sab:loading:", values = "sab:value:";

std::string name_of(std::string_view key) {
    return text(key.starts_with(reserved) ? values : "", key);
}

/// The same, without a copy where the name is the key.
std::string_view name_of(std::string_view key, std::deque<std::string>& kept) {
    return key.starts_with(reserved) ? kept.emplace_back(name_of(key)) : key;
}

/// A key and what to do with it.
struct Task {
    // a read or write that is refused says how the server is, others only what this user may do
    enum Kind { read, write, other } kind = other;
    std::string_view key{}, value{};
    std::vector<std::string_view> words{};  // of the command, for `other`
    RedisServer* server = nullptr;
    bool is_written = false;
    std::optional<Reply> reply{};
    std::string failure{};
    ReplyBounds largest_answer = a_line;  // for `other`

    Command command() const {
        if (kind == read) return {{"GET", key}, {}, a_value};
        if (kind == write) return {"SET", key, value};
        return {{}, words, largest_answer};
    }
};

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> all) {
    return std::any_of(all.begin(), all.end(),
                       [&](std::string_view each) { return text.starts_with(each); });
}

/// Whether an error says that the server answers nothing for now.
bool is_of_server(std::string_view error) {
    return begins_with_any(error, {"LOADING", "NOAUTH", "WRONGPASS", "BUSY", "MASTERDOWN",
                                   "ERR max number of clients"});
}

std::string escaped(std::string_view name) {
    std::string out;
    for (const char c : name) {
        if (std::string_view("*?[]\\").find(c) != std::string_view::npos) out += '\\';
        out += c;
    }
    return out;
}

bool is_value(const Reply& reply) {
    return reply.kind == Reply::string || reply.kind == Reply::nothing;
}
bool is_error(const Reply& reply) {
    return reply.kind == Reply::error;
}

RedisLogin login_of(const RedisHost& host, const RedisAddress& address,
                    const StoreOptions& options) {
    return {host.user, host.password, address.database,
            std::chrono::duration_cast<Clock::duration>(
                std::chrono::duration<double>(options.timeout))};
}

class RedisStore : public Store {
public:
    RedisStore(const RedisAddress& address, const StoreOptions& options)
        : address_(address),
          prefix_(options.dataset_name ? name_of(*options.dataset_name + "_") : ""),
          call_timeout_(options.call_timeout) {
        for (const RedisHost& host : address.hosts)
            servers_.push_back(&by_name_
                                    .try_emplace({host.name, host.port}, host.name, host.port,
                                                 login_of(host, address, options))
                                    .first->second);
    }

    std::vector<std::optional<View>> get(std::span<const std::string_view> keys,
                                         Outcome& outcome) override {
        const Deadline deadline(call_timeout_);
        std::deque<std::string> names;  // that tasks keep
        std::vector<Task> tasks;
        tasks.reserve(keys.size());
        for (const std::string_view key : keys)
            tasks.push_back({Task::read, name_of(key, names), {}});
        perform(tasks, outcome, deadline);
        std::vector<std::optional<View>> found(keys.size());
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            if (!tasks[i].reply || tasks[i].reply->kind != Reply::string) continue;
            const auto owner = std::make_shared<const std::string>(std::move(tasks[i].reply->text));
            found[i] = View{owner, *owner};
        }
        return found;
    }

    void put(std::span<const Item> items, Outcome& outcome) override {
        const Deadline deadline(call_timeout_);
        std::deque<std::string> names;
        std::vector<Task> tasks;
        tasks.reserve(items.size());
        for (const Item& item : items) {
            if (item.value.size() > largest_frame)
                ++outcome.dropped;
            else
                tasks.push_back({Task::write, name_of(item.key, names), item.value});
        }
        perform(tasks, outcome, deadline);
        for (const Task& task : tasks)
            if (!task.is_written) ++outcome.dropped;
    }

    uint64_t count(Outcome& outcome) override {
        const Deadline deadline(call_timeout_);
        std::map<const RedisServer*, std::vector<uint64_t>> seen;  // a walk may come to a key twice
        walk(outcome, deadline,
             [&](const RedisServer& server, const std::vector<std::string>& keys) {
                 for (const std::string& key : keys)
                     seen[&server].push_back(XXH3_64bits(key.data(), key.size()));
             });
        uint64_t keys = 0;
        for (auto& [server, hashes] : seen) {
            std::sort(hashes.begin(), hashes.end());
            keys +=
                static_cast<uint64_t>(std::unique(hashes.begin(), hashes.end()) - hashes.begin());
        }
        return keys;
    }

    void clear(Outcome& outcome) override {
        const Deadline deadline(call_timeout_);
        walk(outcome, deadline, [&](RedisServer& server, const std::vector<std::string>& keys) {
            std::vector<Task> tasks;
            tasks.reserve(keys.size());
            for (const std::string& key : keys)
                tasks.push_back({Task::other, {}, {}, {"UNLINK", key}, &server});
            perform(tasks, outcome, deadline);
            server.writes.try_again();  // there is room now
        });
    }

    std::unique_ptr<Claim> claim(std::string_view key, double seconds) override;
    Flights& flights() override { return flights_; }
    std::string url() const override { return address_.url(); }

    void check(Outcome& outcome) override {
        const Deadline deadline(call_timeout_);
        std::vector<Task> tasks;
        tasks.reserve(servers_.size());
        for (RedisServer* const server : servers_)
            tasks.push_back({Task::other, {}, {}, {"PING"}, server});
        perform(tasks, outcome, deadline);
    }

private:
    class Held;

    /// Carries tasks out, those without a server at that of their key.
    void perform(std::vector<Task>& tasks, Outcome& outcome, const Deadline& deadline);
    struct Part {  // of the tasks, for one server
        RedisServer* server = nullptr;
        Task::Kind kind = Task::other;
        std::vector<Task*> tasks{};
        std::vector<std::size_t> bundles{};  // how many tasks each command is for
        std::optional<Outage::Turn> turn{}, write_turn{};
        std::string trouble{}, refusal{};
    };
    static std::vector<Task*> carry_out(std::span<Task* const> tasks, const Deadline& deadline);
    static std::vector<Command> commands_of(Part& part);
    static void read(Part& part, Exchange& exchange, std::vector<Task*>& again);
    static void read_error(Part& part, Task& task, std::string_view error);
    RedisServer* server_of(std::string_view key) const;
    void walk(Outcome& outcome, const Deadline& deadline,
              const std::function<void(RedisServer&, const std::vector<std::string>&)>& found);

    const RedisAddress address_;
    const std::string prefix_;  // of the names of its values
    const double call_timeout_;
    // Of its claims. The store makes a key's value once at a time, so a claim of its own that is
    // there was left behind: sent twice, or not given up for lack of memory.
    const std::string token_ = random_word();
    std::map<std::pair<std::string, uint16_t>, RedisServer> by_name_;
    std::vector<RedisServer*> servers_;  // in the order of the URL, which may repeat one
    Flights flights_;
};

RedisServer* RedisStore::server_of(std::string_view key) const {
    return servers_[servers_.size() == 1 ? 0 : XXH64(key.data(), key.size(), 0) % servers_.size()];
}

void RedisStore::perform(std::vector<Task>& tasks, Outcome& outcome, const Deadline& deadline) {
    std::vector<Task*> left;
    for (Task& task : tasks) {
        if (task.server == nullptr) task.server = server_of(task.key);
        left.push_back(&task);
    }
    // a second time those of servers that turned out to refuse many keys in one command
    while (!left.empty()) left = carry_out(left, deadline);
    for (const Task& task : tasks)
        if (!task.failure.empty()) outcome.failure = task.failure;
}

/// One request to each server. Gives the tasks that are to be carried out one by one.
std::vector<Task*> RedisStore::carry_out(std::span<Task* const> tasks, const Deadline& deadline) {
    std::deque<Part> parts;
    for (Task* const task : tasks) {
        auto part = std::find_if(parts.begin(), parts.end(),
                                 [&](const Part& each) { return each.server == task->server; });
        if (part == parts.end()) {
            parts.emplace_back();
            part = std::prev(parts.end());
            part->server = task->server;
            part->kind = task->kind;
        }
        task->failure.clear();
        task->reply.reset();
        part->tasks.push_back(task);
    }
    std::vector<Exchange> exchanges;
    std::vector<Part*> partners;
    for (Part& part : parts) {
        std::string why;
        if (auto turn = part.server->reach.turn(why)) part.turn.emplace(std::move(*turn));
        if (part.kind == Task::write && part.turn)
            if (auto turn = part.server->writes.turn(why))
                part.write_turn.emplace(std::move(*turn));
        if (!part.turn || (part.kind == Task::write && !part.write_turn)) {
            for (Task* const task : part.tasks) task->failure = why;
            continue;
        }
        exchanges.emplace_back(*part.server, commands_of(part));
        partners.push_back(&part);
    }
    Exchange::run(exchanges, deadline);
    std::vector<Task*> again;
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
        Part& part = *partners[i];
        read(part, exchanges[i], again);
        if (!part.trouble.empty()) {
            part.server->close_idle();
            part.turn->failed(part.trouble);
            continue;
        }
        part.turn->succeeded();
        if (!part.write_turn) continue;
        if (part.refusal.empty())
            part.write_turn->succeeded();
        else
            part.write_turn->failed(part.refusal);
    }
    return again;
}

/// Commands for the tasks of a server; one for a bundle of them where that may be.
std::vector<Command> RedisStore::commands_of(Part& part) {
    std::vector<Command> commands;
    const std::size_t most = part.kind == Task::read ? most_values : most_keys;
    const bool is_bundled = part.kind != Task::other && part.server->has_many_keys;
    for (std::size_t at = 0; at < part.tasks.size(); at += part.bundles.back()) {
        std::size_t count = 1;
        for (std::size_t bytes = part.tasks[at]->value.size();
             is_bundled && count < most && at + count < part.tasks.size() && bytes < most_bytes;
             ++count)
            bytes += part.tasks[at + count]->value.size();
        part.bundles.push_back(count);
        if (count == 1) {
            commands.push_back(part.tasks[at]->command());
            continue;
        }
        std::vector<std::string_view> words;
        for (const Task* const task : std::span(part.tasks).subspan(at, count)) {
            words.push_back(task->key);
            if (part.kind == Task::write) words.push_back(task->value);
        }
        if (part.kind == Task::write)
            commands.push_back({{"MSET"}, std::move(words)});
        else
            commands.push_back(
                {{"MGET"}, std::move(words), {count * a_value.bytes, count, a_value.string}});
    }
    return commands;
}

/// What a server answered to its tasks.
void RedisStore::read(Part& part, Exchange& exchange, std::vector<Task*>& again) {
    part.trouble = exchange.failure;
    std::size_t at = 0, next_reply = 0;
    for (const std::size_t count : part.bundles) {
        const auto tasks = std::span(part.tasks).subspan(at, count);
        at += count;
        if (next_reply >= exchange.replies.size()) {
            for (Task* const task : tasks) task->failure = exchange.failure;
            continue;
        }
        Reply reply = std::move(exchange.replies[next_reply++]);
        if (count > 1 && is_error(reply) &&
            begins_with_any(reply.text, {"NOPERM", "ERR unknown command"})) {
            part.server->has_many_keys = false;
            again.insert(again.end(), tasks.begin(), tasks.end());
        } else if (is_error(reply)) {
            for (Task* const task : tasks) read_error(part, *task, reply.text);
            if (count == 1) tasks[0]->reply = std::move(reply);
        } else if (part.kind == Task::write && reply.kind == Reply::status) {
            for (Task* const task : tasks) task->is_written = true;
        } else if (part.kind == Task::other ||
                   (part.kind == Task::read && count == 1 && is_value(reply))) {
            tasks[0]->reply = std::move(reply);
        } else if (part.kind == Task::read && count > 1 && reply.elements.size() == count &&
                   std::all_of(reply.elements.begin(), reply.elements.end(), is_value)) {
            for (std::size_t i = 0; i < count; ++i) tasks[i]->reply = std::move(reply.elements[i]);
        } else {
            part.trouble = text(std::string_view(part.server->name),
                                ": sent what is no answer to the command");
            for (Task* const task : tasks) task->failure = part.trouble;
        }
    }
}

void RedisStore::read_error(Part& part, Task& task, std::string_view error) {
    if (error.starts_with("WRONGTYPE")) return;
    const bool is_trouble = is_of_server(error) || task.kind == Task::read,
               is_refusal = !is_trouble && task.kind == Task::write;
    task.failure = text(std::string_view(part.server->name), is_refusal ? ", writing: " : ": ",
                        std::string_view(part.server->readable(error)));
    if (is_trouble) part.trouble = task.failure;
    if (is_refusal) part.refusal = task.failure;
}

/// Shows `found` all keys of the dataset, those of one answer at a time; some perhaps twice.
void RedisStore::walk(
    Outcome& outcome, const Deadline& deadline,
    const std::function<void(RedisServer&, const std::vector<std::string>&)>& found) {
    struct Walk {
        RedisServer* server;
        std::string cursor = "0";
    };
    std::deque<Walk> walks;  // their cursors are kept by commands
    for (RedisServer* const server : servers_) walks.push_back({server});
    const std::string pattern = escaped(prefix_) + "*";
    while (!walks.empty()) {
        if (deadline.is_over()) {
            outcome.failure =
                text(std::string_view(walks.front().server->name), ": SCAN not done within ",
                     deadline.seconds, " s, the call_timeout");
            return;
        }
        std::vector<Task> tasks;
        tasks.reserve(walks.size());
        for (const Walk& each : walks)
            tasks.push_back({.kind = Task::other,
                             .words = {"SCAN", each.cursor, "MATCH", pattern, "COUNT", "1000"},
                             .server = each.server,
                             .largest_answer = some_keys});
        perform(tasks, outcome, deadline);
        std::deque<Walk> next;
        for (const Task& task : tasks) {
            if (!task.failure.empty()) continue;
            const Reply& reply = *task.reply;
            if (reply.elements.size() != 2 || reply.elements[0].kind != Reply::string ||
                reply.elements[1].kind != Reply::array) {
                outcome.failure =
                    text(std::string_view(task.server->name), ": sent what is no answer to SCAN");
                continue;
            }
            std::vector<std::string> keys;
            for (const Reply& key : reply.elements[1].elements)
                if (key.kind == Reply::string && key.text.starts_with(prefix_) &&
                    !key.text.starts_with(claims))
                    keys.push_back(key.text);
            if (!keys.empty()) found(*task.server, keys);
            if (reply.elements[0].text != "0")
                next.push_back({task.server, reply.elements[0].text});
        }
        walks.swap(next);
    }
}

/// A key that says who makes another's value.
class RedisStore::Held : public Claim {
public:
    Held(RedisStore& store, std::string name) : store_(store), name_(std::move(name)) {}
    /// Whether nobody else has it.
    bool take(double seconds);
    /// Gives it up, by a script that removes it only where it is ours.
    ~Held() override {
        if (!may_be_held_ || generation_ != count_forks()) return;
        try {
            constexpr std::string_view script =
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
                "end return 0";
            const Deadline deadline(store_.call_timeout_);
            std::vector<Task> tasks;
            tasks.push_back({Task::other, name_, {}, {"EVAL", script, "1", name_, store_.token_}});
            Outcome outcome;
            store_.perform(tasks, outcome, deadline);
        } catch (...) {  // ignored: the claim expires by itself
        }
    }

private:
    RedisStore& store_;
    const std::string name_;
    const uint64_t generation_ = count_forks();
    bool may_be_held_ = false;
};

bool RedisStore::Held::take(double seconds) {
    const Deadline deadline(store_.call_timeout_);
    const std::string milliseconds =
        text(static_cast<uint64_t>(std::clamp(seconds, 0.001, 1e9) * 1000));
    std::vector<Task> tasks;
    tasks.push_back(
        {Task::other, name_, {}, {"SET", name_, store_.token_, "NX", "PX", milliseconds}});
    Outcome outcome;
    may_be_held_ = true;  // also when what follows throws
    store_.perform(tasks, outcome, deadline);
    if (!tasks[0].failure.empty() || !tasks[0].reply || is_error(*tasks[0].reply)) {
        may_be_held_ = false;
        return true;
    }
    if (tasks[0].reply->kind == Reply::status) return true;
    tasks[0] = {Task::read, name_, {}};
    store_.perform(tasks, outcome, deadline);
    may_be_held_ = tasks[0].reply && tasks[0].reply->kind == Reply::string &&
                   tasks[0].reply->text == store_.token_;
    return may_be_held_;
}

std::unique_ptr<Claim> RedisStore::claim(std::string_view key, double seconds) {
    auto held = std::make_unique<Held>(*this, text(claims, key));
    if (!held->take(seconds)) return nullptr;
    return held;
}

}  // namespace

std::unique_ptr<Store> open_redis_store(const RedisAddress& address, const StoreOptions& options) {
    return std::make_unique<RedisStore>(address, options);
}

}  // namespace sab::cache
