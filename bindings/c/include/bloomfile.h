/* bloomfile.h - filters in files, from C and C++. See bloomfile(3).
 *
 * Made from bindings/c/src by cbindgen ("make header"); do not edit.
 *
 * Functions that can fail return a negative error code (BLOOMFILE_ERROR_...), and 0 or, where they
 * answer a question, 0 for no and 1 for yes otherwise. What went wrong is told by
 * bloomfile_error_message(), for each thread by itself. What a pointer leads to, an array or a key, is
 * only read during the call. What a function makes, a function named in its description frees; free()
 * is not one of them. After a failure, what would have been made is NULL, numbers that would have been
 * told are unchanged, and the contents of an array of answers are not to be used.
 *
 * Filters and readers may be used by any number of threads at the same time, and closed when none uses
 * them any more. Options, keys and builders are for one thread at a time.
 */

#ifndef BLOOMFILE_H
#define BLOOMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this interface, by semantic versioning: a program runs with every library of the same
 * major version and of this minor version or a later one. See bloomfile_abi_version. */
#define BLOOMFILE_ABI_MAJOR 1
#define BLOOMFILE_ABI_MINOR 0


/**
 * Nothing went wrong.
 */
#define BLOOMFILE_OK 0

/**
 * A NULL where something must be, a handle of another kind or one that was closed, a number that
 * stands for nothing, text that is not UTF-8, offsets that are in no order.
 */
#define BLOOMFILE_ERROR_ARGUMENT -1

/**
 * A parameter that makes no sense, or that does not go with the others.
 */
#define BLOOMFILE_ERROR_PARAMETER -2

/**
 * The operating system refused or failed something: see bloomfile_error_os.
 */
#define BLOOMFILE_ERROR_IO -3

/**
 * There is no such file.
 */
#define BLOOMFILE_ERROR_NOT_FOUND -4

/**
 * A file of that name is there already.
 */
#define BLOOMFILE_ERROR_EXISTS -5

/**
 * The file is something else.
 */
#define BLOOMFILE_ERROR_NOT_A_BLOOMFILE -6

/**
 * The file takes a newer bloomfile.
 */
#define BLOOMFILE_ERROR_VERSION -7

/**
 * The file's bytes were changed or lost.
 */
#define BLOOMFILE_ERROR_DAMAGED -8

/**
 * Another process, or another handle of this one, has the file open for writing.
 */
#define BLOOMFILE_ERROR_LOCKED -9

/**
 * A writer changed the file each time it was read: try again.
 */
#define BLOOMFILE_ERROR_BUSY -10

/**
 * An earlier call on this handle failed: close it, and open the file again.
 */
#define BLOOMFILE_ERROR_POISONED -11

/**
 * The handle belongs to the process that this one was forked from.
 */
#define BLOOMFILE_ERROR_FORKED -12

/**
 * The filter holds as many keys as it was made for, and refuses more.
 */
#define BLOOMFILE_ERROR_FULL -13

/**
 * The file is sealed, and cannot be changed.
 */
#define BLOOMFILE_ERROR_SEALED -14

/**
 * The file takes a secret key, another one, or none; or a key file cannot be used.
 */
#define BLOOMFILE_ERROR_KEY -15

/**
 * The key to be taken out is certainly not in.
 */
#define BLOOMFILE_ERROR_NOT_PRESENT -16

/**
 * More than one segment seems to hold the key to be taken out.
 */
#define BLOOMFILE_ERROR_AMBIGUOUS -17

/**
 * The file that is there is not what the options would make.
 */
#define BLOOMFILE_ERROR_DIFFERENT -18

/**
 * The filters were not made alike, and cannot be combined.
 */
#define BLOOMFILE_ERROR_INCOMPATIBLE -19

/**
 * The file has no numbers left for a writer: make a new one of it.
 */
#define BLOOMFILE_ERROR_NUMBERS_SPENT -20

/**
 * A bug of this library. What was being done is not done, or not all of it.
 */
