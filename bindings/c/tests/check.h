/* What the tests need: a check that says where it failed, a folder that goes away. */
#ifndef CHECK_H
#define CHECK_H

#include <bloomfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int checks;

#define CHECK(condition)                                                                            \
    do {                                                                                            \
        checks++;                                                                                   \
        if (!(condition)) {                                                                         \
            fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition,        \
                    bloomfile_error_message());                                                     \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

/* The call fails with this code, its message holds this text, and both are told afterwards. */
#define FAILS(call, code, text)                                                                     \
    do {                                                                                            \
        int found_code = (call);                                                                    \
        if (found_code != (code))                                                                   \
            fprintf(stderr, "%s:%d: code %d (%s)\n", __FILE__, __LINE__, found_code,                \
                    bloomfile_error_name(found_code));                                              \
        CHECK(found_code == (code));                                                                \
        CHECK(bloomfile_error_code() == (code));                                                    \
        CHECK(strstr(bloomfile_error_message(), (text)) != NULL);                                   \
    } while (0)

#define OK(call) CHECK((call) == BLOOMFILE_OK)

static char folder[] = "/tmp/bloomfile-c-XXXXXX";

/* A name in the folder; good until 64 more were asked for. */
static inline const char *at(const char *name)
{
    static char names[64][256];
    static int next;
    char *text = names[next++ % 64];
    snprintf(text, sizeof names[0], "%s/%s", folder, name);
    return text;
}

static inline void begin(void)
{
    CHECK(mkdtemp(folder) != NULL);
}

static inline void end(const char *name)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
    printf("%s: %d checks\n", name, checks);
}

#endif
