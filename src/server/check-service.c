/* SPDX-License-Identifier: MIT */

/* Checks of our own parts: does the service let us in, what does the launcher's self-test say, and does a
 * program really run, seen from inside. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "config.h"
#include "exec/exec.h"
#include "json/json.h"
#include "server/check.h"
#include "server/one-call.h"
#include "server/own-server.h"
#include "server/sandbox-query.h"
#include "server/system-socket.h"
#include "tool/packages.h"

#define ANSWER_USEC (60 * USEC_PER_SEC)

/* ---- The system service ---- */

/* What the administrator does for this user. root is always admitted. */
static int admission_remedy(const CheckContext *c, const char *reason, char **ret) {
        _cleanup_free_ char *command = NULL;
        int r;

        if (c->uid == 0)
                return 0;
        if (access(c->socket_path, W_OK) < 0)
                return str_printf(ret, "Ask the administrator why: mcp-exec makes %s with mode 0755 and its "
                                       "socket with 0666 (\"systemctl cat mcp-exec.socket\" shows who wants "
                                       "it otherwise).", MCP_EXEC_RUNTIME_DIR);
        r = system_socket_admission(reason, &command);
        if (r < 0)
                return r;
        if (command)
                return str_printf(ret, "%s (in effect at once, without a new login)", command);
        if (!c->user_word)
                return str_printf(ret,
                                  "Write AllowUsers=%u into /etc/mcp-exec/mcp-exec.conf, then \"sudo "
                                  "systemctl try-reload-or-restart mcp-exec.service\".",
                                  (unsigned) c->uid);
        return str_printf(ret,
                          "Name %s in AllowUsers=, or a group that exists in AllowGroups=, in "
                          "/etc/mcp-exec/mcp-exec.conf, then \"sudo systemctl try-reload-or-restart "
                          "mcp-exec.service\".", c->user_name);
}

/* root comes in through a door that is shut for everybody else, the service's own user among them. */
static void check_directory(CheckContext *c) {
        struct stat st;

        if (c->uid != 0 || stat(MCP_EXEC_RUNTIME_DIR, &st) < 0 || !S_ISDIR(st.st_mode) ||
            (st.st_mode & S_IXOTH))
                return;
        check_add(&c->report, CHECK_FAIL, "directory", "chmod 755 " MCP_EXEC_RUNTIME_DIR,
                  "%s may be entered by root alone (mode %04o), so nobody else reaches the sockets in it",
                  MCP_EXEC_RUNTIME_DIR, (unsigned) (st.st_mode & 07777));
}

int check_service(CheckContext *c, int *ret_fd) {
        _cleanup_free_ char *reason = NULL, *remedy = NULL;
        int r;

        assert(c);
        assert(ret_fd);

        *ret_fd = -EBADF;
        r = system_socket_connect(c->socket_path, ret_fd, &reason);
        system_units_read(&c->units); /* what the attempt has made of them */
        check_directory(c);
        if (r == 0) {
                c->uses_system_service = true;
                check_add(&c->report, CHECK_OK, "service", NULL, "the system service admits %s",
                          c->user_name);
                return 0;
        }
        /* Something else stands in its place, or in that of its directory. */
        if (r == -ENOTDIR || r == -ELOOP || r == -EPROTOTYPE) {
                r = str_printf(&reason, "the socket %s cannot be used: %s", c->socket_path,
                               strerrordesc_np(-r));
                if (r < 0)
                        return r;
                r = SYSTEM_SOCKET_E_ABSENT;
        }
        if (r < 0)
                return r;

        c->is_socket_away = r == SYSTEM_SOCKET_E_ABSENT;
        if (r == SYSTEM_SOCKET_E_REFUSED)
                r = admission_remedy(c, reason, &remedy);
        else if (r == SYSTEM_SOCKET_E_FAILED && check_mistake_is_of_service(c))
                r = str_copy(&remedy, "First what is named for the settings.");
        else {
                c->is_service_broken = r == SYSTEM_SOCKET_E_FAILED;
                r = system_units_remedy(&c->units, r, c->uid == 0, &remedy);
                c->has_unit_remedy = remedy;
        }
        if (r >= 0 && !remedy)
                r = str_printf(&remedy, "%sjournalctl -u mcp-exec -u mcp-exec-launcher",
                               c->uid == 0 ? "" : "sudo ");
        if (r < 0)
                return r;
        /* An ordinary user may do without, by way of the own service manager. */
        check_add(&c->report, c->uid == 0 ? CHECK_FAIL : CHECK_WARN, "service", remedy, "%s", reason);
        return 0;
}

