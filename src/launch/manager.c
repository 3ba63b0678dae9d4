/* SPDX-License-Identifier: MIT */

/* Manager: the connection to the service manager. */

#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/strv.h"
#include "launch/bus.h"
#include "launch/job.h"
#include "launch/manager.h"
#include "launch/profile.h"

/* A manager that executes itself anew (daemon-reexec) loses its name for a moment. */
#define ABSENCE_USEC_MAX (30 * USEC_PER_SEC)
#define CALL_TIMEOUT_USEC (20 * USEC_PER_SEC)

int user_runtime_directory(char **ret) {
        const char *from_environment = getenv("XDG_RUNTIME_DIR");
        _cleanup_free_ char *standard = NULL;
        int r;

        assert(ret);

        r = str_printf(&standard, "/run/user/%u", (unsigned) getuid());
        if (r < 0)
                return r;

        const char *const candidates[] = { from_environment, standard };
        for (size_t i = 0; i < ELEMENTSOF(candidates); i++) {
                struct stat st;

                if (!candidates[i] || candidates[i][0] != '/')
                        continue;
                /* A directory that others own or write could answer in the manager's place. */
                if (lstat(candidates[i], &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != getuid() ||
                    (st.st_mode & (S_IWGRP | S_IWOTH)))
                        continue;
                return str_copy(ret, candidates[i]);
        }

        return -ENOENT;
}

static int user_bus_address(char **ret, Problem *reterr_problem) {
        _cleanup_free_ char *directory = NULL, *path = NULL;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(4096);
        int r;

        r = user_runtime_directory(&directory);
        if (r == -ENOENT)
                return problem_set(reterr_problem, -r, remedy_user_manager(),
                                   "This user has no service manager: /run/user/%u is not there",
                                   (unsigned) getuid());
        if (r < 0)
                return r;

        r = str_printf(&path, "%s/bus", directory);
        if (r < 0)
                return r;
        if (access(path, F_OK) < 0)
                return problem_set(reterr_problem, ENOENT, remedy_user_bus(),
                                   "The user's service manager has no message bus at %s", path);

        /* The address syntax has characters of its own; escaping every byte is always right. */
        r = buffer_append_str(&b, "unix:path=");
        for (const char *c = path; *c && r >= 0; c++)
                r = buffer_printf(&b, "%%%02x", (unsigned char) *c);
        if (r < 0)
                return r;

        return buffer_steal(&b, ret, NULL);
}

int manager_open_bus(bool is_user, sd_bus **ret, Problem *reterr_problem) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
        _cleanup_free_ char *address = NULL;
        int r;

        assert(ret);

        if (is_user) {
                /* Not sd_bus_open_user(): DBUS_SESSION_BUS_ADDRESS may name a bus without a service
                 * manager, and clients start us without XDG_RUNTIME_DIR. */
                r = user_bus_address(&address, reterr_problem);
                if (r < 0)
                        return r;
                r = sd_bus_new(&bus);
                if (r >= 0)
                        r = sd_bus_set_address(bus, address);
                if (r >= 0)
                        r = sd_bus_set_bus_client(bus, true);
                if (r >= 0)
                        r = sd_bus_start(bus);
        } else
                r = sd_bus_open_system(&bus);
        if (r < 0)
                return problem_set(reterr_problem, -r,
                                   is_user ? remedy_user_manager()
                                           : "Install the message bus (package dbus), then: sudo systemctl "
                                             "start dbus.socket",
                                   "The %s message bus cannot be reached", is_user ? "user's" : "system");

        *ret = TAKE_PTR(bus);
        return 0;
}

static int leading_number(const char *text, unsigned *ret) {
        size_t n = strspn(text, "0123456789");
        char digits[8] = {};
        uint64_t value;

        if (n == 0 || n >= sizeof(digits))
                return -EINVAL;
        memcpy(digits, text, n);
        if (parse_uint64(digits, &value) < 0)
                return -EINVAL;
        *ret = (unsigned) value;
        return 0;
}

