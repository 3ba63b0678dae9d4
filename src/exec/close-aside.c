/* SPDX-License-Identifier: MIT */

#include "exec/close-aside.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/macro.h"

#define FAST_INODES 1000 /* freed in the time that a thread would take, or some milliseconds */
#define FAST_BYTES (16 * MIB)

static bool takes_long(int fd) {
        struct statfs fs;

        return fstatfs(fd, &fs) >= 0 && fs.f_type == TMPFS_MAGIC &&
                ((uint64_t) fs.f_files - (uint64_t) fs.f_ffree > FAST_INODES ||
                 ((uint64_t) fs.f_blocks - (uint64_t) fs.f_bfree) * (uint64_t) fs.f_bsize > FAST_BYTES);
}

static void* close_it(void *argument) {
        safe_close((int) (intptr_t) argument);
        return NULL;
}

/* It inherits that signals are blocked, as they are where there is an event loop. */
static bool start_thread(int fd) {
        pthread_attr_t attributes;
        pthread_t thread;
        bool is_started;

        if (pthread_attr_init(&attributes) != 0)
                return false;
        is_started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                pthread_create(&thread, &attributes, close_it, (void*) (intptr_t) fd) == 0;
        (void) pthread_attr_destroy(&attributes);
        return is_started;
}

int close_aside(int fd) {
        if (fd < 0 || (takes_long(fd) && start_thread(fd)))
                return -EBADF;
        return safe_close(fd);
}
