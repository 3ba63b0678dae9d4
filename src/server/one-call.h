/* SPDX-License-Identifier: MIT */
#pragma once

/* One tools/call on a connection to a server of ours, for commands that want its answer as a whole. */

#include "json/json.h"

typedef struct OneCall {
        const char *client, *tool;
        int (*write_arguments)(JsonWriter *w, const void *userdata); /* the object */
        const void *userdata;
        uint64_t timeout_usec;                        /* 0: as long as it takes */
        void (*on_progress)(const char *message);     /* NULL: no progress is asked for */
} OneCall;

/* Nothing has been said on the connection before. Blocks. Returns 1 with the reply (an object with "result"
 * or "error"), 0 when none comes, or -errno. */
int one_call(int fd, const OneCall *c, JsonValue **ret);

/* The text of a reply that is an error, of the protocol or of the tool; NULL: it is none. Borrowed. */
const char* one_call_error(const JsonValue *reply);