#define BLOOMFILE_ERROR_INTERNAL -21

/**
 * An error that this version of the interface has no code for: see its message.
 */
#define BLOOMFILE_ERROR_OTHER -22

/**
 * The file was written or replaced while it was read: open it again.
 */
#define BLOOMFILE_ERROR_CHANGED -23

/**
 * The file was replaced by one that was made in another way.
 */
#define BLOOMFILE_ERROR_REPLACED -24

/**
 * The file is no part of a filter.
 */
#define BLOOMFILE_ERROR_NOT_A_PART -25

/**
 * The file is no delta.
 */
#define BLOOMFILE_ERROR_NOT_A_DELTA -26

/**
 * The delta is for another file, or for another version of it.
 */
#define BLOOMFILE_ERROR_OTHER_VERSION -27

/**
 * The delta cannot be applied to an open filter: make a new file with it.
 */
#define BLOOMFILE_ERROR_NOT_IN_PLACE -28

/**
 * What would be made in memory is longer than was allowed.
 */
#define BLOOMFILE_ERROR_TOO_LONG -29

/**
 * One cache line for each look-up; the default down to a rate of 0.1 %.
 */
#define BLOOMFILE_LAYOUT_LINE 1

/**
 * One page for each look-up; the default below a rate of 0.1 %.
 */
#define BLOOMFILE_LAYOUT_PAGE 2

/**
 * As many rows as a key has cells, each over all of the filter.
 */
#define BLOOMFILE_LAYOUT_ROWS 3

/**
 * The textbook's filter: one row for all cells of a key.
 */
#define BLOOMFILE_LAYOUT_FLAT 4

/**
 * Cells are bits; the default.
 */
#define BLOOMFILE_KIND_PLAIN 0

/**
 * Cells are counters, so that keys can be removed; four times the space.
 */
#define BLOOMFILE_KIND_COUNTING 1

/**
 * Built at once and never added to; about 70 % of the space.
 */
#define BLOOMFILE_KIND_SEALED 2

/**
 * At capacity adds go on and the rate rises; the default.
 */
#define BLOOMFILE_WHEN_FULL_ALLOW 0

/**
 * At capacity a new key is BLOOMFILE_ERROR_FULL.
 */
#define BLOOMFILE_WHEN_FULL_REFUSE 1

/**
 * At capacity a larger segment is appended, so that the rate stays below the one asked for.
 */
#define BLOOMFILE_WHEN_FULL_GROW 2

/**
 * Every page is checked at opening, so that damage is an error of it.
 */
#define BLOOMFILE_READ_VERIFY 1

/**
 * No page is checked: for files that were verified by other means.
 */
#define BLOOMFILE_READ_TRUST 2

/**
 * The file is read into memory, so that nothing that happens to it matters any more.
 */
#define BLOOMFILE_READ_MEMORY 4

/**
 * The system is told to read all of a mapped file ahead.
 */
#define BLOOMFILE_READ_WARM_UP 8

/**
 * The file was closed in good order.
 */
#define BLOOMFILE_HEALTH_CLEAN 0

/**
 * A writer has the file open.
 */
#define BLOOMFILE_HEALTH_LIVE 1

/**
 * A writer crashed; the next one recovers the file.
 */
#define BLOOMFILE_HEALTH_CRASHED 2

/**
 * An answer rested on a damaged page, and was "maybe".
 */
#define BLOOMFILE_HEALTH_DAMAGED 3

/**
 * Something that this version of the interface has no number for.
 */
#define BLOOMFILE_HEALTH_OTHER 4

/**
 * A file that is being filled in bulk, and has no name yet.
 */
typedef struct bloomfile_builder bloomfile_builder;

/**
 * A filter file that is open for reading and writing.
 */
typedef struct bloomfile_filter bloomfile_filter;

/**
 * The secret of a keyed file: 128 bits, which are never in the file.
 */
typedef struct bloomfile_key bloomfile_key;

