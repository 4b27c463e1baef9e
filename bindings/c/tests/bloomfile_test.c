/* Every function of bloomfile.h: what it does, and what it says to bad handles and bad input. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static bloomfile_options *options_for(uint64_t capacity, double rate)
{
    bloomfile_options *options = NULL;
    OK(bloomfile_options_new(&options));
    OK(bloomfile_options_set_capacity(options, capacity));
    OK(bloomfile_options_set_rate(options, rate));
    return options;
}

/* A plain file with some keys. */
static void make_file(const char *path, const char *const *keys, size_t count)
{
    bloomfile_options *options = options_for(1000, 0.01);
    bloomfile_filter *filter = NULL;
    OK(bloomfile_options_set_replace(options, 1));
    OK(bloomfile_filter_create(options, path, &filter));
    for (size_t i = 0; i < count; i++)
        CHECK(bloomfile_filter_add(filter, keys[i], strlen(keys[i])) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_free(options));
}

/* Changes one byte of a file, counted from its end. */
static void damage(const char *path, long from_end)
{
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL);
    CHECK(fseek(file, -from_end, SEEK_END) == 0);
    int byte = fgetc(file);
    CHECK(fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 0x55, file) != EOF && fclose(file) == 0);
}

static void versions(void)
{
    CHECK(bloomfile_abi_version() == ((uint32_t)BLOOMFILE_ABI_MAJOR << 16 | BLOOMFILE_ABI_MINOR));
    CHECK(strcmp(bloomfile_version(), "1.0.0") == 0);
    CHECK(bloomfile_format_version() == 1);
    CHECK(strcmp(bloomfile_error_message(), "") == 0);
    CHECK(bloomfile_error_code() == BLOOMFILE_OK && bloomfile_error_os() == 0);
    CHECK(strcmp(bloomfile_error_name(BLOOMFILE_ERROR_LOCKED), "locked") == 0);
    CHECK(strcmp(bloomfile_error_name(12345), "unknown") == 0);
    for (int code = 0; code >= BLOOMFILE_ERROR_TOO_LONG; code--)
        CHECK(strcmp(bloomfile_error_name(code), "unknown") != 0);
    bloomfile_string_free(NULL);
}

static void a_filter_is_written_and_read(void)
{
    const char *path = at("plain");
    bloomfile_options *options = options_for(1000, 0.01);
    bloomfile_filter *filter = NULL, *second = NULL;
    bloomfile_reader *reader = NULL;
    uint64_t number = 99, hash = 0;
    char *text = NULL;

    OK(bloomfile_options_set_metadata(options, "keys", "animals"));
    OK(bloomfile_filter_create(options, path, &filter));
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 1);
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 0);
    CHECK(bloomfile_filter_add(filter, NULL, 0) == 1);
    CHECK(bloomfile_filter_contains(filter, "", 0) == 1);
    CHECK(bloomfile_filter_contains(filter, "sheep", 5) == 1);
    CHECK(bloomfile_filter_contains(filter, "wolf", 4) == 0);

    OK(bloomfile_filter_hash(filter, "goat", 4, &hash));
    CHECK(bloomfile_filter_contains_hash(filter, hash) == 0);
    CHECK(bloomfile_filter_add_hash(filter, hash) == 1);
    CHECK(bloomfile_filter_contains(filter, "goat", 4) == 1);

    OK(bloomfile_filter_mark(filter, &number));
    CHECK(number == 0);
    OK(bloomfile_filter_sync(filter));
    OK(bloomfile_filter_sync_with_mark(filter, 42));
    OK(bloomfile_filter_mark(filter, &number));
    CHECK(number == 42);
    OK(bloomfile_filter_adds(filter, &number));
    CHECK(number == 3);
    OK(bloomfile_filter_stats(filter, &text));
    CHECK(strstr(text, "\"syncs\":") != NULL);
    bloomfile_string_free(text);
    OK(bloomfile_filter_set_metadata(filter, "more", "yes"));
    OK(bloomfile_filter_set_metadata(filter, "keys", NULL));
    OK(bloomfile_filter_set_background(filter, false));
    OK(bloomfile_filter_checkpoint(filter));
    OK(bloomfile_filter_set_background(filter, true));

    /* A reader beside the writer sees what is added. */
    OK(bloomfile_reader_open(path, 0, NULL, &reader));
    CHECK(bloomfile_reader_health(reader) == BLOOMFILE_HEALTH_LIVE);
    CHECK(bloomfile_reader_contains(reader, "cow", 3) == 0);
    CHECK(bloomfile_filter_add(filter, "cow", 3) == 1);
    CHECK(bloomfile_reader_contains(reader, "cow", 3) == 1);
    OK(bloomfile_reader_mark(reader, &number));
    CHECK(number == 42);
    CHECK(bloomfile_reader_metadata(reader, "more", &text) == 1);
    CHECK(strcmp(text, "yes") == 0);
    bloomfile_string_free(text);
    CHECK(bloomfile_reader_metadata(reader, "keys", &text) == 0 && text == NULL);
    OK(bloomfile_reader_close(reader));

    FAILS(bloomfile_filter_open(path, NULL, &second), BLOOMFILE_ERROR_LOCKED, path);
    CHECK(second == NULL);
    FAILS(bloomfile_filter_create(options, path, &second), BLOOMFILE_ERROR_EXISTS, "already exists");
    OK(bloomfile_filter_close(filter));

    OK(bloomfile_filter_open_or_create(options, path, &filter));
    CHECK(bloomfile_filter_contains(filter, "cow", 3) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_set_capacity(options, 2000));
    FAILS(bloomfile_filter_open_or_create(options, path, &filter), BLOOMFILE_ERROR_DIFFERENT, "capacity");
    OK(bloomfile_filter_open_or_create(options, at("not there before"), &filter));
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_filter_open(path, NULL, &filter));
    OK(bloomfile_filter_mark(filter, &number));
    CHECK(number == 42);
    OK(bloomfile_filter_close(filter));
    CHECK(bloomfile_recover(path) == 0);
    OK(bloomfile_options_free(options));
}

