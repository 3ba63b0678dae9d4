/* SPDX-License-Identifier: MIT */
#pragma once

/* What the first process of a unit verifies about its own walls before any foreign code comes near it.
 *
 * One table for all: init exits with 100 + number of the first check that failed, the launcher turns that
 * number into the sentence and the remedy, and the runner (Python) uses the few numbers that concern it.
 * A number is never given a second meaning. Numbers stay below 100: from 200 on systemd has exit statuses
 * of its own. */

#define RUNNER_EXIT_CHECK 100

/* X(number, NAME, sentence, remedy) */
#define RUNNER_CHECKS(X)                                                                                    \
        X(1, ARGUMENTS, "the sandbox was started with arguments it does not understand",                    \
          "Reinstall mcp-exec: its launcher and its runner are of different versions.")                     \
        X(2, CONTROL, "the sandbox has no control socket or received something malformed on it",            \
          "Reinstall mcp-exec: its daemon and its runner are of different versions.")                       \
        X(3, PREPARE, "the working directory of a run cannot be made in the sandbox's /tmp",                \
          "Raise TmpfsSize= and TmpfsInodes= in mcp-exec.conf.")                                            \
        X(4, INTERPRETER, "the Python interpreter does not run inside the sandbox",                         \
          "Check Python= (or MCP_EXEC_PYTHON): it must be Python 3.11 or later, all of it under /usr.")     \
        X(10, NS_NET, "a run shares the host's network namespace",                                          \
          "PrivateNetwork= is not effective here: allow the service manager to make network namespaces.")   \
        X(11, NS_MNT, "a run shares the host's mount namespace",                                            \
          "RootDirectory= is not effective here: allow the service manager to make mount namespaces.")      \
        X(12, NS_IPC, "a run shares the host's IPC namespace",                                              \
          "PrivateIPC= is not effective here: allow the service manager to make IPC namespaces.")           \
        X(13, NS_USER, "a run shares the host's user namespace",                                            \
          "Allow unprivileged user namespaces, or install the system service of mcp-exec instead.")         \
        X(14, NS_PID, "a run shares the host's process namespace",                                          \
          "PrivatePIDs= is not effective here: install the system service of mcp-exec instead.")            \
        X(15, LOOPBACK, "a run sees a network interface other than lo",                                     \
          "PrivateNetwork= is not effective here: allow the service manager to make network namespaces.")   \
        X(16, UID, "a run does not have a user of its own",                                                 \
          "DynamicUser= is not effective here: check that the service manager can allocate dynamic users.") \
        X(17, ROOT, "a run sees the host's root directory",                                                 \
          "RootDirectory= is not effective here: check that /usr/lib/mcp-exec/root is complete.")           \
        X(18, CAPABILITIES, "a run holds capabilities",                                                     \
          "CapabilityBoundingSet= is not effective here: look for drop-ins of mcp-exec-run-.service.")      \
        X(19, SECCOMP, "a run has no system call filter",                                                   \
          "Use a kernel and a systemd with seccomp (feature +SECCOMP).")                                    \
        X(20, NO_NEW_PRIVS, "a run may gain privileges by setuid programs",                                 \
          "NoNewPrivileges= is not effective here: look for drop-ins of mcp-exec-run-.service.")            \
        X(21, RUN_DIRECTORY, "a run sees the host's /run",                                                  \
          "TemporaryFileSystem= is not effective here: look for drop-ins of mcp-exec-run-.service.")        \
        X(22, READ_ONLY, "a run can write to its root directory or to /usr",                                \
          "ProtectSystem= is not effective here: look for drop-ins of mcp-exec-run-.service.")              \
        X(23, TMP, "the /tmp of a run is not a tmpfs limited in size and number of files",                  \
          "TemporaryFileSystem= is not effective here: set TmpfsSize= and TmpfsInodes= in mcp-exec.conf.")  \
        X(24, SHM, "the /dev/shm of a run is not a tmpfs limited in size and number of files",              \
          "TemporaryFileSystem= is not effective here: set TmpfsSize= and TmpfsInodes= in mcp-exec.conf.")  \
        X(25, SYSFS, "a run sees /sys",                                                                     \
          "InaccessiblePaths= is not effective here: look for drop-ins of mcp-exec-run-.service.")          \
        X(26, TERMINALS, "a run can open pseudo terminals of the host",                                     \
          "InaccessiblePaths= is not effective here: look for drop-ins of mcp-exec-run-.service.")          \
        X(27, PROCESSES, "a run sees processes that are not its own",                                       \
          "ProtectProc= is not effective here: use a kernel of version 5.8 or later.")                      \
        X(30, SOCKETS, "a run can make sockets",                                                            \
          "RestrictAddressFamilies= is not effective here: use a systemd with +SECCOMP.")                   \
        X(31, IO_URING, "a run can use io_uring",                                                           \
          "SystemCallFilter= is not effective here: use a systemd with +SECCOMP.")                          \
        X(32, KEYRINGS, "a run can use kernel keyrings",                                                    \
          "SystemCallFilter= is not effective here: use a systemd with +SECCOMP.")                          \
        X(33, NAMESPACES, "a run can make namespaces",                                                      \
          "RestrictNamespaces= is not effective here: use a systemd with +SECCOMP.")                        \
        X(34, TRACING, "a run can trace processes",                                                         \
          "SystemCallFilter= is not effective here: use a systemd with +SECCOMP.")                          \
        X(35, SET_USER_ID, "a run can make set-user-ID files",                                              \
          "RestrictSUIDSGID= is not effective here: use a systemd with +SECCOMP.")                          \
        X(36, REALTIME, "a run can take realtime priority",                                                 \
          "RestrictRealtime= is not effective here: use a systemd with +SECCOMP.")                          \
        X(37, AIO, "a run can take the machine's asynchronous I/O contexts",                                \
          "SystemCallFilter= is not effective here: use a systemd with +SECCOMP.")                          \
        X(38, HUGE_PAGES, "a run can take the machine's huge pages",                                        \
          "Use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER).")                                     \
        X(39, WATCHING, "a run can watch which files others open",                                          \
          "SystemCallFilter= is not effective here: use a systemd with +SECCOMP.")                          \
        X(40, SYNC, "a run can make the machine write all of its disks",                                    \
          "SystemCallFilter= is not effective here: use a systemd with +SECCOMP.")

#define _RUNNER_CHECK_ENUM(number, name, sentence, remedy) RUNNER_CHECK_##name = (number),
enum {
        RUNNER_CHECK_OK = 0,
        RUNNER_CHECKS(_RUNNER_CHECK_ENUM)
};
#undef _RUNNER_CHECK_ENUM