/* ---- The launcher ---- */

/* A user's own launcher has no journal: what it has to say is on standard error. */
static const char* launcher_log(const CheckContext *c) {
        return c->uid == 0 ? "journalctl -u mcp-exec-launcher" :
                             "echo 'print(1)' | mcp-exec run --no-bridge --verbose -";
}

/* One command for both where the service has one, too: the one that repairs all of it. */
static void report_silence(CheckContext *c, const char *error) {
        const SystemUnitsSymptoms symptoms = {
                .is_socket_away = c->is_socket_away,
                .is_launcher_away = true,
        };
        _cleanup_free_ char *remedy = NULL;

        system_units_read(&c->units); /* what the attempt has made of them */
        if (c->uid == 0 && system_units_repair(&c->units, &symptoms, /* as_root= */ true, &remedy) < 0)
                check_report_break(&c->report, -ENOMEM);
        if (remedy && c->has_unit_remedy)
                check_set_remedy(&c->report, "service", remedy);
        check_add(&c->report, CHECK_FAIL, "launcher", remedy ?: launcher_log(c), "%s",
                  error ?: "it does not answer");
}

/* The mistake of the settings, which matters once more only where the service goes on. */
static bool is_told(const CheckContext *c, const char *reason) {
        const char *end = c->mistake && !c->uses_system_service ? strstr(c->mistake, ": ") : NULL;

        return end && strncmp(reason, c->mistake, (size_t) (end - c->mistake)) == 0;
}

static void report_launcher(CheckContext *c, const ExecSandboxInfo *info) {
        const WireHello *h = &info->hello;

        if (!info->is_known) {
                report_silence(c, info->error);
                return;
        }
        c->knows_launcher = true;
        c->hello = *h;
        if (is_told(c, h->reason))
                return;
        if (h->verdict != WIRE_VERDICT_OK) {
                check_add(&c->report, CHECK_FAIL, "launcher", *h->remedy ? h->remedy : NULL,
                          "refuses to run programs: %s", h->reason);
                return;
        }
        check_add(&c->report, h->is_relaxed ? CHECK_WARN : CHECK_OK, "launcher",
                  !h->is_relaxed                    ? NULL :
                  h->controllers == CONTROLLERS_ALL ? "Remove RequireControllers= from mcp-exec.conf and "
                                                      "its drop-ins (grep -r RequireControllers "
                                                      "/etc/mcp-exec finds it)." :
                                                      "See the line about controllers. As long as they "
                                                      "are missing, this setting has to stay.",
                  "its self-test passed under %s%s",
                  h->is_user ? "this user's service manager" : "the system manager",
                  h->is_relaxed ? ", without all of the limits (RequireControllers=)" : "");
}

static void on_verdict(const ExecSandboxInfo *info, void *userdata) {
        CheckContext *c = userdata;

        if (info)
                report_launcher(c, info);
        else
                check_add(&c->report, CHECK_FAIL, "launcher", launcher_log(c),
                          "it gave no verdict within %" PRIu64 " s", ANSWER_USEC / USEC_PER_SEC);
}

void check_launcher(CheckContext *c) {
        LauncherConnect connect = {
                .is_quiet = true, /* its verdict says all of it */
                .has_remedy = true,
        };
        int r;

        assert(c);

        if (c->uid == 0)
                connect.socket_path = c->launcher_socket_path;

        /* The system's launcher speaks only to root and to the service. For others the run below tells as
         * much. */
        if (c->uses_system_service && c->uid != 0)
                return;
        r = sandbox_query(c->settings, &connect, ANSWER_USEC, on_verdict, c);
        if (r < 0)
                check_report_break(&c->report, r);
}

/* ---- A run ---- */