/**
 * What a new filter shall be.
 */
typedef struct bloomfile_options bloomfile_options;

/**
 * A filter file that is open for reading.
 */
typedef struct bloomfile_reader bloomfile_reader;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the interface that this library has: its major version times 65,536, and its minor
 * version. A program that was compiled with BLOOMFILE_ABI_MAJOR and BLOOMFILE_ABI_MINOR runs with it
 * if the major version is the same and the minor one at least that.
 */
uint32_t bloomfile_abi_version(void);

/**
 * The version of this library as text, "1.0.0" say. Not to be freed.
 */
const char *bloomfile_version(void);

/**
 * The version of the file format that this library reads and writes.
 */
uint32_t bloomfile_format_version(void);

/**
 * Frees a text that a function of this library made, JSON say. NULL is left alone.
 */
void bloomfile_string_free(char *text);

/**
 * Starts a file that has its name once it is finished. bloomfile_builder_finish or
 * bloomfile_builder_abandon ends it.
 */
int bloomfile_builder_start(const bloomfile_options *options,
                            const char *path,
                            bloomfile_builder **out);

/**
 * Adds a key: 1 when that changed the filter, and 0 otherwise. Of a sealed one that is not known before it
 * is finished: 1 for every key.
 */
int bloomfile_builder_add(bloomfile_builder *builder,
                          const void *key,
                          size_t length);

/**
 * Adds the key of a hash that bloomfile_builder_hash gave.
 */
int bloomfile_builder_add_hash(bloomfile_builder *builder, uint64_t hash);

/**
 * Adds many keys, each at a place of its own, on all cores; the more at once the better. `added`, unless it
 * is NULL, gets how many changed the filter.
 */
int bloomfile_builder_add_batch(bloomfile_builder *builder,
                                const void *const *keys,
                                const size_t *lengths,
                                size_t count,
                                uint64_t *added);

/**
 * As bloomfile_builder_add_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
 */
int bloomfile_builder_add_offsets32(bloomfile_builder *builder,
                                    const void *data,
                                    size_t data_length,
                                    const int32_t *offsets,
                                    size_t count,
                                    uint64_t *added);

/**
 * As bloomfile_builder_add_offsets32, with offsets of 64 bits.
 */
int bloomfile_builder_add_offsets64(bloomfile_builder *builder,
                                    const void *data,
                                    size_t data_length,
                                    const int64_t *offsets,
                                    size_t count,
                                    uint64_t *added);

/**
 * As bloomfile_builder_add_batch, for hashes.
 */
int bloomfile_builder_add_hash_batch(bloomfile_builder *builder,
                                     const uint64_t *hashes,
                                     size_t count,
                                     uint64_t *added);

/**
 * Tells the hash of a key, for the functions that take one.
 */
int bloomfile_builder_hash(const bloomfile_builder *builder,
                           const void *key,
                           size_t length,
                           uint64_t *hash);

/**
 * Makes the file durable and gives it its name. `keys`, unless it is NULL, gets the adds that changed the
 * filter; of a sealed one, its distinct keys. The handle is gone whatever comes back; after an error there
 * is no file that was not there before.
 */
int bloomfile_builder_finish(bloomfile_builder *builder,
                             uint64_t *keys);

/**
 * Ends a build without a file. NULL is left alone.
 */
int bloomfile_builder_abandon(bloomfile_builder *builder);

/**
 * What the last call that failed in this thread said: a sentence that names the file and says what to
 * do. "" if none has failed. Not to be freed; it stays as it is until the next failure in this thread.
 */
const char *bloomfile_error_message(void);

/**
 * The code of the last call that failed in this thread; BLOOMFILE_OK if none has.
 */
int bloomfile_error_code(void);

/**
 * What the system said to the last call that failed in this thread: a value of errno, or 0 if it was
 * not the system that refused.
 */
int bloomfile_error_os(void);

/**
 * The name of a code, "locked" say; "unknown" for other numbers. Not to be freed.
 */