static void batches(void)
{
    const void *keys[] = {"sheep", "goat", "sheep", "", "a longer key than the others"};
    const size_t lengths[] = {5, 4, 5, 0, 28};
    const char data[] = "..cowhorsecow";
    const int32_t offsets[] = {2, 5, 10, 13, 13};
    const int64_t large[] = {2, 5, 10, 13, 13};
    const void *asked[] = {"sheep", "wolf", "goat", NULL};
    const size_t asked_lengths[] = {5, 4, 4, 0};
    const char asked_data[] = "cowwolfhorse";
    const int32_t asked_offsets[] = {0, 3, 7, 12};
    const int64_t asked_large[] = {0, 3, 7, 12};
    const bool by_pointer[] = {true, false, true, true}, by_offset[] = {true, false, true};
    bloomfile_options *options = options_for(1000, 0.0001);
    bloomfile_filter *filter = NULL;
    bloomfile_builder *builder = NULL;
    bloomfile_reader *reader = NULL;
    uint64_t added = 99, hashes[3];
    bool found[4];

    OK(bloomfile_filter_create(options, at("batches"), &filter));
    OK(bloomfile_filter_add_batch(filter, keys, lengths, 5, &added));
    CHECK(added == 4);
    OK(bloomfile_filter_add_offsets32(filter, data, 13, offsets, 4, &added));
    CHECK(added == 2);
    OK(bloomfile_filter_add_offsets64(filter, data, 13, large, 4, &added));
    CHECK(added == 0);
    OK(bloomfile_filter_add_batch(filter, NULL, NULL, 0, NULL));
    OK(bloomfile_filter_add_offsets32(filter, NULL, 0, NULL, 0, NULL));
    OK(bloomfile_filter_add_hash_batch(filter, NULL, 0, &added));
    CHECK(added == 0);
    for (int i = 0; i < 3; i++)
        OK(bloomfile_filter_hash(filter, asked[i], asked_lengths[i], &hashes[i]));

    memset(found, 7, sizeof found);
    OK(bloomfile_filter_contains_batch(filter, asked, asked_lengths, 4, found));
    CHECK(memcmp(found, by_pointer, 4) == 0);
    memset(found, 7, sizeof found);
    OK(bloomfile_filter_contains_offsets32(filter, asked_data, 12, asked_offsets, 3, found));
    CHECK(memcmp(found, by_offset, 3) == 0);
    memset(found, 7, sizeof found);
    OK(bloomfile_filter_contains_offsets64(filter, asked_data, 12, asked_large, 3, found));
    CHECK(memcmp(found, by_offset, 3) == 0);
    OK(bloomfile_filter_contains_hash_batch(filter, hashes, 3, found));
    CHECK(memcmp(found, by_pointer, 3) == 0);

    /* A batch one of whose keys cannot be there changes nothing. */
    const void *holes[] = {"new key", NULL};
    const size_t hole_lengths[] = {7, 3};
    FAILS(bloomfile_filter_add_batch(filter, holes, hole_lengths, 2, NULL), BLOOMFILE_ERROR_ARGUMENT,
          "key 1 of the batch");
    CHECK(bloomfile_filter_contains(filter, "new key", 7) == 0);
    FAILS(bloomfile_filter_contains_batch(filter, holes, hole_lengths, 2, found),
          BLOOMFILE_ERROR_ARGUMENT, "key 1 of the batch");
    const int32_t bad[][3] = {{0, 3, 2}, {0, 3, 14}, {-1, 3, 4}, {5, 4, 6}, {0, INT32_MIN, INT32_MAX}};
    const int64_t bad_large[] = {0, INT64_MAX, 3};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(bloomfile_filter_add_offsets32(filter, data, 13, bad[i], 2, NULL),
              BLOOMFILE_ERROR_ARGUMENT, "of the batch");
        FAILS(bloomfile_filter_contains_offsets32(filter, data, 13, bad[i], 2, found),
              BLOOMFILE_ERROR_ARGUMENT, "of the batch");
    }
    FAILS(bloomfile_filter_add_offsets64(filter, data, 13, bad_large, 2, NULL),
          BLOOMFILE_ERROR_ARGUMENT, "key 0 of the batch");
    FAILS(bloomfile_filter_add_batch(filter, NULL, lengths, 2, NULL), BLOOMFILE_ERROR_ARGUMENT, "keys");
    FAILS(bloomfile_filter_add_batch(filter, keys, NULL, 2, NULL), BLOOMFILE_ERROR_ARGUMENT, "lengths");
    FAILS(bloomfile_filter_add_offsets32(filter, NULL, 13, offsets, 4, NULL), BLOOMFILE_ERROR_ARGUMENT,
          "NULL");
    FAILS(bloomfile_filter_add_offsets64(filter, data, 13, NULL, 4, NULL), BLOOMFILE_ERROR_ARGUMENT,
          "offsets");
    FAILS(bloomfile_filter_add_offsets32(filter, data, 13, offsets, SIZE_MAX, NULL),
          BLOOMFILE_ERROR_ARGUMENT, "more than there can be");
    FAILS(bloomfile_filter_add_hash_batch(filter, NULL, 3, NULL), BLOOMFILE_ERROR_ARGUMENT, "hashes");
    FAILS(bloomfile_filter_contains_batch(filter, asked, asked_lengths, 4, NULL),
          BLOOMFILE_ERROR_ARGUMENT, "no room");
    FAILS(bloomfile_filter_contains_hash_batch(filter, hashes, 3, NULL), BLOOMFILE_ERROR_ARGUMENT,
          "no room");
    FAILS(bloomfile_filter_add(filter, "x", SIZE_MAX), BLOOMFILE_ERROR_ARGUMENT, "more than");
    FAILS(bloomfile_filter_add(filter, NULL, 1), BLOOMFILE_ERROR_ARGUMENT, "at NULL");
    OK(bloomfile_filter_close(filter));

    /* The same through a builder and a reader. */
    OK(bloomfile_builder_start(options, at("built"), &builder));
    OK(bloomfile_builder_add_batch(builder, keys, lengths, 5, &added));
    CHECK(added == 4);
    OK(bloomfile_builder_add_offsets32(builder, data, 13, offsets, 4, &added));
    CHECK(added == 2);
    OK(bloomfile_builder_add_offsets64(builder, data, 13, large, 4, &added));
    CHECK(added == 0);
    OK(bloomfile_builder_add_hash_batch(builder, hashes, 1, &added));
    CHECK(added == 0);
    FAILS(bloomfile_builder_add_batch(builder, holes, hole_lengths, 2, NULL), BLOOMFILE_ERROR_ARGUMENT,
          "key 1");
    FAILS(bloomfile_builder_add_offsets32(builder, data, 13, bad[1], 2, NULL), BLOOMFILE_ERROR_ARGUMENT,
          "key 1");
    FAILS(bloomfile_builder_add_offsets64(builder, data, 13, bad_large, 2, NULL),
          BLOOMFILE_ERROR_ARGUMENT, "key 0");
    FAILS(bloomfile_builder_add_hash_batch(builder, NULL, 2, NULL), BLOOMFILE_ERROR_ARGUMENT, "hashes");
    OK(bloomfile_builder_finish(builder, &added));
    CHECK(added == 6);
    OK(bloomfile_reader_open(at("built"), BLOOMFILE_READ_VERIFY, NULL, &reader));
    OK(bloomfile_reader_contains_batch(reader, asked, asked_lengths, 4, found));
    CHECK(memcmp(found, by_pointer, 4) == 0);
    memset(found, 7, sizeof found);
    OK(bloomfile_reader_contains_offsets32(reader, asked_data, 12, asked_offsets, 3, found));
    CHECK(memcmp(found, by_offset, 3) == 0);
    memset(found, 7, sizeof found);
    OK(bloomfile_reader_contains_offsets64(reader, asked_data, 12, asked_large, 3, found));
    CHECK(memcmp(found, by_offset, 3) == 0);
    OK(bloomfile_reader_contains_hash_batch(reader, hashes, 3, found));
    CHECK(memcmp(found, by_pointer, 3) == 0);
    FAILS(bloomfile_reader_contains_batch(reader, holes, hole_lengths, 2, found),
          BLOOMFILE_ERROR_ARGUMENT, "key 1");
    FAILS(bloomfile_reader_contains_offsets32(reader, data, 13, bad[0], 2, found),
          BLOOMFILE_ERROR_ARGUMENT, "key 1");
    FAILS(bloomfile_reader_contains_offsets64(reader, data, 13, bad_large, 2, found),
          BLOOMFILE_ERROR_ARGUMENT, "of the batch");
    FAILS(bloomfile_reader_contains_hash_batch(reader, NULL, 2, found), BLOOMFILE_ERROR_ARGUMENT,
          "hashes");
    OK(bloomfile_reader_close(reader));
    OK(bloomfile_options_free(options));
}

