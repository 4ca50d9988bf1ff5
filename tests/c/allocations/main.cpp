// Makes every N-th allocation fail in turn: main.cpp INCLUDE_FOLDER [--every N] [SCENARIO...]. N is
// 4, or $SAB_TEST_ALLOCATIONS_EVERY; in long scenarios fewer fail, unless N is 1. The functions are
// those that the headers declare: one without a scenario fails the test.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "harness.h"

namespace {

/// The fewest points of a run of all scenarios with N = 1: with fewer, scenarios or the counting of
/// allocations have been lost.
constexpr long fewest_points = 9000;

std::string text_of(const std::string &path) {
    std::ifstream file(path);
    if (!file) {
        std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
        exit(2);
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The names of the functions that a header declares: the word before the first parenthesis after
/// SAB_API.
void read_functions(const std::string &path) {
    const std::string text = text_of(path);
    for (std::size_t at = 0; (at = text.find("\nSAB_API", at)) != std::string::npos; ++at) {
        const std::size_t end = text.find('(', at);
        std::size_t begin = end;
        while (isalnum(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '_')
            --begin;
        functions.push_back(text.substr(begin, end - begin));
    }
}

/// Reads the headers that sab.h includes, except torch.h, whose functions need LibTorch.
void read_all_functions(const std::string &folder) {
    const std::string text = text_of(folder + "/sab.h"), include = "\n#include \"";
    for (std::size_t at = 0; (at = text.find(include, at)) != std::string::npos;) {
        at += include.size();
        const std::string header = text.substr(at, text.find('"', at) - at);
        if (header != "sab/torch.h") read_functions(folder + "/" + header);
    }
}

/// Plays a scenario in a process of its own, so that one that is killed does not stop the others.
bool passes(const Scenario &scenario, long every) {
    const long before = shared->points;
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) exit(play_all(scenario, every) > 0);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%-32s %6ld points\n", scenario.name, shared->points - before);
    if (WIFSIGNALED(status))
        std::fprintf(stderr, "%s (signal %d: %s)\n", shared->where, WTERMSIG(status),
                     WTERMSIG(status) == SIGALRM ? "it hangs" : "it crashes");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_asked_for(const char *name, char **first, char **end) {
    return first == end || std::any_of(first, end, [&](const char *each) {
               return std::strstr(name, each) != nullptr;
           });
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char **rest = argv + 2;
    const char *const asked = getenv("SAB_TEST_ALLOCATIONS_EVERY");
    long every = asked != nullptr ? atol(asked) : 4;
    if (rest + 1 < argv + argc && std::strcmp(rest[0], "--every") == 0) {
        every = atol(rest[1]);
        rest += 2;
    }
    if (every < 1) return 2;
    read_all_functions(argv[1]);
    shared = static_cast<Shared *>(
        mmap(nullptr, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    char made[] = "/tmp/sab-allocations-XXXXXX";
    if (functions.size() > sizeof shared->covered || mkdtemp(made) == nullptr || chdir(made) != 0)
        return 2;
    folder = made;

    int passed = 0, failed = 0;
    for (const Scenario &scenario : scenarios()) {
        if (!is_asked_for(scenario.name, rest, argv + argc)) continue;
        if (passes(scenario, every)) {
            ++passed;
            continue;
        }
        ++failed;
        std::fprintf(stderr, "FAILED %s\n", scenario.name);
    }
    if (rest == argv + argc) {
        if (shared->points < fewest_points / every) {
            ++failed;
            std::fprintf(stderr, "FAILED: fewer than %ld points\n", fewest_points / every);
        }
        for (std::size_t i = 0; i < functions.size(); ++i)
            if (!shared->covered[i]) {
                ++failed;
                std::fprintf(stderr, "FAILED %s: no scenario calls it\n", functions[i].c_str());
            }
    }
    if (chdir("/") != 0 || system(("rm -rf " + folder).c_str()) != 0) return 2;
    std::printf("%ld points of failure\n%d passed, %d failed\n", shared->points, passed, failed);
    return failed > 0;
}
