/* A filter in front of SQLite: the reads and the time that asking it first saves.
 *
 *     cc sqlite.c $(pkg-config --cflags --libs bloomfile sqlite3)
 *     ./a.out FOLDER [KEYS [LOOKUPS]]
 */
#define _GNU_SOURCE
#include "measure.h"

#include <sqlite3.h>

static sqlite3 *db;

static void run(const char *statement)
{
    char *message = NULL;
    if (sqlite3_exec(db, statement, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", statement, message);
        exit(2);
    }
}

static void fill(uint64_t keys)
{
    sqlite3_stmt *insert;
    char key[KEY_LENGTH + 1];
    run("PRAGMA journal_mode = OFF");
    run("CREATE TABLE customers(name TEXT PRIMARY KEY, balance INTEGER) WITHOUT ROWID");
    run("BEGIN");
    sqlite3_prepare_v2(db, "INSERT INTO customers VALUES (?1, ?2)", -1, &insert, NULL);
    for (uint64_t i = 0; i < keys; i++) {
        make_key(key, 2 * i);
        sqlite3_bind_text(insert, 1, key, KEY_LENGTH, SQLITE_STATIC);
        sqlite3_bind_int64(insert, 2, (sqlite3_int64)i);
        if (sqlite3_step(insert) != SQLITE_DONE) {
            fprintf(stderr, "%s\n", sqlite3_errmsg(db));
            exit(2);
        }
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run("COMMIT");
}

/* Looks keys up, in the filter first if there is one. */
static struct result look_up(const bloomfile_reader *filter, const char *asked, uint64_t lookups)
{
    struct result result = {0, 0, 0};
    sqlite3_stmt *select;
    sqlite3_prepare_v2(db, "SELECT balance FROM customers WHERE name = ?1", -1, &select, NULL);
    double start = seconds();
    for (uint64_t i = 0; i < lookups; i++) {
        const char *key = asked + i * KEY_STEP;
        if (filter != NULL && checked(bloomfile_reader_contains(filter, key, KEY_LENGTH)) == 0)
            continue;
        sqlite3_bind_text(select, 1, key, KEY_LENGTH, SQLITE_STATIC);
        result.reads++;
        result.found += sqlite3_step(select) == SQLITE_ROW;
        sqlite3_reset(select);
    }
    result.seconds = seconds() - start;
    sqlite3_finalize(select);
    return result;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s FOLDER [KEYS [LOOKUPS]]\n", arguments[0]);
        return 2;
    }
    uint64_t keys = count > 2 ? strtoull(arguments[2], NULL, 10) : 1000000;
    uint64_t lookups = count > 3 ? strtoull(arguments[3], NULL, 10) : 102000;
    char path[4096], filter_path[4096];
    bloomfile_reader *filter = NULL;
    snprintf(path, sizeof path, "%s/customers.db", arguments[1]);
    snprintf(filter_path, sizeof filter_path, "%s/customers-sqlite.bloom", arguments[1]);
    if (sqlite3_open(path, &db) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
        return 2;
    }
    fill(keys);
    build_filter(filter_path, keys);
    checked(bloomfile_reader_open(filter_path, 0, NULL, &filter));

    char *asked = make_asked(lookups, keys);
    /* Once before, so that both ways find the same pages in memory. */
    look_up(NULL, asked, lookups);
    struct result alone = look_up(NULL, asked, lookups), first = look_up(filter, asked, lookups);
    int lost = tell("SQLite", keys, lookups, alone, first, time_filter(filter, asked, lookups));
    checked(bloomfile_reader_close(filter));
    sqlite3_close(db);
    free(asked);
    return lost;
}