/* docs/encoding.md: the same keys have the same hashes everywhere. */
static void hashes_are_those_of_every_language(void)
{
    static const struct {
        const char *key;
        size_t length;
        uint64_t seed, hash;
    } vectors[] = {
        {"", 0, 0, 0xc920ca43256fdcb9},
        {"a", 1, 0, 0x29c401b26a16e94d},
        {"bloomfile", 9, 0, 0x9322d68f0acbbe55},
        {"to be or not to be", 18, 0, 0x1b993a826f4ae575},
        {"bloomfile", 9, 1, 0xd8c77dfcccbd6d11},
        {"\x11\0\0\0\0\0\0\0", 8, 0, 0x191f0098435ebf97},
        {"\0\0\0\0\0\0\0\x11", 8, 0, 0x512d678a81ae59c0},
        {"-17", 3, 0, 0x13d0f3e2975d93d5},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        bloomfile_options *options = options_for(10, 0.01);
        bloomfile_builder *builder = NULL;
        uint64_t hash = 0;
        OK(bloomfile_options_set_seed(options, vectors[i].seed));
        OK(bloomfile_builder_start(options, at("vectors"), &builder));
        OK(bloomfile_builder_hash(builder, vectors[i].key, vectors[i].length, &hash));
        CHECK(hash == vectors[i].hash);
        OK(bloomfile_builder_abandon(builder));
        OK(bloomfile_options_free(options));
    }
}

static void builders(void)
{
    bloomfile_options *options = options_for(100, 0.01);
    bloomfile_builder *builder = NULL;
    bloomfile_reader *reader = NULL;
    uint64_t keys = 99, hash, other;

    OK(bloomfile_builder_start(options, at("bulk"), &builder));
    CHECK(bloomfile_builder_add(builder, "sheep", 5) == 1);
    CHECK(bloomfile_builder_add(builder, "sheep", 5) == 0);
    OK(bloomfile_builder_hash(builder, "goat", 4, &hash));
    CHECK(bloomfile_builder_add_hash(builder, hash) == 1);
    CHECK(access(at("bulk"), F_OK) != 0);
    OK(bloomfile_builder_finish(builder, &keys));
    CHECK(keys == 2);
    OK(bloomfile_reader_open(at("bulk"), 0, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "goat", 4) == 1);
    OK(bloomfile_reader_hash(reader, "goat", 4, &other));
    CHECK(hash == other && bloomfile_reader_contains_hash(reader, hash) == 1);
    CHECK(bloomfile_reader_try_contains(reader, "goat", 4) == 1);
    CHECK(bloomfile_reader_try_contains(reader, "wolf", 4) == 0);
    CHECK(bloomfile_reader_is_at(reader, at("bulk")) == 1);

    /* One that is given up leaves nothing; one that replaces takes the name. */
    FAILS(bloomfile_builder_start(options, at("bulk"), &builder), BLOOMFILE_ERROR_EXISTS, "exists");
    CHECK(builder == NULL);
    OK(bloomfile_builder_start(options, at("given up"), &builder));
    OK(bloomfile_builder_abandon(builder));
    CHECK(access(at("given up"), F_OK) != 0);
    OK(bloomfile_options_set_replace(options, 1));
    OK(bloomfile_builder_start(options, at("bulk"), &builder));
    OK(bloomfile_builder_finish(builder, NULL));
    CHECK(bloomfile_reader_is_at(reader, at("bulk")) == 0);
    CHECK(bloomfile_reader_contains(reader, "goat", 4) == 1);
    OK(bloomfile_reader_close(reader));
    OK(bloomfile_options_free(options));
}

/* What a generation of such a filter has at capacity. */
static double rate_at_capacity(const bloomfile_options *options)
{
    char *text = NULL;
    double rate = -1;
    OK(bloomfile_plan(options, &text));
    const char *field = strstr(text, "\"expected_rate\":");
    CHECK(field != NULL && sscanf(field, "\"expected_rate\":%lf", &rate) == 1);
    bloomfile_string_free(text);
    return rate;
}

