/* SPDX-License-Identifier: MIT */

/* Problem: see problem.h. */

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/strv.h"
#include "launch/problem.h"

/* before, and then how it is used. Where there is no name for a user, no command takes it either. */
static const char* use_system_service(const char *before) {
        static char text[sizeof(((Problem*) NULL)->remedy)];
        const struct passwd *p = getpwuid(getuid());
        _cleanup_free_ char *word = NULL;

        if (p)
                (void) str_quote_for_shell(p->pw_name, &word);
        if (getuid() == 0) /* is always admitted */
                (void) snprintf(text, sizeof(text),
                                "%s the system service: systemctl enable --now mcp-exec.socket", before);
        else
                (void) snprintf(text, sizeof(text),
                                "%s the system service: \"sudo systemctl enable --now mcp-exec.socket\" and "
                                "\"sudo gpasswd -a %s mcp-exec\" (or the group that AllowGroups= names)",
                                before, word ?: "USER");
        return text;
}

const char* remedy_system_service(void) {
        return use_system_service("Use");
}

const char* remedy_user_manager(void) {
        char before[128];

        if (!getpwuid(getuid()))
                return "Give this uid a name (an entry in /etc/passwd): without one it has no service "
                       "manager";
        (void) snprintf(before, sizeof(before),
                        "Start the user's service manager (\"sudo systemctl restart user@%u.service\"), "
                        "or use", (unsigned) getuid());
        return use_system_service(before);
}

const char* remedy_user_bus(void) {
        return use_system_service("Install the package dbus-user-session and log in again, or use");
}

int problem_set(Problem *p, int error, const char *remedy, const char *reason_format, ...) {
        char text[sizeof(p->reason)];
        va_list ap;

        assert(remedy);

        if (p) {
                va_start(ap, reason_format);
                (void) vsnprintf(text, sizeof(text), reason_format, ap); /* may cut: it is for reading */
                va_end(ap);
                wire_set_text(p->reason, sizeof(p->reason), text);
                wire_set_text(p->remedy, sizeof(p->remedy), remedy);
        }

        return -abs(error);
}