const char *bloomfile_error_name(int code);

/**
 * Creates a file and opens it for writing. It has its name once it is whole and durable.
 * bloomfile_filter_close closes it. A sealed filter is built instead (bloomfile_builder_start).
 */
int bloomfile_filter_create(const bloomfile_options *options,
                            const char *path,
                            bloomfile_filter **out);

/**
 * Opens the file for writing, or creates it if there is none. One that is there must be what the options
 * would make, or it is BLOOMFILE_ERROR_DIFFERENT. bloomfile_filter_close closes it.
 */
int bloomfile_filter_open_or_create(const bloomfile_options *options,
                                    const char *path,
                                    bloomfile_filter **out);

/**
 * Opens a file for writing, and recovers it if its last writer crashed. `key` is the secret of a keyed
 * file, and NULL for others. bloomfile_filter_close closes it.
 */
int bloomfile_filter_open(const char *path,
                          const bloomfile_key *key,
                          bloomfile_filter **out);

/**
 * Closes the file in good order: everything is durable. The handle is gone whatever comes back; after
 * an error the file is recovered when it is opened next. NULL is left alone.
 */
int bloomfile_filter_close(bloomfile_filter *filter);

/**
 * Adds a key: 1 when it was new, as far as the filter can tell, and 0 otherwise.
 */
int bloomfile_filter_add(const bloomfile_filter *filter, const void *key, size_t length);

/**
 * Adds the key of a hash that bloomfile_filter_hash gave: 1 when it was new, and 0 otherwise.
 */
int bloomfile_filter_add_hash(const bloomfile_filter *filter, uint64_t hash);

/**
 * Adds many keys, each at a place of its own. `added`, unless it is NULL, gets how many were new. After
 * an error other than BLOOMFILE_ERROR_ARGUMENT some of them may be in.
 */
int bloomfile_filter_add_batch(const bloomfile_filter *filter,
                               const void *const *keys,
                               const size_t *lengths,
                               size_t count,
                               uint64_t *added);

/**
 * As bloomfile_filter_add_batch, for keys in one buffer: key i is the bytes from offsets[i] to
 * offsets[i + 1], so that there are count + 1 offsets. This is the layout of Arrow's Binary and Utf8.
 */
int bloomfile_filter_add_offsets32(const bloomfile_filter *filter,
                                   const void *data,
                                   size_t data_length,
                                   const int32_t *offsets,
                                   size_t count,
                                   uint64_t *added);

/**
 * As bloomfile_filter_add_offsets32, with the offsets of Arrow's LargeBinary and LargeUtf8.
 */
int bloomfile_filter_add_offsets64(const bloomfile_filter *filter,
                                   const void *data,
                                   size_t data_length,
                                   const int64_t *offsets,
                                   size_t count,
                                   uint64_t *added);

/**
 * As bloomfile_filter_add_batch, for hashes.
 */
int bloomfile_filter_add_hash_batch(const bloomfile_filter *filter,
                                    const uint64_t *hashes,
                                    size_t count,
                                    uint64_t *added);

/**
 * Whether a key may be in: 0 is certain, 1 is wrong at the filter's rate.
 */
int bloomfile_filter_contains(const bloomfile_filter *filter, const void *key, size_t length);

/**
 * Whether the key of a hash may be in.
 */
int bloomfile_filter_contains_hash(const bloomfile_filter *filter, uint64_t hash);

/**
 * Whether each of many keys may be in: `found` has room for `count` answers.
 */
int bloomfile_filter_contains_batch(const bloomfile_filter *filter,
                                    const void *const *keys,
                                    const size_t *lengths,
                                    size_t count,
                                    bool *found);

/**
 * As bloomfile_filter_contains_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
 */
int bloomfile_filter_contains_offsets32(const bloomfile_filter *filter,
                                        const void *data,
                                        size_t data_length,
                                        const int32_t *offsets,
                                        size_t count,
                                        bool *found);