static void every_kind(void)
{
    bloomfile_options *options;
    bloomfile_filter *filter = NULL;
    bloomfile_builder *builder = NULL;
    bloomfile_reader *reader = NULL;
    uint64_t hash, keys, number;
    char *text;

    /* Counting: what was added can be taken out. */
    options = options_for(1000, 0.001);
    OK(bloomfile_options_set_kind(options, BLOOMFILE_KIND_COUNTING));
    OK(bloomfile_options_set_journal_bytes(options, 65536));
    OK(bloomfile_filter_create(options, at("counting"), &filter));
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 1);
    bloomfile_filter_add(filter, "sheep", 5);
    CHECK(bloomfile_filter_count(filter, "sheep", 5) == 2);
    CHECK(bloomfile_filter_count(filter, "wolf", 4) == 0);
    OK(bloomfile_filter_remove(filter, "sheep", 5));
    OK(bloomfile_filter_hash(filter, "sheep", 5, &hash));
    OK(bloomfile_filter_remove_hash(filter, hash));
    CHECK(bloomfile_filter_contains(filter, "sheep", 5) == 0);
    FAILS(bloomfile_filter_remove(filter, "sheep", 5), BLOOMFILE_ERROR_NOT_PRESENT, "not in the filter");
    FAILS(bloomfile_filter_remove_hash(filter, hash), BLOOMFILE_ERROR_NOT_PRESENT, "not in");
    FAILS(bloomfile_filter_rotate(filter), BLOOMFILE_ERROR_PARAMETER, "generations");

    /* Many at once: those that are in, each once. */
    const char *herd[] = {"sheep", "wolf", "goat", "sheep"};
    const size_t lengths[] = {5, 4, 4, 5};
    const int32_t offsets32[] = {0, 5, 9};
    const int64_t offsets64[] = {0, 5, 9};
    uint64_t hashes[2] = {hash, hash};
    for (int i = 0; i < 3; i++) {
        CHECK(bloomfile_filter_add(filter, "sheep", 5) >= 0);
        CHECK(bloomfile_filter_add(filter, "goat", 4) >= 0);
    }
    number = 99;
    OK(bloomfile_filter_remove_batch(filter, (const void *const *)herd, lengths, 3, &number));
    CHECK(number == 2);
    OK(bloomfile_filter_remove_offsets32(filter, "sheepgoat", 9, offsets32, 2, &number));
    CHECK(number == 2);
    CHECK(bloomfile_filter_count(filter, "sheep", 5) == 1);
    OK(bloomfile_filter_remove_offsets64(filter, "sheepgoat", 9, offsets64, 2, NULL));
    CHECK(bloomfile_filter_contains(filter, "goat", 4) == 0);
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 1);
    OK(bloomfile_filter_remove_hash_batch(filter, hashes, 2, &number));
    CHECK(number == 1);
    FAILS(bloomfile_filter_remove_offsets32(filter, "sheepgoat", 4, offsets32, 2, &number),
          BLOOMFILE_ERROR_ARGUMENT, "key 0");
    CHECK(number == 1);
    OK(bloomfile_filter_close(filter));

    /* A plain one has nothing that could be taken out. */
    make_file(at("not counting"), herd, 3);
    OK(bloomfile_filter_open(at("not counting"), NULL, &filter));
    FAILS(bloomfile_filter_remove_batch(filter, (const void *const *)herd, lengths, 4, &number),
          BLOOMFILE_ERROR_PARAMETER, "counting");
    CHECK(number == 1 && bloomfile_filter_contains(filter, "sheep", 5) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_free(options));

    /* Growing, beyond its first segment. */
    options = options_for(100, 0.01);
    OK(bloomfile_options_set_when_full(options, BLOOMFILE_WHEN_FULL_GROW));
    OK(bloomfile_filter_create(options, at("growing"), &filter));
    for (int i = 0; i < 1000; i++)
        CHECK(bloomfile_filter_add(filter, &i, sizeof i) >= 0);
    for (int i = 0; i < 1000; i++)
        CHECK(bloomfile_filter_contains(filter, &i, sizeof i) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_inspect(at("growing"), &text));
    CHECK(strstr(text, "\"when_full\":\"grow\"") != NULL);
    bloomfile_string_free(text);

    /* One that refuses. */
    OK(bloomfile_options_set_when_full(options, BLOOMFILE_WHEN_FULL_REFUSE));
    OK(bloomfile_filter_create(options, at("refusing"), &filter));
    int code = 0;
    for (int i = 0; i < 1000 && code >= 0; i++)
        code = bloomfile_filter_add(filter, &i, sizeof i);
    FAILS(code, BLOOMFILE_ERROR_FULL, "is full");
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_set_when_full(options, BLOOMFILE_WHEN_FULL_ALLOW));

    /* Rotating, by hand through a handle and without one. */
    OK(bloomfile_options_set_generations(options, 2, 0));
    OK(bloomfile_filter_create(options, at("rotating"), &filter));
    CHECK(bloomfile_filter_add(filter, "today", 5) == 1);
    OK(bloomfile_filter_rotate(filter));
    CHECK(bloomfile_filter_contains(filter, "today", 5) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_rotate(at("rotating")));
    OK(bloomfile_reader_open(at("rotating"), 0, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "today", 5) == 0);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_rotate(at("growing")), BLOOMFILE_ERROR_PARAMETER, "generations");

    /* The rate of all generations together, or of each. */
    OK(bloomfile_options_set_capacity(options, 1000000));
    double whole = rate_at_capacity(options);
    OK(bloomfile_options_set_generation_rate(options, 0.01));
    CHECK(whole < 0.0055 && rate_at_capacity(options) > 0.009);
    OK(bloomfile_options_set_rate(options, 0.01));
    CHECK(rate_at_capacity(options) == whole);
    OK(bloomfile_options_free(options));

    /* Sealed: built from all of its keys, and never changed. */
    OK(bloomfile_options_new(&options));
    OK(bloomfile_options_set_kind(options, BLOOMFILE_KIND_SEALED));
    OK(bloomfile_options_set_rate(options, 0.01));
    OK(bloomfile_options_set_memory(options, 64 << 20));
    OK(bloomfile_builder_start(options, at("sealed"), &builder));
    for (int i = 0; i < 2000; i++) {
        int key = i / 2;
        CHECK(bloomfile_builder_add(builder, &key, sizeof key) == 1);
    }
    OK(bloomfile_builder_finish(builder, &keys));
    CHECK(keys == 1000);
    OK(bloomfile_reader_open(at("sealed"), 0, NULL, &reader));
    for (int i = 0; i < 1000; i++)
        CHECK(bloomfile_reader_contains(reader, &i, sizeof i) == 1);
    number = 0;
    for (int i = 1000; i < 11000; i++)
        number += (uint64_t)bloomfile_reader_contains(reader, &i, sizeof i);
    CHECK(number < 150);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_filter_open(at("sealed"), NULL, &filter), BLOOMFILE_ERROR_SEALED, "is sealed");
    OK(bloomfile_options_set_capacity(options, 1000));
    FAILS(bloomfile_filter_create(options, at("x"), &filter), BLOOMFILE_ERROR_PARAMETER, "start_build");
    OK(bloomfile_options_free(options));
}

static void keyed_files(void)
{
    static const uint8_t secret[16] = "sixteen bytes...";
    bloomfile_key *key = NULL, *same = NULL, *other = NULL;
    bloomfile_options *options = options_for(100, 0.01);
    bloomfile_filter *filter = NULL;
    bloomfile_reader *reader = NULL;
    char print[9], print2[9];

    OK(bloomfile_key_from_bytes(secret, &key));
    OK(bloomfile_key_random(&other));
    OK(bloomfile_key_write_file(key, at("secret")));
    FAILS(bloomfile_key_write_file(key, at("secret")), BLOOMFILE_ERROR_KEY, "already");
    OK(bloomfile_key_from_file(at("secret"), &same));
    OK(bloomfile_key_fingerprint(key, print));
    OK(bloomfile_key_fingerprint(same, print2));
    CHECK(strlen(print) == 8 && strcmp(print, print2) == 0);
    OK(bloomfile_key_fingerprint(other, print2));
    CHECK(strcmp(print, print2) != 0);
    CHECK(chmod(at("secret"), 0644) == 0);
    bloomfile_key *refused = key;
    FAILS(bloomfile_key_from_file(at("secret"), &refused), BLOOMFILE_ERROR_KEY, "key file");
    CHECK(refused == NULL);

    OK(bloomfile_options_set_key(options, key));
    OK(bloomfile_filter_create(options, at("keyed"), &filter));
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_filter_open(at("keyed"), same, &filter));
    CHECK(bloomfile_filter_contains(filter, "sheep", 5) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_reader_open(at("keyed"), 0, key, &reader));
    CHECK(bloomfile_reader_contains(reader, "sheep", 5) == 1);
    CHECK(bloomfile_reader_contains(reader, "wolf", 4) == 0);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_reader_open(at("keyed"), 0, NULL, &reader), BLOOMFILE_ERROR_KEY, print);
    FAILS(bloomfile_reader_open(at("keyed"), 0, other, &reader), BLOOMFILE_ERROR_KEY, print2);
    FAILS(bloomfile_filter_open(at("plain"), key, &filter), BLOOMFILE_ERROR_KEY, "not keyed");
    OK(bloomfile_key_free(key));
    OK(bloomfile_key_free(same));
    OK(bloomfile_key_free(other));
    OK(bloomfile_key_free(NULL));
    OK(bloomfile_options_free(options));
}

