/* Look-ups as a C program makes them, for benches/lookups.rs. */
#include <bloomfile.h>

size_t c_single(const bloomfile_reader *reader, const void *const *keys, const size_t *lengths,
                size_t count)
{
    size_t maybe = 0;
    for (size_t i = 0; i < count; i++)
        maybe += bloomfile_reader_contains(reader, keys[i], lengths[i]) == 1;
    return maybe;
}

size_t c_hash(const bloomfile_reader *reader, const uint64_t *hashes, size_t count)
{
    size_t maybe = 0;
    for (size_t i = 0; i < count; i++)
        maybe += bloomfile_reader_contains_hash(reader, hashes[i]) == 1;
    return maybe;
}

/* The answers are counted by the caller, in the same way for both languages. */
int c_batch(const bloomfile_reader *reader, const void *const *keys, const size_t *lengths, size_t count,
            bool *found)
{
    return bloomfile_reader_contains_batch(reader, keys, lengths, count, found);
}

int c_offsets(const bloomfile_reader *reader, const void *data, size_t length, const int32_t *offsets,
              size_t count, bool *found)
{
    return bloomfile_reader_contains_offsets32(reader, data, length, offsets, count, found);
}

int c_hash_batch(const bloomfile_reader *reader, const uint64_t *hashes, size_t count, bool *found)
{
    return bloomfile_reader_contains_hash_batch(reader, hashes, count, found);
}