/* What a program sees of its walls. No secret, and harmless without walls. */
static const char probe[] =
        "import os, sys\ns = dict(l.split(':', 1) for l in open('/proc/self/status'))\n"
        "n = ','.join(l.split(':')[0].strip() for l in open('/proc/self/net/dev') if ':' in l)\n"
        "print(sys.version.split()[0], os.getuid(), s['Seccomp'].strip(), s['NoNewPrivs'].strip(), n)\n";

static int write_probe(JsonWriter *w, const void *userdata) {
        (void) userdata;
        json_begin_object(w);
        json_key(w, "code");
        json_string(w, probe);
        json_end_object(w);
        return w->error;
}

static int run_probe(int fd, JsonValue **ret) {
        return one_call(fd, &(const OneCall) {
                .call = {
                        .client = "mcp-exec check",
                        .tool = "exec",
                        .write_arguments = write_probe,
                },
                .timeout_usec = ANSWER_USEC,
        }, ret);
}

/* Without a launcher that answers there is no run. */
static const char* run_remedy(const CheckContext *c) {
        if (!c->uses_system_service && c->uid != 0)
                return launcher_log(c);
        if (c->uid != 0)
                return "sudo mcp-exec check";
        return (c->knows_launcher ? NULL : check_remedy_of(&c->report, "launcher")) ?:
                "journalctl -u mcp-exec -u mcp-exec-launcher";
}

static void report_facts(CheckContext *c, const char *printed) {
        char version[32], interfaces[128];
        unsigned uid, seccomp, no_new_privileges;

        if (sscanf(printed, "%31s %u %u %u %127s", version, &uid, &seccomp, &no_new_privileges,
                   interfaces) != 5) {
                check_add(&c->report, CHECK_FAIL, "run", run_remedy(c),
                          "the program printed something else than it should");
                return;
        }
        check_add(&c->report, CHECK_OK, "run", NULL, "a program ran");
        if (c->knows_launcher)
                check_add(&c->report, CHECK_OK, "Python", NULL, "%s, %s", version, c->hello.interpreters[0]);
        else
                check_add(&c->report, CHECK_OK, "Python", NULL, "%s", version);

        if (c->uses_system_service)
                check_add(&c->report, uid >= 61184 && uid <= 65519 ? CHECK_OK : CHECK_FAIL, "DynamicUser",
                          uid >= 61184 && uid <= 65519 ? NULL : "Report this: no program must run so.",
                          "the program had uid %u", uid);
        if (seccomp != 2 || no_new_privileges != 1 || !streq(interfaces, "lo"))
                check_add(&c->report, CHECK_FAIL, "walls", "Report this: no program must run so.",
                          "from inside: seccomp mode %u, no new privileges %u, network interfaces %s",
                          seccomp, no_new_privileges, interfaces);
        else
                check_add(&c->report, CHECK_OK, "walls", NULL,
                          "from inside: own network, seccomp on, no new privileges");
}

/* The command that the service names is the launcher's remedy here. Returns 0 or -ENOMEM. */
static int without_command(const char *text, char **ret) {
        static const char begin[] = " Start it as root with \"", end[] = "\".";
        const char *from = strstr(text, begin), *to;

        to = from ? strstr(from + strlen(begin), end) : NULL;
        if (!to)
                return str_copy(ret, text);
        return str_printf(ret, "%.*s%s", (int) (from - text), text, to + strlen(end));
}

/* A launcher whose unit was masked while it runs is in reach, and systemd starts nothing for it. */
static void report_failure(CheckContext *c, const char *text) {
        _cleanup_free_ char *cause = NULL, *repair = NULL;
        int r;

        r = without_command(text, &cause);
        if (r >= 0 && c->uid == 0 && c->knows_launcher) {
                system_units_read(&c->units);
                r = system_units_repair(&c->units, &(const SystemUnitsSymptoms) {}, /* as_root= */ true,
                                        &repair);
        }
        if (r < 0)
                check_report_break(&c->report, r);
        else
                check_add(&c->report, CHECK_FAIL, "run", repair ?: run_remedy(c), "%s", cause);
}

