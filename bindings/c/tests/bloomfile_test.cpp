// bloomfile.h from C++: the header compiles, handles fit into smart pointers, threads share them.
#include <bloomfile.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

struct Error : std::runtime_error {
    explicit Error(int code) : std::runtime_error(bloomfile_error_message()), code(code) {}
    int code;
};

// An answer that is none becomes an exception.
int checked(int code)
{
    if (code < 0)
        throw Error(code);
    return code;
}

void require(bool condition, const char *what)
{
    if (!condition) {
        std::fprintf(stderr, "not so: %s (last error: %s)\n", what, bloomfile_error_message());
        std::exit(1);
    }
}

template <auto Close> struct Closer {
    template <typename Handle> void operator()(Handle *handle) const { Close(handle); }
};
using Options = std::unique_ptr<bloomfile_options, Closer<bloomfile_options_free>>;
using Filter = std::unique_ptr<bloomfile_filter, Closer<bloomfile_filter_close>>;
using Reader = std::unique_ptr<bloomfile_reader, Closer<bloomfile_reader_close>>;
using Builder = std::unique_ptr<bloomfile_builder, Closer<bloomfile_builder_abandon>>;
using Text = std::unique_ptr<char, Closer<bloomfile_string_free>>;

Options options(uint64_t capacity, double rate)
{
    bloomfile_options *made = nullptr;
    checked(bloomfile_options_new(&made));
    Options options(made);
    checked(bloomfile_options_set_capacity(made, capacity));
    checked(bloomfile_options_set_rate(made, rate));
    return options;
}

Reader open(const std::string &path, uint32_t flags = 0)
{
    bloomfile_reader *made = nullptr;
    checked(bloomfile_reader_open(path.c_str(), flags, nullptr, &made));
    return Reader(made);
}

std::string key(int thread, int number)
{
    return "key-" + std::to_string(thread) + "-" + std::to_string(number);
}

// Threads add, sync and ask through one handle, and through a reader beside it; each has errors of its own.
void threads_share_handles(const std::string &path, int per_thread)
{
    constexpr int writers = 4;
    bloomfile_filter *made = nullptr;
    checked(bloomfile_filter_create(options(writers * per_thread, 0.01).get(), path.c_str(), &made));
    Filter filter(made);
    Reader reader = open(path);
    std::atomic<int> lost{0}, wrong_errors{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < writers; thread++)
        threads.emplace_back([&, thread] {
            for (int number = 0; number < per_thread; number++) {
                std::string added = key(thread, number);
                if (bloomfile_filter_add(filter.get(), added.data(), added.size()) < 0 ||
                    bloomfile_filter_contains(filter.get(), added.data(), added.size()) != 1 ||
                    bloomfile_reader_contains(reader.get(), added.data(), added.size()) != 1)
                    lost++;
                if (number % 5000 == 0 && bloomfile_filter_sync_with_mark(filter.get(), 1) != 0)
                    lost++;
            }
            // The message of each thread names what that thread asked for.
            std::string missing = path + ".missing-" + std::to_string(thread);
            bloomfile_reader *none = nullptr;
            if (bloomfile_reader_open(missing.c_str(), 0, nullptr, &none) != BLOOMFILE_ERROR_NOT_FOUND)
                wrong_errors++;
            std::this_thread::yield();
            if (std::string_view(bloomfile_error_message()).find(missing) == std::string_view::npos)
                wrong_errors++;
        });
    for (std::thread &thread : threads)
        thread.join();
    require(lost == 0, "every key that a thread added is found");
    require(wrong_errors == 0, "every thread has its own message");
    require(bloomfile_error_code() == BLOOMFILE_OK, "this thread has none");
    uint64_t adds = 0;
    checked(bloomfile_filter_adds(filter.get(), &adds));
    const double keys = writers * per_thread;
    require(adds > keys * 0.98 && adds <= keys, "adds are counted");
    checked(bloomfile_filter_close(filter.release()));
    require(bloomfile_verify(path.c_str(), nullptr) == 1, "the file is sound");
}

