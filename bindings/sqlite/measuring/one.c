/* The least that a function of SQL costs: one(file, key) is 1. */
#include <sqlite3ext.h>
#include <stddef.h>
SQLITE_EXTENSION_INIT1

static void one(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    sqlite3_result_int(context, 1);
}

int sqlite3_extension_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    (void)message;
    SQLITE_EXTENSION_INIT2(api);
    return sqlite3_create_function(db, "one", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, one, NULL, NULL);
}