/**
 * As bloomfile_filter_contains_offsets32, with offsets of 64 bits.
 */
int bloomfile_filter_contains_offsets64(const bloomfile_filter *filter,
                                        const void *data,
                                        size_t data_length,
                                        const int64_t *offsets,
                                        size_t count,
                                        bool *found);

/**
 * As bloomfile_filter_contains_batch, for hashes.
 */
int bloomfile_filter_contains_hash_batch(const bloomfile_filter *filter,
                                         const uint64_t *hashes,
                                         size_t count,
                                         bool *found);

/**
 * Tells the hash of a key, for the functions that take one. Files with the same seed and secret have the
 * same.
 */
int bloomfile_filter_hash(const bloomfile_filter *filter,
                          const void *key,
                          size_t length,
                          uint64_t *hash);

/**
 * Takes a key out of a counting filter. One that is certainly not in is BLOOMFILE_ERROR_NOT_PRESENT.
 * Only take out what was added.
 */
int bloomfile_filter_remove(const bloomfile_filter *filter,
                            const void *key,
                            size_t length);

/**
 * Takes the key of a hash out of a counting filter.
 */
int bloomfile_filter_remove_hash(const bloomfile_filter *filter, uint64_t hash);

/**
 * Takes many keys out of a counting filter, each once. One that is not in is left alone; `removed`, unless
 * it is NULL, gets how many were in. After an error other than BLOOMFILE_ERROR_ARGUMENT some of them may be
 * out.
 */
int bloomfile_filter_remove_batch(const bloomfile_filter *filter,
                                  const void *const *keys,
                                  const size_t *lengths,
                                  size_t count,
                                  uint64_t *removed);

/**
 * As bloomfile_filter_remove_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
 */
int bloomfile_filter_remove_offsets32(const bloomfile_filter *filter,
                                      const void *data,
                                      size_t data_length,
                                      const int32_t *offsets,
                                      size_t count,
                                      uint64_t *removed);

/**
 * As bloomfile_filter_remove_offsets32, with offsets of 64 bits.
 */
int bloomfile_filter_remove_offsets64(const bloomfile_filter *filter,
                                      const void *data,
                                      size_t data_length,
                                      const int64_t *offsets,
                                      size_t count,
                                      uint64_t *removed);

/**
 * As bloomfile_filter_remove_batch, for hashes.
 */
int bloomfile_filter_remove_hash_batch(const bloomfile_filter *filter,
                                       const uint64_t *hashes,
                                       size_t count,
                                       uint64_t *removed);

/**
 * How often a key may have been added to a counting filter, up to 15.
 */
int bloomfile_filter_count(const bloomfile_filter *filter, const void *key, size_t length);

/**
 * Makes every add and removal that has returned survive a power cut.
 */
int bloomfile_filter_sync(const bloomfile_filter *filter);

/**
 * As bloomfile_filter_sync, and makes a number of the caller's own durable with the keys: the position
 * in a log up to which they were added, say.
 */
int bloomfile_filter_sync_with_mark(const bloomfile_filter *filter,
                                    uint64_t mark);

/**
 * Tells the mark that was last synced; 0 before the first.
 */
int bloomfile_filter_mark(const bloomfile_filter *filter, uint64_t *mark);

/**
 * Tells the adds that changed the filter, ever: distinct keys, but for false positives.
 */
int bloomfile_filter_adds(const bloomfile_filter *filter, uint64_t *adds);

/**
 * Brings the checksums up to date with the data, durably, and empties the journal.
 */
int bloomfile_filter_checkpoint(const bloomfile_filter *filter);

/**
 * Says whether the library's own thread writes checkpoints of this filter and prepares its next segment,
 * as it does unless told otherwise; without it, call bloomfile_filter_checkpoint now and then, or some
 * syncs take as long as a checkpoint does.
 */
int bloomfile_filter_set_background(const bloomfile_filter *filter,
                                    bool on);

