/* SPDX-License-Identifier: MIT */

/* The fake launcher as a program: listens on a socket as the real one does, for tests of the whole server.
 *
 *     fake-launcher SOCKET INTERPRETER [user] [refuse] [oom] [never-ready]
 *                   [sets=DIRECTORY [uv=PATH] [python=PATH] [extra-python=PATH]... [credentials=DIRECTORY]]
 *
 * sets: there can be sets of packages, and they are in that directory, which exists. python: the interpreter
 * of the programs that prepare them.
 *
 * Ends with its parent. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "fake-launcher.h"

static int listen_on(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd;

        if (strlen(path) >= sizeof(address.sun_path))
                return -1;
        memcpy(address.sun_path, path, strlen(path));
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr*) &address, sizeof(address)) < 0 || listen(fd, 16) < 0)
                return -1;
        return fd;
}

static void read_option(FakeScript *script, const char *option) {
        static const struct {
                const char *name;
                FakeBehaviour behaviour;
        } names[] = {
                { "oom",         FAKE_OOM         },
                { "never-ready", FAKE_NEVER_READY },
        };

        const struct {
                const char *name;
                const char **value;
        } values[] = {
                { "sets=",         &script->sets_directory        },
                { "uv=",           &script->uv                    },
                { "python=",       &script->python                },
                { "credentials=",  &script->credentials           },
                { "extra-python=", &script->extra_interpreters[0] },
        };

        for (size_t i = 0; i < ELEMENTSOF(values); i++)
                if (strncmp(option, values[i].name, strlen(values[i].name)) == 0) {
                        const char **value = values[i].value;

                        while (*value && i == ELEMENTSOF(values) - 1)
                                value++; /* one more of them */
                        *value = option + strlen(values[i].name);
                }
        if (streq(option, "user"))
                script->is_user = true;
        if (streq(option, "refuse"))
                script->refuses = true;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq(option, names[i].name)) {
                        for (size_t k = 0; k < FAKE_SCRIPT_MAX; k++)
                                script->behaviours[k] = names[i].behaviour;
                        script->n_behaviours = FAKE_SCRIPT_MAX;
                }
}

int main(int argc, char **argv) {
        FakeScript script = {};
        int listening;

        if (argc < 3)
                return 2;
        for (int i = 3; i < argc; i++)
                read_option(&script, argv[i]);
        script.interpreter = argv[2];
        (void) snprintf(script.directory, sizeof(script.directory), "/tmp/fake-launcher-XXXXXX");
        if (!mkdtemp(script.directory))
                return 1;

        (void) signal(SIGPIPE, SIG_IGN);
        (void) signal(SIGCHLD, SIG_IGN);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        listening = listen_on(argv[1]);
        if (listening < 0)
                return 1;
        puts("ready");
        (void) fflush(stdout);

        for (;;) {
                int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
                if (fd < 0)
                        continue;
                if (fork() == 0) {
                        FakeReport report = {};

                        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                        (void) signal(SIGCHLD, SIG_DFL);
                        (void) close(listening);
                        _exit(fake_launcher_serve(fd, &script, &report) < 0);
                }
                (void) close(fd);
        }
}