static int take_manager_property(sd_bus_message *reply, const char *name, void *userdata) {
        Manager *m = userdata;
        const char *text = NULL;
        int r;

        if (streq(name, "Version")) {
                r = sd_bus_message_read(reply, "v", "s", &text);
                if (r < 0)
                        return r;
                wire_set_text(m->version_text, sizeof(m->version_text), text);
                return leading_number(text, &m->version);
        }
        if (streq(name, "Features")) {
                r = sd_bus_message_read(reply, "v", "s", &text);
                if (r < 0)
                        return r;
                m->has_seccomp = strstr(text, "+SECCOMP");
                return 0;
        }
        if (streq(name, "Environment")) {
                r = sd_bus_message_enter_container(reply, 'v', "as");
                if (r < 0)
                        return r;
                r = sd_bus_message_read_strv(reply, &m->environment);
                if (r < 0)
                        return r;
                return sd_bus_message_exit_container(reply);
        }
        return sd_bus_message_skip(reply, "v");
}

static int ask_manager(Manager *m) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r;

        r = sd_bus_call_method(m->bus, MANAGER_NAME, MANAGER_PATH, PROPERTIES_INTERFACE, "GetAll", NULL,
                               &reply, "s", MANAGER_INTERFACE);
        if (r < 0)
                return r;
        r = bus_read_properties(reply, take_manager_property, m);
        if (r < 0)
                return r;
        return m->version > 0 ? 0 : -EBADMSG;
}

int manager_new(sd_event *event, sd_bus *bus, bool is_user, Manager **ret, Problem *reterr_problem) {
        _cleanup_(manager_freep) Manager *m = NULL;
        int r;

        assert(bus && ret);

        m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        m->event = sd_event_ref(event);
        m->bus = sd_bus_ref(bus);
        m->is_user = is_user;

        r = sd_bus_set_method_call_timeout(bus, CALL_TIMEOUT_USEC);
        if (r < 0)
                return r;
        r = ask_manager(m);
        if (r < 0)
                return problem_set(
                        reterr_problem, -r,
                        is_user ? remedy_user_manager() :
                                  "mcp-exec needs systemd as the first process (PID 1) of this machine",
                        "No systemd answers on the %s message bus", is_user ? "user's" : "system");

        *ret = TAKE_PTR(m);
        return 0;
}

static void manager_lost(Manager *m, const char *why) {
        log_error("%s; runs cannot be followed any more", why);
        if (m->on_lost)
                m->on_lost(m->userdata);
}

static int on_disconnected(sd_bus_message *message _unused_, void *userdata, sd_bus_error *error _unused_) {
        manager_lost(userdata, "The connection to the message bus ended");
        return 0;
}

static int on_job_removed(sd_bus_message *message, void *userdata, sd_bus_error *error _unused_) {
        Manager *m = userdata;
        const char *path, *unit, *result;
        uint32_t id;
        Job *j;

        if (sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0)
                return 0;
        j = job_find_unit(m, unit);
        if (j)
                job_on_start_removed(j, path, result);
        return 0;
}

static int on_unit_removed(sd_bus_message *message, void *userdata, sd_bus_error *error _unused_) {
        const char *unit, *path;
        Job *j;

        if (sd_bus_message_read(message, "so", &unit, &path) < 0)
                return 0;
        j = job_find_unit(userdata, unit);
        if (j)
                job_query(j); /* only ask: daemon-reload says "removed" of units that live on */
        return 0;
}

static int on_properties_changed(sd_bus_message *message, void *userdata, sd_bus_error *error _unused_) {
        const char *interface;
        Job *j;

        j = job_find_path(userdata, sd_bus_message_get_path(message));
        if (!j)
                return 0;
        if (sd_bus_message_read(message, "s", &interface) < 0 || !streq(interface, UNIT_INTERFACE))
                return 0;
        if (job_on_properties(j, message) < 0)
                log_warning("%s: unreadable change of properties", job_unit(j));
        return 0;
}