static void whole_files(void)
{
    const char *left[] = {"sheep", "goat"}, *right[] = {"goat", "cow"};
    make_file(at("left"), left, 2);
    make_file(at("right"), right, 2);
    const char *inputs[] = {at("left"), at("right")};
    bloomfile_options *options = NULL;
    bloomfile_filter *filter = NULL;
    bloomfile_reader *reader = NULL;
    double without = 0, with = 0;
    char *text = NULL;

    OK(bloomfile_merge(inputs, 2, at("both"), 0));
    FAILS(bloomfile_merge(inputs, 2, at("both"), 0), BLOOMFILE_ERROR_EXISTS, "both");
    OK(bloomfile_merge(inputs, 2, at("both"), 1));
    OK(bloomfile_reader_open(at("both"), 0, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "sheep", 5) == 1);
    CHECK(bloomfile_reader_contains(reader, "cow", 3) == 1);
    OK(bloomfile_intersect(inputs, 2, at("common"), 0));
    OK(bloomfile_filter_open(at("common"), NULL, &filter));
    CHECK(bloomfile_filter_contains(filter, "goat", 4) == 1);
    CHECK(bloomfile_filter_contains(filter, "cow", 3) == 0);
    OK(bloomfile_filter_union(filter, reader));
    CHECK(bloomfile_filter_contains(filter, "cow", 3) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_merge(inputs, 0, at("none"), 0), BLOOMFILE_ERROR_ARGUMENT, "there is none");
    FAILS(bloomfile_merge(NULL, 2, at("none"), 0), BLOOMFILE_ERROR_ARGUMENT, "inputs");
    inputs[1] = at("sealed");
    FAILS(bloomfile_merge(inputs, 2, at("none"), 0), BLOOMFILE_ERROR_SEALED, "sealed");
    inputs[1] = at("batches");
    FAILS(bloomfile_intersect(inputs, 2, at("none"), 0), BLOOMFILE_ERROR_INCOMPATIBLE, "differs");
    inputs[1] = NULL;
    FAILS(bloomfile_merge(inputs, 2, at("none"), 0), BLOOMFILE_ERROR_ARGUMENT, "NULL");

    /* The same bits with another journal, or none. */
    struct stat with_journal, without_journal;
    options = options_for(1000, 0.01);
    OK(bloomfile_options_set_journal_bytes(options, 1 << 20));
    OK(bloomfile_filter_create(options, at("long journal"), &filter));
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_free(options));
    OK(bloomfile_compact(at("long journal"), at("compact"), 0, 0));
    CHECK(stat(at("long journal"), &with_journal) == 0 && stat(at("compact"), &without_journal) == 0);
    CHECK(without_journal.st_size + (1 << 20) <= with_journal.st_size);
    OK(bloomfile_reader_open(at("compact"), 0, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "sheep", 5) == 1);
    CHECK(bloomfile_reader_contains(reader, "wolf", 4) == 0);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_compact(at("long journal"), at("compact"), 0, 0), BLOOMFILE_ERROR_EXISTS, "compact");
    OK(bloomfile_compact(at("compact"), at("compact"), 65536, 1));
    CHECK(stat(at("compact"), &with_journal) == 0);
    CHECK(with_journal.st_size > without_journal.st_size);
    FAILS(bloomfile_compact(at("nothing"), at("x"), 0, 0), BLOOMFILE_ERROR_NOT_FOUND, "nothing");
    FAILS(bloomfile_compact(at("sealed"), at("x"), 0, 0), BLOOMFILE_ERROR_SEALED, "sealed");

    OK(bloomfile_inspect(at("both"), &text));
    CHECK(strstr(text, "\"schema\":1") && strstr(text, "\"capacity\":1000") && strstr(text, "rate_now"));
    bloomfile_string_free(text);
    CHECK(bloomfile_verify(at("both"), &text) == 1);
    CHECK(strstr(text, "\"sound\":true") && strstr(text, "\"pages_damaged\":[]"));
    bloomfile_string_free(text);
    CHECK(bloomfile_verify(at("both"), NULL) == 1);

    options = options_for(1000000, 0.01);
    OK(bloomfile_plan(options, &text));
    CHECK(strstr(text, "\"layout\":\"line\"") && strstr(text, "\"warning\":null"));
    bloomfile_string_free(text);
    OK(bloomfile_options_set_layout(options, BLOOMFILE_LAYOUT_PAGE));
    OK(bloomfile_plan(options, &text));
    CHECK(strstr(text, "\"layout\":\"page\"") != NULL);
    bloomfile_string_free(text);
    OK(bloomfile_options_free(options));
    OK(bloomfile_options_new(&options));
    OK(bloomfile_options_set_rows(options, 7, 1000));
    OK(bloomfile_options_set_seed(options, 99));
    OK(bloomfile_plan(options, &text));
    CHECK(strstr(text, "\"layout\":\"rows\"") && strstr(text, "\"rows\":7"));
    bloomfile_string_free(text);
    OK(bloomfile_options_free(options));

    OK(bloomfile_precheck(102000, 2000, 0.5, 0.001, 0.03, &without, &with));
    CHECK(without == 51000 && with > 2601.999 && with < 2602.001);
}

