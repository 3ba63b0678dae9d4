/* SPDX-License-Identifier: MIT */

/* Every allocation of the launcher fails once. The linker puts the functions below in the place of libc's,
 * for our own code only (--wrap), and each case is repeated with the first, second, third … allocation
 * refused, until none is. Leaks and use of half-made objects are the sanitizer's to find. */

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "launch/connection.h"
#include "launch/job.h"
#include "launch/sandbox.h"
#include "launch/unit-message.h"
#include "failing-allocations.h"
#include "test.h"

static Settings *settings;
static sd_event *event;
static sd_bus *bus, *other_end; /* a message with descriptors needs a bus that has agreed to them */
static Manager *manager;

static UnitInput input(void) {
        static char *environment[] = { (char*) "TOKEN=1", (char*) "PATH=/bin", NULL };

        return (UnitInput) {
                .manager_version = 262,
                .settings = settings,
                .limits = limits_ceiling(settings, WIRE_PROFILE_RUN),
                .python = "/usr/bin/python3",
                .namespaces = "net=1",
                .manager_environment = environment,
        };
}

static void setup(void) {
        int pair[2];

        if (settings)
                return;
        ASSERT_EQ_INT(settings_new_default(&settings), 0);
        ASSERT_EQ_INT(settings_set(settings, "Sandbox", "BindReadOnlyPaths", "/opt/a /opt/b",
                                   &(char*) { NULL }), 0);
        ASSERT_TRUE(sd_event_new(&event) >= 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        ASSERT_TRUE(sd_bus_new(&bus) >= 0 && sd_bus_set_fd(bus, pair[0], pair[0]) >= 0 &&
                    sd_bus_negotiate_fds(bus, true) >= 0);
        ASSERT_TRUE(sd_bus_new(&other_end) >= 0 && sd_bus_set_fd(other_end, pair[1], pair[1]) >= 0 &&
                    sd_bus_set_server(other_end, true, (sd_id128_t) { .qwords = { 1, 1 } }) >= 0 &&
                    sd_bus_negotiate_fds(other_end, true) >= 0 && sd_bus_set_anonymous(other_end, 1) >= 0);
        ASSERT_TRUE(sd_bus_start(other_end) >= 0 && sd_bus_start(bus) >= 0);
        while (sd_bus_is_ready(bus) == 0 || sd_bus_is_ready(other_end) == 0)
                ASSERT_TRUE(sd_bus_process(bus, NULL) >= 0 && sd_bus_process(other_end, NULL) >= 0);
        manager = calloc(1, sizeof(*manager));
        ASSERT_TRUE(manager != NULL);
        manager->event = event;
        manager->bus = bus;
        manager->version = 262;
}

/* Repeats attempt, which returns what the function under test returned, until no allocation was refused. */
static void repeat(int (*attempt)(void)) {
        unsigned n = 1;

        setup();
        for (;; n++) {
                int r;

                has_failed = false;
                failing_allocation = n;
                r = attempt();
                failing_allocation = 0;
                if (!has_failed) {
                        if (r < 0)
                                FAIL("nothing refused: %d", r);
                        break;
                }
                if (r != -ENOMEM)
                        FAIL("allocation %u refused: %d, expected -ENOMEM", n, r);
        }
        ASSERT_TRUE(n > 1); /* there was something to refuse */
}

static int make_spec(void) {
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        UnitInput in = input();
        int r = unit_spec_new(&in, &spec);

        if (r < 0)
                ASSERT_TRUE(spec == NULL);
        return r;
}

TEST(properties) {
        repeat(make_spec);
}

static int make_spec_of_fetch(void) {
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        UnitInput in = input();

        in.profile = WIRE_PROFILE_FETCH;
        in.set = "/sets/leaf";
        in.leaf = "leaf";
        in.uv = in.ca_bundle = in.index_credentials = "/x";
        return unit_spec_new(&in, &spec);
}

TEST(properties_of_fetch) {
        repeat(make_spec_of_fetch);
}

static int find_packages(void) {
        Packages p = {};
        int r = packages_find(&p, settings, /* is_user= */ true);

        packages_done(&p);
        return r;
}

TEST(what_installs_packages) {
        unsigned limit = failing_allocation;

        failing_allocation = 0;
        setup();
        ASSERT_EQ_INT(settings_set(settings, "Packages", "UvPath", "env", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(settings, "Packages", "ExtraPythons", "env", &(char*) { NULL }), 0);
        failing_allocation = limit;
        repeat(find_packages);
}

static int make_sets(void) {
        _cleanup_(sets_freep) Sets *s = NULL;

        return sets_new_at("/nonexistent", /* is_user= */ true, 0, &s);
}

TEST(directory_of_sets) {
        repeat(make_sets);
}

static UnitSpec *spec_of_the_case;

static UnitSpec* spec(void) {
        unsigned limit = failing_allocation;
        UnitInput in = input();

        failing_allocation = 0;
        if (!spec_of_the_case)
                ASSERT_EQ_INT(unit_spec_new(&in, &spec_of_the_case), 0);
        failing_allocation = limit;
        return spec_of_the_case;
}

static int print_spec(void) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        return unit_spec_print(spec(), &b);
}

TEST(printing) {
        repeat(print_spec);
}

static int make_message(void) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;

        return unit_message_start(bus, "mcp-exec-run-0.service", spec(), (int[]) { 0, 1, 2 }, &m);
}