static void report_reply(CheckContext *c, const JsonValue *reply) {
        const JsonValue *s = json_member(json_member(reply, "result"), "structuredContent");
        const char *text = client_call_error(reply), *printed, *status;

        if (json_get_string(json_member(s, "status"), &status, NULL) && streq(status, "ok") &&
            json_get_string(json_member(s, "stdout"), &printed, NULL)) {
                report_facts(c, printed);
                return;
        }
        if (!text && !json_get_string(json_member(s, "message"), &text, NULL))
                text = "no reason was given";
        if (json_get_string(json_member(s, "status"), &status, NULL) && streq(status, "running")) {
                check_add(&c->report, CHECK_WARN, "run", "mcp-exec check, again in a minute",
                          "a program has not begun yet: it waits for its turn, or for the packages of "
                          "DefaultRequirements=");
                return;
        }
        report_failure(c, text);
}

void check_run(CheckContext *c, int service_fd) {
        _cleanup_json_ JsonValue *reply = NULL;
        _cleanup_close_ int own_fd = -EBADF;
        int r, fd;

        assert(c);

        fd = service_fd;
        if (fd < 0) {
                fd = own_fd = own_server_start(c->uid == 0 ? c->launcher_socket_path : NULL,
                                               OWN_SERVER_SILENT);
                if (fd < 0) {
                        check_report_break(&c->report, fd);
                        return;
                }
        }
        r = run_probe(fd, &reply);
        if (r < 0)
                check_report_break(&c->report, r);
        else if (r == 0)
                check_add(&c->report, CHECK_FAIL, "run", run_remedy(c),
                          own_fd < 0 ? "a small program was not answered" :
                                       "the server that was started for this gave no answer");
        else
                report_reply(c, reply);
}

/* ---- Packages ---- */

/* Where neither is there, the names by which they are imported have to do. */
static int packages_remedy(const CheckContext *c, const Buffer *debian, const Buffer *fedora, char **ret) {
        const char *sudo = c->uid == 0 ? "" : "sudo ";

        if (access("/usr/bin/apt", X_OK) == 0)
                return str_printf(ret, "%sapt install%s", sudo, debian->data);
        if (access("/usr/bin/dnf", X_OK) == 0)
                return str_printf(ret, "%sdnf install%s", sudo, fedora->data);
        return str_printf(ret, "Install, by the names that Debian gives them:%s", debian->data);
}

void check_packages(CheckContext *c) {
        static const struct {
                const char *name, *debian, *fedora;
        } wanted[] = {
                { "numpy",      "python3-numpy",      "python3-numpy"      },
                { "pandas",     "python3-pandas",     "python3-pandas"     },
                { "matplotlib", "python3-matplotlib", "python3-matplotlib" },
                { "pillow",     "python3-pil",        "python3-pillow"     },
                { "PyYAML",     "python3-yaml",       "python3-pyyaml"     },
                { "Jinja2",     "python3-jinja2",     "python3-jinja2"     },
        };
        _cleanup_buffer_ Buffer debian = BUFFER_INIT(0), fedora = BUFFER_INIT(0);
        _cleanup_strv_ char **found = NULL;
        _cleanup_free_ char *remedy = NULL;
        int r;

        assert(c);

        r = tool_packages_scan(&found);
        for (size_t i = 0; i < ELEMENTSOF(wanted) && r >= 0; i++) {
                size_t n = strlen(wanted[i].name);
                bool is_there = false;

                STRV_FOREACH(f, found)
                        if (strncasecmp(*f, wanted[i].name, n) == 0 && ((*f)[n] == ' ' || (*f)[n] == 0))
                                is_there = true;
                if (!is_there)
                        r = buffer_printf(&debian, " %s", wanted[i].debian);
                if (!is_there && r >= 0)
                        r = buffer_printf(&fedora, " %s", wanted[i].fedora);
        }
        if (r >= 0 && debian.n_bytes > 0)
                r = packages_remedy(c, &debian, &fedora, &remedy);
        if (r < 0)
                check_report_break(&c->report, r);
        else if (remedy)
                check_add(&c->report, CHECK_WARN, "packages", remedy,
                          "%zu can be imported, but not all that models like to use", strv_length(found));
        else
                check_add(&c->report, CHECK_OK, "packages", NULL, "%zu can be imported", strv_length(found));
}