static void damaged_files(void)
{
    const char *keys[] = {"sheep", "goat"};
    const char *path = at("damaged");
    bloomfile_filter *filter = NULL;
    bloomfile_reader *reader = NULL;
    char *text = NULL;

    make_file(path, keys, 2);
    damage(path, 100);
    OK(bloomfile_reader_open(path, 0, NULL, &reader));
    OK(bloomfile_reader_damage(reader));
    CHECK(bloomfile_reader_contains(reader, "wolf", 4) == 1);
    CHECK(bloomfile_reader_health(reader) == BLOOMFILE_HEALTH_DAMAGED);
    FAILS(bloomfile_reader_damage(reader), BLOOMFILE_ERROR_DAMAGED, "page 0");
    FAILS(bloomfile_reader_damage(reader), BLOOMFILE_ERROR_DAMAGED, path);
    FAILS(bloomfile_reader_try_contains(reader, "wolf", 4), BLOOMFILE_ERROR_DAMAGED, path);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_reader_open(path, BLOOMFILE_READ_VERIFY, NULL, &reader), BLOOMFILE_ERROR_DAMAGED,
          path);
    CHECK(reader == NULL);
    OK(bloomfile_reader_open(path, BLOOMFILE_READ_TRUST, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "wolf", 4) == 0);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_filter_open(path, NULL, &filter), BLOOMFILE_ERROR_DAMAGED, "repair");
    CHECK(bloomfile_verify(path, &text) == 0 && strstr(text, "\"pages_damaged\":[0]"));
    bloomfile_string_free(text);

    /* Something else, nothing, and a file that was cut. */
    FILE *file = fopen(at("text"), "w");
    CHECK(file != NULL && fputs("this is no filter, but text of some length\n", file) >= 0);
    CHECK(fclose(file) == 0);
    FAILS(bloomfile_reader_open(at("text"), 0, NULL, &reader), BLOOMFILE_ERROR_NOT_A_BLOOMFILE, "text");
    FAILS(bloomfile_inspect(at("text"), &text), BLOOMFILE_ERROR_NOT_A_BLOOMFILE, "not a bloomfile");
    CHECK(text == NULL);
    FAILS(bloomfile_verify(at("nothing"), &text), BLOOMFILE_ERROR_NOT_FOUND, "nothing");
    CHECK(bloomfile_error_os() == ENOENT);
    FAILS(bloomfile_recover(at("nothing")), BLOOMFILE_ERROR_NOT_FOUND, "nothing");
    FAILS(bloomfile_key_from_file(at("nothing"), (bloomfile_key **)&text), BLOOMFILE_ERROR_NOT_FOUND,
          "nothing");
    make_file(path, keys, 2);
    CHECK(truncate(path, 8000) == 0);
    FAILS(bloomfile_reader_open(path, 0, NULL, &reader), BLOOMFILE_ERROR_DAMAGED, "cut short");
    FAILS(bloomfile_reader_open(folder, 0, NULL, &reader), BLOOMFILE_ERROR_NOT_A_BLOOMFILE, "folder");

    /* A later version of the format, with a name that is no text. */
    const char *odd = at("odd \xff name");
    make_file(odd, keys, 2);
    OK(bloomfile_reader_open(odd, BLOOMFILE_READ_MEMORY | BLOOMFILE_READ_WARM_UP, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "goat", 4) == 1);
    CHECK(bloomfile_reader_health(reader) == BLOOMFILE_HEALTH_CLEAN);
    OK(bloomfile_reader_close(reader));
}

static void files_in_memory(void)
{
    const char *keys[] = {"sheep", "goat"};
    bloomfile_reader *reader = NULL;
    static char bytes[1 << 20];

    make_file(at("sent"), keys, 2);
    FILE *file = fopen(at("sent"), "rb");
    CHECK(file != NULL);
    size_t length = fread(bytes, 1, sizeof bytes, file);
    CHECK(length > 4096 && fclose(file) == 0);
    OK(bloomfile_reader_from_bytes(bytes, length, NULL, &reader));
    CHECK(bloomfile_reader_contains(reader, "goat", 4) == 1);
    CHECK(bloomfile_reader_is_at(reader, at("sent")) == 0);
    OK(bloomfile_reader_close(reader));
    FAILS(bloomfile_reader_from_bytes(bytes, 100, NULL, &reader), BLOOMFILE_ERROR_DAMAGED, "");
    FAILS(bloomfile_reader_from_bytes(NULL, 0, NULL, &reader), BLOOMFILE_ERROR_NOT_A_BLOOMFILE, "");
    /* Each byte of the headers changed in turn: an answer or an error, and nothing else. */
    for (size_t i = 0; i < 12288; i += 7) {
        bytes[i] ^= 0x20;
        if (bloomfile_reader_from_bytes(bytes, length, NULL, &reader) == BLOOMFILE_OK) {
            CHECK(bloomfile_reader_contains(reader, "goat", 4) == 1);
            OK(bloomfile_reader_close(reader));
        }
        bytes[i] ^= 0x20;
    }
}

