/* SPDX-License-Identifier: MIT */
#pragma once

/* Which HTTP sessions were DELETEd and would not have expired yet: a bounded list, and the file that it
 * outlives the process in.
 *
 * Whoever may make sessions may end as many as it likes, and none of them may be forgotten. So where a list
 * becomes too long, its older half becomes one entry: whatever of this owner expires no later has ended.
 * That may end sessions that nobody DELETEd, of the one who ended so many; its client shakes hands anew. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one owner, and in all: then the older half of whoever has most goes, or everybody's where nobody has
 * many. */
#define ENDED_OWN_MAX 1024
#define ENDED_MAX 16384
#define ENDED_LARGE_MIN 64

#define ENDED_EVERYBODY 0 /* as owner of a floor */

typedef struct EndedSession {
        uint64_t tag;         /* of the id; 0: a floor, everything that expires no later */
        uint32_t expires_sec; /* since 1970 */
        uint32_t owner;       /* of the principal; two that share one merely share their floors */
} EndedSession;

typedef struct EndedSessions {
        EndedSession *entries;
        size_t n_entries, n_allocated;
} EndedSessions;

void ended_sessions_done(EndedSessions *l);

bool ended_sessions_contain(const EndedSessions *l, const EndedSession *e);

enum {
        _ENDED_E_SUCCESS,
        ENDED_E_CONDENSED, /* others have changed or expired: the file should be written anew */
};

/* Returns 0, a code above, or -ENOMEM. */
int ended_sessions_add(EndedSessions *l, const EndedSession *e, uint32_t now_sec);

/* The file: a line for each. -ENOENT: there is none; -EBADMSG: it is not what we wrote. Each returns 0,
 * -errno, or ENDED_E_CONDENSED when some were left out. */
int ended_sessions_read(EndedSessions *l, int dir_fd, uint32_t now_sec);
int ended_sessions_append(int dir_fd, const EndedSession *e);
int ended_sessions_write(const EndedSessions *l, int dir_fd);