/**
 * Drops the oldest generation of a rotating filter, if there are as many as it was made with, and starts
 * a new one; durable when it returns.
 */
int bloomfile_filter_rotate(const bloomfile_filter *filter);

/**
 * Takes in every key of a file that was made alike, durably.
 */
int bloomfile_filter_union(const bloomfile_filter *filter, const bloomfile_reader *other);

/**
 * Sets a pair of the file's metadata, or removes it where `value` is NULL; durable with the next
 * checkpoint or close.
 */
int bloomfile_filter_set_metadata(const bloomfile_filter *filter,
                                  const char *name,
                                  const char *value);

/**
 * Tells as JSON what this handle did: syncs, checkpoints, how full the journal is.
 * bloomfile_string_free frees the text.
 */
int bloomfile_filter_stats(const bloomfile_filter *filter, char **out);

/**
 * Makes a new secret, from the system's source of random numbers. bloomfile_key_free frees it.
 */
int bloomfile_key_random(bloomfile_key **out);

/**
 * Makes a secret of 16 bytes, which must be random. The caller's copy of them is the caller's to wipe.
 * bloomfile_key_free frees it.
 */
int bloomfile_key_from_bytes(const uint8_t *bytes,
                             bloomfile_key **out);

/**
 * Reads a secret from a file of 32 hexadecimal digits, which must not be open to others than its
 * owner. bloomfile_key_free frees it.
 */
int bloomfile_key_from_file(const char *path, bloomfile_key **out);

/**
 * Writes a secret into a new file that only its owner can read, durably. A file that is there is left
 * as it is.
 */
int bloomfile_key_write_file(const bloomfile_key *key,
                             const char *path);

/**
 * Tells what distinguishes a secret from others and gives nothing of it away: 8 hexadecimal digits and
 * a NUL, for which `text` has room.
 */
int bloomfile_key_fingerprint(const bloomfile_key *key,
                              char *text);

/**
 * Wipes and frees a secret. NULL is left alone.
 */
int bloomfile_key_free(bloomfile_key *key);

/**
 * Makes a new file that holds what any of the others holds. They were made alike: with the same seed or
 * secret, and of sizes that are whole multiples of the smallest. An existing file of that name is replaced
 * if `replace` is not 0, and an error otherwise.
 */
int bloomfile_merge(const char *const *inputs,
                    size_t count,
                    const char *output,
                    int replace);

/**
 * Makes a new file that holds what all of the others hold, and some keys beside it. As bloomfile_merge in
 * all else.
 */
int bloomfile_intersect(const char *const *inputs,
                        size_t count,
                        const char *output,
                        int replace);

/**
 * Makes a new file that holds what another holds, bit for bit, with a journal of `journal_bytes`; 0 for a
 * file that is shipped and read. Both may be the same path if `replace` is not 0. As bloomfile_merge in all
 * else.
 */
int bloomfile_compact(const char *input,
                      const char *output,
                      uint64_t journal_bytes,
                      int replace);

/**
 * Rotates a file that no one writes, as bloomfile_filter_rotate does. A keyed file takes no secret for it.
 */
int bloomfile_rotate(const char *path);

/**
 * Recovers a file whose writer crashed, as opening it for writing does: 1, or 0 if there was nothing to
 * recover. A keyed file takes no secret for it.
 */
int bloomfile_recover(const char *path);

/**
 * Tells as JSON what a file is and how full, from its headers and page tables alone: the fields of
 * `bloomfile inspect --json` up to `metadata`, and `rate_now` of the whole. bloomfile_string_free frees the
 * text.
 */
int bloomfile_inspect(const char *path,
                      char **out);

/**
 * Checks a whole file: 1 if every page is what was written, and 0 if not, or if recoveries kept pages
 * that they could not verify (`pages_kept_unverified`). `out`, unless it is NULL, gets
 * what was found, as JSON: the fields of `verification` of `bloomfile verify --json`.
 * bloomfile_string_free frees the text. Damaged headers are BLOOMFILE_ERROR_DAMAGED.
 */
