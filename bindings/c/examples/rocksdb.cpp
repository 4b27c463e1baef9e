// A filter in front of RocksDB: the reads and the time that asking it first saves.
//
//     c++ -std=c++17 rocksdb.cpp $(pkg-config --cflags --libs bloomfile) -lrocksdb
//     ./a.out FOLDER [KEYS [LOOKUPS]]
//
// RocksDB has filters of its own, one for each of its files. So there are three ways here: without any,
// with its own, and with one filter for the whole database that is asked first.
#include "measure.h"

#include <memory>
#include <string>

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

namespace {

void checked(const rocksdb::Status &status)
{
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        std::exit(2);
    }
}

std::unique_ptr<rocksdb::DB> fill(const std::string &path, uint64_t keys, bool own_filters)
{
    rocksdb::Options options;
    options.create_if_missing = true;
    options.error_if_exists = true;
    rocksdb::BlockBasedTableOptions table;
    if (own_filters)
        table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB *opened = nullptr;
    checked(rocksdb::DB::Open(options, path, &opened));
    std::unique_ptr<rocksdb::DB> db(opened);
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    char key[KEY_LENGTH + 1];
    for (uint64_t i = 0; i < keys; i++) {
        make_key(key, 2 * i);
        checked(db->Put(write, rocksdb::Slice(key, KEY_LENGTH), std::to_string(i)));
    }
    checked(db->Flush(rocksdb::FlushOptions()));
    checked(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    return db;
}

// Looks keys up, in the filter first if there is one.
result look_up(rocksdb::DB &db, const bloomfile_reader *filter, const char *asked, uint64_t lookups)
{
    result result = {0, 0, 0};
    rocksdb::PinnableSlice value;
    double start = seconds();
    for (uint64_t i = 0; i < lookups; i++) {
        const char *key = asked + i * KEY_STEP;
        if (filter != nullptr && ::checked(bloomfile_reader_contains(filter, key, KEY_LENGTH)) == 0)
            continue;
        result.reads++;
        value.Reset();
        rocksdb::Status status =
            db.Get(rocksdb::ReadOptions(), db.DefaultColumnFamily(), rocksdb::Slice(key, KEY_LENGTH), &value);
        if (!status.IsNotFound())
            checked(status);
        result.found += status.ok();
    }
    result.seconds = seconds() - start;
    return result;
}

} // namespace

int main(int count, char **arguments)
{
    if (count < 2) {
        std::fprintf(stderr, "usage: %s FOLDER [KEYS [LOOKUPS]]\n", arguments[0]);
        return 2;
    }
    const std::string folder = arguments[1];
    const uint64_t keys = count > 2 ? std::stoull(arguments[2]) : 1000000;
    const uint64_t lookups = count > 3 ? std::stoull(arguments[3]) : 102000;
    const std::string filter_path = folder + "/customers-rocksdb.bloom";
    build_filter(filter_path.c_str(), keys);
    bloomfile_reader *filter = nullptr;
    ::checked(bloomfile_reader_open(filter_path.c_str(), 0, nullptr, &filter));

    char *asked = make_asked(lookups, keys);
    int lost = 0;
    for (bool own_filters : {false, true}) {
        const std::string path = folder + (own_filters ? "/with-filters" : "/without-filters");
        std::unique_ptr<rocksdb::DB> db = fill(path, keys, own_filters);
        // Once before, so that both ways find the same blocks in memory.
        look_up(*db, nullptr, asked, lookups);
        const result alone = look_up(*db, nullptr, asked, lookups), first = look_up(*db, filter, asked, lookups);
        lost |= tell(own_filters ? "RocksDB with its own filters" : "RocksDB without filters", keys, lookups,
                     alone, first, time_filter(filter, asked, lookups));
        checked(db->Close());
    }
    ::checked(bloomfile_reader_close(filter));
    std::free(asked);
    return lost;
}