static void bad_handles_and_pointers(void)
{
    const char *keys[] = {"sheep"};
    bloomfile_options *options = options_for(100, 0.01);
    bloomfile_filter *filter = NULL;
    bloomfile_reader *reader = NULL;
    bloomfile_key *key = NULL;
    /* Where nothing may ever come to be. */
    bloomfile_filter *no_filter = NULL;
    bloomfile_reader *no_reader = NULL;
    bloomfile_builder *no_builder = NULL;
    bloomfile_key *no_key = NULL;
    uint64_t number = 77;
    char *text = NULL;
    bool found[1];
    double seconds;

    make_file(at("handles"), keys, 1);
    OK(bloomfile_reader_open(at("handles"), 0, NULL, &reader));
    OK(bloomfile_filter_create(options, at("handles 2"), &filter));
    OK(bloomfile_key_random(&key));

#define BAD(call) FAILS(call, BLOOMFILE_ERROR_ARGUMENT, "")
    /* No handle at all. */
    BAD(bloomfile_filter_add(NULL, "x", 1));
    BAD(bloomfile_filter_add_hash(NULL, 1));
    BAD(bloomfile_filter_add_batch(NULL, NULL, NULL, 0, NULL));
    BAD(bloomfile_filter_add_offsets32(NULL, NULL, 0, NULL, 0, NULL));
    BAD(bloomfile_filter_add_offsets64(NULL, NULL, 0, NULL, 0, NULL));
    BAD(bloomfile_filter_add_hash_batch(NULL, NULL, 0, NULL));
    BAD(bloomfile_filter_contains(NULL, "x", 1));
    BAD(bloomfile_filter_contains_hash(NULL, 1));
    BAD(bloomfile_filter_contains_batch(NULL, NULL, NULL, 0, found));
    BAD(bloomfile_filter_contains_offsets32(NULL, NULL, 0, NULL, 0, found));
    BAD(bloomfile_filter_contains_offsets64(NULL, NULL, 0, NULL, 0, found));
    BAD(bloomfile_filter_contains_hash_batch(NULL, NULL, 0, found));
    BAD(bloomfile_filter_hash(NULL, "x", 1, &number));
    BAD(bloomfile_filter_remove(NULL, "x", 1));
    BAD(bloomfile_filter_remove_hash(NULL, 1));
    BAD(bloomfile_filter_remove_batch(NULL, NULL, NULL, 0, NULL));
    BAD(bloomfile_filter_remove_offsets32(NULL, NULL, 0, NULL, 0, NULL));
    BAD(bloomfile_filter_remove_offsets64(NULL, NULL, 0, NULL, 0, NULL));
    BAD(bloomfile_filter_remove_hash_batch(NULL, NULL, 0, NULL));
    BAD(bloomfile_filter_count(NULL, "x", 1));
    BAD(bloomfile_filter_sync(NULL));
    BAD(bloomfile_filter_sync_with_mark(NULL, 1));
    BAD(bloomfile_filter_mark(NULL, &number));
    BAD(bloomfile_filter_adds(NULL, &number));
    BAD(bloomfile_filter_checkpoint(NULL));
    BAD(bloomfile_filter_set_background(NULL, true));
    BAD(bloomfile_filter_rotate(NULL));
    BAD(bloomfile_filter_union(NULL, reader));
    BAD(bloomfile_filter_union(filter, NULL));
    BAD(bloomfile_filter_set_metadata(NULL, "a", "b"));
    BAD(bloomfile_filter_stats(NULL, &text));
    BAD(bloomfile_reader_contains(NULL, "x", 1));
    BAD(bloomfile_reader_contains_hash(NULL, 1));
    BAD(bloomfile_reader_try_contains(NULL, "x", 1));
    BAD(bloomfile_reader_contains_batch(NULL, NULL, NULL, 0, found));
    BAD(bloomfile_reader_contains_offsets32(NULL, NULL, 0, NULL, 0, found));
    BAD(bloomfile_reader_contains_offsets64(NULL, NULL, 0, NULL, 0, found));
    BAD(bloomfile_reader_contains_hash_batch(NULL, NULL, 0, found));
    BAD(bloomfile_reader_hash(NULL, "x", 1, &number));
    BAD(bloomfile_reader_health(NULL));
    BAD(bloomfile_reader_damage(NULL));
    BAD(bloomfile_reader_mark(NULL, &number));
    BAD(bloomfile_reader_metadata(NULL, "a", &text));
    BAD(bloomfile_reader_is_at(NULL, "x"));
    BAD(bloomfile_builder_add(NULL, "x", 1));
    BAD(bloomfile_builder_add_hash(NULL, 1));
    BAD(bloomfile_builder_add_batch(NULL, NULL, NULL, 0, NULL));
    BAD(bloomfile_builder_add_offsets32(NULL, NULL, 0, NULL, 0, NULL));
    BAD(bloomfile_builder_add_offsets64(NULL, NULL, 0, NULL, 0, NULL));
    BAD(bloomfile_builder_add_hash_batch(NULL, NULL, 0, NULL));
    BAD(bloomfile_builder_hash(NULL, "x", 1, &number));
    BAD(bloomfile_builder_finish(NULL, NULL));
    BAD(bloomfile_options_set_capacity(NULL, 1));
    BAD(bloomfile_options_set_rate(NULL, 0.5));
    BAD(bloomfile_options_set_generation_rate(NULL, 0.5));
    BAD(bloomfile_options_set_layout(NULL, BLOOMFILE_LAYOUT_LINE));
    BAD(bloomfile_options_set_rows(NULL, 1, 64));
    BAD(bloomfile_options_set_kind(NULL, BLOOMFILE_KIND_PLAIN));
    BAD(bloomfile_options_set_when_full(NULL, BLOOMFILE_WHEN_FULL_ALLOW));
    BAD(bloomfile_options_set_generations(NULL, 2, 0));
    BAD(bloomfile_options_set_seed(NULL, 1));
    BAD(bloomfile_options_set_key(NULL, key));
    BAD(bloomfile_options_set_key(options, NULL));
    BAD(bloomfile_options_set_journal_bytes(NULL, 1));
    BAD(bloomfile_options_set_memory(NULL, 1));
    BAD(bloomfile_options_set_metadata(NULL, "a", "b"));
    BAD(bloomfile_options_set_replace(NULL, 1));
    BAD(bloomfile_plan(NULL, &text));
    BAD(bloomfile_filter_create(NULL, "x", &no_filter));
    BAD(bloomfile_filter_open_or_create(NULL, "x", &no_filter));
    BAD(bloomfile_key_write_file(NULL, "x"));
    BAD(bloomfile_key_fingerprint(NULL, (char *)found));
    OK(bloomfile_filter_close(NULL));
    OK(bloomfile_reader_close(NULL));
    OK(bloomfile_builder_abandon(NULL));
    OK(bloomfile_options_free(NULL));
    CHECK(number == 77);

    /* Handles of another kind. */
    FAILS(bloomfile_filter_add((bloomfile_filter *)reader, "x", 1), BLOOMFILE_ERROR_ARGUMENT,
          "of another kind");
    FAILS(bloomfile_filter_close((bloomfile_filter *)options), BLOOMFILE_ERROR_ARGUMENT, "filter");
    FAILS(bloomfile_reader_contains((bloomfile_reader *)filter, "x", 1), BLOOMFILE_ERROR_ARGUMENT,
          "reader");
    FAILS(bloomfile_reader_close((bloomfile_reader *)key), BLOOMFILE_ERROR_ARGUMENT, "reader");
    FAILS(bloomfile_builder_add((bloomfile_builder *)filter, "x", 1), BLOOMFILE_ERROR_ARGUMENT,
          "builder");
    FAILS(bloomfile_options_set_seed((bloomfile_options *)key, 1), BLOOMFILE_ERROR_ARGUMENT, "options");
    FAILS(bloomfile_options_free((bloomfile_options *)filter), BLOOMFILE_ERROR_ARGUMENT, "options");
    FAILS(bloomfile_key_free((bloomfile_key *)reader), BLOOMFILE_ERROR_ARGUMENT, "key");

    /* No place for the result, no text, no path. */
    BAD(bloomfile_options_new(NULL));
    BAD(bloomfile_key_random(NULL));
    BAD(bloomfile_key_from_bytes(NULL, &no_key));
    BAD(bloomfile_key_from_file(NULL, &no_key));
    BAD(bloomfile_filter_open(NULL, NULL, &no_filter));
    BAD(bloomfile_filter_open(at("handles"), NULL, NULL));
    BAD(bloomfile_filter_create(options, NULL, &no_filter));
    BAD(bloomfile_filter_create(options, at("x"), NULL));
    BAD(bloomfile_filter_open_or_create(options, NULL, &no_filter));
    BAD(bloomfile_builder_start(options, NULL, &no_builder));
    BAD(bloomfile_builder_start(options, at("x"), NULL));
    BAD(bloomfile_builder_start(NULL, at("x"), &no_builder));
    BAD(bloomfile_reader_hash(reader, "x", 1, NULL));
    BAD(bloomfile_reader_mark(reader, NULL));
    BAD(bloomfile_reader_metadata(reader, NULL, &text));
    BAD(bloomfile_reader_metadata(reader, "\xff", &text));
    BAD(bloomfile_reader_metadata(reader, "a", NULL));
    BAD(bloomfile_reader_is_at(reader, NULL));
    BAD(bloomfile_inspect(NULL, &text));
    BAD(bloomfile_inspect(at("handles"), NULL));
    BAD(bloomfile_verify(NULL, &text));
    BAD(bloomfile_recover(NULL));
    BAD(bloomfile_rotate(NULL));
    BAD(bloomfile_compact(NULL, at("x"), 0, 0));
    BAD(bloomfile_compact(at("handles"), NULL, 0, 0));
    BAD(bloomfile_plan(options, NULL));
    BAD(bloomfile_merge(NULL, 0, NULL, 0));
    BAD(bloomfile_precheck(1, 1, 1, 1, 1, NULL, &seconds));
    BAD(bloomfile_precheck(1, 1, 1, 1, 1, &seconds, NULL));
    CHECK(access(at("x"), F_OK) != 0);

    /* Numbers that stand for nothing. */
    FAILS(bloomfile_options_set_layout(options, 77), BLOOMFILE_ERROR_ARGUMENT, "no layout");
    FAILS(bloomfile_options_set_kind(options, -1), BLOOMFILE_ERROR_ARGUMENT, "no kind");
    FAILS(bloomfile_options_set_when_full(options, 3), BLOOMFILE_ERROR_ARGUMENT, "no policy");
    FAILS(bloomfile_options_set_metadata(options, "a", "\xff"), BLOOMFILE_ERROR_ARGUMENT, "UTF-8");
    FAILS(bloomfile_options_set_metadata(options, NULL, "a"), BLOOMFILE_ERROR_ARGUMENT, "name");
    FAILS(bloomfile_reader_open(at("handles"), 0x100, NULL, &no_reader), BLOOMFILE_ERROR_ARGUMENT, "0x100");
    FAILS(bloomfile_reader_open(at("handles"), BLOOMFILE_READ_VERIFY | BLOOMFILE_READ_TRUST, NULL,
                                &no_reader),
          BLOOMFILE_ERROR_ARGUMENT, "either");
#undef BAD
    CHECK(!no_filter && !no_reader && !no_builder && !no_key && !text);
    OK(bloomfile_key_free(key));
    OK(bloomfile_reader_close(reader));
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_free(options));
}

