/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/checks.h"
#include "runner/probes.h"

#define HUGE_PAGE_BYTES (2u << 20)

/* Refused by a filter or not there at all. Any other error means that the kernel looked at the arguments:
 * the call got through. */
static bool is_refused(long r) {
        return r < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES);
}

/* Sockets are refused by family, with EAFNOSUPPORT or with the errno of the unit. */
static bool can_make_sockets(bool may_use_ip) {
        static const int families[] = { AF_UNIX, AF_NETLINK, AF_VSOCK, AF_INET, AF_INET6 };

        for (size_t i = 0; i < ELEMENTSOF(families) - (may_use_ip ? 2 : 0); i++) {
                int type = families[i] == AF_NETLINK ? SOCK_RAW : SOCK_STREAM;
                int fd = socket(families[i], type | SOCK_CLOEXEC, 0);

                if (fd >= 0) {
                        (void) close(fd);
                        return true;
                }
                if (errno != EAFNOSUPPORT && errno != EPERM && errno != EACCES)
                        return true;
        }

        return false;
}

/* io_uring makes and connects sockets past RestrictAddressFamilies=. */
static bool can_use_io_uring(void) {
        struct io_uring_params params = {};

        return !is_refused(syscall(SYS_io_uring_setup, 1, &params)) ||
               !is_refused(syscall(SYS_io_uring_register, -1, 0, NULL, 0)) ||
               !is_refused(syscall(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0));
}

/* A call that can only fail, whoever may make it. */
static bool can_use_aio(void) {
        return !is_refused(syscall(SYS_io_setup, 0, NULL));
}

/* ENOMEM would only say that just now the machine has none to give. */
static bool can_take_huge_pages(void) {
#ifndef __s390x__ /* see call-filter.c */
        void *p = mmap(NULL, HUGE_PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

        if (p != MAP_FAILED) {
                (void) munmap(p, HUGE_PAGE_BYTES);
                return true;
        }
        if (errno != EPERM)
                return true;
#endif
        return !is_refused(syscall(SYS_memfd_create, "probe", MFD_HUGETLB));
}

static bool can_watch(const char *directory) {
        int fd = inotify_init1(IN_CLOEXEC);
        bool is_possible;

        if (!is_refused(fd)) {
                (void) close(fd);
                return true;
        }
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return true; /* no directory, no proof */
        is_possible = !is_refused(fcntl(fd, F_NOTIFY, 0)) || !is_refused(fcntl(fd, F_SETLEASE, F_UNLCK));
        (void) close(fd);
        return is_possible;
}

/* The call that can only fail of the two that are refused together. */
static bool can_sync(void) {
        return !is_refused(syscall(SYS_syncfs, -1));
}

static bool can_use_keyrings(void) {
        return !is_refused(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0)) ||
               !is_refused(syscall(SYS_add_key, "user", "mcp-exec", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

static bool can_set_user_id(const char *writable_dir) {
        bool is_possible;
        int fd;

        fd = open(writable_dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
                return true; /* no file, no proof */
        is_possible = !is_refused(fchmod(fd, 04755)) || !is_refused(fchmod(fd, 02755));
        (void) close(fd);
        return is_possible;
}

int probe_harmless(bool may_use_ip) {
        if (can_make_sockets(may_use_ip))
                return RUNNER_CHECK_SOCKETS;
        if (can_use_io_uring())
                return RUNNER_CHECK_IO_URING;
        if (can_use_keyrings())
                return RUNNER_CHECK_KEYRINGS;
        if (can_use_aio())
                return RUNNER_CHECK_AIO;

        return RUNNER_CHECK_OK;
}

int probe_all(const char *writable_dir) {
        const struct sched_param realtime = { .sched_priority = 1 };
        int check;

        assert(writable_dir);

        check = probe_harmless(/* may_use_ip= */ false);
        if (check != RUNNER_CHECK_OK)
                return check;
        if (can_take_huge_pages())
                return RUNNER_CHECK_HUGE_PAGES;
        if (can_watch(writable_dir))
                return RUNNER_CHECK_WATCHING;
        if (can_sync())
                return RUNNER_CHECK_SYNC;
        if (can_set_user_id(writable_dir))
                return RUNNER_CHECK_SET_USER_ID;
        if (!is_refused(sched_setscheduler(0, SCHED_FIFO, &realtime)))
                return RUNNER_CHECK_REALTIME;
        if (!is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)))
                return RUNNER_CHECK_TRACING;
        if (!is_refused(unshare(CLONE_NEWUSER)) || !is_refused(unshare(CLONE_NEWNET)))
                return RUNNER_CHECK_NAMESPACES;

        return RUNNER_CHECK_OK;
}