int bloomfile_verify(const char *path,
                     char **out);

/**
 * Tells as JSON what a filter of these options would take, without making it; of a growing one its first
 * segment, of a rotating one each generation, and `file_bytes` of the whole. bloomfile_string_free frees
 * the text.
 */
int bloomfile_plan(const bloomfile_options *options,
                   char **out);

/**
 * Works out what a filter in front of something slow saves, as `bloomfile plan --precheck` does: seconds of
 * `lookups` look-ups, `present` of them for keys that are there, without the filter and with it asked first.
 * `rate` is its false positive rate.
 */
int bloomfile_precheck(uint64_t lookups,
                       uint64_t present,
                       double slow_seconds,
                       double filter_seconds,
                       double rate,
                       double *seconds_without,
                       double *seconds_with);

/**
 * Makes options that ask for nothing yet: a filter takes a capacity and a rate, or rows; a sealed one
 * a rate. bloomfile_options_free frees them.
 */
int bloomfile_options_new(bloomfile_options **out);

/**
 * Frees options. NULL is left alone.
 */
int bloomfile_options_free(bloomfile_options *options);

/**
 * The number of distinct keys that the filter is for.
 */
int bloomfile_options_set_capacity(bloomfile_options *options, uint64_t keys);

/**
 * The share of absent keys that may be taken for present once the filter is at capacity: 0.01 for 1 %.
 */
int bloomfile_options_set_rate(bloomfile_options *options,
                               double rate);

/**
 * As bloomfile_options_set_rate, of each generation of a rotating filter by itself: a look-up asks all of
 * them, so that the whole file has up to as many times this rate. The last of both calls counts.
 */
int bloomfile_options_set_generation_rate(bloomfile_options *options,
                                          double rate);

/**
 * The layout: BLOOMFILE_LAYOUT_...
 */
int bloomfile_options_set_layout(bloomfile_options *options, int layout);

/**
 * Exactly `rows` rows (k) of exactly `row_bits` bits each (m), instead of a capacity and a rate: for the
 * layouts rows, which is the default then, and flat.
 */
int bloomfile_options_set_rows(bloomfile_options *options,
                               uint32_t rows,
                               uint64_t row_bits);

/**
 * What the filter is made of: BLOOMFILE_KIND_... A sealed filter is built (bloomfile_builder_start).
 */
int bloomfile_options_set_kind(bloomfile_options *options,
                               int kind);

/**
 * What happens at capacity: BLOOMFILE_WHEN_FULL_...
 */
int bloomfile_options_set_when_full(bloomfile_options *options, int when_full);

/**
 * A filter that forgets: `generations` of them, from 2 to 32, each of the capacity asked for and all of
 * them together of the rate asked for, of which rotating drops the oldest. It rotates by itself after
 * `rotate_after` adds, unless that is 0.
 */
int bloomfile_options_set_generations(bloomfile_options *options,
                                      uint64_t generations,
                                      uint64_t rotate_after);

/**
 * The seed of the hash; 0 by default. Only files with the same seed can be merged.
 */
int bloomfile_options_set_seed(bloomfile_options *options, uint64_t seed);

/**
 * A secret that the file is made with; it is copied.
 */
int bloomfile_options_set_key(bloomfile_options *options, const bloomfile_key *key);

/**
 * Bytes for the journal; 0 makes every sync a checkpoint. By default an eighth of the data, from 8 KiB
 * to 64 MiB.
 */
int bloomfile_options_set_journal_bytes(bloomfile_options *options,
                                        uint64_t bytes);

/**
 * Bytes of memory that the build of a sealed filter takes, at least 32 MiB; 1 GiB by default.
 */
int bloomfile_options_set_memory(bloomfile_options *options, uint64_t bytes);

/**
 * A pair to keep in the file, both in UTF-8; they are copied.
 */
int bloomfile_options_set_metadata(bloomfile_options *options, const char *name, const char *value);