static int on_absent_too_long(sd_event_source *s _unused_, uint64_t usec _unused_, void *userdata) {
        manager_lost(userdata, "The service manager left the message bus and did not come back");
        return 0;
}

static int subscribe(Manager *m) {
        /* Its answer "already subscribed" is as good as success, and there is nothing else to be done with
         * it. */
        return sd_bus_call_method_async(m->bus, NULL, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE,
                                        "Subscribe", NULL, NULL, NULL);
}

static int on_owner_changed(sd_bus_message *message, void *userdata, sd_bus_error *error _unused_) {
        Manager *m = userdata;
        const char *name, *old_owner, *new_owner;

        if (sd_bus_message_read(message, "sss", &name, &old_owner, &new_owner) < 0)
                return 0;

        m->absence = sd_event_source_disable_unref(m->absence);
        if (new_owner[0] == '\0') {
                if (sd_event_add_time_relative(m->event, &m->absence, CLOCK_MONOTONIC, ABSENCE_USEC_MAX, 0,
                                               on_absent_too_long, m) < 0)
                        manager_lost(m, "The service manager left the message bus");
                return 0;
        }

        log_info("The service manager is back on the message bus, asking it about %zu runs", m->n_jobs);
        (void) subscribe(m);
        jobs_query(m);
        return 0;
}

int manager_attach(Manager *m, Problem *reterr_problem) {
        /* A connection without a bus between (the tests') has no sender on its messages. */
        const char *sender = sd_bus_is_bus_client(m->bus) > 0 ? MANAGER_NAME : NULL;
        int r;

        assert(m && m->event);

        r = sd_bus_match_signal(m->bus, NULL, NULL, "/org/freedesktop/DBus/Local",
                                "org.freedesktop.DBus.Local", "Disconnected", on_disconnected, m);
        if (r >= 0)
                r = sd_bus_match_signal(m->bus, NULL, sender, MANAGER_PATH, MANAGER_INTERFACE, "JobRemoved",
                                        on_job_removed, m);
        if (r >= 0)
                r = sd_bus_match_signal(m->bus, NULL, sender, MANAGER_PATH, MANAGER_INTERFACE, "UnitRemoved",
                                        on_unit_removed, m);
        /* Of all units: a match per run would cost each of them a round trip. Only the interface that says
         * when a unit is dead; the rest is asked for once, at the end. */
        if (r >= 0)
                r = sd_bus_add_match(m->bus, NULL,
                                     sender ? "type='signal',sender='" MANAGER_NAME "',"
                                              "path_namespace='" MANAGER_PATH "/unit',"
                                              "interface='" PROPERTIES_INTERFACE
                                              "',member='PropertiesChanged',"
                                              "arg0='" UNIT_INTERFACE "'" :
                                              "type='signal',interface='" PROPERTIES_INTERFACE "',"
                                              "member='PropertiesChanged',arg0='" UNIT_INTERFACE "'",
                                     on_properties_changed, m);
        if (r >= 0 && sender)
                r = sd_bus_add_match(
                        m->bus, NULL,
                        "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                        "interface='org.freedesktop.DBus',member='NameOwnerChanged',"
                        "arg0='" MANAGER_NAME "'",
                        on_owner_changed, m);
        if (r >= 0)
                r = subscribe(m);
        if (r >= 0)
                r = sd_bus_attach_event(m->bus, m->event, SD_EVENT_PRIORITY_NORMAL);
        if (r < 0)
                return problem_set(reterr_problem, -r, REMEDY_JOURNAL,
                                   "The service manager's signals cannot be received");

        return 0;
}

Manager* manager_free(Manager *m) {
        if (!m)
                return NULL;

        m->on_changed = NULL;
        while (m->jobs)
                job_free(m->jobs);
        sd_event_source_disable_unref(m->absence);
        strv_free(m->environment);
        sd_bus_flush_close_unref(m->bus);
        sd_event_unref(m->event);
        free(m);
        return NULL;
}
