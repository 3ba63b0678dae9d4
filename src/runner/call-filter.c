/* SPDX-License-Identifier: MIT */

/* Calls that are refused for one of their arguments. systemd's filter does not look at arguments, so this
 * one is ours. It comes on top of systemd's, which has refused the calls of other architectures already
 * (SystemCallArchitectures=native). The kernel remembers which calls a filter always allows: only these few
 * cost anything.
 *
 * No huge pages: the administrator reserves them, for a database as a rule; no controller that systemd knows
 * counts them, and MemoryMax= does not either: one run could take them all.
 *
 * No notices and no leases by fcntl(): /usr and a set of packages are the same files for all runs and for
 * the host, so that a notice tells what others open there, and a lease lets them wait. inotify, which tells
 * more, is refused by SystemCallFilter=.
 *
 * No clocks of other processes: under the system manager there is no PID namespace, and the CPU time of any
 * process of the machine can be read by its number, that of another caller's program too. A process's own
 * clock as 0 and those of its threads go by other numbers (posix-cpu-timers of the kernel); by the number of
 * the process itself, which a filter does not know, its own is refused as well. */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "runner/runner.h"

/* All flags in question stand in the lower half of an argument. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#else
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#endif

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned) (offset))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)

/* Five instructions: the call with this flag is refused, without it allowed; other calls go on. */
#define DENY_FLAG(call, argument, flag)                                                                     \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) (call), 0, 4), LOAD(ARGUMENT(argument)),             \
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned) (flag), 0, 1), REFUSE,                      \
                RETURN(SECCOMP_RET_ALLOW)

/* Where there is an mmap2(), nobody needs the mmap() whose arguments stand in memory, which no filter sees.
 * s390x has only that one: there this wall has a hole. */
#if defined(SYS_mmap2) && defined(SYS_mmap)
#define DENY_MMAP                                                                                           \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1), REFUSE, DENY_FLAG(SYS_mmap2, 3, MAP_HUGETLB)
#elif defined(SYS_mmap2)
#define DENY_MMAP DENY_FLAG(SYS_mmap2, 3, MAP_HUGETLB)
#elif !defined(__s390x__)
#define DENY_MMAP DENY_FLAG(SYS_mmap, 3, MAP_HUGETLB)
#endif

/* Leases on directories as well, which headers of today do not know (Linux 6.19). */
#define F_SET_DELEGATION 1040

#define DENY_WATCHING(call)                                                                                 \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) (call), 0, 6), LOAD(ARGUMENT(1)),                    \
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_NOTIFY, 2, 0),                                        \
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLEASE, 1, 0),                                      \
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SET_DELEGATION, 0, 1), REFUSE,                        \
                RETURN(SECCOMP_RET_ALLOW)

/* The number of a clock that is no constant is negative. Its lowest three bits say what it is, bit 2 that it
 * is a thread's, which the kernel gives to the threads of the same process alone; the others are the
 * complement of a process's number, where 0 is the caller. */
#define CLOCKS_OF_CALLER 0xfffffff8U
#define CLOCK_OF_THREAD 4U

#define DENY_CLOCKS(call)                                                                                   \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) (call), 0, 6), LOAD(ARGUMENT(0)),                    \
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CLOCKS_OF_CALLER, 3, 0),                                \
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x80000000U, 0, 2),                                    \
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLOCK_OF_THREAD, 1, 0), REFUSE,                        \
                RETURN(SECCOMP_RET_ALLOW)

int call_filter_install(void) {
        struct sock_filter filter[] = {
                LOAD(offsetof(struct seccomp_data, nr)),
#ifdef DENY_MMAP
                DENY_MMAP,
#endif
                DENY_FLAG(SYS_memfd_create, 1, MFD_HUGETLB),
                DENY_FLAG(SYS_shmget, 2, SHM_HUGETLB),
#ifdef SYS_fcntl
                DENY_WATCHING(SYS_fcntl),
#endif
#ifdef SYS_fcntl64
                DENY_WATCHING(SYS_fcntl64),
#endif
                DENY_CLOCKS(SYS_clock_gettime),
                DENY_CLOCKS(SYS_clock_getres),
                DENY_CLOCKS(SYS_clock_nanosleep),
                DENY_CLOCKS(SYS_timer_create),
#ifdef SYS_clock_gettime64
                DENY_CLOCKS(SYS_clock_gettime64),
                DENY_CLOCKS(SYS_clock_getres_time64),
                DENY_CLOCKS(SYS_clock_nanosleep_time64),
#endif
                RETURN(SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = { .len = ELEMENTSOF(filter), .filter = filter };

        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}
