/* SPDX-License-Identifier: MIT */
#pragma once

/* One tools/call on a connection to a server of ours, for commands that want its answer as a whole. */

#include "server/client-call.h"

typedef struct OneCall {
        ClientCall call;
        uint64_t timeout_usec;                    /* 0: as long as it takes */
        void (*on_progress)(const char *message); /* NULL: nobody cares, also where the call asks for it */
} OneCall;

/* Nothing has been said on the connection before. Blocks. Returns 1 with the reply (an object with "result"
 * or "error"), 0 when none comes, or -errno. */
int one_call(int fd, const OneCall *c, JsonValue **ret);