TEST(message) {
        repeat(make_message);
}

static const JobHandlers no_handlers = {};

static int start_job(void) {
        unsigned limit = failing_allocation;
        const UnitSpec *s = spec();
        Job *j = NULL;
        int r;

        failing_allocation = limit;
        r = job_start(manager, s, (int[]) { 0, 1, 2 }, &no_handlers, NULL, &j);
        if (r < 0) {
                ASSERT_TRUE(j == NULL);
                ASSERT_EQ_UINT(manager->n_jobs, 0);
                return r;
        }
        ASSERT_EQ_UINT(manager->n_jobs, 1);
        job_free(j);
        ASSERT_EQ_UINT(manager->n_jobs, 0);
        ASSERT_TRUE(manager->jobs == NULL);
        return r;
}

TEST(job) {
        repeat(start_job);
}

static int accept_connection(void) {
        static const ConnectionHandlers handlers = {};
        Sandbox sandbox = { .settings = settings, .manager = manager };
        _cleanup_(connection_freep) Connection *c = NULL;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                FAIL("no socket pair");
        r = connection_new(event, pair[0], &sandbox, &handlers, &c);
        safe_close(pair[1]);
        if (r < 0) {
                /* It is still ours. */
                ASSERT_TRUE(fcntl(pair[0], F_GETFD) >= 0);
                safe_close(pair[0]);
        }
        return r;
}

TEST(connection) {
        repeat(accept_connection);
}

static int fingerprint(void) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Sandbox sandbox = {
                .settings = settings,
                .manager = manager,
                .ceilings[WIRE_PROFILE_RUN] = limits_ceiling(settings, WIRE_PROFILE_RUN),
                .python = (char*) "/usr/bin/python3",
                .namespaces = (char*) "net=1",
        };

        return sandbox_fingerprint(&sandbox, &b);
}

TEST(fingerprint_of_a_verdict) {
        repeat(fingerprint);
}

static int resolve(void) {
        _cleanup_free_ char *path = NULL;
        Problem p = {};

        return interpreter_resolve("env", NULL, &path, &p);
}

TEST(interpreter) {
        repeat(resolve);
        /* The last case: what was shared goes. */
        unit_spec_free(spec_of_the_case);
        settings_free(settings);
        free(manager);
        sd_bus_close_unref(bus);
        sd_bus_close_unref(other_end);
        sd_event_unref(event);
}
