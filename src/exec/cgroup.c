/* SPDX-License-Identifier: MIT */

#include "exec/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/parse.h"

/* Where systemd puts the units of runs. Read here and not told by the launcher: its answer would come with
 * the end of the unit, and a bomb takes longer to die than an answer may wait. */
#define SLICE_PATH "mcp.slice/mcp-exec.slice"
#define FILE_BYTES_MAX 4096

bool cgroup_has_met_tasks_max(bool is_user, const char *unit) {
        static const char key[] = "max ";
        _cleanup_free_ char *text = NULL;
        char manager[96] = "", path[320];
        uint64_t n_hits = 0;
        char *line;

        assert(unit);

        if (!*unit || strchr(unit, '/'))
                return false;
        if (is_user)
                (void) snprintf(manager, sizeof(manager), "user.slice/user-%u.slice/user@%u.service/",
                                (unsigned) getuid(), (unsigned) getuid());
        (void) snprintf(path, sizeof(path), "/sys/fs/cgroup/%s" SLICE_PATH "/%s/pids.events", manager, unit);
        /* No pids controller, or another place: nothing is known. */
        if (file_read(AT_FDCWD, path, FILE_BYTES_MAX, &text, NULL) < 0)
                return false;
        line = strstr(text, key);
        if (!line)
                return false;
        line += strlen(key);
        line[strcspn(line, "\n")] = 0;
        return parse_uint64(line, &n_hits) >= 0 && n_hits > 0;
}
