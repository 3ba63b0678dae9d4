/* SPDX-License-Identifier: MIT */
#pragma once

/* The daemon's end of a unit's control socket: what the runner says before it has its code, whether it took
 * the code, and what init says at the end in user mode. The protocol is described in runner/README.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_WORD_BYTES 8
#define CONTROL_STATUS_SIGNAL 0x100 /* a status above this: killed by signal status - this */

/* Zero it, with directory_fd -EBADF. */
typedef struct ControlWord {
        uint8_t bytes[CONTROL_WORD_BYTES + sizeof(uint32_t)];
        size_t n_bytes;
        int directory_fd; /* the run's working directory; the caller's to close */
} ControlWord;

enum {
        _CONTROL_E_SUCCESS,    /* READY with its directory */
        CONTROL_E_INCOMPLETE,  /* more must come */
        CONTROL_E_FAILED,      /* a check failed: control_word_check() */
        CONTROL_E_END,         /* the runner is gone */
};

/* Returns 0, one of the above, or -errno; -EBADMSG when the runner says something else. Never blocks. */
int control_receive_word(int fd, ControlWord *w);
uint32_t control_word_check(const ControlWord *w);

/* What init reports of its child, the program: an exit status, or CONTROL_STATUS_SIGNAL + n. False:
 * nothing. */
bool control_receive_status(int fd, uint16_t *ret);

/* Whether the other side has read all that was sent to it. It need not be closed for this, and cannot be
 * relied on to be: PID 1 holds a copy until the unit is dead. Without this an exit status of a runner that
 * died over its code would pass for one of a program that never ran. Returns 1, 0 when some still waits, or
 * -ECONNRESET when some was thrown away, which is told once. */
int control_was_read(int fd);
