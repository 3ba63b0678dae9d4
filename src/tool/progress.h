/* SPDX-License-Identifier: MIT */
#pragma once

/* Progress of one run, for a client that asked for it: how long it has been going, and its newest line. */

#include <systemd/sd-event.h>

#include "exec/exec.h"
#include "mcp/mcp.h"

typedef struct Progress {
        McpCall *call;
        const ExecJob *job;
        sd_event_source *timer;
        uint64_t started_usec, sent_usec;
        int newest_stream; /* the one that wrote last; 0: none has */
        uint64_t seen_bytes; /* of that stream, when the last look met with the begin of a line; or 0 */
        bool has_waited; /* for its rest */
        char *sent_line;
} Progress;

/* Does nothing when the call wants no progress. Both pointers must outlive it. Returns 0 or -errno. */
int progress_init(Progress *p, sd_event *event, McpCall *call, const ExecJob *job);
void progress_done(Progress *p);

static inline void progress_note_output(Progress *p, int stream) {
        p->newest_stream = stream;
}