// Keys in one buffer give what one by one gives, in files of every kind that is built.
void buffers_and_single_keys_agree(const std::string &path, int count)
{
    std::string data;
    std::vector<int32_t> offsets{0};
    std::vector<const void *> keys;
    std::vector<size_t> lengths;
    for (int number = 0; number < count; number++) {
        data += key(0, number);
        offsets.push_back(static_cast<int32_t>(data.size()));
    }
    for (int number = 0; number < count; number++) {
        keys.push_back(data.data() + offsets[number]);
        lengths.push_back(static_cast<size_t>(offsets[number + 1] - offsets[number]));
    }
    for (int kind : {BLOOMFILE_KIND_PLAIN, BLOOMFILE_KIND_SEALED}) {
        Options wanted = options(count / 2, 0.01);
        checked(bloomfile_options_set_kind(wanted.get(), kind));
        checked(bloomfile_options_set_replace(wanted.get(), 1));
        bloomfile_builder *made = nullptr;
        checked(bloomfile_builder_start(wanted.get(), path.c_str(), &made));
        Builder builder(made);
        // Every other key is absent.
        std::vector<const void *> half;
        std::vector<size_t> half_lengths;
        for (int number = 0; number < count; number += 2) {
            half.push_back(keys[number]);
            half_lengths.push_back(lengths[number]);
        }
        checked(bloomfile_builder_add_batch(builder.get(), half.data(), half_lengths.data(), half.size(),
                                            nullptr));
        uint64_t distinct = 0;
        checked(bloomfile_builder_finish(builder.release(), &distinct));
        require(distinct > half.size() * 0.98 && distinct <= half.size(), "keys are counted");
        Reader reader = open(path, BLOOMFILE_READ_MEMORY);
        std::vector<char> by_pointer(count), by_offset(count);
        checked(bloomfile_reader_contains_batch(reader.get(), keys.data(), lengths.data(), count,
                                                reinterpret_cast<bool *>(by_pointer.data())));
        checked(bloomfile_reader_contains_offsets32(reader.get(), data.data(), data.size(), offsets.data(),
                                                    count, reinterpret_cast<bool *>(by_offset.data())));
        int maybe = 0;
        for (int number = 0; number < count; number++) {
            int single = bloomfile_reader_contains(reader.get(), keys[number], lengths[number]);
            require(single == by_pointer[number] && single == by_offset[number], "all three agree");
            require(number % 2 != 0 || single == 1, "what was added is found");
            maybe += number % 2 != 0 && single == 1;
        }
        require(maybe < count / 2 * 0.015, "the rate is the one asked for");
    }
}

void errors_are_exceptions(const std::string &path)
{
    try {
        open(path + ".none");
        require(false, "a file that is not there is an error");
    } catch (const Error &error) {
        require(error.code == BLOOMFILE_ERROR_NOT_FOUND, "its code");
        require(std::string(error.what()).find(".none") != std::string::npos, "its message names the file");
    }
    char *json = nullptr;
    checked(bloomfile_plan(options(1000000, 0.01).get(), &json));
    require(std::string(Text(json).get()).find("\"capacity\":1000000") != std::string::npos, "a plan");
}

} // namespace

// With an argument, fewer keys: for valgrind.
int main(int argc, char **)
{
    const int scale = argc > 1 ? 10 : 1;
    char folder[] = "/tmp/bloomfile-cpp-XXXXXX";
    require(mkdtemp(folder) != nullptr, "a folder");
    const std::string path = std::string(folder) + "/keys.bloom";
    threads_share_handles(path, 20000 / scale);
    buffers_and_single_keys_agree(path, 200000 / scale);
    errors_are_exceptions(path);
    require(std::system(("rm -rf '" + std::string(folder) + "'").c_str()) == 0, "nothing is left");
    std::puts("bloomfile_test.cpp: passed");
    return 0;
}