/**
 * Whether an existing file of that name is replaced; by default, and with 0, it is an error.
 */
int bloomfile_options_set_replace(bloomfile_options *options, int replace);

/**
 * Opens a file for reading; `flags` is 0 or some of BLOOMFILE_READ_... together. `key` is the secret of a
 * keyed file, and NULL for others. bloomfile_reader_close closes it.
 */
int bloomfile_reader_open(const char *path,
                          uint32_t flags,
                          const bloomfile_key *key,
                          bloomfile_reader **out);

/**
 * A reader of a file that is in memory. Its data are copied and checked: the bytes are not needed any
 * more after that. bloomfile_reader_close closes it.
 */
int bloomfile_reader_from_bytes(const void *data,
                                size_t length,
                                const bloomfile_key *key,
                                bloomfile_reader **out);

/**
 * Closes a reader. NULL is left alone.
 */
int bloomfile_reader_close(bloomfile_reader *reader);

/**
 * Whether a key may be in: 0 is certain, 1 is wrong at the filter's rate. Keys of damaged pages are 1.
 */
int bloomfile_reader_contains(const bloomfile_reader *reader,
                              const void *key,
                              size_t length);

/**
 * Whether the key of a hash may be in.
 */
int bloomfile_reader_contains_hash(const bloomfile_reader *reader, uint64_t hash);

/**
 * As bloomfile_reader_contains, with BLOOMFILE_ERROR_DAMAGED where damage keeps that from being told.
 */
int bloomfile_reader_try_contains(const bloomfile_reader *reader,
                                  const void *key,
                                  size_t length);

/**
 * Whether each of many keys may be in: `found` has room for `count` answers.
 */
int bloomfile_reader_contains_batch(const bloomfile_reader *reader,
                                    const void *const *keys,
                                    const size_t *lengths,
                                    size_t count,
                                    bool *found);

/**
 * As bloomfile_reader_contains_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
 */
int bloomfile_reader_contains_offsets32(const bloomfile_reader *reader,
                                        const void *data,
                                        size_t data_length,
                                        const int32_t *offsets,
                                        size_t count,
                                        bool *found);

/**
 * As bloomfile_reader_contains_offsets32, with offsets of 64 bits.
 */
int bloomfile_reader_contains_offsets64(const bloomfile_reader *reader,
                                        const void *data,
                                        size_t data_length,
                                        const int64_t *offsets,
                                        size_t count,
                                        bool *found);

/**
 * As bloomfile_reader_contains_batch, for hashes.
 */
int bloomfile_reader_contains_hash_batch(const bloomfile_reader *reader,
                                         const uint64_t *hashes,
                                         size_t count,
                                         bool *found);

/**
 * Tells the hash of a key, for the functions that take one.
 */
int bloomfile_reader_hash(const bloomfile_reader *reader,
                          const void *key,
                          size_t length,
                          uint64_t *hash);

/**
 * How the file was found: BLOOMFILE_HEALTH_...
 */
int bloomfile_reader_health(const bloomfile_reader *reader);

/**
 * 0 if no answer rested on a damaged page so far; otherwise BLOOMFILE_ERROR_DAMAGED, with a message that
 * names the first one.
 */
int bloomfile_reader_damage(const bloomfile_reader *reader);

/**
 * Tells the mark that was last synced before opening.
 */
int bloomfile_reader_mark(const bloomfile_reader *reader, uint64_t *mark);

/**
 * Tells the value of a pair of the file's metadata, as of opening: 1, or 0 and NULL if there is none of
 * that name. bloomfile_string_free frees the text.
 */
int bloomfile_reader_metadata(const bloomfile_reader *reader,
                              const char *name,
                              char **out);

/**
 * Whether `path` still leads to the file that this reader has open: 0 once another was renamed over it,
 * or it was taken away. Then it is opened again by those who follow it.
 */
int bloomfile_reader_is_at(const bloomfile_reader *reader,
                           const char *path);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BLOOMFILE_H */
