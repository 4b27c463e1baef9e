/* What both examples share: keys, time, and the arithmetic of `bloomfile plan --precheck`. */
#ifndef MEASURE_H
#define MEASURE_H

#include <bloomfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As in the textbook's sum: 2 in 102 look-ups are for keys that are there, and the filter is wrong for 3 %
 * of the others. */
#define ABSENT_FOR_EACH_PRESENT 50
#define RATE 0.03
#define KEY_LENGTH 24

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Ends the program unless a call of bloomfile did what it should. */
static inline int checked(int code)
{
    if (code < 0) {
        fprintf(stderr, "%s\n", bloomfile_error_message());
        exit(2);
    }
    return code;
}

/* Keys with even numbers are there; those with odd ones lie between them. */
static inline void make_key(char *key, uint64_t number)
{
    snprintf(key, KEY_LENGTH + 1, "customer-%015llu", (unsigned long long)number);
}

#define KEY_STEP (KEY_LENGTH + 1)

/* The keys of all look-ups, from all over those that are there: one in 51 is. free() frees them. */
static inline char *make_asked(uint64_t lookups, uint64_t keys)
{
    char *asked = (char *)malloc(lookups * KEY_STEP);
    if (asked == NULL)
        abort();
    for (uint64_t i = 0; i < lookups; i++) {
        uint64_t place = (i * 0x9e3779b97f4a7c15u >> 20) % keys;
        make_key(asked + i * KEY_STEP, 2 * place + (i % (ABSENT_FOR_EACH_PRESENT + 1) != 0));
    }
    return asked;
}

/* What a run came to. */
struct result {
    double seconds;
    uint64_t reads, found;
};

/* Builds the filter of all keys that are there. */
static inline void build_filter(const char *path, uint64_t keys)
{
    bloomfile_options *options = NULL;
    bloomfile_builder *builder = NULL;
    char key[KEY_LENGTH + 1];
    checked(bloomfile_options_new(&options));
    checked(bloomfile_options_set_capacity(options, keys));
    checked(bloomfile_options_set_rate(options, RATE));
    checked(bloomfile_builder_start(options, path, &builder));
    for (uint64_t i = 0; i < keys; i++) {
        make_key(key, 2 * i);
        checked(bloomfile_builder_add(builder, key, KEY_LENGTH));
    }
    checked(bloomfile_builder_finish(builder, NULL));
    checked(bloomfile_options_free(options));
}

/* Seconds of one question to the filter. */
static inline double time_filter(const bloomfile_reader *reader, const char *asked, uint64_t lookups)
{
    uint64_t maybe = 0;
    double start = seconds();
    for (uint64_t i = 0; i < lookups; i++)
        maybe += (uint64_t)checked(bloomfile_reader_contains(reader, asked + i * KEY_STEP, KEY_LENGTH));
    double each = (seconds() - start) / (double)lookups;
    if (maybe == 0)
        fprintf(stderr, "the filter has none of the keys\n");
    return each;
}

/* Tells what was measured, and what the arithmetic says beside it; 1 if the filter lost a key. */
static inline int tell(const char *name, uint64_t keys, uint64_t lookups, struct result alone,
                       struct result first, double filter_seconds)
{
    double without = 0, with = 0;
    uint64_t needless = first.reads - first.found, absent = lookups - alone.found;
    double rate = (double)needless / (double)absent, slow = alone.seconds / (double)lookups;
    printf("%llu keys in %s; %llu look-ups, %llu of them for keys that are there\n",
           (unsigned long long)keys, name, (unsigned long long)lookups, (unsigned long long)alone.found);
    printf("%-14s %9.1f ms, %llu reads\n", "database alone", 1e3 * alone.seconds,
           (unsigned long long)alone.reads);
    printf("%-14s %9.1f ms, %llu reads: %llu and %llu needless ones (%.2f %%)\n", "filter first",
           1e3 * first.seconds, (unsigned long long)first.reads, (unsigned long long)first.found,
           (unsigned long long)needless, 100 * rate);
    printf("%-14s %9.1f %% of the reads, %.1f %% of the time: %.1f times as fast\n", "saved",
           100 * (1 - (double)first.reads / (double)lookups), 100 * (1 - first.seconds / alone.seconds),
           alone.seconds / first.seconds);
    checked(bloomfile_precheck(lookups, alone.found, slow, filter_seconds, rate, &without, &with));
    printf("%-14s %9.1f ms: plan --precheck, from %.0f ns for a read, %.0f ns for a question\n",
           "worked out", 1e3 * with, 1e9 * slow, 1e9 * filter_seconds);
    if (alone.found != first.found || alone.found == 0) {
        fprintf(stderr, "the filter lost %lld keys\n", (long long)(alone.found - first.found));
        return 1;
    }
    return 0;
}

#endif