/* ---- Packages that programs declare ---- */

/* The server tells anybody; the index is not asked. Returns as one_call(). */
static int ask_environment(const CheckContext *c, JsonValue **ret) {
        _cleanup_free_ char *reason = NULL;
        _cleanup_close_ int fd = -EBADF;
        int r;

        if (c->uses_system_service) {
                r = system_socket_connect(c->socket_path, &fd, &reason);
                if (r != 0)
                        return r < 0 ? r : 0;
        } else {
                fd = own_server_start(c->uid == 0 ? c->launcher_socket_path : NULL, OWN_SERVER_SILENT);
                if (fd < 0)
                        return fd;
        }
        return one_call(fd, &(const OneCall) {
                .call = {
                        .client = "mcp-exec check",
                        .tool = "check_environment",
                        .write_arguments = client_call_no_arguments,
                },
                .timeout_usec = ANSWER_USEC,
        }, ret);
}

static void report_default_problem(CheckContext *c, const char *problem) {
        /* A user's own settings are not the service's. */
        bool is_mine = c->uid == 0 || !c->uses_system_service;
        const char *path = is_mine && !c->mistake ? c->settings->packages.default_requirements : "";
        _cleanup_free_ char *remedy = NULL;

        if (str_printf(&remedy,
                       "Repair that, in %s, which DefaultRequirements= names, or in mcp-exec.conf; it is "
                       "tried again with the next program after five minutes, or at once by %s",
                       *path ? path : "the file",
                       !c->uses_system_service ? "a restart of the server" :
                       c->uid == 0             ? "systemctl restart mcp-exec.service" :
                                                 "sudo systemctl restart mcp-exec.service") < 0)
                check_report_break(&c->report, -ENOMEM);
        check_add(&c->report, CHECK_WARN, "default set", remedy,
                  "programs run without the packages of DefaultRequirements=: %s", problem);
}

void check_sets(CheckContext *c) {
        _cleanup_json_ JsonValue *reply = NULL;
        const JsonValue *packages;
        const char *problem, *uv = "", *version = "";
        bool is_possible = false, is_ready = false;
        int64_t n_sets = 0;
        int r;

        assert(c);

        r = ask_environment(c, &reply);
        if (r < 0)
                check_report_break(&c->report, r);
        if (r <= 0 || client_call_error(reply))
                return; /* what does not answer was reported by the run */
        packages = json_member(json_member(json_member(reply, "result"), "structuredContent"), "packages");
        (void) json_get_bool(json_member(packages, "can_be_declared"), &is_possible);
        (void) json_get_integer(json_member(packages, "sets"), &n_sets);
        (void) json_get_string(json_member(packages, "uv"), &uv, NULL);
        (void) json_get_string(json_member(packages, "uv_version"), &version, NULL);
        if (json_get_string(json_member(packages, "default_problem"), &problem, NULL))
                report_default_problem(c, problem);
        else if (json_get_bool(json_member(packages, "default_ready"), &is_ready))
                check_add(&c->report, CHECK_OK, "default set", NULL,
                          is_ready ? "the packages of DefaultRequirements= are there" :
                                     "the packages of DefaultRequirements= are being prepared");
        if (is_possible)
                check_add(&c->report, CHECK_OK, "sets", NULL,
                          "programs can declare packages; uv%s%s is %s, %" PRIi64 " %s ready (whether "
                          "the index answers is not tested)", *version ? " " : "", version,
                          *uv ? uv : "not needed", n_sets, n_sets == 1 ? "set is" : "sets are");
        else {
                _cleanup_free_ char *remedy = NULL;

                /* The launcher says it to the administrator. */
                if (json_get_string(json_member(packages, "problem"), &problem, NULL) &&
                    str_printf(&remedy, "%s%s", problem,
                               c->uses_system_service && c->uid != 0 ? " This takes root." : "") < 0)
                        check_report_break(&c->report, -ENOMEM);
                check_add(&c->report, CHECK_WARN, "sets", remedy, "programs cannot declare packages%s%s%s",
                          *uv ? " (uv is " : "", uv, *uv ? ")" : "");
        }
}