static void impossible_parameters(void)
{
    struct {
        uint64_t capacity;
        double rate;
    } bad[] = {{0, 0.01},        {1000, 0.0},        {1000, 1.0},         {1000, -1.0},
               {1000, 1e-300},   {1000, 0.0 / 0.0},  {UINT64_MAX, 1e-9},  {UINT64_MAX, 0.5},
               {1000, 1.0 / 0.0}};
    bloomfile_filter *filter = NULL;
    bloomfile_builder *builder = NULL;
    char *text = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bloomfile_options *options = options_for(bad[i].capacity, bad[i].rate);
        FAILS(bloomfile_plan(options, &text), BLOOMFILE_ERROR_PARAMETER, "cannot be");
        FAILS(bloomfile_filter_create(options, at("impossible"), &filter), BLOOMFILE_ERROR_PARAMETER, "");
        FAILS(bloomfile_builder_start(options, at("impossible"), &builder), BLOOMFILE_ERROR_PARAMETER, "");
        CHECK(filter == NULL && builder == NULL && access(at("impossible"), F_OK) != 0);
        OK(bloomfile_options_free(options));
    }
    bloomfile_options *options = NULL;
    OK(bloomfile_options_new(&options));
    FAILS(bloomfile_filter_create(options, at("impossible"), &filter), BLOOMFILE_ERROR_PARAMETER, "capacity");
    OK(bloomfile_options_set_rows(options, 3, UINT64_MAX));
    FAILS(bloomfile_filter_create(options, at("impossible"), &filter), BLOOMFILE_ERROR_PARAMETER, "");
    OK(bloomfile_options_free(options));
    /* Larger than any disk: the system says so, and nothing is left. */
    options = options_for(1000000000000, 0.01);
    struct rlimit limit = {1 << 30, RLIM_INFINITY}, before;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    FAILS(bloomfile_filter_create(options, at("impossible"), &filter), BLOOMFILE_ERROR_IO, "impossible");
    CHECK(bloomfile_error_os() != 0 && filter == NULL && access(at("impossible"), F_OK) != 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    OK(bloomfile_options_free(options));
    /* A folder that is not there. */
    options = options_for(1000, 0.01);
    FAILS(bloomfile_filter_create(options, at("no/such/folder"), &filter), BLOOMFILE_ERROR_NOT_FOUND, "folder");
    FAILS(bloomfile_filter_create(options, "", &filter), BLOOMFILE_ERROR_PARAMETER, "path");
    OK(bloomfile_options_set_metadata(options, "a", "1"));
    OK(bloomfile_options_set_metadata(options, "a", "2"));
    FAILS(bloomfile_filter_create(options, at("x"), &filter), BLOOMFILE_ERROR_PARAMETER, "twice");
    OK(bloomfile_options_free(options));
}

static void a_forked_child_does_not_write(void)
{
    bloomfile_options *options = options_for(1000, 0.01);
    bloomfile_filter *filter = NULL;
    OK(bloomfile_filter_create(options, at("forked"), &filter));
    CHECK(bloomfile_filter_add(filter, "sheep", 5) == 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int refused = bloomfile_filter_add(filter, "wolf", 4) == BLOOMFILE_ERROR_FORKED &&
                      bloomfile_filter_contains(filter, "sheep", 5) == 1;
        _exit(refused ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(bloomfile_filter_add(filter, "goat", 4) == 1);
    OK(bloomfile_filter_close(filter));
    OK(bloomfile_options_free(options));

    /* A child that dies with the file open: it is recovered. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (bloomfile_filter_open(at("forked"), NULL, &filter) == 0 &&
            bloomfile_filter_add(filter, "cow", 3) == 1 && bloomfile_filter_sync(filter) == 0)
            _exit(0);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    bloomfile_reader *reader = NULL;
    OK(bloomfile_reader_open(at("forked"), 0, NULL, &reader));
    CHECK(bloomfile_reader_health(reader) == BLOOMFILE_HEALTH_CRASHED);
    CHECK(bloomfile_reader_contains(reader, "cow", 3) == 1);
    OK(bloomfile_reader_close(reader));
    CHECK(bloomfile_recover(at("forked")) == 1);
    CHECK(bloomfile_verify(at("forked"), NULL) == 1);
}

int main(void)
{
    begin();
    versions();
    a_filter_is_written_and_read();
    batches();
    hashes_are_those_of_every_language();
    builders();
    every_kind();
    keyed_files();
    whole_files();
    damaged_files();
    files_in_memory();
    bad_handles_and_pointers();
    impossible_parameters();
    a_forked_child_does_not_write();
    end("bloomfile_test");
    return 0;
}
